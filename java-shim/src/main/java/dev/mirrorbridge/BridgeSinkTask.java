package dev.mirrorbridge;

import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.sink.SinkTask;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The task of a sink connector whose records the service copies without Connect: its partitions are paused, and the
 * offsets that it has Connect commit are those up to which every record is committed on the target.
 */
public class BridgeSinkTask extends SinkTask {
    /** Where a paused consumer is set to, once for each partition: Connect commits no offset beyond. */
    static final long AHEAD = Long.MAX_VALUE;
    /** A partition that no task is ever assigned. */
    private static final TopicPartition NOBODYS = new TopicPartition("mirror-bridge.assigned-to-nobody", 0);
    private static final Logger LOG = LoggerFactory.getLogger(BridgeSinkTask.class);

    private final CopyPositions positions = CopyPositions.read();
    /** Assigned partitions in which the consumer was set to {@link #AHEAD}. Their position is known. */
    private final Set<TopicPartition> ahead = new HashSet<>();
    private TaskAddress address;
    private volatile TaskSession session;
    private volatile TaskMetrics metrics;
    private volatile ShortPolls polls;
    private boolean paused;
    private boolean warned;

    @Override
    public String version() {
        return Version.VERSION;
    }

    /** Does no network calls: Connect can't stop a task that is starting, and fails one that throws here. */
    @Override
    public void start(Map<String, String> given) {
        Map<String, String> config = BridgeConnector.trimmed(given);
        String kind = config.remove(BridgeSourceTask.KIND);
        WorkerCluster.learn(config.remove(BridgeSourceTask.CLUSTER));
        address = new TaskAddress(config.get("name"), Integer.parseInt(config.remove(BridgeSourceTask.INDEX)),
            Integer.parseInt(config.remove(BridgeSourceTask.COUNT)), null);
        Settings settings = BridgeConnector.settings(config, Definition.load(kind));
        metrics = TaskMetrics.of(kind, config, context);
        session = new TaskSession(kind, address, config, settings, new BridgeClient(settings), pacer(),
            new Backoff(new Random()), new AckQueue(), StoredOffsets.none(), metrics, positions);
        polls = new ShortPolls(context, address.toString());
        polls.start();
    }

    @Override
    public void open(Collection<TopicPartition> partitions) {
        context.pause(partitions.toArray(new TopicPartition[0]));
        ahead.removeAll(partitions);
    }

    @Override
    public void close(Collection<TopicPartition> partitions) {
        ahead.removeAll(partitions);
    }

    /** Connect calls this after each poll of its consumer, with no records; also while it pauses the task. */
    @Override
    public void put(Collection<SinkRecord> records) {
        if (!records.isEmpty()) {
            dropped(records);
        }
        boolean before = paused;
        paused = isPaused();
        if (paused != before) {
            LOG.info("Task {}: {}", address, paused ? "paused by Connect, copying ends" : "resumed by Connect");
        }
        if (paused) {
            return;
        }
        try {
            session.poll();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return;
        }
        setAhead();
    }

    /**
     * What is committed on the target of these partitions, as the service has said it last. Of each that was set ahead:
     * what is missing here Connect takes for committed where the consumer stands.
     */
    @Override
    public Map<TopicPartition, OffsetAndMetadata> preCommit(Map<TopicPartition, OffsetAndMetadata> current) {
        Map<TopicPartition, OffsetAndMetadata> committed = new HashMap<>();
        current.forEach((partition, consumed) -> {
            if (ahead.contains(partition)) {
                long position = positions.last(partition);
                committed.put(partition, new OffsetAndMetadata(Math.min(position, consumed.offset())));
            }
        });
        return committed;
    }

    @Override
    public void stop() {
        if (polls != null) {
            polls.stop();
        }
        if (metrics != null) {
            metrics.close();
        }
        if (session != null) {
            session.stop();
        }
    }

    Pacer pacer() {
        return new Pacer();
    }

    /** Once for each partition, not for each position: the consumer logs each time that it is set. */
    private void setAhead() {
        for (TopicPartition partition : context.assignment()) {
            if (!ahead.contains(partition) && positions.knows(partition)) {
                context.offset(partition, AHEAD);
                ahead.add(partition);
            }
        }
    }

    /**
     * Whether Connect pauses the task, which it tells no sink task. It does not hand a paused task's calls on to its
     * consumer, and the consumer refuses to resume a partition that is not assigned.
     */
    private boolean isPaused() {
        try {
            context.resume(NOBODYS);
            return true;
        } catch (RuntimeException refusedByTheConsumer) {
            return false;
        }
    }

    /** No record is lost: what is copied does not depend on what Connect reads. */
    private void dropped(Collection<SinkRecord> records) {
        for (SinkRecord record : records) {
            TopicPartition partition = new TopicPartition(record.topic(), record.kafkaPartition());
            context.pause(partition);
            ahead.remove(partition);
        }
        if (!warned) {
            LOG.warn("Task {}: Connect has read {} record(s) of partitions that are paused, which costs time and changes "
                + "nothing: the service copies all records itself", address, records.size());
            warned = true;
        }
    }
}
