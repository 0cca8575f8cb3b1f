package dev.mirrorbridge;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.connect.source.ExactlyOnceSupport;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * MirrorMaker's source connector. Its task delivers no records: while Connect polls it, the service copies without Connect.
 * So there is one task at most; the service's pipeline distributes the work.
 */
public final class BridgeMirrorSourceConnector extends BridgeSourceConnector {
    private static final String ISOLATION = "consumer.isolation.level";
    private static final Logger LOG = LoggerFactory.getLogger(BridgeSourceConnector.class);
    /**
     * Outcomes of a partition whose offset Connect stores: its copy begins there, or it is where copying has come to, as
     * mirror-bridge hand-back writes it for the stock connector that goes on.
     */
    private static final Set<String> KEPT = Set.of("handed back", "topic made again", "no such topic", "unchanged");

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
        Map<String, String> props = BridgeConnector.trimmed(given);
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
        return CopyOffsets.alter("source", config, rows, altered -> forget(offsets, config, altered));
    }

    /**
     * Has Connect store no offset of what was copied: the service has that position. DELETE names what Connect has stored, and
     * one altered offset among all that was copied could not be told from a PATCH that takes this one away.
     */
    private static void forget(Map<Map<String, ?>, Map<String, ?>> offsets, Map<String, String> config, List<?> altered) {
        String alias = BridgeConnector.trimmed(config).get("source.cluster.alias");
        Set<List<Object>> copied = new HashSet<>();
        for (Object item : altered) {
            Map<?, ?> row = (Map<?, ?>) item;
            if (!KEPT.contains(row.get("outcome"))) {
                copied.add(Arrays.asList(alias, row.get("topic"), row.get("partition")));
            }
        }
        try {
            for (Map.Entry<Map<String, ?>, Map<String, ?>> given : offsets.entrySet()) {
                if (given.getValue() != null && copied.contains(place(given.getKey()))) {
                    given.setValue(null);
                }
            }
        } catch (UnsupportedOperationException notOfThisWorker) {
            LOG.debug("Connect stores the offsets that the service has altered");
        }
    }

    private static List<Object> place(Map<String, ?> partition) {
        return Arrays.asList(partition.get("cluster"), partition.get("topic"), ((Number) partition.get("partition")).longValue());
    }

    @Override
    protected void checkOffset(Map<String, ?> partition, Map<String, ?> offset) {
        SourceOffsets.requireText(partition, "cluster");
        SourceOffsets.requireText(partition, "topic");
        SourceOffsets.requirePartition(partition);
        SourceOffsets.requireNotNegative(partition, offset);
    }
}
