package dev.mirrorbridge;

import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.errors.IllegalWorkerStateException;
import org.apache.kafka.connect.sink.SinkTaskContext;

/** The context of a sink task as Connect's worker has it, over an assignment that tests make. */
final class FakeSinkContext implements SinkTaskContext {
    final Set<TopicPartition> assigned = new HashSet<>();
    final Set<TopicPartition> pausedPartitions = new HashSet<>();
    final Map<TopicPartition, Long> offsets = new HashMap<>();
    volatile boolean paused;
    volatile long timeoutMs = -1;

    @Override
    public Map<String, String> configs() {
        return Map.of();
    }

    @Override
    public void offset(Map<TopicPartition, Long> given) {
        offsets.putAll(given);
    }

    @Override
    public void offset(TopicPartition partition, long offset) {
        offsets.put(partition, offset);
    }

    @Override
    public void timeout(long given) {
        timeoutMs = given;
    }

    @Override
    public Set<TopicPartition> assignment() {
        return assigned;
    }

    @Override
    public void pause(TopicPartition... partitions) {
        pausedPartitions.addAll(Arrays.asList(partitions));
        checkAssigned(partitions);
    }

    @Override
    public void resume(TopicPartition... partitions) {
        pausedPartitions.removeAll(Arrays.asList(partitions));
        checkAssigned(partitions);
    }

    @Override
    public void requestCommit() {
    }

    /** Connect hands nothing on to the consumer while it pauses the task. */
    private void checkAssigned(TopicPartition... partitions) {
        if (!paused && !assigned.containsAll(Arrays.asList(partitions))) {
            throw new IllegalWorkerStateException("SinkTasks may not resume partitions that are not assigned to them.");
        }
    }
}
