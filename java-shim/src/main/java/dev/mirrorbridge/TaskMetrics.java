package dev.mirrorbridge;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.apache.kafka.common.metrics.JmxReporter;
import org.apache.kafka.common.metrics.Sensor;
import org.apache.kafka.common.metrics.stats.Value;
import org.apache.kafka.connect.source.SourceRecord;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The metrics of one task, by the names and tags of stock MirrorMaker's: of the partitions that the service copies, fed
 * by its answers to polls, and of the checkpoints that Connect has written.
 */
final class TaskMetrics implements AutoCloseable {
    static final String FORMATS = "metric.names.formats";
    static final String REPORTERS = "metric.reporters";
    /** Partitions of a task that have metrics, of each group; at about 10 KB each no worker runs out of memory. */
    static final int MOST = 10_000;
    private static final String LEFT_OUT = "partitions-left-out";
    private static final Logger LOG = LoggerFactory.getLogger(BridgeSourceTask.class);
    /** Stock's connectors by our kinds; the others have no metrics in stock either. */
    private static final Map<String, String> TYPES = Map.of("source", "MirrorSourceConnector",
        "sink", "MirrorSourceConnector", "checkpoint", "MirrorCheckpointConnector");
    private static final Set<String> COPYING = Set.of("source", "sink");

    private final boolean copies;
    private final String source;
    private final String target;
    private final List<MetricRegistry> registries;
    /** With an empty list for each partition beyond the most. */
    private final Map<String, List<CopySensors>> partitions = new HashMap<>();
    private final Map<String, List<LatencySensor>> checkpoints = new HashMap<>();
    private final List<Sensor> leftOutSensors = new ArrayList<>();
    private final int most;
    private int measured;
    private long leftOut;
    private long seen;

    private TaskMetrics(boolean copies, Map<String, String> config, List<MetricRegistry> registries, int most) {
        this.copies = copies;
        this.most = most;
        this.source = config.getOrDefault("source.cluster.alias", "");
        this.target = config.getOrDefault("target.cluster.alias", "target");
        this.registries = registries;
    }

    static TaskMetrics of(String kind, Map<String, String> config, Object context) {
        return of(kind, config, () -> PluginRegistry.of(context), MOST);
    }

    /**
     * {@code workers}: the worker's own registry, null for none. Says what could not be done in the log: no metric is
     * worth a task.
     */
    static TaskMetrics of(String kind, Map<String, String> config, Supplier<MetricRegistry> workers, int most) {
        List<MetricRegistry> registries = new ArrayList<>();
        List<String> formats = list(config.getOrDefault(FORMATS, "legacy"));
        boolean jmx = list(config.getOrDefault(REPORTERS, JmxReporter.class.getName()))
            .contains(JmxReporter.class.getName());
        String type = TYPES.get(kind);
        if (type != null && jmx && formats.contains("legacy")) {
            registries.add(new JmxRegistry(type, config));
        }
        if (type != null && formats.contains("new")) {
            MetricRegistry plugins = workers.get();
            if (plugins == null) {
                LOG.warn("Connector {} has no metrics by the new names ({}=new): they need a Connect worker of "
                    + "Kafka 4.1 or newer", config.get("name"), FORMATS);
            } else {
                registries.add(plugins);
            }
        }
        return new TaskMetrics(COPYING.contains(kind), config, registries, most);
    }

    /** The number of the last answer that was read, to be sent with a poll; null where no answer is wanted. */
    synchronized Long seen() {
        return copies && !registries.isEmpty() ? seen : null;
    }

    /** Reads what a poll's answer says was copied, null for nothing; throws for what is not of the contract's form. */
    synchronized void read(Map<?, ?> answer) {
        if (answer == null) {
            return;
        }
        for (Object each : listed(answer, "gone")) {
            remove((Map<?, ?>) each);
        }
        for (Object each : listed(answer, "partitions")) {
            Map<?, ?> partition = (Map<?, ?>) each;
            sensors(partition).forEach(sensors -> sensors.record(partition));
        }
        recordLeftOut(partitions.size() - measured);
        seen = (Long) answer.get("number");
    }

