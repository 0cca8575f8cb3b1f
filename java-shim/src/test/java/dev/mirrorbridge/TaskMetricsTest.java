package dev.mirrorbridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.mirrorbridge.FakeService.Reply;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.logging.Level;
import java.util.stream.Collectors;
import javax.management.MBeanAttributeInfo;
import javax.management.MBeanServer;
import javax.management.ObjectName;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.metrics.JmxReporter;
import org.apache.kafka.common.metrics.KafkaMetricsContext;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Sensor;
import org.apache.kafka.connect.source.SourceRecord;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** MBeans by stock's names; those of a real worker, beside stock's own: tests/e2e/test_mbeans.py. */
class TaskMetricsTest {
    private static final MBeanServer SERVER = ManagementFactory.getPlatformMBeanServer();
    private static final String COPIED = "kafka.connect.mirror:type=MirrorSourceConnector,source=A,target=B,topic=A.orders,";
    private static final String CHECKPOINT = "kafka.connect.mirror:type=MirrorCheckpointConnector,source=A,target=B,";

    private static final String WORKERS = "kafka.connect:type=plugins,connector=c,task=0,source=A,target=B,";

    private TaskMetrics metrics;
    private WorkersMetrics workers;

    @AfterEach
    void close() {
        if (metrics != null) {
            metrics.close();
        }
        if (workers != null) {
            workers.metrics.close();
        }
        assertEquals(Set.of(), beans(), "what is closed leaves nothing behind");
    }

    @Test
    void aPartitionHasStocksTwelveMetrics() throws Exception {
        start("source", Map.of());
        metrics.read(measured(1, partition(3, 0, "null")));
        assertEquals(Set.of(COPIED + "partition=3"), beans());
        Set<String> names = new TreeSet<>(Set.of("record-count", "record-rate", "byte-count", "byte-rate"));
        for (String latency : List.of("record-age-ms", "replication-latency-ms")) {
            names.addAll(List.of(latency, latency + "-min", latency + "-max", latency + "-avg"));
        }
        assertEquals(names, Arrays.stream(SERVER.getMBeanInfo(new ObjectName(COPIED + "partition=3")).getAttributes())
            .map(MBeanAttributeInfo::getName).collect(Collectors.toCollection(TreeSet::new)));
        assertEquals(0.0, value("record-count"));
        assertTrue(Double.isNaN(value("record-age-ms-avg")));
    }

    @Test
    void countsAddUpAndTheAverageWeighsEachRecord() throws Exception {
        start("source", Map.of());
        assertEquals(0L, metrics.seen());
        metrics.read(measured(1, partition(3, 10, "{\"count\":10,\"sum\":100,\"min\":1,\"max\":50,\"last\":7}")));
        metrics.read(measured(2, partition(3, 30, "{\"count\":30,\"sum\":60,\"min\":2,\"max\":2,\"last\":2}")));
        assertEquals(2L, metrics.seen());
        assertEquals(40.0, value("record-count"));
        assertEquals(4000.0, value("byte-count"));
        assertTrue(value("record-rate") > 0);
        assertEquals(2.0, value("replication-latency-ms"));
        assertEquals(1.0, value("replication-latency-ms-min"));
        assertEquals(50.0, value("replication-latency-ms-max"));
        assertEquals(4.0, value("replication-latency-ms-avg"));
    }

    @Test
    void whatIsCopiedNoMoreIsGoneAndAnotherSessionBeginsAnew() throws Exception {
        start("source", Map.of());
        metrics.read(measured(1, partition(3, 5, "null") + "," + partition(4, 5, "null")));
        metrics.read(Map.of("number", 2L, "gone", List.of(Map.of("topic", "A.orders", "partition", 4L))));
        assertEquals(Set.of(COPIED + "partition=3"), beans());
        metrics.forget();
        assertEquals(Set.of(), beans());
        assertEquals(0L, metrics.seen());
        metrics.read(measured(1, partition(3, 1, "null")));
        assertEquals(1.0, value("record-count"));
    }

