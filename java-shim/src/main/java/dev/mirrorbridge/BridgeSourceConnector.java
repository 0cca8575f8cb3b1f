package dev.mirrorbridge;

import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.Config;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.source.SourceConnector;

/**
 * The base of the source connectors of Mirror Bridge: passes the configuration to the service, and has no rule of mirroring.
 * A concrete connector is a named class with its kind.
 */
public abstract class BridgeSourceConnector extends SourceConnector {
    private final BridgeConnector bridge;

    /** {@code kind} is the service's name of the connector; the jar holds the definition under it. */
    protected BridgeSourceConnector(String kind) {
        this.bridge = new BridgeConnector(kind);
    }

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
        return Validation.of(bridge.definition(), connectorConfigs);
    }

    @Override
    public void start(Map<String, String> given) {
        bridge.start(given, context, pacer(), error -> context().raiseError(error));
    }

    @Override
    public void stop() {
        bridge.stop();
    }

    @Override
    public Class<? extends Task> taskClass() {
        return BridgeSourceTask.class;
    }

    /** The service spreads the work over the tasks. */
    @Override
    public List<Map<String, String>> taskConfigs(int maxTasks) {
        return bridge.taskConfigs(maxTasks);
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

    protected final boolean isOn(String key) {
        return bridge.isOn(key);
    }

    Pacer pacer() {
        return new Pacer();
    }
}
