package org.apache.kafka.connect.mirror;

import dev.mirrorbridge.BridgeSourceConnector;
import java.util.List;
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

    /** As of stock's connectors: of one that is not enabled no task runs. */
    @Override
    public List<Map<String, String>> taskConfigs(int maxTasks) {
        return super.taskConfigs(isOn("enabled") ? maxTasks : 0);
    }

    /** It produces no records, so none twice. */
    @Override
    public ExactlyOnceSupport exactlyOnceSupport(Map<String, String> connectorConfig) {
        return ExactlyOnceSupport.SUPPORTED;
    }
}
