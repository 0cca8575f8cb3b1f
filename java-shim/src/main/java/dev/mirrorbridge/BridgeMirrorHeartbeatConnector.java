package dev.mirrorbridge;

import java.util.List;
import java.util.Map;

/** MirrorMaker's heartbeats from the service. As in stock, {@code enabled} is not asked. */
public final class BridgeMirrorHeartbeatConnector extends BridgeSourceConnector {
    public BridgeMirrorHeartbeatConnector() {
        super("heartbeat");
    }

    @Override
    public List<Map<String, String>> taskConfigs(int maxTasks) {
        return super.taskConfigs(isOn("emit.heartbeats.enabled") ? 1 : 0);
    }

    @Override
    protected void checkOffset(Map<String, ?> partition, Map<String, ?> offset) {
        SourceOffsets.requireText(partition, "sourceClusterAlias");
        SourceOffsets.requireText(partition, "targetClusterAlias");
        SourceOffsets.requireZero(partition, offset);
    }
}
