package dev.mirrorbridge;

import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.common.metrics.Sensor;
import org.apache.kafka.common.metrics.stats.Max;
import org.apache.kafka.common.metrics.stats.Min;
import org.apache.kafka.common.metrics.stats.Value;

/** A latency of stock's: the last one, and the least, the greatest and the average of the last half to whole minute. */
final class LatencySensor {
    private final Sensor sensor;
    private final WeightedAvg average = new WeightedAvg();

    /** {@code metric}: its name, to which stock adds {@code -min}, {@code -max} and {@code -avg}. */
    LatencySensor(MetricRegistry registry, String name, String metric, String what, LinkedHashMap<String, String> tags) {
        sensor = registry.sensor(name);
        sensor.add(registry.name(metric, what + ".", tags), new Value());
        sensor.add(registry.name(metric + "-max", what + ", the greatest.", tags), new Max());
        sensor.add(registry.name(metric + "-min", what + ", the least.", tags), new Min());
        sensor.add(registry.name(metric + "-avg", what + ", on average.", tags), average);
    }

    synchronized void record(double latencyMs) {
        average.next(latencyMs, 1);
        sensor.record(latencyMs);
    }

    /** Records what the service has measured of several records; null for none. */
    synchronized void record(Map<?, ?> measured) {
        if (measured == null) {
            return;
        }
        sensor.record(number(measured, "min"));
        sensor.record(number(measured, "max"));
        average.next(number(measured, "sum"), number(measured, "count"));
        sensor.record(number(measured, "last"));
    }

    static double number(Map<?, ?> from, String key) {
        return ((Number) from.get(key)).doubleValue();
    }
}
