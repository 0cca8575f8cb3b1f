package dev.mirrorbridge;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.source.SourceRecord;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class RecordCodecTest {
    /** Connect looks stored offsets up by the bytes of this map, written in its own order. */
    @Test
    void sourcePartitionsAreHashMapsInStocksOrderOfKeys() {
        SourceRecord record = record("'source_partition':{'topic':'t','partition':3,'cluster':'A'}");
        assertEquals(HashMap.class, record.sourcePartition().getClass());
        assertEquals("{\"cluster\":\"A\",\"partition\":3,\"topic\":\"t\"}", Json.write(record.sourcePartition()));
        record = record("'source_partition':{'group':'g','topic':'A.t','partition':3}");
        assertEquals("{\"partition\":3,\"topic\":\"A.t\",\"group\":\"g\"}", Json.write(record.sourcePartition()));
        record = record("'source_partition':{'targetClusterAlias':'B','sourceClusterAlias':'A'}");
        assertEquals("{\"sourceClusterAlias\":\"A\",\"targetClusterAlias\":\"B\"}", Json.write(record.sourcePartition()));
    }

    @Test
    void partitionIsAnIntegerAndAllOtherNumbersAreLongs() {
        SourceRecord record = record("'source_partition':{'partition':3,'other':3},'source_offset':{'offset':7}");
        assertEquals(Map.of("partition", 3, "other", 3L), record.sourcePartition());
        assertEquals(Map.of("offset", 7L), record.sourceOffset());
        assertEquals(HashMap.class, record.sourceOffset().getClass());
        assertEquals(Map.of("partition", 1L << 40), record("'source_partition':{'partition':1099511627776}")
            .sourcePartition());
    }

    @Test
    void bytesArriveBitForBit() {
        SourceRecord record = record("'key':'AP8=','value':'','partition':5,'timestamp':1795230000123,"
            + "'headers':[{'key':'h','value':'AQ=='},{'key':'h','value':null}]");
        assertArrayEquals(new byte[] {0, -1}, (byte[]) record.key());
        assertArrayEquals(new byte[0], (byte[]) record.value());
        assertEquals(Schema.OPTIONAL_BYTES_SCHEMA, record.keySchema());
        assertEquals(Schema.OPTIONAL_BYTES_SCHEMA, record.valueSchema());
        assertEquals(5, record.kafkaPartition());
        assertEquals(1795230000123L, record.timestamp());
        assertEquals(2, record.headers().size());
        Header first = record.headers().iterator().next();
        assertEquals(Schema.BYTES_SCHEMA, first.schema());
        assertArrayEquals(new byte[] {1}, (byte[]) first.value());
        assertNull(record.headers().lastWithName("h").value());
    }

    @Test
    void whatIsNullStaysNull() {
        SourceRecord record = record("'key':null,'value':null,'partition':null,'timestamp':null,'headers':[]");
        assertNull(record.key());
        assertNull(record.value());
        assertNull(record.kafkaPartition());
        assertNull(record.timestamp());
        assertNull(record("'timestamp':-1").timestamp());
    }

    @ParameterizedTest
    @ValueSource(strings = {"'topic':null", "'key':'*'", "'source_partition':null", "'source_offset':{'o':1.5}",
        "'partition':4294967296", "'headers':[{}]", "'timestamp':'now'"})
    void whatIsNotOfTheContractIsRefused(String members) {
        assertThrows(RuntimeException.class, () -> record(members));
    }

    private static SourceRecord record(String members) {
        String json = "{'source_partition':{},'source_offset':{},'topic':'t'," + members + "}";
        return RecordCodec.record((Map<?, ?>) Json.read(json.replace('\'', '"')));
    }
}
