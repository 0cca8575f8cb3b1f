package dev.mirrorbridge;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import org.apache.kafka.connect.errors.ConnectException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Has the service alter where a connector copies from: the offset runs on the target say that. While it can't be reached
 * the answer is false: Connect then says that offsets which a connector manages externally have to be altered there.
 */
final class CopyOffsets {
    private static final Logger LOG = LoggerFactory.getLogger(BridgeSourceConnector.class);
    /** Below the 90 s after which Connect's REST API gives up. */
    private static final long ALTER_MS = 80_000;

    private CopyOffsets() {
    }

    /** {@code offset}: as Connect stores stock's, that of the last record that was copied; null to delete it. */
    static Map<String, Object> row(Map<String, ?> partition, Map<String, ?> offset) {
        Map<String, Object> row = new HashMap<>();
        row.put("source_partition", partition);
        row.put("source_offset", offset);
        return row;
    }

    /** {@code altered} gets the rows of the service's answer. */
    static boolean alter(String kind, Map<String, String> config, List<Map<String, Object>> rows,
        Consumer<List<?>> altered) {
        Map<String, String> props = BridgeConnector.trimmed(config);
        Settings settings = BridgeConnector.settings(props, Definition.load(kind));
        try (BridgeClient client = new BridgeClient(settings)) {
            Call call = client.alterOffsets(props.get("name"), kind, props, rows, ALTER_MS);
            Answer answer = call.await(ALTER_MS);
            call.cancel();
            if (!altered(answer == null ? Answer.away("no answer in time") : answer, settings, props.get("name"))) {
                return false;
            }
            altered.accept((List<?>) answer.body.get("offsets"));
            return true;
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
}
