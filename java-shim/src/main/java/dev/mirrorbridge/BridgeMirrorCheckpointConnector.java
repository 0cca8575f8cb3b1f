package dev.mirrorbridge;

import java.util.List;
import java.util.Map;

/** MirrorMaker's checkpoints, and group offsets on the target, from the service. */
public final class BridgeMirrorCheckpointConnector extends BridgeSourceConnector {
    public BridgeMirrorCheckpointConnector() {
        super("checkpoint");
    }

    @Override
    public List<Map<String, String>> taskConfigs(int maxTasks) {
        return super.taskConfigs(isOn("enabled") && isOn("emit.checkpoints.enabled") ? maxTasks : 0);
    }

    @Override
    protected void checkOffset(Map<String, ?> partition, Map<String, ?> offset) {
        SourceOffsets.requireText(partition, "group");
        SourceOffsets.requireText(partition, "topic");
        SourceOffsets.requirePartition(partition);
        SourceOffsets.requireZero(partition, offset);
    }
}
