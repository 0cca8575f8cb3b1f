package dev.mirrorbridge;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;

/**
 * Where copying has come to in each source partition, as the service says in its answers to polls: up to there every
 * record is committed on the target.
 */
final class CopyPositions {
    private final boolean wanted;
    private final Map<TopicPartition, Long> positions = new HashMap<>();
    private long seen;

    private CopyPositions(boolean wanted) {
        this.wanted = wanted;
    }

    static CopyPositions read() {
        return new CopyPositions(true);
    }

    static CopyPositions notRead() {
        return new CopyPositions(false);
    }

    /** The number of the last answer that was read, to be sent with a poll; null where no answer is wanted. */
    Long seen() {
        return wanted ? seen : null;
    }

    /** Reads what has changed, null for nothing; throws for what is not of the contract's form. */
    void read(Map<?, ?> changed) {
        if (changed == null) {
            return;
        }
        Map<TopicPartition, Long> read = new HashMap<>();
        for (Object each : (List<?>) changed.get("partitions")) {
            Map<?, ?> row = (Map<?, ?>) each;
            TopicPartition partition =
                new TopicPartition((String) row.get("topic"), Math.toIntExact((Long) row.get("partition")));
            read.put(partition, (Long) row.get("position"));
        }
        seen = (Long) changed.get("number");
        positions.putAll(read);
    }

    /** In another session the service begins anew. What it said stands until it says something else. */
    void forget() {
        seen = 0;
    }

    boolean knows(TopicPartition partition) {
        return positions.containsKey(partition);
    }

    /** Throws for a partition that is not known. */
    long last(TopicPartition partition) {
        return positions.get(partition);
    }
}
