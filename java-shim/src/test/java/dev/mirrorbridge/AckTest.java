package dev.mirrorbridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.source.SourceRecord;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class AckTest {
    private static final String ACK = "/v1/connectors/c/tasks/0/ack";

    private final FakeService service = FakeService.start();
    private final BridgeSourceTask task = Tasks.started(new FastPacer(), Tasks.config(service.url()));

    @AfterEach
    void close() {
        task.stop();
        service.close();
    }

    @Test
    void commitRecordOnlyQueuesAndCommitTells() throws Exception {
        task.poll();
        task.commitRecord(record("g", 0), metadata(41));
        task.commitRecord(record("g", 1), metadata(42));
        task.commitRecord(record("h", 0), null);
        assertEquals(0, service.count("POST", ACK));
        task.commit();
        List<Map<?, ?>> acked = new ArrayList<>();
        for (Object item : (List<?>) service.await("POST", ACK).body.get("acked")) {
            Map<?, ?> ack = (Map<?, ?>) item;
            assertTrue((Long) ack.remove("age_ms") >= 0);
            acked.add(ack);
        }
        assertEquals(List.of(
            Map.of("source_partition", Map.of("group", "g"), "source_offset", Map.of("offset", 1L),
                "topic", "t", "partition", 0L, "offset", 42L, "timestamp", 1001L),
            Map.of("source_partition", Map.of("group", "h"), "source_offset", Map.of("offset", 0L),
                "timestamp", 1000L)), acked);
        task.commit();
        assertEquals(1, service.count("POST", ACK));
    }

    /** The service hands out so many unwritten records and no more; Connect commits once a minute by default. */
    @Test
    void aPollTellsWhatHasBeenWrittenSince() throws Exception {
        task.poll();
        task.commitRecord(record("g", 0), metadata(41));
        task.poll();
        // Told again only where the answer did not come in time, on a busy machine.
        long told = 0;
        for (int i = 0; i < 20 && told < service.count("POST", ACK); i++) {
            told = service.count("POST", ACK);
            task.poll();
        }
        assertTrue(told > 0);
        assertEquals(told, service.count("POST", ACK));
    }

    @Test
    void anAckThatHangsHoldsAPollNoLongerThanASecond() throws Exception {
        task.poll();
        service.answers = request -> FakeService.HANG;
        task.commitRecord(record("g", 0), metadata(41));
        long began = System.nanoTime();
        task.poll();
        assertTrue(System.nanoTime() - began < 5_000_000_000L);
    }

    @Test
    void ofTwoThatFlushAtATimeOneDoes() throws Exception {
        task.poll();
        service.answers = request -> {
            Tasks.sleep(100);
            return FakeService.usual(request);
        };
        task.commitRecord(record("g", 0), metadata(41));
        Thread other = new Thread(() -> {
            try {
                task.commit();
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        });
        other.start();
        service.await("POST", ACK);
        task.commit();
        other.join();
        assertEquals(1, service.count("POST", ACK));
    }

    @Test
    void aCommitThatFailsKeepsTheQueue() throws Exception {
        task.poll();
        service.answers = request -> FakeService.error(503, "overloaded", "full");
        task.commitRecord(record("g", 0), metadata(41));
        task.commit();
        service.answers = FakeService::usual;
        task.commit();
        assertEquals(2, service.count("POST", ACK));
    }

    @Test
    void aCommitIsBoundedThoughTheServiceHangs() throws Exception {
        task.poll();
        service.answers = request -> FakeService.HANG;
        task.commitRecord(record("g", 0), metadata(41));
        long began = System.nanoTime();
        task.commit();
        assertTrue(System.nanoTime() - began < 5_000_000_000L);
    }

    @Test
    void withTheServiceAwayACommitIsNoCall() throws Exception {
        task.commitRecord(record("g", 0), metadata(41));
        task.commit();
        assertEquals(List.of(), service.requests);
    }

    @Test
    void theQueueIsBounded() {
        AckQueue queue = new AckQueue();
        for (int i = 0; i < AckQueue.LIMIT + 5; i++) {
            queue.add(record("g" + i, 0), null);
        }
        assertEquals(Map.of("group", "g5"), queue.next().get(0).body().get("source_partition"));
        int told = 0;
        for (List<AckQueue.Ack> part = queue.next(); !part.isEmpty(); part = queue.next()) {
            assertTrue(part.size() <= AckQueue.AT_ONCE);
            told += part.size();
            queue.accepted(part);
        }
        assertEquals(AckQueue.LIMIT, told);
    }

    /** A body that the service refuses for its size would be refused again each time, and the task would stand still. */
    @Test
    void aCallOfTheLongestNamesIsSmallerThanTheServiceTakes() {
        AckQueue queue = new AckQueue();
        String group = "g".repeat(255);
        String topic = "t".repeat(249);
        for (int i = 0; i < AckQueue.AT_ONCE; i++) {
            Map<String, Object> partition = Map.of("group", group, "topic", topic, "partition", i);
            queue.add(new SourceRecord(partition, Map.of("offset", 0L), topic, null, null, null, null, null, 1L), null);
        }
        List<Object> bodies = queue.next().stream().map(AckQueue.Ack::body).collect(Collectors.toList());
        assertEquals(AckQueue.AT_ONCE, bodies.size());
        assertTrue(Json.write(bodies).length() < 1 << 20);
    }

    @Test
    void whatIsAddedDuringACommitStays() {
        AckQueue queue = new AckQueue();
        queue.add(record("g", 0), null);
        List<AckQueue.Ack> told = queue.next();
        queue.add(record("g", 1), null);
        queue.accepted(told);
        assertEquals(Map.of("offset", 1L), queue.next().get(0).body().get("source_offset"));
    }

    private static SourceRecord record(String group, long offset) {
        return new SourceRecord(Map.of("group", group), Map.of("offset", offset), "t", null, null, null, null, null,
            1000 + offset);
    }

    private static RecordMetadata metadata(long offset) {
        return new RecordMetadata(new TopicPartition("t", 0), offset, 0, 0, -1, -1);
    }
}
