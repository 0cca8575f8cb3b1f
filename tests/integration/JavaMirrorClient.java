import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.MessageFormatter;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.mirror.MirrorClient;
import org.apache.kafka.connect.mirror.formatters.CheckpointFormatter;
import org.apache.kafka.connect.mirror.formatters.HeartbeatFormatter;
import org.apache.kafka.connect.mirror.formatters.OffsetSyncFormatter;

/**
 * Stock's MirrorClient and formatters. Reads lines of tab-separated fields, answers one line each; a field is "-" for
 * null or "+" and base64:
 *
 *   client PROPERTIES METHOD ARGUMENT...   sets are sorted, offsets are lines "group topic partition offset metadata"
 *   format KIND KEY VALUE                  what the formatter prints
 *   properties TEXT                        keys and values in turn, sorted by key
 *
 * An exception is answered as "error", its class and its message.
 */
public class JavaMirrorClient {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            List<byte[]> fields = new ArrayList<>();
            for (String field : line.split("\t")) {
                fields.add(field.equals("-") ? null : Base64.getDecoder().decode(field.substring(1)));
            }
            List<String> answers;
            try {
                answers = answer(fields);
            } catch (Exception error) {
                answers = List.of("error", error.getClass().getSimpleName(), String.valueOf(error.getMessage()));
            }
            List<String> encoded = new ArrayList<>();
            for (String answer : answers) {
                encoded.add("+" + Base64.getEncoder().encodeToString(answer.getBytes(StandardCharsets.UTF_8)));
            }
            out.println(String.join("\t", encoded));
        }
    }

    private static List<String> answer(List<byte[]> q) throws Exception {
        switch (text(q.get(0))) {
            case "client":
                Map<String, Object> props = new HashMap<>(load(q.get(1)));
                try (MirrorClient client = new MirrorClient(props)) {
                    return client(client, q);
                }
            case "format": return List.of(format(text(q.get(1)), q.get(2), q.get(3)));
            default:
                List<String> found = new ArrayList<>();
                load(q.get(1)).forEach((key, value) -> {
                    found.add(key);
                    found.add(value);
                });
                return found;
        }
    }

    private static List<String> client(MirrorClient client, List<byte[]> q) throws Exception {
        switch (text(q.get(2))) {
            case "hops": return List.of(String.valueOf(client.replicationHops(text(q.get(3)))));
            case "heartbeat_topics": return new ArrayList<>(new TreeSet<>(client.heartbeatTopics()));
            case "checkpoint_topics": return new ArrayList<>(new TreeSet<>(client.checkpointTopics()));
            case "upstream_clusters": return new ArrayList<>(new TreeSet<>(client.upstreamClusters()));
            case "remote_topics": return new ArrayList<>(new TreeSet<>(
                q.get(3) == null ? client.remoteTopics() : client.remoteTopics(text(q.get(3)))));
            case "group":
                return offsets(text(q.get(3)), client.remoteConsumerOffsets(text(q.get(3)), text(q.get(4)), Duration.ofSeconds(20)));
            default:
                List<String> found = new ArrayList<>();
                client.remoteConsumerOffsets(Pattern.compile(text(q.get(3))), text(q.get(4)), Duration.ofSeconds(20))
                    .forEach((group, some) -> found.addAll(offsets(group, some)));
                return found;
        }
    }

    private static List<String> offsets(String group, Map<TopicPartition, OffsetAndMetadata> offsets) {
        List<String> found = new ArrayList<>();
        offsets.forEach((place, at) -> found.add(String.join(" ", group, place.topic(),
            String.valueOf(place.partition()), String.valueOf(at.offset()), at.metadata())));
        return found;
    }

    private static String format(String kind, byte[] key, byte[] value) {
        MessageFormatter formatter = kind.equals("heartbeat") ? new HeartbeatFormatter()
            : kind.equals("checkpoint") ? new CheckpointFormatter() : new OffsetSyncFormatter();
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        formatter.writeTo(new ConsumerRecord<>("t", 0, 0, key, value), new PrintStream(printed, true, StandardCharsets.UTF_8));
        return printed.toString(StandardCharsets.UTF_8);
    }

    private static Map<String, String> load(byte[] properties) throws Exception {
        Properties loaded = new Properties();
        loaded.load(new ByteArrayInputStream(properties));
        Map<String, String> found = new TreeMap<>();
        loaded.stringPropertyNames().forEach(key -> found.put(key, loaded.getProperty(key)));
        return found;
    }

    private static String text(byte[] field) {
        return field == null ? null : new String(field, StandardCharsets.UTF_8);
    }
}
