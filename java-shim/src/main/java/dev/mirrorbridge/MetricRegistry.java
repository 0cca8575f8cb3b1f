package dev.mirrorbridge;

import java.util.LinkedHashMap;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.metrics.Sensor;

/** Where sensors are registered: in stock's way of before Kafka 4.3 ({@code legacy}), or in the worker's ({@code new}). */
interface MetricRegistry {
    MetricName name(String metric, String description, LinkedHashMap<String, String> tags);

    Sensor sensor(String name);

    void removeSensor(String name);

    /** No sensor is of use any more. */
    void close();
}
