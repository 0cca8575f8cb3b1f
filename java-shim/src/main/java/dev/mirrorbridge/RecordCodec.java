package dev.mirrorbridge;

import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.source.SourceRecord;

/** Records of the contract to Connect's, and Connect's acknowledgements to the contract's. */
final class RecordCodec {
    private RecordCodec() {
    }

    /** All records of a poll's answer; throws {@link RuntimeException} if it is not of the contract's form. */
    static List<SourceRecord> records(Map<?, ?> pollResponse) {
        List<SourceRecord> records = new ArrayList<>();
        Object listed = pollResponse.get("records");
        for (Object record : listed == null ? List.of() : (List<?>) listed) {
            records.add(record((Map<?, ?>) record));
        }
        return records;
    }

    static SourceRecord record(Map<?, ?> record) {
        ConnectHeaders headers = new ConnectHeaders();
        Object listed = record.get("headers");
        for (Object item : listed == null ? List.of() : (List<?>) listed) {
            Map<?, ?> header = (Map<?, ?>) item;
            headers.addBytes(text(header, "key"), bytes(header.get("value")));
        }
        Long timestamp = (Long) record.get("timestamp");
        return new SourceRecord(
            position(record.get("source_partition"), true),
            position(record.get("source_offset"), false),
            text(record, "topic"),
            record.get("partition") == null ? null : Math.toIntExact((Long) record.get("partition")),
            Schema.OPTIONAL_BYTES_SCHEMA, bytes(record.get("key")),
            Schema.OPTIONAL_BYTES_SCHEMA, bytes(record.get("value")),
            timestamp == null || timestamp < 0 ? null : timestamp,
            headers);
    }

    /** One acknowledged record; {@code metadata} is null for a record that a transformation filtered out. */
    static Map<String, Object> ack(SourceRecord record, RecordMetadata metadata) {
        Map<String, Object> ack = new LinkedHashMap<>();
        ack.put("source_partition", record.sourcePartition());
        ack.put("source_offset", record.sourceOffset());
        if (metadata != null) {
            ack.put("topic", metadata.topic());
            ack.put("partition", metadata.partition());
            ack.put("offset", metadata.hasOffset() ? metadata.offset() : null);
        }
        if (record.timestamp() != null) {
            ack.put("timestamp", record.timestamp());
        }
        return ack;
    }

    /**
     * A source partition or offset as a {@link HashMap}: Connect finds stored offsets by the serialized bytes of the
     * partition, in the map's own order, and stock MirrorMaker's maps are hash maps. For the same reason
     * {@code partition} is an Integer; all other numbers are Longs.
     */
    static Map<String, Object> position(Object given, boolean partitionIsInteger) {
        Map<String, Object> position = new HashMap<>();
        for (Map.Entry<?, ?> entry : ((Map<?, ?>) given).entrySet()) {
            String key = (String) entry.getKey();
            Object value = entry.getValue();
            if (!(value instanceof String) && !(value instanceof Long)) {
                throw new IllegalArgumentException("source partitions and offsets are made of text and whole numbers");
            }
            boolean narrow = partitionIsInteger && key.equals("partition") && value instanceof Long
                && (Long) value == ((Long) value).intValue();
            position.put(key, narrow ? (Object) ((Long) value).intValue() : value);
        }
        return position;
    }

    private static String text(Map<?, ?> from, String key) {
        Object value = from.get(key);
        if (!(value instanceof String)) {
            throw new IllegalArgumentException("a record without " + key);
        }
        return (String) value;
    }

    private static byte[] bytes(Object base64) {
        return base64 == null ? null : Base64.getDecoder().decode((String) base64);
    }
}