    @Test
    void theSampleOfTheContractIsRead() throws Exception {
        start("source", Map.of());
        Map<?, ?> sample = (Map<?, ?>) Json.read(
            Files.readString(Path.of("..", "tests", "contract", "samples", "PollResponse.json")));
        metrics.read((Map<?, ?>) sample.get("measured"));
        metrics.read(null);
        assertEquals(40.0, value("record-count"));
        assertEquals(13.0, value("replication-latency-ms-avg"));
        assertEquals(4L, metrics.seen());
    }

    /** B40 and B41 of docs/known-defects.md: with stock and the new names the second group's sensor is refused. */
    @ParameterizedTest
    @ValueSource(strings = {"legacy", "new", "legacy,new"})
    void eachGroupHasItsOwnCheckpointLatency(String formats) throws Exception {
        workers = new WorkersMetrics();
        Map<String, String> config = Tasks.props("http://127.0.0.1:1");
        config.put(TaskMetrics.FORMATS, formats);
        metrics = TaskMetrics.of("checkpoint", config, this::workersRegistry, TaskMetrics.MOST);
        long now = System.currentTimeMillis();
        metrics.written(checkpoint("g1", now - 1_000));
        metrics.written(checkpoint("g2", now - 5));
        metrics.written(checkpoint("g1", now - 1_000));
        assertNull(metrics.seen(), "the service is asked for nothing");
        for (String format : formats.split(",")) {
            String prefix = "legacy".equals(format) ? CHECKPOINT : WORKERS;
            assertEquals(Set.of(prefix + "group=g1,topic=A.orders,partition=0",
                prefix + "group=g2,topic=A.orders,partition=0"), beans(prefix + "*"));
            for (String kind : List.of("", "-min", "-max", "-avg")) {
                double g1 = latency(prefix, "g1", kind);
                double g2 = latency(prefix, "g2", kind);
                assertTrue(g1 >= 1_000 && g1 < 60_000, kind + " of g1 is " + g1);
                assertTrue(g2 >= 5 && g2 < g1, kind + " of g2 is " + g2);
            }
        }
    }

    @Test
    void theirNumberIsBoundedAndTheBoundShows() throws Exception {
        close();
        metrics = TaskMetrics.of("source", Tasks.props("http://127.0.0.1:1"), () -> null, 1);
        try (LogLines log = new LogLines()) {
            metrics.read(measured(1, partition(3, 5, "null") + "," + partition(4, 5, "null")));
            metrics.read(measured(2, partition(4, 5, "null")));
            assertEquals(1, log.from(Level.WARNING).size());
        }
        ObjectName all = new ObjectName("kafka.connect.mirror:type=MirrorSourceConnector,source=A,target=B");
        assertEquals(Set.of(COPIED + "partition=3", all.toString()), beans());
        assertEquals(1.0, SERVER.getAttribute(all, "partitions-left-out"));
        assertEquals(5.0, value("record-count"));
    }

    @Test
    void aHeartbeatHasNoMetric() {
        start("checkpoint", Map.of());
        metrics.written(new SourceRecord(Map.of("sourceClusterAlias", "A"), Map.of(), "heartbeats", 0, null, null, null,
            null, 5L));
        assertEquals(Set.of(), beans());
    }

    @Test
    void withoutAReporterNothingIsAskedFor() {
        start("source", Map.of(TaskMetrics.REPORTERS, ""));
        assertNull(metrics.seen());
        start("group_offset", Map.of());
        assertNull(metrics.seen());
    }

    @Test
    void theReporterHonoursItsOwnKeys() {
        start("source", Map.of("metrics.jmx.exclude", ".*partition=3"));
        metrics.read(measured(1, partition(3, 5, "null") + "," + partition(4, 5, "null")));
        assertEquals(Set.of(COPIED + "partition=4"), beans());
    }

    @Test
    void aWorkerWithoutMetricsForPluginsIsSaid() {
        try (LogLines log = new LogLines()) {
            start("source", Map.of(TaskMetrics.FORMATS, "new"));
            assertEquals(1, log.from(Level.WARNING).size());
            assertTrue(log.from(Level.WARNING).get(0).contains("metric.names.formats=new"));
        }
        assertNull(metrics.seen());
    }

