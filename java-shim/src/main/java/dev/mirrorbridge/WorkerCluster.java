package dev.mirrorbridge;

import java.lang.reflect.Field;

/**
 * Knows the id of the Kafka cluster that the worker keeps its state on: Connect clusters of one {@code group.id} on two Kafka
 * clusters differ by it. Connect tells it to no plugin. It is looked up in what stands behind a connector's context, which
 * passes it to its tasks; where a worker's classes are others it stays unknown.
 */
final class WorkerCluster {
    /** That of the one worker of this JVM. */
    private static volatile String known;

    private WorkerCluster() {
    }

    /** Null where it is not known, or several workers run in this JVM. */
    static String id() {
        String id = known;
        return id == null || WorkerGroup.id() == null ? null : id;
    }

    /** {@code id} may be null: nothing is learnt then. */
    static void learn(String id) {
        if (id != null) {
            known = id;
        }
    }

    static String of(Object connectorContext) {
        try {
            Object herder = value(value(value(connectorContext, "this$0"), "ctx"), "herder");
            return (String) herder.getClass().getMethod("kafkaClusterId").invoke(herder);
        } catch (ReflectiveOperationException | RuntimeException otherClasses) {
            return null;
        }
    }

    private static Object value(Object object, String field) throws ReflectiveOperationException {
        for (Class<?> type = object.getClass(); type != null; type = type.getSuperclass()) {
            for (Field each : type.getDeclaredFields()) {
                if (each.getName().equals(field)) {
                    each.setAccessible(true);
                    return each.get(object);
                }
            }
        }
        throw new NoSuchFieldException(field);
    }
}
