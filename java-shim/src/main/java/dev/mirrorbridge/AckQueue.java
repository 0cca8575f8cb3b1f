package dev.mirrorbridge;

import java.util.ArrayList;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.connect.source.SourceRecord;

/**
 * What Connect has written and the service has not been told: the last record of each source partition, bounded.
 * {@code commitRecord} runs on the producer's I/O thread, so adding does nothing but this.
 */
final class AckQueue {
    static final int LIMIT = 10_000;

    private final Map<Map<String, ?>, Map<String, Object>> acks = new LinkedHashMap<>();

    synchronized void add(SourceRecord record, RecordMetadata metadata) {
        Map<String, ?> partition = Map.copyOf(record.sourcePartition());
        acks.remove(partition);
        acks.put(partition, RecordCodec.ack(record, metadata));
        if (acks.size() > LIMIT) {
            Iterator<?> oldest = acks.values().iterator();
            oldest.next();
            oldest.remove();
        }
    }

    synchronized List<Map<String, Object>> all() {
        return new ArrayList<>(acks.values());
    }

    /** Forgets what the service has taken; what was added since stays. */
    synchronized void taken(List<Map<String, Object>> taken) {
        Set<Map<String, Object>> same = Collections.newSetFromMap(new IdentityHashMap<>());
        same.addAll(taken);
        acks.values().removeIf(same::contains);
    }
}
