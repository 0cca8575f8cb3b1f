package org.apache.kafka.connect.mirror;

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collections;
import java.util.Deque;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.MessageFormatter;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.protocol.types.SchemaException;
import org.apache.kafka.connect.mirror.formatters.CheckpointFormatter;
import org.apache.kafka.connect.mirror.formatters.HeartbeatFormatter;
import org.apache.kafka.connect.mirror.formatters.OffsetSyncFormatter;

/**
 * Stock's store of offset syncs, checkpoint rule, group sync and records, by the line: a command and its tab-separated
 * arguments, in base64 where they are text, "-" for null. Questions have one line of answer each.
 */
public final class StockStore {
    private final BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    private final PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    private OffsetSyncStore store;
    private CheckpointStore checkpoints;
    private MirrorCheckpointTask task;

    public static void main(String[] args) throws Exception {
        StockStore stock = new StockStore();
        if (args.length > 0) {
            stock.bench(Integer.parseInt(args[0]), Integer.parseInt(args[1]), Long.parseLong(args[2]));
        } else {
            stock.answer(false);
        }
        stock.out.flush();
    }

    /** Until the input ends, or, in the start-up of a store, its syncs do. */
    private void answer(boolean startUp) throws Exception {
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Deque<String> q = new ArrayDeque<>(Arrays.asList(line.split("\t", -1)));
            String command = q.remove();
            if (startUp && command.equals("started")) {
                return;
            }
            switch (command) {
                case "store" -> start(q.remove().equals("1"));
                case "sync" -> store.handleRecord(record(new OffsetSync(partition(q), number(q), number(q))));
                case "ask" -> out.println(shown(store.translateDownstream("g", partition(q), number(q))));
                case "state" -> out.println(state(partition(q)));
                case "task" -> newTask(q);
                case "checkpoints" -> out.println(emitted(q));
                case "groupsync" -> out.println(synced(q));
                case "record" -> out.println(printed(q));
                default -> throw new IllegalArgumentException(line);
            }
        }
    }

    private void start(boolean mustReadToEnd) {
        store = new OffsetSyncStore() {
            @Override
            void backingStoreStart() {
                try {
                    answer(true);
                } catch (Exception e) {
                    throw new IllegalStateException(e);
                }
            }
        };
        store.start(mustReadToEnd);
    }

    private String state(TopicPartition partition) {
        List<String> found = new ArrayList<>();
        for (int slot = 0; slot < OffsetSyncStore.SYNCS_PER_PARTITION; slot++) {
            OffsetSync sync = store.syncFor(partition, slot);
            if (slot == 0 || sync != store.syncFor(partition, slot - 1)) {
                found.add(slot + ":" + sync.upstreamOffset() + ":" + sync.downstreamOffset());
            }
        }
        return String.join(" ", found);
    }

    /** A policy's name, and the aliases of source and target. */
    private void newTask(Deque<String> q) {
        checkpoints = new CheckpointStore(new HashMap<>());
        task = task(q, checkpoints, Collections.emptyMap());
    }

    private MirrorCheckpointTask task(
            Deque<String> q, CheckpointStore last, Map<String, Map<TopicPartition, OffsetAndMetadata>> idle) {
        boolean identity = q.remove().equals("identity");
        DefaultReplicationPolicy policy = identity ? new IdentityReplicationPolicy() : new DefaultReplicationPolicy();
        String source = text(q);
        policy.configure(Map.of("source.cluster.alias", source));
        return new MirrorCheckpointTask(source, text(q), policy, store, Set.of(), idle, last);
    }

    /** A group and its committed offsets; what is emitted counts as the last for the next question. */
    private String emitted(Deque<String> q) {
        String group = text(q);
        Map<TopicPartition, Checkpoint> found;
        try {
            found = task.checkpointsForGroup(committed(q), group);
        } catch (IllegalStateException e) {
            return e.getClass().getSimpleName();
        }
        checkpoints.update(group, found);
        List<String> records = new ArrayList<>();
        for (Checkpoint checkpoint : found.values()) {
            records.add(HexFormat.of().formatHex(checkpoint.recordKey())
                + ":" + HexFormat.of().formatHex(checkpoint.recordValue()));
        }
        Collections.sort(records);
        return String.join(" ", records);
    }

    /** A group, its number of checkpoints, these, whether it is in the snapshot of idle groups, its offsets there. */
    private String synced(Deque<String> q) throws Exception {
        String group = text(q);
        Map<TopicPartition, Checkpoint> last = new HashMap<>();
        for (long left = number(q); left > 0; left--) {
            TopicPartition partition = partition(q);
            last.put(partition, new Checkpoint(group, partition, number(q), number(q), text(q)));
        }
        Map<String, Map<TopicPartition, OffsetAndMetadata>> idle = new HashMap<>();
        if (q.remove().equals("1")) {
            idle.put(group, committed(q));
        }
        CheckpointStore read = new CheckpointStore(new HashMap<>(Map.of(group, last)));
        Deque<String> names = new ArrayDeque<>(List.of("default", encoded("A"), encoded("B")));
        List<String> found = new ArrayList<>();
        task(names, read, idle).syncGroupOffset().getOrDefault(group, Map.of()).forEach((partition, offset) -> found.add(
            encoded(partition.topic()) + ":" + partition.partition() + ":" + offset.offset() + ":"
                + encoded(offset.metadata()) + ":" + offset.leaderEpoch().orElse(-1)));
        Collections.sort(found);
        return String.join(" ", found);
    }

    /** What a formatter prints of a key and a value, or "!" where it dies of them. */
    private String printed(Deque<String> q) throws IOException {
        String kind = q.remove();
        try (MessageFormatter formatter = switch (kind) {
            case "Checkpoint" -> new CheckpointFormatter();
            case "Heartbeat" -> new HeartbeatFormatter();
            default -> new OffsetSyncFormatter();
        }) {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            PrintStream print = new PrintStream(bytes, true, StandardCharsets.UTF_8);
            formatter.writeTo(new ConsumerRecord<>("t", 0, 0, bytes(q), bytes(q)), print);
            return Base64.getEncoder().encodeToString(bytes.toByteArray());
        } catch (SchemaException | NullPointerException e) {
            return "!";
        }
    }

    /** Nanoseconds for all syncs, and for one translation by each of them, of a store that is made anew three times. */
    private void bench(int partitions, int each, long step) {
        for (int pass = 0; pass < 3; pass++) {
            long[] applied = new long[1];
            store = new OffsetSyncStore() {
                @Override
                void backingStoreStart() {
                    for (int n = 0; n < each; n++) {
                        List<ConsumerRecord<byte[], byte[]>> batch = new ArrayList<>(partitions);
                        for (int p = 0; p < partitions; p++) {
                            batch.add(record(new OffsetSync(benchPartition(p), n * step, n * step)));
                        }
                        long began = System.nanoTime();
                        batch.forEach(this::handleRecord);
                        applied[0] += System.nanoTime() - began;
                    }
                }
            };
            store.start(false);
            long sum = 0;
            long began = System.nanoTime();
            for (int p = 0; p < partitions; p++) {
                TopicPartition partition = benchPartition(p);
                for (int n = 0; n < each; n++) {
                    sum += store.translateDownstream("g", partition, n * step + 1).orElseThrow();
                }
            }
            out.println(applied[0] + "\t" + (System.nanoTime() - began) + "\t" + sum);
        }
    }

    private static TopicPartition benchPartition(int number) {
        return new TopicPartition("topic-" + number / 10, number % 10);
    }

    private static Map<TopicPartition, OffsetAndMetadata> committed(Deque<String> q) {
        Map<TopicPartition, OffsetAndMetadata> found = new HashMap<>();
        while (!q.isEmpty()) {
            TopicPartition partition = partition(q);
            String offset = q.remove();
            String metadata = text(q);
            found.put(partition, offset.equals("-") ? null : new OffsetAndMetadata(Long.parseLong(offset), metadata));
        }
        return found;
    }

    private static ConsumerRecord<byte[], byte[]> record(OffsetSync sync) {
        return new ConsumerRecord<>("offset-syncs", 0, 0, sync.recordKey(), sync.recordValue());
    }

    private static String shown(OptionalLong answer) {
        return answer.isPresent() ? String.valueOf(answer.getAsLong()) : "-";
    }

    private static TopicPartition partition(Deque<String> q) {
        return new TopicPartition(text(q), (int) number(q));
    }

    private static long number(Deque<String> q) {
        return Long.parseLong(q.remove());
    }

    private static byte[] bytes(Deque<String> q) {
        String field = q.remove();
        return field.equals("-") ? null : HexFormat.of().parseHex(field.substring(1));
    }

    private static String text(Deque<String> q) {
        return new String(Base64.getDecoder().decode(q.remove()), StandardCharsets.UTF_8);
    }

    private static String encoded(String text) {
        return Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8));
    }
}
