import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigValue;
import org.apache.kafka.connect.mirror.DefaultConfigPropertyFilter;
import org.apache.kafka.connect.mirror.DefaultGroupFilter;
import org.apache.kafka.connect.mirror.DefaultReplicationPolicy;
import org.apache.kafka.connect.mirror.DefaultTopicFilter;
import org.apache.kafka.connect.mirror.IdentityReplicationPolicy;
import org.apache.kafka.connect.mirror.MirrorCheckpointConnector;
import org.apache.kafka.connect.mirror.MirrorClientConfig;
import org.apache.kafka.connect.mirror.MirrorHeartbeatConnector;
import org.apache.kafka.connect.mirror.MirrorSourceConnector;
import org.apache.kafka.connect.runtime.ConnectorConfig;
import org.apache.kafka.connect.source.SourceConnector;

/** Answers questions with stock's own classes: a line of tab-separated fields in, one out; "-" is null, "+" begins base64. */
public class StockOracle {
    private static final Set<String> CONNECTS = ConnectorConfig.configDef().names();

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, "UTF-8");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            List<String> fields = new ArrayList<>();
            for (String field : line.split("\t")) {
                fields.add(decode(field));
            }
            List<String> answers = answer(fields);
            List<String> encoded = new ArrayList<>();
            for (String answer : answers) {
                encoded.add(encode(answer));
            }
            out.println(String.join("\t", encoded));
        }
        out.flush();
    }

    private static List<String> answer(List<String> q) throws Exception {
        switch (q.get(0)) {
            case "policy": return policy(q);
            case "regex": return List.of(regex(q.get(1), q.get(2)));
            case "topic": return List.of(topic(q));
            case "group": return List.of(group(q));
            case "property": return property(q);
            case "keys": return keys(q.get(1));
            case "validate": return validate(q);
            case "clients": return clients(q.get(1));
            default: return config(q);
        }
    }

    private static List<String> policy(List<String> q) {
        Map<String, Object> props = new HashMap<>();
        put(props, "replication.policy.separator", q.get(2));
        put(props, "replication.policy.internal.topic.separator.enabled", q.get(3));
        put(props, "source.cluster.alias", q.get(4));
        DefaultReplicationPolicy policy =
            q.get(1).equals("identity") ? new IdentityReplicationPolicy() : new DefaultReplicationPolicy();
        policy.configure(props);
        String topic = q.get(5);
        List<String> found = new ArrayList<>();
        found.add(policy.formatRemoteTopic("A", topic));
        found.add(policy.topicSource(topic));
        found.add(policy.upstreamTopic(topic));
        found.add(policy.originalTopic(topic));
        found.add(policy.offsetSyncsTopic("A"));
        found.add(policy.checkpointsTopic("A"));
        found.add(String.valueOf(policy.isHeartbeatsTopic(topic)));
        found.add(String.valueOf(policy.isCheckpointsTopic(topic)));
        found.add(String.valueOf(policy.isMM2InternalTopic(topic)));
        found.add(String.valueOf(policy.isInternalTopic(topic)));
        return found;
    }

    private static String regex(String pattern, String text) {
        try {
            return String.valueOf(Pattern.compile(pattern).matcher(text).matches());
        } catch (PatternSyntaxException e) {
            return "rejected";
        }
    }

    private static String topic(List<String> q) {
        Map<String, Object> props = new HashMap<>();
        put(props, "topics", q.get(1));
        put(props, "topics.exclude", q.get(2));
        DefaultTopicFilter filter = new DefaultTopicFilter();
        filter.configure(props);
        return String.valueOf(filter.shouldReplicateTopic(q.get(3)));
    }

    private static String group(List<String> q) {
        Map<String, Object> props = new HashMap<>();
        put(props, "groups", q.get(1));
        put(props, "groups.exclude", q.get(2));
        DefaultGroupFilter filter = new DefaultGroupFilter();
        filter.configure(props);
        return String.valueOf(filter.shouldReplicateGroup(q.get(3)));
    }

    /** Excluded properties, whose defaults, and a property: whether it is replicated, and whether its default is. */
    private static List<String> property(List<String> q) {
        Map<String, Object> props = new HashMap<>();
        put(props, "config.properties.exclude", q.get(1));
        put(props, "use.defaults.from", q.get(2));
        DefaultConfigPropertyFilter filter = new DefaultConfigPropertyFilter();
        filter.configure(props);
        String name = q.get(3);
        return List.of(
            String.valueOf(filter.shouldReplicateConfigProperty(name)),
            String.valueOf(filter.shouldReplicateSourceDefault(name)));
    }

    private static List<String> config(List<String> q) {
        ConfigDef.Type type = ConfigDef.Type.valueOf(q.get(1));
        ConfigDef.Validator validator = type == ConfigDef.Type.LIST
            ? ConfigDef.ValidList.anyNonDuplicateValues(true, false) : null;
        ConfigDef definition = new ConfigDef()
            .define("k", type, ConfigDef.NO_DEFAULT_VALUE, validator, ConfigDef.Importance.LOW, "");
        Map<String, String> props = new HashMap<>();
        props.put("k", q.get(2));
        ConfigValue value = definition.validate(props).get(0);
        String first = value.errorMessages().isEmpty() ? null : value.errorMessages().get(0);
        List<String> found = new ArrayList<>();
        found.add(value.value() == null ? null : ConfigDef.convertToString(value.value(), type));
        found.add(first);
        return found;
    }

    private static SourceConnector connector(String kind) {
        return kind.equals("checkpoint") ? new MirrorCheckpointConnector()
            : kind.equals("source") ? new MirrorSourceConnector() : new MirrorHeartbeatConnector();
    }

    /** Name, type, default and importance of each key of a connector that is not Connect's own. */
    private static List<String> keys(String kind) {
        List<String> found = new ArrayList<>();
        for (ConfigDef.ConfigKey key : connector(kind).config().configKeys().values()) {
            if (!CONNECTS.contains(key.name)) {
                found.add(key.name);
                found.add(key.type.name());
                found.add(key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : null);
                found.add(key.importance.name());
            }
        }
        return found;
    }

    /** Kind, then keys and values; the first error of each key that has one. */
    private static List<String> validate(List<String> q) {
        Map<String, String> props = new HashMap<>();
        for (int i = 2; i < q.size(); i += 2) {
            props.put(q.get(i), q.get(i + 1));
        }
        List<String> found = new ArrayList<>(List.of(q.get(1)));
        for (ConfigValue value : connector(q.get(1)).validate(props).configValues()) {
            if (!value.errorMessages().isEmpty()) {
                found.add(value.name());
                found.add(value.errorMessages().get(0));
            }
        }
        return found;
    }

    private static List<String> clients(String role) throws Exception {
        if (role.equals("cluster")) {
            java.lang.reflect.Field definition = MirrorClientConfig.class.getDeclaredField("CLIENT_CONFIG_DEF");
            definition.setAccessible(true);
            return new ArrayList<>(((ConfigDef) definition.get(null)).names());
        }
        return new ArrayList<>(switch (role) {
            case "admin" -> AdminClientConfig.configNames();
            case "consumer" -> ConsumerConfig.configNames();
            default -> ProducerConfig.configNames();
        });
    }

    private static void put(Map<String, Object> props, String key, String value) {
        if (value != null) {
            props.put(key, value);
        }
    }

    private static String decode(String field) {
        return field.equals("-") ? null : new String(Base64.getDecoder().decode(field.substring(1)), StandardCharsets.UTF_8);
    }

    private static String encode(String text) {
        return text == null ? "-" : "+" + Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8));
    }
}
