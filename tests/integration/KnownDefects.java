package org.apache.kafka.connect.mirror;

import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Semaphore;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsResult;
import org.apache.kafka.clients.admin.ListGroupsResult;
import org.apache.kafka.clients.admin.internals.CoordinatorKey;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.GroupAuthorizationException;
import org.apache.kafka.common.internals.KafkaFutureImpl;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;

/** Stock's classes at what they are known to be wrong in, one defect by its name; the answer is one line. */
public final class KnownDefects {
    private static final TopicPartition REMOTE = new TopicPartition("A.t", 0);

    public static void main(String[] args) throws Exception {
        System.out.println(switch (args[0]) {
            case "bursts" -> bursts();
            case "poison" -> poison();
            case "discovery" -> discovery();
            case "requests" -> requests(Integer.parseInt(args[1]));
            case "cycle" -> cycle(args[1]);
            case "latency" -> latency();
            case "latency-new" -> latencyByTheNewNames();
            default -> throw new IllegalArgumentException(args[0]);
        });
    }

    /** What is still to be sent after five syncs of one partition, while none could be sent. */
    private static String bursts() {
        OffsetSyncWriter writer = new OffsetSyncWriter(null, "syncs", new Semaphore(0), 0);
        for (long offset = 0; offset < 5; offset++) {
            writer.maybeQueueOffsetSyncs(REMOTE, offset, offset + 7);
            writer.firePendingOffsetSyncs();
        }
        return writer.getPendingOffsetSyncs().values().toString();
    }

    /** How reading a null value, and a short one, ends. Nothing above handleRecord goes on with the rest of a batch. */
    private static String poison() {
        byte[] key = new OffsetSync(REMOTE, 0, 0).recordKey();
        List<String> ends = new ArrayList<>();
        for (byte[] value : new byte[][] {null, new byte[3]}) {
            try (OffsetSyncStore store = new OffsetSyncStore()) {
                store.handleRecord(new ConsumerRecord<>("syncs", 0, 0, key, value));
                ends.add("read");
            } catch (RuntimeException e) {
                ends.add(e.getClass().getSimpleName());
            }
        }
        return String.join(" ", ends);
    }

    /** What comes of finding groups when the offsets of one of two are refused. */
    private static String discovery() throws Exception {
        MirrorCheckpointConnector connector = new MirrorCheckpointConnector(Set.of(), new MirrorCheckpointConfig(props()));
        DefaultGroupFilter all = new DefaultGroupFilter();
        all.configure(props());
        set(connector, "groupFilter", all);
        set(connector, "topicFilter", (TopicFilter) topic -> true);
        set(connector, "sourceAdminClient", admin((method, arguments) -> method.equals("listGroups") ? listed() : offsets(arguments)));
        try {
            return connector.findConsumerGroups().toString();
        } catch (ExecutionException e) {
            return e.getCause().getClass().getSimpleName();
        }
    }

    private static ListGroupsResult listed() throws Exception {
        Collection<Object> groups = List.of(listing("good"), listing("bad"));
        return made(ListGroupsResult.class, KafkaFuture.class, KafkaFuture.completedFuture(groups));
    }

    private static GroupListing listing(String group) {
        return new GroupListing(group, Optional.empty(), "consumer", Optional.empty());
    }

    /** By group, as asked for: one id, or a map by ids. */
    private static ListConsumerGroupOffsetsResult offsets(Object[] arguments) throws Exception {
        Map<CoordinatorKey, KafkaFuture<Map<TopicPartition, OffsetAndMetadata>>> found = new HashMap<>();
        Collection<?> groups = arguments[0] instanceof Map<?, ?> map ? map.keySet() : List.of(arguments[0]);
        for (Object group : groups) {
            KafkaFutureImpl<Map<TopicPartition, OffsetAndMetadata>> future = new KafkaFutureImpl<>();
            if (group.equals("bad")) {
                future.completeExceptionally(new GroupAuthorizationException("bad"));
            } else {
                future.complete(Map.of(new TopicPartition("t", 0), new OffsetAndMetadata(5)));
            }
            found.put(CoordinatorKey.byGroupId(group.toString()), future);
        }
        return made(ListConsumerGroupOffsetsResult.class, Map.class, found);
    }

