package dev.mirrorbridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.mirrorbridge.FakeService.Reply;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.logging.Level;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.sink.SinkRecord;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(20)
class BridgeSinkTaskTest {
    private static final String POLL = "/v1/connectors/c/tasks/0/poll";
    private static final TopicPartition ONE = new TopicPartition("t", 1);
    private static final TopicPartition TWO = new TopicPartition("t", 2);

    private final FakeService service = FakeService.start();
    private final FakeSinkContext context = new FakeSinkContext();
    private final FastPacer pacer = new FastPacer();
    private final BridgeSinkTask task = new BridgeSinkTask() {
        @Override
        Pacer pacer() {
            return pacer;
        }
    };

    @BeforeEach
    void start() {
        Map<String, String> config = Tasks.config(service.url());
        config.put("bridge.kind", "sink");
        config.put("topics", "t");
        task.initialize(context);
        task.start(config);
        context.assigned.addAll(List.of(ONE, TWO));
        task.open(List.of(ONE, TWO));
    }

    @AfterEach
    void close() {
        task.stop();
        service.close();
    }

    /** Connect would deliver the records otherwise. */
    @Test
    void itsPartitionsArePaused() {
        assertEquals(context.assigned, context.pausedPartitions);
    }

    @Test
    void itHasCommittedWhatIsCopied() {
        positions(7, 1, 40);
        put(2);
        Map<?, ?> poll = service.await("POST", POLL).body;
        assertEquals(0L, poll.get("positions"));
        assertFalse(poll.containsKey("offsets"), "it can't read source offsets of Connect");
        // Connect commits nothing beyond where its consumer stands, and this one reads nothing.
        assertEquals(Map.of(ONE, BridgeSinkTask.AHEAD), context.offsets);
        assertEquals(Map.of(ONE, new OffsetAndMetadata(3)), task.preCommit(current(3, 3)), "not set there yet");
        assertEquals(Map.of(ONE, new OffsetAndMetadata(40)), task.preCommit(current(BridgeSinkTask.AHEAD, 3)));
        context.offsets.clear();
        positions(8, 1, 45);
        put(1);
        assertTrue(service.requests.stream().anyMatch(each -> Long.valueOf(7).equals(each.body.get("positions"))));
        assertEquals(Map.of(), context.offsets, "the consumer logs each time that it is set");
        assertEquals(Map.of(ONE, new OffsetAndMetadata(45)), task.preCommit(current(BridgeSinkTask.AHEAD, 3)));
        positions(9, 1, 10);
        put(1);
        assertEquals(Map.of(ONE, new OffsetAndMetadata(10)), task.preCommit(current(BridgeSinkTask.AHEAD, 3)), "reset");
    }

    @Test
    void aPartitionThatIsTakenAwayIsLeftAlone() {
        positions(1, 1, 40);
        put(2);
        task.close(List.of(ONE));
        context.assigned.remove(ONE);
        context.offsets.clear();
        positions(2, 1, 50);
        put(1);
        assertEquals(Map.of(), context.offsets);
        assertEquals(Map.of(), task.preCommit(Map.of(ONE, new OffsetAndMetadata(40))));
        // And set ahead again when it is back: the consumer stands at what the group has committed then.
        context.assigned.add(ONE);
        task.open(List.of(ONE));
        put(1);
        assertEquals(Map.of(ONE, BridgeSinkTask.AHEAD), context.offsets);
        assertEquals(Map.of(ONE, new OffsetAndMetadata(50)), task.preCommit(current(BridgeSinkTask.AHEAD, 3)));
    }

    /** Connect calls put of a paused sink task as of any other. */
    @Test
    void aPausedTaskDoesNotPoll() {
        put(2);
        long before = service.count("POST", POLL);
        try (LogLines log = new LogLines()) {
            context.paused = true;
            put(5);
            assertEquals(before, service.count("POST", POLL));
            context.paused = false;
            put(1);
            assertTrue(service.count("POST", POLL) > before);
            assertEquals(2, log.from(Level.INFO).stream().filter(line -> line.contains("by Connect")).count());
        }
    }

    /** What was committed stays committed: a missing offset would be where the consumer stands. */
    @Test
    void anotherSessionReadsAllPositionsAnew() {
        positions(1, 1, 40);
        put(2);
        service.answers = request -> request.path.equals(POLL)
            ? FakeService.error(404, "unknown_task", "who?") : FakeService.usual(request);
        put(1);
        service.answers = FakeService::usual;
        put(2);
        assertEquals(0L, service.requests.get(service.requests.size() - 1).body.get("positions"));
        assertEquals(Map.of(ONE, new OffsetAndMetadata(40)), task.preCommit(current(BridgeSinkTask.AHEAD, 3)));
    }

    @Test
    void recordsAreDroppedWithAWarning() {
        positions(1, 1, 40);
        put(2);
        context.pausedPartitions.clear();
        context.offsets.clear();
        try (LogLines log = new LogLines()) {
            for (int i = 0; i < 2; i++) {
                task.put(List.of(new SinkRecord("t", 1, null, null, null, null, 5)));
            }
            assertEquals(1, log.from(Level.WARNING).stream().filter(line -> line.contains("changes nothing")).count());
        }
        assertTrue(context.pausedPartitions.contains(ONE));
        assertEquals(Map.of(ONE, BridgeSinkTask.AHEAD), context.offsets, "it has read on from somewhere");
    }

    @Test
    void aFailureOfTheServiceFailsTheTask() {
        service.polls(new Reply(200, "{\"records\":[],\"failure\":\"a gap\",\"held_ms\":0.0}"));
        assertEquals("a gap", assertThrows(ConnectException.class, this::putOnAndOn).getMessage());
    }

    /** On a busy machine a poll may be given up, and is repeated; the timeout of the test interrupts it. */
    private void putOnAndOn() {
        while (!Thread.currentThread().isInterrupted()) {
            put(1);
        }
    }

    /** The timeout is used up by each of Connect's polls, and lost with those that it interrupts. */
    @Test
    void connectsPollsStayShort() {
        for (int i = 0; i < 3; i++) {
            context.timeoutMs = -1;
            while (context.timeoutMs < 0) {
                Tasks.sleep(5);
            }
            assertEquals(ShortPolls.POLL_MS, context.timeoutMs);
        }
        task.stop();
    }

    private void put(int times) {
        for (int i = 0; i < times; i++) {
            task.put(List.of());
        }
    }

    private void positions(long number, int partition, long position) {
        service.polls(new Reply(200, "{\"records\":[],\"failure\":null,\"held_ms\":0.0,\"positions\":{\"number\":" + number
            + ",\"partitions\":[{\"topic\":\"t\",\"partition\":" + partition + ",\"position\":" + position + "}]}}"));
    }

    private static Map<TopicPartition, OffsetAndMetadata> current(long one, long two) {
        Map<TopicPartition, OffsetAndMetadata> current = new HashMap<>();
        current.put(ONE, new OffsetAndMetadata(one));
        current.put(TWO, new OffsetAndMetadata(two));
        return current;
    }
}
