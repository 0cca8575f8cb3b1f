package dev.mirrorbridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.errors.ConnectException;

/** Altering offsets as stock's tests do, with the service away: the mirror's positions then stay as they are. */
final class OffsetRows {
    private OffsetRows() {
    }

    static Map<String, Object> map(Object... keysAndValues) {
        Map<String, Object> map = new LinkedHashMap<>();
        for (int i = 0; i < keysAndValues.length; i += 2) {
            map.put((String) keysAndValues[i], keysAndValues[i + 1]);
        }
        return map;
    }

    static Map<String, Object> without(Map<String, Object> map, String key) {
        Map<String, Object> less = new LinkedHashMap<>(map);
        less.remove(key);
        return less;
    }

    static Map<String, Object> with(Map<String, Object> map, String key, Object value) {
        Map<String, Object> more = new LinkedHashMap<>(map);
        more.put(key, value);
        return more;
    }

    static void altered(BridgeSourceConnector connector, Map<String, ?> partition, Map<String, ?> offset) {
        altered(connector, Collections.singletonMap(partition, offset));
    }

    private static void altered(BridgeSourceConnector connector, Map<Map<String, ?>, Map<String, ?>> offsets) {
        boolean inConnect = !(connector instanceof BridgeMirrorSourceConnector);
        assertEquals(inConnect, connector.alterOffsets(Tasks.props(Tasks.unusedUrl()), offsets));
    }

    static void refused(BridgeSourceConnector connector, Map<String, ?> partition, Map<String, ?> offset, String words) {
        assertEquals(words, assertThrows(ConnectException.class,
            () -> connector.alterOffsets(Tasks.props(Tasks.unusedUrl()), Collections.singletonMap(partition, offset))).getMessage());
    }

    static void offsetValues(BridgeSourceConnector connector, Map<String, Object> partition) {
        for (Object value : new Object[] {"nan", null, new Object(), 3.14, "-420", "10", "0"}) {
            Map<String, Object> offset = map("offset", value);
            refused(connector, partition, offset, "Source offset " + offset + " for source partition " + partition
                + " has an invalid value " + value + " for the 'offset' key, which must be an integer");
        }
        for (Object value : new Object[] {-420, 10, ((long) Integer.MAX_VALUE) + 1}) {
            Map<String, Object> offset = map("offset", value);
            refused(connector, partition, offset, "Source offset " + offset + " for source partition " + partition
                + " has an invalid value " + value + " for the 'offset' key; the only accepted value is 0");
        }
        altered(connector, partition, map("offset", 0));
        altered(connector, partition, map("offset", 0L));
    }

    static void incorrectOffsetKey(BridgeSourceConnector connector, Map<String, Object> partition) {
        for (Map<String, Object> offset : List.of(map("unused_offset_key", 0), map())) {
            refused(connector, partition, offset, "Source offset " + offset + " for source partition " + partition
                + " is missing the 'offset' key, which is required");
        }
    }

    static void multiplePartitions(BridgeSourceConnector connector, Map<String, Object> right, Map<String, Object> wrong) {
        Map<Map<String, ?>, Map<String, ?>> offsets = new HashMap<>();
        offsets.put(right, map("offset", 0));
        altered(connector, offsets);
        offsets.put(wrong, map("offset", 0));
        assertThrows(ConnectException.class, () -> connector.alterOffsets(Tasks.props(Tasks.unusedUrl()), offsets));
    }

    static void tombstones(BridgeSourceConnector connector, Map<String, Object> right) {
        altered(connector, null, null);
        altered(connector, map(), null);
        altered(connector, map("unused_partition_key", "unused_partition_value"), null);
        altered(connector, right, null);
        refused(connector, null, map("offset", 0), "Source partitions may not be null");
    }
}
