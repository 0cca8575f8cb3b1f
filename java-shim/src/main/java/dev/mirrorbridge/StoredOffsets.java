package dev.mirrorbridge;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.kafka.connect.storage.OffsetStorageReader;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Reads the connector's source offsets from Connect's offset storage when the service requests them. In a thread of its
 * own: the storage takes as long as reading Connect's offsets topic takes, and a poll is held for a second at most.
 * The service repeats its request for what could not be read.
 */
final class StoredOffsets {
    private static final Logger LOG = LoggerFactory.getLogger(BridgeSourceTask.class);

    /** Null where there is no such storage: then nothing is ever requested. */
    private final Supplier<OffsetStorageReader> reader;
    private Thread reading;
    private List<Map<String, Object>> found = List.of();
    private String error;

    StoredOffsets(Supplier<OffsetStorageReader> reader) {
        this.reader = reader;
    }

    /** Of a sink, whose offsets are those of a consumer group. */
    static StoredOffsets none() {
        return new StoredOffsets(null);
    }

    /** Starts reading these, unless a read runs; throws {@link RuntimeException} if {@code asked} is malformed. */
    synchronized void read(List<?> asked) {
        if (asked == null || asked.isEmpty() || reading != null || reader == null) {
            return;
        }
        List<Map<String, Object>> partitions = new ArrayList<>();
        for (Object partition : asked) {
            partitions.add(RecordCodec.position(partition, true));
        }
        reading = new Thread(() -> look(partitions), "mirror-bridge-stored-offsets");
        reading.setDaemon(true);
        reading.start();
    }

    /** What has been read since the last call, in the form of the contract; null where nothing can be read. */
    synchronized List<Map<String, Object>> drain() {
        if (reader == null) {
            return null;
        }
        List<Map<String, Object>> drained = found;
        found = List.of();
        return drained;
    }

    private void look(List<Map<String, Object>> partitions) {
        List<Map<String, Object>> read = List.of();
        String failure = null;
        try {
            Map<Map<String, Object>, Map<String, Object>> offsets = reader.get().offsets(partitions);
            read = new ArrayList<>();
            for (Map<String, Object> partition : partitions) {
                Map<String, Object> row = new LinkedHashMap<>();
                row.put("source_partition", partition);
                row.put("source_offset", offsets.get(partition));
                read.add(row);
            }
            // Anything may stand there; what has no form in JSON must not break a poll.
            Json.write(read);
        } catch (RuntimeException e) {
            read = List.of();
            failure = e.toString();
        }
        done(read, failure);
    }

    private synchronized void done(List<Map<String, Object>> read, String failure) {
        reading = null;
        found = read;
        if (failure != null && !failure.equals(error)) {
            LOG.warn("Connect's offset storage can't be read, retrying: {}", failure);
        }
        error = failure;
    }
}
