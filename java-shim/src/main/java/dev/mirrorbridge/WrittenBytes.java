package dev.mirrorbridge;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.source.SourceRecord;

/**
 * Checks that Connect writes a task's bytes unchanged. A connector sees its own configuration and not the worker's, whose
 * default converters are often JSON's; but it learns the size of each record that was written.
 */
final class WrittenBytes {
    private static final String CONVERTER = "org.apache.kafka.connect.converters.ByteArrayConverter";

    private final boolean transformed;
    private volatile String failure;

    WrittenBytes(Map<String, String> config) {
        transformed = !config.getOrDefault("transforms", "").isBlank();
    }

    /** Whether it was; a record with transforms may well have become another. Runs on the producer's I/O thread. */
    boolean are(SourceRecord record, RecordMetadata metadata) {
        if (metadata == null || transformed) {
            return true;
        }
        List<String> wrong = new ArrayList<>();
        if (metadata.serializedKeySize() != size(record.key())) {
            wrong.add("key.converter");
        }
        if (metadata.serializedValueSize() != size(record.value())) {
            wrong.add("value.converter");
        }
        if (!wrong.isEmpty()) {
            failure = String.format("A record of %s was not written byte by byte, so that consumers can't read it:"
                + " the worker's default %s is not ByteArrayConverter. Set %s in the connector's configuration.",
                metadata.topic(), String.join(" and ", wrong), String.join(" and ", settings(wrong)));
        }
        return wrong.isEmpty();
    }

    /** Throws once a record was written otherwise: more of them would only do more harm. */
    void check() {
        if (failure != null) {
            throw new ConnectException(failure);
        }
    }

    private static List<String> settings(List<String> keys) {
        List<String> settings = new ArrayList<>();
        keys.forEach(key -> settings.add("\"" + key + "\": \"" + CONVERTER + "\""));
        return settings;
    }

    /** As a producer tells it: -1 for null. */
    private static int size(Object bytes) {
        return bytes == null ? -1 : ((byte[]) bytes).length;
    }
}
