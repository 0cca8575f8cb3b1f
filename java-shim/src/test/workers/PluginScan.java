import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.connector.Connector;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.runtime.isolation.Plugins;

/**
 * Finds the unpacked archive as a worker does, in every discovery mode and beside stock's connect-mirror: full names and
 * both kinds of short names have to resolve, ours to a plugin of its own class loader that knows its keys and its task,
 * also where it is in the package of stock's connectors.
 */
public class PluginScan {
    public static void main(String[] args) throws Exception {
        for (String mode : List.of("service_load", "hybrid_fail", "hybrid_warn", "only_scan")) {
            Plugins plugins = new Plugins(Map.of("plugin.path", args[0], "plugin.discovery", mode));
            for (String ours : List.of("org.apache.kafka.connect.mirror.MirrorGroupOffset",
                "dev.mirrorbridge.BridgeMirrorCheckpoint", "dev.mirrorbridge.BridgeMirrorHeartbeat",
                "dev.mirrorbridge.BridgeMirrorSource")) {
                String simple = ours.substring(ours.lastIndexOf('.') + 1);
                for (String name : List.of(simple, simple + "Connector", ours + "Connector")) {
                    check(plugins, name, ours + "Connector");
                }
            }
            for (String stock : List.of("MirrorSource", "MirrorCheckpoint", "MirrorHeartbeat")) {
                for (String alias : List.of(stock, stock + "Connector")) {
                    same(alias, "org.apache.kafka.connect.mirror." + stock + "Connector",
                        plugins.newConnector(alias).getClass().getName());
                }
            }
            System.out.println(mode + ": ok");
        }
    }

    private static void check(Plugins plugins, String alias, String name) throws Exception {
        Connector ours = plugins.newConnector(alias);
        same(alias, name, ours.getClass().getName());
        same(alias + " loader", "PluginClassLoader", ours.getClass().getClassLoader().getClass().getSimpleName());
        Task task = ours.taskClass().getDeclaredConstructor().newInstance();
        same(alias + " task version", ours.version(), task.version());
        same(alias + " knows bridge.url", true, ours.config().names().contains("bridge.url"));
        same(alias + " finds what is missing", true, ours.validate(Map.of("name", "c")).configValues().stream()
            .anyMatch(value -> value.errorMessages().toString().contains("Missing required configuration")));
    }

    private static void same(String what, Object expected, Object actual) {
        if (!expected.equals(actual)) {
            throw new AssertionError(what + ": expected " + expected + ", found " + actual);
        }
    }
}
