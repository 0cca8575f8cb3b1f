package dev.mirrorbridge;

import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.source.ExactlyOnceSupport;

/**
 * MirrorMaker's mirror. Its task carries no records: while it is polled the service copies, past Connect. So there is one
 * task at most; the service's pipeline spreads the work.
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
        Map<String, String> props = withoutNulls(given);
        String all = props.getOrDefault(ISOLATION, "read_committed");
        boolean committed = props.getOrDefault("source." + ISOLATION, all).equals("read_committed");
        return committed ? ExactlyOnceSupport.SUPPORTED : ExactlyOnceSupport.UNSUPPORTED;
    }

    /**
     * False: where copying has come to stands in the offset runs, which these offsets do not change. Connect then says so
     * in its answer: what a connector manages externally has to be altered there.
     */
    @Override
    public boolean alterOffsets(Map<String, String> config, Map<Map<String, ?>, Map<String, ?>> offsets) {
        super.alterOffsets(config, offsets);
        return false;
    }

    @Override
    protected void checkOffset(Map<String, ?> partition, Map<String, ?> offset) {
        SourceOffsets.requireText(partition, "cluster");
        SourceOffsets.requireText(partition, "topic");
        SourceOffsets.requirePartition(partition);
        SourceOffsets.requireNotNegative(partition, offset);
    }
}
