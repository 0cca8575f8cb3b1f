import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Consumer groups as Java applications have them. Reads lines of tab-separated fields, answers one line each:
 *
 *   commit BOOTSTRAP GROUP TOPIC OFFSET    reads up to OFFSET and commits, so that the commit has a leader epoch
 *   resume BOOTSTRAP GROUP TOPIC SECONDS   joins, and answers the first record: "OFFSET VALUE", or "none POSITION"
 *
 * An exception is answered as "error CLASS MESSAGE". Offsets are never reset: auto.offset.reset=none.
 */
public class JavaGroups {
    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] fields = line.split("\t");
            String answer;
            try (KafkaConsumer<String, String> consumer = consumer(fields[1], fields[2])) {
                TopicPartition partition = new TopicPartition(fields[3], 0);
                long number = Long.parseLong(fields[4]);
                answer = fields[0].equals("commit") ? commit(consumer, partition, number) : resume(consumer, partition, number);
            } catch (Exception error) {
                answer = "error\t" + error.getClass().getSimpleName() + "\t" + String.valueOf(error.getMessage()).replace('\n', ' ');
            }
            System.out.println(answer);
            System.out.flush();
        }
    }

    static KafkaConsumer<String, String> consumer(String bootstrap, String group) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", group);
        settings.put("auto.offset.reset", "none");
        settings.put("enable.auto.commit", "false");
        settings.put("max.poll.records", "1");
        settings.put("isolation.level", "read_uncommitted");
        settings.put("key.deserializer", StringDeserializer.class.getName());
        settings.put("value.deserializer", StringDeserializer.class.getName());
        return new KafkaConsumer<>(settings);
    }

    static String commit(KafkaConsumer<String, String> consumer, TopicPartition partition, long offset) {
        consumer.assign(List.of(partition));
        if (offset == 0) {
            consumer.commitSync(Map.of(partition, new OffsetAndMetadata(0)));
            return "committed\t0";
        }
        consumer.seek(partition, offset - 1);
        long end = System.nanoTime() + Duration.ofSeconds(20).toNanos();
        while (consumer.position(partition) < offset && System.nanoTime() < end) {
            consumer.poll(Duration.ofMillis(200));
        }
        consumer.commitSync();
        return "committed\t" + consumer.committed(java.util.Set.of(partition)).get(partition).offset();
    }

    static String resume(KafkaConsumer<String, String> consumer, TopicPartition partition, long seconds) {
        consumer.subscribe(List.of(partition.topic()));
        long end = System.nanoTime() + Duration.ofSeconds(seconds).toNanos();
        while (System.nanoTime() < end) {
            ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(200));
            for (ConsumerRecord<String, String> record : records) {
                return record.offset() + "\t" + record.value();
            }
        }
        String position = consumer.assignment().contains(partition)
            ? String.valueOf(consumer.position(partition, Duration.ofSeconds(2))) : "unassigned";
        return "none\t" + position;
    }
}
