package dev.mirrorbridge;

import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.metrics.JmxReporter;
import org.apache.kafka.common.metrics.KafkaMetricsContext;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Sensor;

/** MBeans of {@code kafka.connect.mirror}, whose type is the name of stock's connector. */
final class JmxRegistry implements MetricRegistry {
    static final String NAMESPACE = "kafka.connect.mirror";

    private final Metrics metrics = new Metrics();
    private final String type;

    /** {@code config} is the connector's, of which {@code metrics.jmx.include} and {@code .exclude} count. */
    JmxRegistry(String type, Map<String, String> config) {
        this.type = type;
        JmxReporter reporter = new JmxReporter();
        reporter.configure(config);
        reporter.contextChange(new KafkaMetricsContext(NAMESPACE));
        metrics.addReporter(reporter);
    }

    @Override
    public MetricName name(String metric, String description, LinkedHashMap<String, String> tags) {
        return new MetricName(metric, type, description, tags);
    }

    @Override
    public Sensor sensor(String name) {
        return metrics.sensor(name);
    }

    @Override
    public void removeSensor(String name) {
        metrics.removeSensor(name);
    }

    @Override
    public void close() {
        metrics.close();
    }
}
