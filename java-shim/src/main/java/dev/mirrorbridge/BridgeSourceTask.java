package dev.mirrorbridge;

import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/** The task of all source connectors: hands Connect's calls to a {@link TaskSession}. */
public class BridgeSourceTask extends SourceTask {
    static final String KIND = "bridge.kind";
    static final String INDEX = "task.index";
    static final String COUNT = "task.count";
    /** The Kafka cluster of the worker, where the connector knew it. */
    static final String CLUSTER = "task.kafka.cluster.id";

    private final AckQueue acks = new AckQueue();
    private volatile WrittenBytes bytes = new WrittenBytes(Map.of());
    private volatile TaskSession session;
    private volatile TaskMetrics metrics;

    @Override
    public String version() {
        return Version.VERSION;
    }

    /** Does no network calls: Connect can't stop a task that is starting, and fails one that throws here. */
    @Override
    public void start(Map<String, String> given) {
        Map<String, String> config = BridgeConnector.trimmed(given);
        String kind = config.remove(KIND);
        WorkerCluster.learn(config.remove(CLUSTER));
        TaskAddress address = new TaskAddress(config.get("name"), Integer.parseInt(config.remove(INDEX)),
            Integer.parseInt(config.remove(COUNT)), null);
        bytes = new WrittenBytes(config);
        Settings settings = BridgeConnector.settings(config, Definition.load(kind));
        metrics = TaskMetrics.of(kind, config, context);
        session = new TaskSession(kind, address, config, settings, client(settings), pacer(),
            new Backoff(new Random()), acks, new StoredOffsets(() -> context.offsetStorageReader()), metrics,
            CopyPositions.notRead());
    }

    /** Null rather than an empty list, after a second at most. */
    @Override
    public List<SourceRecord> poll() throws InterruptedException {
        bytes.check();
        return session.poll();
    }

    @Override
    public void commitRecord(SourceRecord record, RecordMetadata metadata) {
        if (bytes.are(record, metadata)) {
            acks.add(record, metadata);
            metrics.written(record);
        }
    }

    @Override
    public void commit() throws InterruptedException {
        session.flush();
    }

    @Override
    public void stop() {
        if (metrics != null) {
            metrics.close();
        }
        if (session != null) {
            session.stop();
        }
    }

    BridgeClient client(Settings settings) {
        return new BridgeClient(settings);
    }

    Pacer pacer() {
        return new Pacer();
    }
}
