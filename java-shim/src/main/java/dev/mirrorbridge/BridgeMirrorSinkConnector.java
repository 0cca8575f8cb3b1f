package dev.mirrorbridge;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.Config;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.sink.SinkConnector;

/**
 * MirrorMaker's sink connector of KIP-382, for a Connect cluster that stands at the source. The records do not pass the
 * worker: while Connect runs its task, the service copies, and the group {@code connect-NAME} shows how far. One task: it
 * has all partitions of the group, whatever rebalances.
 */
public final class BridgeMirrorSinkConnector extends SinkConnector {
    private static final String KIND = "sink";

    private final BridgeConnector bridge = new BridgeConnector(KIND);

    @Override
    public String version() {
        return Version.VERSION;
    }

    @Override
    public ConfigDef config() {
        return bridge.definition().configDef;
    }

    @Override
    public Config validate(Map<String, String> connectorConfigs) {
        Config config = Validation.of(bridge.definition(), connectorConfigs);
        String problem = problem(BridgeConnector.withoutNulls(connectorConfigs));
        if (problem != null) {
            // Connect finds it too, and shows our value of the key in place of its own.
            config.configValues().stream()
                .filter(value -> value.name().equals(TOPICS_CONFIG) && !value.errorMessages().contains(problem))
                .forEach(value -> value.addErrorMessage(problem));
        }
        return config;
    }

    @Override
    public void start(Map<String, String> given) {
        bridge.start(given, context, new Pacer(), error -> context().raiseError(error));
    }

    @Override
    public void stop() {
        bridge.stop();
    }

    @Override
    public Class<? extends Task> taskClass() {
        return BridgeSinkTask.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int maxTasks) {
        return bridge.taskConfigs(bridge.isOn("enabled") ? 1 : 0);
    }

    /** The service alters where copying resumes; Connect then alters the offsets of the group. */
    @Override
    public boolean alterOffsets(Map<String, String> config, Map<TopicPartition, Long> offsets) {
        String alias = BridgeConnector.trimmed(config).get("source.cluster.alias");
        List<Map<String, Object>> rows = new ArrayList<>();
        offsets.forEach((partition, offset) -> rows.add(CopyOffsets.row(
            place(alias, partition), offset == null ? null : Map.of("offset", offset - 1))));
        return CopyOffsets.alter(KIND, config, rows, answered -> { });
    }

    private static Map<String, Object> place(String alias, TopicPartition partition) {
        Map<String, Object> place = new HashMap<>();
        place.put("cluster", alias);
        place.put("topic", partition.topic());
        place.put("partition", partition.partition());
        return place;
    }

    /** As Connect has it of sinks, in its words; null where there is none. */
    private static String problem(Map<String, String> props) {
        boolean named = !props.getOrDefault(TOPICS_CONFIG, "").isBlank();
        boolean matched = !props.getOrDefault("topics.regex", "").isBlank();
        if (named && matched) {
            return "topics and topics.regex are mutually exclusive options, but both are set.";
        }
        return named || matched ? null : "Must configure one of topics or topics.regex";
    }
}
