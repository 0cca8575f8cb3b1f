package dev.mirrorbridge;

import static dev.mirrorbridge.OffsetRows.map;
import static dev.mirrorbridge.OffsetRows.refused;
import static dev.mirrorbridge.OffsetRows.with;
import static dev.mirrorbridge.OffsetRows.without;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Rows of stock's MirrorHeartBeatConnectorTest, by their names. */
class BridgeMirrorHeartbeatConnectorTest {
    private static final Map<String, Object> PARTITION = map("sourceClusterAlias", "A", "targetClusterAlias", "B");

    private final BridgeMirrorHeartbeatConnector connector = new BridgeMirrorHeartbeatConnector();
    private final Map<String, String> props = Tasks.props(Tasks.unusedUrl());

    @AfterEach
    void stop() {
        connector.stop();
    }

    @ParameterizedTest
    @CsvSource({"false", "FALSE", "' False'"})
    void testMirrorHeartbeatConnectorDisabled(String value) {
        props.put("emit.heartbeats.enabled", value);
        connector.start(props);
        assertEquals(List.of(), connector.taskConfigs(1));
    }

    @Test
    void testReplicationDisabled() {
        props.put("enabled", "false");
        connector.start(props);
        assertEquals(1, connector.taskConfigs(1).size());
    }

    @Test
    void thereIsOneTaskAtMost() {
        connector.start(props);
        List<Map<String, String>> configs = connector.taskConfigs(8);
        assertEquals(1, configs.size());
        assertEquals("heartbeat", configs.get(0).get("bridge.kind"));
        assertEquals("1", configs.get(0).get("task.count"));
    }

    @Test
    void exactlyOnceSupportIsAsStocksNotSaid() {
        assertNull(connector.exactlyOnceSupport(props));
    }

    @Test
    void testAlterOffsetsIncorrectPartitionKey() {
        Map<String, Object> partition = map("unused_partition_key", "unused_partition_value");
        refused(connector, partition, map("offset", 0),
            "Source partition " + partition + " is missing the 'sourceClusterAlias' key, which is required");
        refused(connector, null, map("offset", 0), "Source partitions may not be null");
    }

    @ParameterizedTest
    @CsvSource({"sourceClusterAlias", "targetClusterAlias"})
    void testAlterOffsetsMissingPartitionKey(String key) {
        Map<String, Object> partition = without(PARTITION, key);
        refused(connector, partition, map("offset", 0),
            "Source partition " + partition + " is missing the '" + key + "' key, which is required");
        Map<String, Object> number = with(PARTITION, key, 1);
        refused(connector, number, map("offset", 0), "Source partition " + number
            + " has an invalid value 1 for the '" + key + "' key, which must be a string");
    }

    @Test
    void testAlterOffsetsMultiplePartitions() {
        OffsetRows.multiplePartitions(connector, PARTITION, without(PARTITION, "sourceClusterAlias"));
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
}
