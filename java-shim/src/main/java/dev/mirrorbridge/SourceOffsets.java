package dev.mirrorbridge;

import java.util.Map;
import org.apache.kafka.connect.errors.ConnectException;

/** Checks offsets that an operator alters as stock MirrorMaker does, with its messages (MirrorUtils). */
final class SourceOffsets {
    private static final String PARTITION = "partition";
    private static final String OFFSET = "offset";

    private SourceOffsets() {
    }

    static void requireText(Map<String, ?> partition, String key) {
        if (!(required(partition, key) instanceof String)) {
            throw invalid(partition, key, "must be a string");
        }
    }

    static void requirePartition(Map<String, ?> partition) {
        Object value = required(partition, PARTITION);
        if (!isWhole(value) || ((Number) value).longValue() > Integer.MAX_VALUE) {
            throw invalid(partition, PARTITION, "must be an integer");
        }
        if (((Number) value).intValue() < 0) {
            throw invalid(partition, PARTITION, "cannot be negative");
        }
    }

    static void requireZero(Map<String, ?> partition, Map<String, ?> offset) {
        if (offset(partition, offset) != 0) {
            throw invalidOffset(partition, offset, "; the only accepted value is 0");
        }
    }

    static void requireNotNegative(Map<String, ?> partition, Map<String, ?> offset) {
        if (offset(partition, offset) < 0) {
            throw invalidOffset(partition, offset, ", which cannot be negative");
        }
    }

    private static long offset(Map<String, ?> partition, Map<String, ?> offset) {
        if (!offset.containsKey(OFFSET)) {
            throw new ConnectException(String.format("Source offset %s for source partition %s is missing the '%s' key, "
                + "which is required", offset, partition, OFFSET));
        }
        Object value = offset.get(OFFSET);
        if (!isWhole(value)) {
            throw invalidOffset(partition, offset, ", which must be an integer");
        }
        return ((Number) value).longValue();
    }

    private static Object required(Map<String, ?> partition, String key) {
        if (!partition.containsKey(key)) {
            throw new ConnectException(String.format("Source partition %s is missing the '%s' key, which is required",
                partition, key));
        }
        return partition.get(key);
    }

    private static boolean isWhole(Object value) {
        return value instanceof Integer || value instanceof Long;
    }

    private static ConnectException invalid(Map<String, ?> partition, String key, String which) {
        return new ConnectException(String.format("Source partition %s has an invalid value %s for the '%s' key, which %s",
            partition, partition.get(key), key, which));
    }

    private static ConnectException invalidOffset(Map<String, ?> partition, Map<String, ?> offset, String which) {
        return new ConnectException(String.format("Source offset %s for source partition %s has an invalid value %s for "
            + "the '%s' key%s", offset, partition, offset.get(OFFSET), OFFSET, which));
    }
}
