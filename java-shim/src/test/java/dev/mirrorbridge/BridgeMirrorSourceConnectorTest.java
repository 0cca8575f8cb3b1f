package dev.mirrorbridge;

import static dev.mirrorbridge.OffsetRows.altered;
import static dev.mirrorbridge.OffsetRows.map;
import static dev.mirrorbridge.OffsetRows.refused;
import static dev.mirrorbridge.OffsetRows.with;
import static dev.mirrorbridge.OffsetRows.without;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.logging.Level;
import org.apache.kafka.common.config.ConfigValue;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.source.ExactlyOnceSupport;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Rows of stock's MirrorSourceConnectorTest, by their names. */
class BridgeMirrorSourceConnectorTest {
    private static final Map<String, Object> PARTITION = map("cluster", "A", "topic", "t", "partition", 3);

    private final BridgeMirrorSourceConnector connector = new BridgeMirrorSourceConnector();
    private final Map<String, String> props = Tasks.props(Tasks.unusedUrl());

    @AfterEach
    void stop() {
        connector.stop();
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 8})
    void thereIsOneTaskWhateverIsAllowed(int most) {
        connector.start(props);
        List<Map<String, String>> configs = connector.taskConfigs(most);
        assertEquals(1, configs.size());
        assertEquals("source", configs.get(0).get("bridge.kind"));
        assertEquals("1", configs.get(0).get("task.count"));
    }

    @ParameterizedTest
    @ValueSource(strings = {"false", " FALSE "})
    void notEnabledThereIsNone(String value) {
        props.put("enabled", value);
        connector.start(props);
        assertEquals(List.of(), connector.taskConfigs(3));
    }

    /** Given neither, stock's consumer reads what is not committed too, and ours does not. */
    @ParameterizedTest
    @CsvSource(nullValues = "-", value = {
        "-, -, true", "read_committed, -, true", "-, read_committed, true", "read_uncommitted, read_committed, true",
        "read_committed, read_committed, true", "garbage, read_committed, true", "read_uncommitted, -, false",
        "-, read_uncommitted, false", "read_committed, read_uncommitted, false", "read_committed, garbage, false",
        "garbage, -, false", "-, garbage, false", "read_uncommitted, read_uncommitted, false", "' read_committed\t', -, true", "-, 'read_committed ', true",
    })
    void testExactlyOnceSupport(String consumer, String sourceConsumer, boolean supported) {
        props.put("consumer.isolation.level", consumer);
        props.put("source.consumer.isolation.level", sourceConsumer);
        props.put("source.cluster.isolation.level", "read_uncommitted");
        assertEquals(supported ? ExactlyOnceSupport.SUPPORTED : ExactlyOnceSupport.UNSUPPORTED,
            connector.exactlyOnceSupport(props));
    }

    @Test
    void speculationIsRefusedWithTheServiceAwayToo() {
        props.put("spark.speculation", "TRUE");
        List<String> errors = connector.validate(props).configValues().stream()
            .filter(value -> value.name().equals("spark.speculation")).findFirst()
            .map(ConfigValue::errorMessages).orElseThrow();
        assertEquals(1, errors.size());
        assertEquals(0, errors.get(0).indexOf("spark.speculation must be false or absent"));
    }

    @Test
    void testAlterOffsetsIncorrectPartitionKey() {
        Map<String, Object> partition = map("unused_partition_key", "unused_partition_value");
        refused(connector, partition, map("offset", 0),
            "Source partition " + partition + " is missing the 'cluster' key, which is required");
        refused(connector, null, map("offset", 0), "Source partitions may not be null");
    }

    @ParameterizedTest
    @CsvSource({"cluster", "topic", "partition"})
    void testAlterOffsetsMissingPartitionKey(String key) {
        Map<String, Object> partition = without(PARTITION, key);
        refused(connector, partition, map("offset", 0),
            "Source partition " + partition + " is missing the '" + key + "' key, which is required");
    }

    @Test
    void testAlterOffsetsInvalidPartitionPartition() {
        for (Object value : new Object[] {"a string", "3", null, 1.5}) {
            invalid("partition", value, "must be an integer");
        }
        invalid("partition", -2, "cannot be negative");
        invalid("cluster", 7, "must be a string");
        invalid("topic", null, "must be a string");
    }

    @Test
    void testAlterOffsetsMultiplePartitions() {
        OffsetRows.multiplePartitions(connector, PARTITION, with(PARTITION, "partition", -1));
    }

    @Test
    void testAlterOffsetsIncorrectOffsetKey() {
        OffsetRows.incorrectOffsetKey(connector, PARTITION);
    }

    @Test
    void testAlterOffsetsOffsetValues() {
        for (Object value : new Object[] {"nan", null, new Object(), 3.14, "-420", "10"}) {
            refusedOffset(value, "must be an integer");
        }
        refusedOffset(-420, "cannot be negative");
        for (Object value : new Object[] {0, 10, 10L, ((long) Integer.MAX_VALUE) + 1}) {
            altered(connector, PARTITION, map("offset", value));
        }
    }

    @Test
    void testSuccessfulAlterOffsets() {
        altered(connector, PARTITION, map("offset", 42));
    }

    @Test
    void testAlterOffsetsTombstones() {
        OffsetRows.tombstones(connector, PARTITION);
    }

    @Test
    void theServiceAltersWhereCopyingGoesOn() {
        try (FakeService service = FakeService.start()) {
            service.answers = request -> new FakeService.Reply(200, "{\"offsets\":[]}");
            Map<Map<String, ?>, Map<String, ?>> offsets = new HashMap<>();
            offsets.put(PARTITION, map("offset", 41));
            offsets.put(with(PARTITION, "partition", 4), null);
            assertTrue(connector.alterOffsets(Tasks.props(service.url()), offsets));
            FakeService.Request request = service.await("POST", "/v1/connectors/c/offsets");
            assertEquals("c", ((Map<?, ?>) request.body.get("config")).get("name"));
            assertEquals(2, ((List<?>) request.body.get("offsets")).size());
            assertTrue(connector.alterOffsets(Tasks.props(service.url()), Map.of()), "DELETE");
            assertEquals(List.of(), service.await("POST", "/v1/connectors/c/offsets").body.get("offsets"));
        }
    }

    /** So that DELETE, for which Connect lists what it has stored, means all that was copied. */
    @Test
    void connectStoresNoOffsetOfWhatTheServiceHasAltered() {
        try (FakeService service = FakeService.start()) {
            String row = "{\"topic\":\"t\",\"partition\":%d,\"target_topic\":\"A.t\",\"position\":9,\"to\":5,\"outcome\":\"%s\"}";
            service.answers = request -> new FakeService.Reply(200, "{\"offsets\":[" + String.join(",",
                String.format(row, 3, "copied again"), String.format(row, 4, "skipped"), String.format(row, 5, "unchanged"),
                String.format(row, 6, "handed back")) + "]}");
            Map<Map<String, ?>, Map<String, ?>> offsets = new HashMap<>();
            for (int partition = 3; partition < 8; partition++) {
                offsets.put(with(PARTITION, "partition", (long) partition), map("offset", 41L));
            }
            offsets.put(with(with(PARTITION, "partition", 3), "cluster", "other"), map("offset", 41L));
            Map<String, String> flow = Tasks.props(service.url());
            flow.put("source.cluster.alias", " A\t");
            assertTrue(connector.alterOffsets(flow, offsets));
            for (long partition = 3; partition < 8; partition++) {
                assertEquals(partition < 5 ? null : map("offset", 41L), offsets.get(with(PARTITION, "partition", partition)));
            }
            assertEquals(map("offset", 41L), offsets.get(with(with(PARTITION, "partition", 3), "cluster", "other")));
        }
    }

    @ParameterizedTest
    @CsvSource({"409, refused", "503, kafka", "400, bad_config", "401, unauthorized", "404, no_such_route", "500, internal"})
    void whatTheServiceRefusesIsNotAltered(int status, String code) {
        try (FakeService service = FakeService.start()) {
            service.answers = request -> FakeService.error(status, code, "why");
            assertEquals("The offsets are not altered: why", assertThrows(ConnectException.class,
                () -> connector.alterOffsets(Tasks.props(service.url()), Map.of())).getMessage());
        }
    }

    @Test
    void withTheServiceAwayConnectSaysThatOffsetsAreManagedElsewhere() {
        try (LogLines log = new LogLines()) {
            assertFalse(connector.alterOffsets(props, Map.of()));
            List<String> warnings = log.from(Level.WARNING);
            assertEquals(1, warnings.size());
            assertTrue(warnings.get(0).contains("can't be reached (connection refused), so that only Connect's own"));
        }
    }

    private void invalid(String key, Object value, String which) {
        Map<String, Object> partition = with(PARTITION, key, value);
        refused(connector, partition, map("offset", 0), "Source partition " + partition + " has an invalid value " + value
            + " for the '" + key + "' key, which " + which);
    }

    private void refusedOffset(Object value, String which) {
        Map<String, Object> offset = map("offset", value);
        refused(connector, PARTITION, offset, "Source offset " + offset + " for source partition " + PARTITION
            + " has an invalid value " + value + " for the 'offset' key, which " + which);
    }
}