    /** Calls to the source that one poll for so many groups takes, and the checkpoints that it gives. */
    private static String requests(int count) throws Exception {
        OffsetSyncStore store = new OffsetSyncStore() {
            @Override
            void backingStoreStart() {
                handleRecord(sync(5, 12));
            }
        };
        store.start(false);
        Set<String> groups = new java.util.TreeSet<>();
        for (int number = 0; number < count; number++) {
            groups.add("g" + number);
        }
        DefaultReplicationPolicy policy = new DefaultReplicationPolicy();
        MirrorCheckpointTask task = new MirrorCheckpointTask(
            "A", "B", policy, store, groups, Map.of(), new CheckpointStore(new HashMap<>()));
        int[] calls = new int[1];
        set(task, "checkpointsTopic", "A.checkpoints.internal");
        set(task, "sourceAdminClient", admin((method, arguments) -> {
            calls[0]++;
            return offsets(arguments);
        }));
        int records = 0;
        for (String group : groups) {
            records += task.sourceRecordsForGroup(group).size();
        }
        return calls[0] + " " + records;
    }

    private static ConsumerRecord<byte[], byte[]> sync(long upstream, long downstream) {
        OffsetSync sync = new OffsetSync(new TopicPartition("t", 0), upstream, downstream);
        return new ConsumerRecord<>("syncs", 0, 0, sync.recordKey(), sync.recordValue());
    }

    /** Whether the flow from A to B mirrors a topic, without which it has no offset syncs. */
    private static String cycle(String topic) {
        return String.valueOf(new MirrorSourceConnector(
            new SourceAndTarget("A", "B"), new DefaultReplicationPolicy(), name -> true, property -> true)
            .shouldReplicateTopic(topic));
    }

    /** What g1's value and average read after g1 took 1000 ms and g2 5 ms. */
    private static String latency() throws Exception {
        try (MirrorCheckpointLegacyMetrics legacy = new MirrorCheckpointLegacyMetrics(new MirrorCheckpointTaskConfig(props()))) {
            legacy.checkpointLatency(REMOTE, "g1", 1000);
            legacy.checkpointLatency(REMOTE, "g2", 5);
            Metrics metrics = (Metrics) field(legacy, "metrics").get(legacy);
            return read(metrics, "checkpoint-latency-ms") + " " + read(metrics, "checkpoint-latency-ms-avg");
        }
    }

    private static Object read(Metrics metrics, String name) {
        for (Map.Entry<MetricName, KafkaMetric> each : metrics.metrics().entrySet()) {
            if (each.getKey().name().equals(name) && "g1".equals(each.getKey().tags().get("group"))) {
                return each.getValue().metricValue();
            }
        }
        throw new IllegalStateException(name);
    }

    /** How a second group's first checkpoint ends. */
    private static String latencyByTheNewNames() throws Exception {
        try (Metrics metrics = new Metrics(); PluginMetricsImpl plugin = new PluginMetricsImpl(metrics, Map.of())) {
            MirrorCheckpointMetrics latencies = new MirrorCheckpointMetrics(plugin, new MirrorCheckpointTaskConfig(props()));
            latencies.checkpointLatency(REMOTE, "g1", 1000);
            try {
                latencies.checkpointLatency(REMOTE, "g2", 5);
                return "recorded";
            } catch (IllegalArgumentException e) {
                return e.getMessage();
            }
        }
    }

    // -- what stands in for clusters --------------------------------------------------------------------------------

    private interface Answer {
        Object of(String method, Object[] arguments) throws Exception;
    }

    private static Admin admin(Answer answer) {
        return (Admin) Proxy.newProxyInstance(Admin.class.getClassLoader(), new Class<?>[] {Admin.class},
            (proxy, method, arguments) -> answer.of(method.getName(), arguments));
    }

    private static <T> T made(Class<T> kind, Class<?> parameter, Object argument) throws Exception {
        Constructor<T> constructor = kind.getDeclaredConstructor(parameter);
        constructor.setAccessible(true);
        return constructor.newInstance(argument);
    }

    private static void set(Object object, String name, Object value) throws Exception {
        field(object, name).set(object, value);
    }

    private static Field field(Object object, String name) throws Exception {
        Field field = object.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field;
    }

    private static Map<String, String> props() {
        return new HashMap<>(Map.of(
            "name", "c", "connector.class", "MirrorCheckpointConnector", "source.cluster.alias", "A",
            "target.cluster.alias", "B", "groups", ".*", "groups.exclude", "", "task.assigned.groups", "g1"));
    }
}
