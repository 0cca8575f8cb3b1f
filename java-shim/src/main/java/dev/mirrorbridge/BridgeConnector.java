package dev.mirrorbridge;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.connect.errors.ConnectException;

/** What source and sink connectors of Mirror Bridge have in common: their definition, and registering at the service. */
final class BridgeConnector {
    final String kind;
    private Definition definition;
    private Map<String, String> props = Map.of();
    private Registration registration;

    /** {@code kind} is the service's name of the connector; the jar holds the definition under it. */
    BridgeConnector(String kind) {
        this.kind = kind;
    }

    synchronized Definition definition() {
        if (definition == null) {
            definition = Definition.load(kind);
        }
        return definition;
    }

    /** Does no network calls: a thread of its own registers the connector at the service, for as long as that takes. */
    void start(Map<String, String> given, Object context, Pacer pacer, Consumer<ConnectException> raise) {
        WorkerCluster.learn(WorkerCluster.of(context));
        props = Map.copyOf(trimmed(given));
        registration = new Registration(kind, props, settings(props, definition()), pacer, raise);
        registration.start();
    }

    void stop() {
        if (registration != null) {
            registration.stop();
        }
    }

    /**
     * Static: any change restarts all tasks, and this runs on the worker's own tick thread. The keys are the
     * connector's own, so that Connect keeps references to secrets unresolved in its config topic.
     */
    List<Map<String, String>> taskConfigs(int count) {
        List<Map<String, String>> configs = new ArrayList<>();
        for (int index = 0; index < count; index++) {
            Map<String, String> config = new HashMap<>(props);
            config.put(BridgeSourceTask.KIND, kind);
            config.put(BridgeSourceTask.INDEX, Integer.toString(index));
            config.put(BridgeSourceTask.COUNT, Integer.toString(count));
            if (WorkerCluster.id() != null) {
                config.put(BridgeSourceTask.CLUSTER, WorkerCluster.id());
            }
            configs.add(config);
        }
        return configs;
    }

    /** The value of a BOOLEAN key, or its default. */
    boolean isOn(String key) {
        String given = props.get(key);
        return (Boolean) (given == null ? definition().configDef.configKeys().get(key).defaultValue
            : ConfigDef.parseType(key, given, ConfigDef.Type.BOOLEAN));
    }

    static Settings settings(Map<String, String> props, Definition definition) {
        Settings settings;
        try {
            settings = Settings.from(props);
        } catch (ConfigException e) {
            throw new ConnectException(e.getMessage());
        }
        String refusal = settings.refusal(props, definition);
        if (refusal != null) {
            throw new ConnectException(refusal);
        }
        return settings;
    }

    /** As ConfigDef reads them, whoever reads one by itself. The name stays as Connect has it. */
    static Map<String, String> trimmed(Map<String, String> given) {
        Map<String, String> props = withoutNulls(given);
        props.replaceAll((key, value) -> key.equals("name") ? value : value.trim());
        return props;
    }

    static Map<String, String> withoutNulls(Map<String, String> given) {
        Map<String, String> props = new HashMap<>(given);
        props.values().removeIf(value -> value == null);
        return props;
    }
}
