package dev.mirrorbridge;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.LinkedHashMap;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.metrics.Sensor;
import org.apache.kafka.connect.sink.SinkTaskContext;
import org.apache.kafka.connect.source.SourceTaskContext;

/**
 * The worker's own registry, MBeans {@code kafka.connect:type=plugins}, which Kafka 4.1 and later offer to plugins. By
 * reflection, because the shim runs in older workers too.
 */
final class PluginRegistry implements MetricRegistry {
    private final Object metrics;
    private final Method name;
    private final Method sensor;
    private final Method removeSensor;

    /** {@code type}: of Kafka's {@code PluginMetrics}, in which the methods are looked up. */
    PluginRegistry(Object metrics, Class<?> type) throws NoSuchMethodException {
        this.metrics = metrics;
        this.name = method(type, "metricName");
        this.sensor = method(type, "addSensor");
        this.removeSensor = method(type, "removeSensor");
    }

    /** Null in a worker that has none. */
    static PluginRegistry of(Object context) {
        try {
            Method offered = contract(context).getMethod("pluginMetrics");
            Object metrics = offered.invoke(context);
            return metrics == null ? null : new PluginRegistry(metrics, offered.getReturnType());
        } catch (ReflectiveOperationException | LinkageError olderWorker) {
            return null;
        }
    }

    @Override
    public MetricName name(String metric, String description, LinkedHashMap<String, String> tags) {
        return (MetricName) call(name, metric, description, tags);
    }

    @Override
    public Sensor sensor(String sensorName) {
        return (Sensor) call(sensor, sensorName);
    }

    @Override
    public void removeSensor(String sensorName) {
        call(removeSensor, sensorName);
    }

    /** The worker removes them, when it has stopped the task. */
    @Override
    public void close() {
    }

    private Object call(Method method, Object... arguments) {
        try {
            return method.invoke(metrics, arguments);
        } catch (InvocationTargetException e) {
            throw new IllegalStateException(String.valueOf(e.getCause()), e.getCause());
        } catch (IllegalAccessException e) {
            throw new IllegalStateException(e);
        }
    }

    /** The worker's own class is not public. */
    private static Class<?> contract(Object context) {
        return context instanceof SinkTaskContext ? SinkTaskContext.class : SourceTaskContext.class;
    }

    private static Method method(Class<?> type, String name) throws NoSuchMethodException {
        for (Method each : type.getMethods()) {
            if (each.getName().equals(name)) {
                return each;
            }
        }
        throw new NoSuchMethodException(name);
    }
}