    /** Another session begins: the service names all partitions again. */
    synchronized void forget() {
        partitions.values().forEach(each -> each.forEach(CopySensors::remove));
        partitions.clear();
        measured = 0;
        seen = 0;
    }

    /** Connect has written a record. Called by a producer's thread. */
    synchronized void written(SourceRecord record) {
        Map<String, ?> position = record.sourcePartition();
        if (copies || registries.isEmpty() || record.timestamp() == null || !position.containsKey("group")) {
            return;
        }
        String group = String.valueOf(position.get("group"));
        String topic = String.valueOf(position.get("topic"));
        String partition = String.valueOf(position.get("partition"));
        double latencyMs = System.currentTimeMillis() - record.timestamp();
        checkpoints.computeIfAbsent(topic + "-" + partition + "-" + group,
            key -> made(registry -> new LatencySensor(registry, key + "-checkpoint-latency", "checkpoint-latency-ms",
                "From the timestamp of a checkpoint of the group until Connect had written it",
                tags(group, topic, partition)))).forEach(sensor -> sensor.record(latencyMs));
        recordLeftOut(checkpoints.size() - measured);
    }

    @Override
    public synchronized void close() {
        registries.forEach(MetricRegistry::close);
        registries.clear();
        partitions.clear();
        checkpoints.clear();
    }

    private List<CopySensors> sensors(Map<?, ?> partition) {
        return partitions.computeIfAbsent(key(partition), key -> made(registry -> new CopySensors(registry, key,
            tags(null, String.valueOf(partition.get("topic")), String.valueOf(partition.get("partition"))))));
    }

    /** One for each registry; none once there are too many. */
    private <T> List<T> made(Function<MetricRegistry, T> sensors) {
        if (measured >= most) {
            return List.of();
        }
        measured++;
        return registries.stream().map(sensors).collect(Collectors.toList());
    }

    /** Stock has no such metric, and ours has it only where some partition has none of stock's. */
    private void recordLeftOut(long now) {
        if (now == leftOut) {
            return;
        }
        leftOut = now;
        if (leftOutSensors.isEmpty()) {
            LOG.warn("Task metrics are limited to {} partitions; the metric {} counts the others", most, LEFT_OUT);
            for (MetricRegistry registry : registries) {
                LinkedHashMap<String, String> tags = new LinkedHashMap<>();
                tags.put("source", source);
                tags.put("target", target);
                Sensor sensor = registry.sensor(LEFT_OUT);
                sensor.add(registry.name(LEFT_OUT, "Partitions without metrics in this worker.", tags), new Value());
                leftOutSensors.add(sensor);
            }
        }
        leftOutSensors.forEach(sensor -> sensor.record(now));
    }

    private void remove(Map<?, ?> gone) {
        List<CopySensors> sensors = partitions.remove(key(gone));
        if (sensors != null && !sensors.isEmpty()) {
            measured--;
            sensors.forEach(CopySensors::remove);
        }
    }

    private static String key(Map<?, ?> partition) {
        return partition.get("topic") + "-" + partition.get("partition") + "-";
    }

    /** In stock's order, which is the order in the names of the MBeans. */
    private LinkedHashMap<String, String> tags(String group, String topic, String partition) {
        LinkedHashMap<String, String> tags = new LinkedHashMap<>();
        tags.put("source", source);
        tags.put("target", target);
        if (group != null) {
            tags.put("group", group);
        }
        tags.put("topic", topic);
        tags.put("partition", partition);
        return tags;
    }

    private static List<?> listed(Map<?, ?> answer, String key) {
        Object found = answer.get(key);
        return found == null ? List.of() : (List<?>) found;
    }

    private static List<String> list(String value) {
        return List.of(value.trim().split("\\s*,\\s*", -1));
    }
}
