import java.io.File;
import java.io.IOException;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.jar.JarFile;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.runtime.ConnectorConfig;
import org.apache.kafka.connect.runtime.SourceConnectorConfig;
import org.apache.kafka.connect.runtime.isolation.Plugins;

/** Prints every key that Kafka's own jars define for connectors and clients: whose it is, a tab, its name. */
public final class KeysOfJava {
    private static final String MIRROR = "org.apache.kafka.connect.mirror.Mirror";

    private KeysOfJava() {
    }

    /** Of the directory of jars that is given, or, without one, of connectors and clients by whose they are. */
    public static void main(String[] args) throws ReflectiveOperationException, IOException {
        if (args.length > 0) {
            for (File jar : new File(args[0]).listFiles((directory, name) -> name.endsWith(".jar"))) {
                printAll(jar);
            }
            return;
        }
        print("admin", AdminClientConfig.configDef());
        print("consumer", ConsumerConfig.configDef());
        print("producer", ProducerConfig.configDef());
        print("connect", SourceConnectorConfig.configDef());
        print("connect with aliases", enriched());
        for (String kind : List.of("Source", "Checkpoint", "Heartbeat")) {
            print(kind, field(kind + "Config", "CONNECTOR_CONFIG_DEF"));
        }
        for (String kind : List.of("Source", "Checkpoint")) {
            print(kind, field(kind + "TaskConfig", "TASK_CONFIG_DEF"));
        }
    }

    /** Keys in the constants of every class of Kafka's that is named like a configuration: definitions, and names. */
    private static void printAll(File file) throws IOException {
        try (JarFile jar = new JarFile(file)) {
            for (String path : jar.stream().map(Object::toString).toList()) {
                if (path.startsWith("org/apache/kafka/") && path.contains("Config") && path.endsWith(".class")) {
                    printConstants(path.substring(0, path.length() - ".class".length()).replace('/', '.'));
                }
            }
        }
    }

    private static void printConstants(String name) {
        try {
            for (Field field : Class.forName(name).getDeclaredFields()) {
                if (Modifier.isStatic(field.getModifiers())) {
                    field.setAccessible(true);
                    Object value = field.get(null);
                    if (value instanceof ConfigDef keys) {
                        print(name, keys);
                    } else if (value instanceof String text && field.getName().matches(".*_(CONFIG|NAME)")) {
                        System.out.println(name + "\t" + text);
                    }
                }
            }
        } catch (ReflectiveOperationException | LinkageError missing) {
            // Of a class that needs jars which are not there.
        }
    }

    /** With the keys of a transformation, of a predicate, and of topics that Connect makes. */
    private static ConfigDef enriched() {
        String transforms = "org.apache.kafka.connect.transforms.";
        Map<String, String> props = new HashMap<>(Map.of(
            "transforms", "t", "transforms.t.type", transforms + "MaskField$Value", "transforms.t.predicate", "p",
            "predicates", "p", "predicates.p.type", transforms + "predicates.TopicNameMatches",
            "topic.creation.groups", "g", "topic.creation.default.partitions", "1",
            "topic.creation.default.replication.factor", "1"));
        ConfigDef base = SourceConnectorConfig.embedDefaultGroup(SourceConnectorConfig.configDef());
        ConfigDef withTopics = SourceConnectorConfig.enrich(base, props, new AbstractConfig(
            SourceConnectorConfig.embedDefaultGroup(new ConfigDef()), props, false));
        return ConnectorConfig.enrich(new Plugins(Map.of()), withTopics, props, false);
    }

    private static ConfigDef field(String simpleName, String name) throws ReflectiveOperationException {
        Field field = Class.forName(MIRROR + simpleName).getDeclaredField(name);
        field.setAccessible(true);
        return (ConfigDef) field.get(null);
    }

    private static void print(String whose, ConfigDef keys) {
        for (String name : new TreeSet<>(keys.names())) {
            System.out.println(whose + "\t" + name);
        }
    }
}
