package dev.mirrorbridge;

import static dev.mirrorbridge.OffsetRows.map;
import static dev.mirrorbridge.OffsetRows.refused;
import static dev.mirrorbridge.OffsetRows.with;
import static dev.mirrorbridge.OffsetRows.without;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigValue;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Rows of stock's MirrorCheckpointConnectorTest and MirrorCheckpointConfigTest, by their names. */
class BridgeMirrorCheckpointConnectorTest {
    private static final String CHECKPOINTS =
        "MirrorCheckpointConnector can't run with emit.checkpoints.enabled set to false";
    private static final String SYNCS = "MirrorCheckpointConnector can't run without offset syncs";
    private static final Map<String, Object> PARTITION = map("group", "g", "topic", "A.t", "partition", 3);

    private final BridgeMirrorCheckpointConnector connector = new BridgeMirrorCheckpointConnector();
    private final Map<String, String> props = Tasks.props(Tasks.unusedUrl());

    @AfterEach
    void stop() {
        connector.stop();
    }

    @Test
    void testMirrorCheckpointConnectorDisabled() {
        props.put("emit.checkpoints.enabled", "false");
        connector.start(props);
        assertEquals(List.of(), connector.taskConfigs(1));
    }

    @Test
    void testMirrorCheckpointConnectorEnabled() {
        props.put("emit.checkpoints.enabled", "true");
        connector.start(props);
        assertEquals(1, connector.taskConfigs(1).size());
    }

    @Test
    void testReplicationDisabled() {
        props.put("enabled", " FALSE ");
        connector.start(props);
        assertEquals(List.of(), connector.taskConfigs(1));
    }

    @Test
    void testReplicationEnabled() {
        props.put("enabled", "true");
        connector.start(props);
        List<Map<String, String>> configs = connector.taskConfigs(2);
        assertEquals(2, configs.size());
        assertEquals("checkpoint", configs.get(1).get("bridge.kind"));
        assertEquals("1", configs.get(1).get("task.index"));
    }

    @Test
    void exactlyOnceSupportIsAsStocksNotSaid() {
        assertNull(connector.exactlyOnceSupport(props));
    }

    @ParameterizedTest
    @CsvSource({
        "true, false, true, true, false", "true, true, false, false, true", "true, false, false, true, true",
        "TRUE, ' False ', FALSE, true, true", "true, true, true, false, false",
    })
    void testValidateIfConnectorEnabled(String enabled, String checkpoints, String syncs, boolean first, boolean second) {
        Map<String, List<String>> expected = new HashMap<>();
        if (first) {
            expected.put("emit.checkpoints.enabled", List.of(CHECKPOINTS));
        }
        if (second) {
            expected.put("emit.offset-syncs.enabled", List.of(SYNCS));
        }
        assertEquals(expected, errors(enabled, checkpoints, syncs));
    }

    @ParameterizedTest
    @CsvSource({"false", "FALSE", "' False '"})
    void testSkipValidationIfConnectorDisabled(String enabled) {
        assertEquals(Map.of(), errors(enabled, "false", "false"));
    }

    @Test
    void withoutSyncsWhereNoneAreUsedIsRight() {
        props.put("translation.evidence", "timestamps");
        assertEquals(Map.of(), errors("true", "true", "false"));
    }

    @Test
    void testAlterOffsetsIncorrectPartitionKey() {
        Map<String, Object> partition = map("unused_partition_key", "unused_partition_value");
        refused(connector, partition, map("offset", 0),
            "Source partition " + partition + " is missing the 'group' key, which is required");
        refused(connector, null, map("offset", 0), "Source partitions may not be null");
    }

    @ParameterizedTest
    @CsvSource({"group", "topic", "partition"})
    void testAlterOffsetsMissingPartitionKey(String key) {
        Map<String, Object> partition = without(PARTITION, key);
        refused(connector, partition, map("offset", 0),
            "Source partition " + partition + " is missing the '" + key + "' key, which is required");
    }

    @Test
    void testAlterOffsetsInvalidPartitionPartition() {
        for (Object value : new Object[] {"a string", "3", null, 1.5, ((long) Integer.MAX_VALUE) + 1}) {
            invalidPartition("partition", value, "must be an integer");
        }
        invalidPartition("partition", -2, "cannot be negative");
        invalidPartition("group", 7, "must be a string");
        invalidPartition("topic", null, "must be a string");
        OffsetRows.altered(connector, with(PARTITION, "partition", 3L), map("offset", 0));
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
        OffsetRows.offsetValues(connector, PARTITION);
    }

    @Test
    void testSuccessfulAlterOffsets() {
        OffsetRows.altered(connector, PARTITION, map("offset", 0));
    }

    @Test
    void testAlterOffsetsTombstones() {
        OffsetRows.tombstones(connector, PARTITION);
    }

    private void invalidPartition(String key, Object value, String which) {
        Map<String, Object> partition = with(PARTITION, key, value);
        refused(connector, partition, map("offset", 0), "Source partition " + partition + " has an invalid value " + value
            + " for the '" + key + "' key, which " + which);
    }

    /** With the service away: stock gives these texts always. */
    private Map<String, List<String>> errors(String enabled, String checkpoints, String syncs) {
        props.put("enabled", enabled);
        props.put("emit.checkpoints.enabled", checkpoints);
        props.put("emit.offset-syncs.enabled", syncs);
        Map<String, List<String>> errors = new TreeMap<>();
        for (ConfigValue value : connector.validate(props).configValues()) {
            if (!value.errorMessages().isEmpty()) {
                errors.put(value.name(), value.errorMessages());
            }
        }
        return errors;
    }
}
