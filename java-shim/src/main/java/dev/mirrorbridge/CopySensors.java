package dev.mirrorbridge;

import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.common.metrics.Sensor;
import org.apache.kafka.common.metrics.stats.Meter;

/** The sensors of one partition that is copied. */
final class CopySensors {
    private static final String[] NAMES = {"records-sent", "bytes-sent", "record-age", "replication-latency"};

    private final MetricRegistry registry;
    private final String prefix;
    private final Sensor records;
    private final Sensor bytes;
    private final LatencySensor age;
    private final LatencySensor latency;

    CopySensors(MetricRegistry registry, String prefix, LinkedHashMap<String, String> tags) {
        this.registry = registry;
        this.prefix = prefix;
        records = meter(NAMES[0], "record", "Records that were copied to the target cluster", tags);
        bytes = meter(NAMES[1], "byte", "Bytes of the batches that were copied to the target cluster", tags);
        age = new LatencySensor(registry, prefix + NAMES[2], "record-age-ms",
            "How old records were when they were fetched from the source cluster", tags);
        latency = new LatencySensor(registry, prefix + NAMES[3], "replication-latency-ms",
            "From the timestamp of records until they were committed on the target cluster", tags);
    }

    private Sensor meter(String sensor, String metric, String what, LinkedHashMap<String, String> tags) {
        Sensor made = registry.sensor(prefix + sensor);
        made.add(new Meter(registry.name(metric + "-rate", what + " per second.", tags),
            registry.name(metric + "-count", what + ".", tags)));
        return made;
    }

    void record(Map<?, ?> measured) {
        double copied = LatencySensor.number(measured, "records");
        if (copied > 0) {
            records.record(copied);
            bytes.record(LatencySensor.number(measured, "bytes"));
        }
        age.record((Map<?, ?>) measured.get("record_age_ms"));
        latency.record((Map<?, ?>) measured.get("replication_latency_ms"));
    }

    void remove() {
        for (String name : NAMES) {
            registry.removeSensor(prefix + name);
        }
    }
}
