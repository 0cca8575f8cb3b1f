package dev.mirrorbridge;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.source.ExactlyOnceSupport;

/**
 * MirrorMaker's source connector. Its task delivers no records: while Connect polls it, the service copies without Connect.
 * So there is one task at most; the service's pipeline distributes the work.
 */
public final class BridgeMirrorSourceConnector extends BridgeSourceConnector {
    private static final String ISOLATION = "consumer.isolation.level";

    public BridgeMirrorSourceConnector() {
        super("source");
    }

    @Override
    public List<Map<String, String>> taskConfigs(int maxTasks) {
        return super.taskConfigs(isOn("enabled") ? 1 : 0);
    }

    /** By stock's rule: when the source is read committed, which here it is unless the configuration says otherwise. */
    @Override
    public ExactlyOnceSupport exactlyOnceSupport(Map<String, String> given) {
        Map<String, String> props = BridgeConnector.withoutNulls(given);
        String all = props.getOrDefault(ISOLATION, "read_committed");
        boolean committed = props.getOrDefault("source." + ISOLATION, all).equals("read_committed");
        return committed ? ExactlyOnceSupport.SUPPORTED : ExactlyOnceSupport.UNSUPPORTED;
    }

    /** The service alters where copying resumes. */
    @Override
    public boolean alterOffsets(Map<String, String> config, Map<Map<String, ?>, Map<String, ?>> offsets) {
        super.alterOffsets(config, offsets);
        List<Map<String, Object>> rows = new ArrayList<>();
        offsets.forEach((partition, offset) -> {
            if (partition != null) {
                rows.add(CopyOffsets.row(partition, offset));
            }
        });
        return CopyOffsets.alter("source", config, rows);
    }

    @Override
    protected void checkOffset(Map<String, ?> partition, Map<String, ?> offset) {
        SourceOffsets.requireText(partition, "cluster");
        SourceOffsets.requireText(partition, "topic");
        SourceOffsets.requirePartition(partition);
        SourceOffsets.requireNotNegative(partition, offset);
    }
}
