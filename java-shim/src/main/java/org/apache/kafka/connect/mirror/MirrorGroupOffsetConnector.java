package org.apache.kafka.connect.mirror;

import dev.mirrorbridge.BridgeSourceConnector;
import java.util.Map;
import org.apache.kafka.connect.source.ExactlyOnceSupport;

/**
 * Keeps the offsets of consumer groups on the target cluster where they are on the source, to the record. It has the name
 * that KIP-1292 gives it, package and all: workers load {@code org.apache.kafka.connect.mirror} from the plugin's own jar
 * first, also with stock's connect-mirror on their class path.
 */
public final class MirrorGroupOffsetConnector extends BridgeSourceConnector {
    public MirrorGroupOffsetConnector() {
        super("group_offset");
    }

    /** It produces no records, so none twice. */
    @Override
    public ExactlyOnceSupport exactlyOnceSupport(Map<String, String> connectorConfig) {
        return ExactlyOnceSupport.SUPPORTED;
    }
}
