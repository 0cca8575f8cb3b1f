package org.apache.kafka.connect.mirror;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Deque;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import java.util.concurrent.Semaphore;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Which topics stock's source connector copies, and when it writes offset syncs, by the line: a command and its
 * tab-separated arguments, in base64 where they are text, "-" for null. Questions have one line of answer each.
 */
public final class StockSource {
    private static final String SYNCS = "offset-syncs";

    private final PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    private final Outbox outbox = new Outbox();
    private OffsetSyncWriter writer;
    private OffsetSyncWriter.PartitionState state;

    public static void main(String[] args) throws Exception {
        StockSource stock = new StockSource();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Deque<String> q = new ArrayDeque<>(Arrays.asList(line.split("\t", -1)));
            stock.answer(q.remove(), q);
        }
        stock.out.flush();
        stock.outbox.close(Duration.ZERO);
    }

    private void answer(String command, Deque<String> q) throws Exception {
        switch (command) {
            case "writer" -> writer = new OffsetSyncWriter(outbox, SYNCS, new Semaphore(Integer.MAX_VALUE), number(q));
            case "stretch" -> {
                TopicPartition partition = partition(q);
                long upstream = number(q);
                long downstream = number(q);
                long count = number(q);
                outbox.sent.clear();
                for (long at = 0; at < count; at++) {
                    writer.maybeQueueOffsetSyncs(partition, upstream + at, downstream + at);
                    writer.firePendingOffsetSyncs();
                }
                out.println(String.join(" ", outbox.sent) + "|" + shown(writer.partitionStates().get(partition)));
            }
            case "commit" -> {
                outbox.sent.clear();
                writer.promoteDelayedOffsetSyncs();
                writer.firePendingOffsetSyncs();
                out.println(String.join(" ", outbox.sent));
            }
            case "state" -> state = new OffsetSyncWriter.PartitionState(number(q));
            case "step" -> out.println(state.update(number(q), number(q)) + " " + shown(state));
            case "reset" -> state.reset();
            case "topic" -> out.println(connector(q).shouldReplicateTopic(text(q)));
            default -> throw new IllegalArgumentException(command);
        }
    }

    /** A policy's name and separator, the topics, whether heartbeats are replicated. */
    private static MirrorSourceConnector connector(Deque<String> q) {
        boolean identity = q.remove().equals("identity");
        DefaultReplicationPolicy policy = identity ? new IdentityReplicationPolicy() : new DefaultReplicationPolicy();
        String separator = q.remove();
        Map<String, Object> props = new HashMap<>(Map.of("source.cluster.alias", "A", "topics", text(q)));
        if (!separator.equals("-")) {
            props.put("replication.policy.separator", separator.substring(1));
        }
        policy.configure(props);
        DefaultTopicFilter filter = new DefaultTopicFilter();
        filter.configure(props);
        boolean heartbeats = q.remove().equals("1");
        return new MirrorSourceConnector(
            new SourceAndTarget("A", "B"), policy, filter, new DefaultConfigPropertyFilter(), heartbeats);
    }

    private static String shown(OffsetSyncWriter.PartitionState state) {
        return state.previousUpstreamOffset + " " + state.previousDownstreamOffset + " "
            + state.lastSyncDownstreamOffset + " " + state.shouldSyncOffsets;
    }

    private static String hex(byte[] key, byte[] value) {
        return HexFormat.of().formatHex(key) + ":" + HexFormat.of().formatHex(value);
    }

    private static TopicPartition partition(Deque<String> q) {
        return new TopicPartition(text(q), (int) number(q));
    }

    private static long number(Deque<String> q) {
        return Long.parseLong(q.remove());
    }

    private static String text(Deque<String> q) {
        return new String(Base64.getDecoder().decode(q.remove()), StandardCharsets.UTF_8);
    }

    /** A producer that keeps what it is given, and never says what became of it. */
    private static final class Outbox extends KafkaProducer<byte[], byte[]> {
        private final List<String> sent = new ArrayList<>();

        Outbox() {
            super(Map.of("bootstrap.servers", "127.0.0.1:1", "reconnect.backoff.ms", 60_000, "reconnect.backoff.max.ms", 60_000),
                new ByteArraySerializer(), new ByteArraySerializer());
        }

        @Override
        public Future<RecordMetadata> send(ProducerRecord<byte[], byte[]> record, Callback callback) {
            if (!record.topic().equals(SYNCS) || record.partition() != 0 || record.timestamp() != null) {
                throw new IllegalStateException(record.toString());
            }
            sent.add(hex(record.key(), record.value()));
            return new CompletableFuture<>();
        }
    }
}
