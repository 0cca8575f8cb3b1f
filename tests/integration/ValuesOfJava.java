import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.connect.connector.Connector;
import org.apache.kafka.connect.mirror.MirrorCheckpointConnector;
import org.apache.kafka.connect.mirror.MirrorHeartbeatConnector;
import org.apache.kafka.connect.mirror.MirrorSourceConnector;

/**
 * What Kafka makes of values, Java of .properties files, and both of the JSON of a configuration. A question is "value",
 * a key, its type, which counts where Kafka has no such key, and a value; or "properties" or "json" and the bytes of a
 * text. An answer is one word without blanks, or, where the program is told "digest", four characters that stand for it.
 */
public class ValuesOfJava {
    private static final String REFUSED = "!";
    private static final String NOTHING = "()";
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        Map<String, ConfigDef.Type> types = types();
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            List<byte[]> fields = new ArrayList<>();
            for (String field : line.split("\t")) {
                fields.add(field.equals("-") ? null : Base64.getDecoder().decode(field.substring(1)));
            }
            String answer = switch (text(fields.get(0))) {
                case "value" -> value(types, text(fields.get(1)), text(fields.get(2)), text(fields.get(3)));
                case "properties" -> properties(fields.get(1));
                default -> json(fields.get(1));
            };
            out.println(args[0].equals("digest") ? digest(answer) : answer);
        }
        out.flush();
    }

    /** The types of stock's keys and of those of Kafka's clients. */
    private static Map<String, ConfigDef.Type> types() {
        Map<String, ConfigDef.Type> types = new HashMap<>();
        List<ConfigDef> definitions = new ArrayList<>(
            List.of(ConsumerConfig.configDef(), ProducerConfig.configDef(), AdminClientConfig.configDef()));
        for (Connector connector : List.of(
                new MirrorSourceConnector(), new MirrorCheckpointConnector(), new MirrorHeartbeatConnector())) {
            definitions.add(connector.config());
        }
        for (ConfigDef definition : definitions) {
            definition.configKeys().forEach((name, key) -> types.put(name, key.type));
        }
        return types;
    }

    private static String value(Map<String, ConfigDef.Type> types, String key, String type, String text) {
        ConfigDef.Type defined = types.getOrDefault(key, ConfigDef.Type.valueOf(type));
        // Of a class the name is compared: it is loaded elsewhere.
        ConfigDef.Type read = defined == ConfigDef.Type.CLASS ? ConfigDef.Type.STRING : defined;
        try {
            return read + ":" + shown(ConfigDef.parseType(key, text, read));
        } catch (ConfigException e) {
            return read + ":" + REFUSED;
        }
    }

    private static String shown(Object value) {
        if (value instanceof Double number) {
            return String.format("%016x", Double.doubleToLongBits(number));
        }
        if (value instanceof List<?> list) {
            return "[" + list.stream().map(ValuesOfJava::shown).collect(Collectors.joining(",")) + "]";
        }
        if (value instanceof Password password) {
            return quoted(password.value());
        }
        return value instanceof String text ? quoted(text) : String.valueOf(value);
    }

    private static String properties(byte[] file) throws IOException {
        Properties read = new Properties();
        try {
            read.load(new ByteArrayInputStream(file));
        } catch (IllegalArgumentException e) {
            return REFUSED;
        }
        Map<String, String> sorted = new TreeMap<>();
        read.forEach((key, value) -> sorted.put((String) key, (String) value));
        return shown(sorted);
    }

    private static String json(byte[] text) throws IOException {
        try {
            Map<String, String> read = new TreeMap<>(JSON.readValue(text, new TypeReference<Map<String, String>>() { }));
            read.replaceAll((key, value) -> (String) ConfigDef.parseType(key, value, ConfigDef.Type.STRING));
            return shown(read);
        } catch (JsonProcessingException e) {
            return REFUSED;
        }
    }

    /** Without keys that are given as null. */
    private static String shown(Map<String, String> properties) {
        String shown = properties.entrySet().stream().filter(each -> each.getValue() != null)
            .map(each -> quoted(each.getKey()) + "=" + quoted(each.getValue())).collect(Collectors.joining(","));
        return shown.isEmpty() ? NOTHING : shown;
    }

    private static String digest(String text) throws Exception {
        byte[] hash = MessageDigest.getInstance("SHA-256").digest(text.getBytes(StandardCharsets.UTF_8));
        return Base64.getEncoder().encodeToString(Arrays.copyOf(hash, 3));
    }

    private static String text(byte[] field) {
        return field == null ? null : new String(field, StandardCharsets.UTF_8);
    }

    /** In quotes, with everything but letters and digits by its number. Half a character is as one that can't be read. */
    private static String quoted(String text) {
        StringBuilder quoted = new StringBuilder("'");
        for (char unit : new String(text.getBytes(StandardCharsets.UTF_16BE), StandardCharsets.UTF_16BE).toCharArray()) {
            boolean plain = unit < 128 && Character.isLetterOrDigit(unit);
            quoted.append(plain ? String.valueOf(unit) : String.format("<%04x>", (int) unit));
        }
        return quoted.append("'").toString();
    }
}
