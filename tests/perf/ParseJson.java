package dev.mirrorbridge.perf;

import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.transforms.Transformation;

/**
 * The bytes of a value as what Connect's own JsonConverter reads in them: what MirrorSourceConnector hands on are bytes,
 * which no transform of Connect that knows fields can be applied to.
 */
public final class ParseJson<R extends ConnectRecord<R>> implements Transformation<R> {
    private final JsonConverter converter = new JsonConverter();

    @Override
    public void configure(Map<String, ?> configs) {
        converter.configure(Map.of("schemas.enable", "false"), false);
    }

    @Override
    public R apply(R record) {
        SchemaAndValue parsed = converter.toConnectData(record.topic(), (byte[]) record.value());
        return record.newRecord(
                record.topic(),
                record.kafkaPartition(),
                record.keySchema(),
                record.key(),
                parsed.schema(),
                parsed.value(),
                record.timestamp(),
                record.headers());
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef();
    }

    @Override
    public void close() {
        converter.close();
    }
}
