package dev.mirrorbridge;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.Config;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.source.SourceConnector;

/**
 * The base of all connectors of Mirror Bridge: passes the configuration to the service, and has no rule of mirroring.
 * A concrete connector is a named class with its kind.
 */
public abstract class BridgeSourceConnector extends SourceConnector {
    private final String kind;
    private Definition definition;
    private Map<String, String> props = Map.of();
    private Registration registration;

    /** {@code kind} is the service's name of the connector; the jar holds the definition under it. */
    protected BridgeSourceConnector(String kind) {
        this.kind = kind;
    }

    @Override
    public String version() {
        return Version.VERSION;
    }

    @Override
    public ConfigDef config() {
        return definition().configDef;
    }

    @Override
    public Config validate(Map<String, String> connectorConfigs) {
        return Validation.of(definition(), connectorConfigs);
    }

    /** Does no network calls: a thread of its own registers the connector at the service, for as long as that takes. */
    @Override
    public void start(Map<String, String> given) {
        props = Map.copyOf(withoutNulls(given));
        Settings settings = settings(props, definition());
        registration = new Registration(kind, props, settings, pacer(), error -> context().raiseError(error));
        registration.start();
    }

    @Override
    public void stop() {
        if (registration != null) {
            registration.stop();
        }
    }

    @Override
    public Class<? extends Task> taskClass() {
        return BridgeSourceTask.class;
    }

    /**
     * Static: any change restarts all tasks, and this runs on the worker's own tick thread. The service spreads the
     * work over the tasks. The keys are the connector's own, so that Connect keeps references to secrets unresolved in
     * its config topic.
     */
    @Override
    public List<Map<String, String>> taskConfigs(int maxTasks) {
        List<Map<String, String>> configs = new ArrayList<>();
        for (int index = 0; index < maxTasks; index++) {
            Map<String, String> config = new HashMap<>(props);
            config.put(BridgeSourceTask.KIND, kind);
            config.put(BridgeSourceTask.INDEX, Integer.toString(index));
            config.put(BridgeSourceTask.COUNT, Integer.toString(maxTasks));
            configs.add(config);
        }
        return configs;
    }

    /** As stock: deleting an offset is always right, whatever the partition looks like. */
    @Override
    public boolean alterOffsets(Map<String, String> config, Map<Map<String, ?>, Map<String, ?>> offsets) {
        offsets.forEach((partition, offset) -> {
            if (offset != null) {
                if (partition == null) {
                    throw new ConnectException("Source partitions may not be null");
                }
                checkOffset(partition, offset);
            }
        });
        return true;
    }

    /** Throws if that is no offset of this connector; one that produces no records has none. */
    protected void checkOffset(Map<String, ?> partition, Map<String, ?> offset) {
        throw new ConnectException(getClass().getSimpleName() + " keeps no source offsets in Connect; source partition "
            + partition + " can only be deleted");
    }

    /** The value of a BOOLEAN key, or its default. */
    protected final boolean isOn(String key) {
        String given = props.get(key);
        return (Boolean) (given == null ? config().configKeys().get(key).defaultValue
            : ConfigDef.parseType(key, given, ConfigDef.Type.BOOLEAN));
    }

    Pacer pacer() {
        return new Pacer();
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

    static Map<String, String> withoutNulls(Map<String, String> given) {
        Map<String, String> props = new HashMap<>(given);
        props.values().removeIf(value -> value == null);
        return props;
    }

    private synchronized Definition definition() {
        if (definition == null) {
            definition = Definition.load(kind);
        }
        return definition;
    }
}
