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
 * What Connect keeps for the connector's source partitions, read when the service asks for it. In a thread of its own:
 * the storage takes as long as Connect's offsets topic takes to be read, and a poll is held for a second at most.
 * Whatever does not succeed is asked for again by the service.
 */
final class StoredOffsets {
    private static final Logger LOG = LoggerFactory.getLogger(BridgeSourceTask.class);

    private final Supplier<OffsetStorageReader> reader;
    private Thread reading;
    private List<Map<String, Object>> found = List.of();
    private String trouble;

    StoredOffsets(Supplier<OffsetStorageReader> reader) {
        this.reader = reader;
    }

    /** Begins to read these, unless it is at it; throws {@link RuntimeException} if it is not of the contract's form. */
    synchronized void read(List<?> asked) {
        if (asked == null || asked.isEmpty() || reading != null) {
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

    /** What has been read since the last call, as the contract has it. */
    synchronized List<Map<String, Object>> take() {
        List<Map<String, Object>> taken = found;
        found = List.of();
        return taken;
    }

    private void look(List<Map<String, Object>> partitions) {
        List<Map<String, Object>> read = List.of();
        String wrong = null;
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
            wrong = e.toString();
        }
        done(read, wrong);
    }

    private synchronized void done(List<Map<String, Object>> read, String wrong) {
        reading = null;
        found = read;
        if (wrong != null && !wrong.equals(trouble)) {
            LOG.warn("Connect's source offsets can't be read, trying again: {}", wrong);
        }
        trouble = wrong;
    }
}
