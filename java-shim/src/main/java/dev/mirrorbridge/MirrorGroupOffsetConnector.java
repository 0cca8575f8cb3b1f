package dev.mirrorbridge;

import java.util.Map;
import org.apache.kafka.connect.source.ExactlyOnceSupport;

/** Keeps the offsets of consumer groups on the target cluster where they are on the source, to the record. */
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
