package dev.mirrorbridge;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.source.ExactlyOnceSupport;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * MirrorMaker's source connector. Its task delivers no records: while Connect polls it, the service copies without Connect.
 * So there is one task at most; the service's pipeline distributes the work.
 */
public final class BridgeMirrorSourceConnector extends BridgeSourceConnector {
    private static final Logger LOG = LoggerFactory.getLogger(BridgeSourceConnector.class);
    private static final String ISOLATION = "consumer.isolation.level";
    /** Below the 90 s after which Connect's REST API gives up. */
    private static final long ALTER_MS = 80_000;

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
     * The service alters the offset runs, which say where copying resumes. While it can't be reached the answer is false:
     * Connect then says that offsets which a connector manages externally have to be altered there.
     */
    @Override
    public boolean alterOffsets(Map<String, String> config, Map<Map<String, ?>, Map<String, ?>> offsets) {
        super.alterOffsets(config, offsets);
        Map<String, String> props = withoutNulls(config);
        Settings settings = settings(props, Definition.load("source"));
        try (BridgeClient client = new BridgeClient(settings)) {
            Call call = client.alterOffsets(props.get("name"), props, rows(offsets), ALTER_MS);
            Answer answer = call.await(ALTER_MS);
            call.cancel();
            return altered(answer == null ? Answer.away("no answer in time") : answer, settings, props.get("name"));
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new ConnectException("Interrupted while the offsets were altered; some may be");
        }
    }

    private static boolean altered(Answer answer, Settings settings, String name) {
        if (answer.kind == Answer.Kind.OK) {
            return true;
        }
        if (answer.kind == Answer.Kind.AWAY && !answer.body.containsKey("error_code")) {
            LOG.warn("{}: the service at {} can't be reached ({}), so that only Connect's own offsets are altered; copying "
                + "resumes where it stopped. Use mirror-bridge reset", name, settings, answer.words);
            return false;
        }
        throw new ConnectException("The offsets are not altered: " + answer.words);
    }

    private static List<Map<String, Object>> rows(Map<Map<String, ?>, Map<String, ?>> offsets) {
        List<Map<String, Object>> rows = new ArrayList<>();
        offsets.forEach((partition, offset) -> {
            if (partition != null) {
                Map<String, Object> row = new HashMap<>();
                row.put("source_partition", partition);
                row.put("source_offset", offset);
                rows.add(row);
            }
        });
        return rows;
    }

    @Override
    protected void checkOffset(Map<String, ?> partition, Map<String, ?> offset) {
        SourceOffsets.requireText(partition, "cluster");
        SourceOffsets.requireText(partition, "topic");
        SourceOffsets.requirePartition(partition);
        SourceOffsets.requireNotNegative(partition, offset);
    }
}
