package dev.mirrorbridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.source.SourceRecord;
import org.junit.jupiter.api.Test;

class WrittenBytesTest {
    private final WrittenBytes bytes = new WrittenBytes(Map.of());

    @Test
    void bytesThatWereWrittenAsTheyAreAreRight() {
        assertTrue(bytes.are(record(new byte[3], new byte[5]), metadata(3, 5)));
        assertTrue(bytes.are(record(new byte[3], null), metadata(3, -1)));
        assertTrue(bytes.are(record(new byte[3], new byte[5]), null), "a transform has left it out");
        bytes.check();
    }

    @Test
    void aConverterOfTheWorkersThatIsNotOfBytesIsNamedWithWhatToPut() {
        assertFalse(bytes.are(record(new byte[3], new byte[5]), metadata(57, 5)));
        String message = assertThrows(ConnectException.class, bytes::check).getMessage();
        assertTrue(message.contains("\"key.converter\": \"org.apache.kafka.connect.converters.ByteArrayConverter\""),
            message);
        assertFalse(message.contains("value.converter"), message);
        assertFalse(bytes.are(record(new byte[3], null), metadata(57, 4)), "null has become text");
        assertTrue(assertThrows(ConnectException.class, bytes::check).getMessage()
            .contains("key.converter and value.converter"));
    }

    @Test
    void whatTransformsMakeOfARecordIsTheirOwn() {
        WrittenBytes transformed = new WrittenBytes(Map.of("transforms", "m"));
        assertTrue(transformed.are(record(new byte[3], new byte[5]), metadata(57, 99)));
        transformed.check();
    }

    @Test
    void theTaskFailsWithItsNextPollAndTellsTheServiceNothingOfTheRecord() throws Exception {
        try (FakeService service = FakeService.start()) {
            BridgeSourceTask task = Tasks.started(new FastPacer(), new HashMap<>(Tasks.config(service.url())));
            assertEquals(null, task.poll());
            task.commitRecord(record(new byte[3], new byte[5]), metadata(57, 99));
            task.commit();
            assertEquals(0, service.count("POST", "/v1/connectors/c/tasks/0/ack"));
            assertNotNull(assertThrows(ConnectException.class, task::poll).getMessage());
            task.stop();
        }
    }

    private static SourceRecord record(byte[] key, byte[] value) {
        return new SourceRecord(Map.of("group", "g"), Map.of("offset", 0L), "t", null, null, key, null, value, 1000L);
    }

    private static RecordMetadata metadata(int keySize, int valueSize) {
        return new RecordMetadata(new TopicPartition("t", 0), 17, 0, 0, keySize, valueSize);
    }
}