    @Test
    void aTaskFeedsThemFromItsPollsAndNamesWhatItHasRead() throws Exception {
        try (FakeService service = FakeService.start()) {
            Map<String, String> config = Tasks.config(service.url());
            config.put(BridgeSourceTask.KIND, "source");
            service.polls(new Reply(200, "{\"records\":[],\"measured\":{\"number\":7,\"partitions\":["
                + partition(3, 5, "null") + "]}}"));
            BridgeSourceTask task = Tasks.started(new FastPacer(), config);
            task.poll();
            assertEquals(0L, service.await("POST", "/v1/connectors/c/tasks/0/poll").body.get("measured"));
            assertEquals(7L, service.await("POST", "/v1/connectors/c/tasks/0/poll").body.get("measured"));
            assertTrue(value("record-count") >= 5);
            task.stop();
            assertFalse(SERVER.isRegistered(new ObjectName(COPIED + "partition=3")));
        }
    }

    private void start(String kind, Map<String, String> more) {
        close();
        Map<String, String> config = Tasks.props("http://127.0.0.1:1");
        config.putAll(more);
        metrics = TaskMetrics.of(kind, config, null);
    }

    private static Map<?, ?> measured(int number, String partitions) {
        return (Map<?, ?>) Json.read("{\"number\":" + number + ",\"partitions\":[" + partitions + "],\"gone\":[]}");
    }

    private static String partition(int number, int records, String latencies) {
        return "{\"topic\":\"A.orders\",\"partition\":" + number + ",\"records\":" + records + ",\"bytes\":"
            + records * 100 + ",\"record_age_ms\":" + latencies + ",\"replication_latency_ms\":" + latencies + "}";
    }

    private static SourceRecord checkpoint(String group, long timestamp) {
        return new SourceRecord(Map.of("group", group, "topic", "A.orders", "partition", 0), Map.of("offset", 0L),
            "A.checkpoints.internal", 0, null, null, null, null, timestamp);
    }

    private static double value(String attribute) throws Exception {
        return (Double) SERVER.getAttribute(new ObjectName(COPIED + "partition=3"), attribute);
    }

    private MetricRegistry workersRegistry() {
        try {
            return new PluginRegistry(workers, WorkersMetrics.class);
        } catch (NoSuchMethodException e) {
            throw new AssertionError(e);
        }
    }

    private static double latency(String prefix, String group, String kind) throws Exception {
        ObjectName name = new ObjectName(prefix + "group=" + group + ",topic=A.orders,partition=0");
        return (Double) SERVER.getAttribute(name, "checkpoint-latency-ms" + kind);
    }

    private static Set<String> beans() {
        return beans("kafka.connect.mirror:type=Mirror*,*");
    }

    private static Set<String> beans(String pattern) {
        try {
            return SERVER.queryNames(new ObjectName(pattern), null).stream()
                .map(ObjectName::toString).collect(Collectors.toSet());
        } catch (javax.management.MalformedObjectNameException e) {
            throw new AssertionError(e);
        }
    }

    /** As {@code PluginMetrics} of a worker of Kafka 4.1, which the shim is not compiled against. */
    private static final class WorkersMetrics {
        private final Metrics metrics = new Metrics();

        WorkersMetrics() {
            JmxReporter reporter = new JmxReporter();
            reporter.contextChange(new KafkaMetricsContext("kafka.connect"));
            metrics.addReporter(reporter);
        }

        public MetricName metricName(String name, String description, LinkedHashMap<String, String> tags) {
            LinkedHashMap<String, String> all = new LinkedHashMap<>(Map.of("connector", "c"));
            all.put("task", "0");
            all.putAll(tags);
            return new MetricName(name, "plugins", description, all);
        }

        public Sensor addSensor(String name) {
            if (metrics.getSensor(name) != null) {
                throw new IllegalArgumentException("Sensor " + name + " already exists");
            }
            return metrics.sensor(name);
        }

        public void removeSensor(String name) {
            metrics.removeSensor(name);
        }
    }
}
