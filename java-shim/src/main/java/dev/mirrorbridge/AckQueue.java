package dev.mirrorbridge;

import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.connect.source.SourceRecord;

/**
 * Acknowledgements for the service: the last record of each source partition that Connect has written, bounded.
 * {@code commitRecord} runs on the producer's I/O thread, so {@link #add} does no more than add.
 */
final class AckQueue {
    static final int LIMIT = 10_000;
    /** This many, with topic names as long as Kafka allows, stay below the service's body limit of a megabyte. */
    static final int AT_ONCE = 1_000;

    private final Map<Map<String, ?>, Ack> acks = new LinkedHashMap<>();

    synchronized void add(SourceRecord record, RecordMetadata metadata) {
        Map<String, ?> partition = Map.copyOf(record.sourcePartition());
        acks.remove(partition);
        acks.put(partition, new Ack(RecordCodec.ack(record, metadata)));
        if (acks.size() > LIMIT) {
            Iterator<?> oldest = acks.values().iterator();
            oldest.next();
            oldest.remove();
        }
    }

    /** The oldest acknowledgements, as many as one request carries. */
    synchronized List<Ack> next() {
        return acks.values().stream().limit(AT_ONCE).collect(Collectors.toList());
    }

    /** Removes what the service has accepted; what was added since stays. */
    synchronized void accepted(List<Ack> accepted) {
        Set<Ack> same = Collections.newSetFromMap(new IdentityHashMap<>());
        same.addAll(accepted);
        acks.values().removeIf(same::contains);
    }

    static final class Ack {
        private final Map<String, Object> written;
        private final long writtenAt = System.nanoTime();

        private Ack(Map<String, Object> written) {
            this.written = written;
        }

        /** The entry of the contract, with the time since it was written: the clocks need not agree. */
        Map<String, Object> body() {
            Map<String, Object> body = new LinkedHashMap<>(written);
            body.put("age_ms", (System.nanoTime() - writtenAt) / 1_000_000);
            return body;
        }
    }
}
