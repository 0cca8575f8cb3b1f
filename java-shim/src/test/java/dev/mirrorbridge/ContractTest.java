package dev.mirrorbridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.http.HttpHeaders;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.mirror.MirrorGroupOffsetConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** The samples and the OpenAPI document that the service is tested with, from the shim's side. */
class ContractTest {
    private static final Path SAMPLES = Path.of("..", "tests", "contract", "samples");
    private static final Path OPENAPI = Path.of("..", "bridge", "protocol", "openapi.json");

    static List<String> samples() throws IOException {
        try (Stream<Path> files = Files.list(SAMPLES)) {
            return files.map(path -> path.getFileName().toString()).sorted().collect(Collectors.toList());
        }
    }

    @ParameterizedTest
    @MethodSource("samples")
    void everySampleIsReadAndWrittenBack(String name) throws IOException {
        Object sample = Json.read(Files.readString(SAMPLES.resolve(name)));
        assertEquals(sample, Json.read(Json.write(sample)));
    }

    @ParameterizedTest
    @CsvSource({
        "400, bad_config, BAD_CONFIG", "401, unauthorized, CREDENTIALS", "403, forbidden, CREDENTIALS",
        "404, unknown_task, UNKNOWN", "404, unknown_connector, UNKNOWN", "404, unknown_plugin, AWAY",
        "404, no_such_route, AWAY", "405, method_not_allowed, AWAY", "409, fenced, FENCED", "409, refused, AWAY",
        "409, name_taken, NAME_TAKEN", "409, name_held, AWAY",
        "413, too_large, AWAY", "422, body_rejected, AWAY", "503, overloaded, AWAY", "503, kafka, AWAY",
        "400, unsupported_protocol, AWAY", "400, newer, AWAY", "409, minimal, FENCED",
    })
    void everyErrorIsActedOnByItsMeaning(int status, String variant, Answer.Kind kind) throws IOException {
        Answer answer = answer(status, "ErrorBody." + variant);
        assertEquals(kind, answer.kind);
        assertEquals(sample("ErrorBody." + variant).get("message"), answer.words);
    }

    @ParameterizedTest
    @ValueSource(strings = {"Accepted", "Accepted.connector", "Accepted.newer", "ValidateResponse",
        "ValidateResponse.newer", "PollResponse.minimal"})
    void answersOfAnyVersionAreAnswers(String name) throws IOException {
        assertEquals(Answer.Kind.OK, answer(200, name).kind);
    }

    @Test
    void recordsOfTheSamplesBecomeConnects() throws IOException {
        List<SourceRecord> records = RecordCodec.records(sample("PollResponse"));
        assertEquals(2, records.size());
        assertEquals(Map.of("group", "orders-app", "topic", "A.orders", "partition", 3),
            records.get(0).sourcePartition());
        assertEquals(26, ((byte[]) records.get(0).key()).length);
        assertEquals(3, records.get(0).headers().size());
        assertNull(records.get(1).value(), "a tombstone is a record");
        assertEquals(1, RecordCodec.records(sample("PollResponse.newer")).size());
        assertEquals(List.of(), RecordCodec.records(sample("PollResponse.empty")));
        assertEquals("heartbeats", RecordCodec.record(sample("Record.minimal")).topic());
    }

    @Test
    @SuppressWarnings("try") // the worker is there, and not asked
    void whatTheShimSendsHasTheFieldsOfTheSamples() throws Exception {
        try (FakeService service = FakeService.start(); FakeWorker worker = new FakeWorker("east", "connect-w:8083")) {
            FastPacer pacer = new FastPacer();
            Map<String, String> config = Tasks.config(service.url());
            config.put(BridgeSourceTask.KIND, "source");
            BridgeSourceTask task = Tasks.started(pacer, config);
            task.poll();
            RecordCodec.records(sample("PollResponse")).forEach(record -> task.commitRecord(record,
                record.timestamp() == null ? null : new RecordMetadata(new TopicPartition("t", 0), 17, 0, 0,
                    ((byte[]) record.key()).length, ((byte[]) record.value()).length)));
            task.commit();
            task.stop();
            MirrorGroupOffsetConnector connector = new MirrorGroupOffsetConnector();
            connector.validate(Tasks.props(service.url()));
            connector.start(Tasks.props(service.url()));
            service.await("PUT", "/v1/connectors/c");
            connector.stop();

            assertFields("BeginSession", service, "POST", "/v1/sessions");
            assertFields("StartTask", service, "PUT", "/v1/connectors/c/tasks/0");
            assertFields("PollRequest.source", service, "POST", "/v1/connectors/c/tasks/0/poll");
            assertEquals(acked(sample("AckRequest")), acked(
                assertFields("AckRequest", service, "POST", "/v1/connectors/c/tasks/0/ack")));
            TaskAddress address = new TaskAddress("c", 0, 1, Sessions.byThisClock());
            new BridgeClient(Settings.from(Tasks.props(service.url()))).idleTask(address, 1_004).await(30_000);
            assertFields("IdleTask", service, "POST", "/v1/connectors/c/tasks/0/idle");
            BridgeSinkTask sink = new BridgeSinkTask();
            sink.initialize(new FakeSinkContext());
            config.put(BridgeSourceTask.KIND, "sink");
            sink.start(config);
            for (int i = 0; i < 3; i++) {
                sink.put(List.of());
            }
            sink.stop();
            assertFields("PollRequest.sink", service, "POST", "/v1/connectors/c/tasks/0/poll");
            assertFields("StopTask", service, "DELETE", "/v1/connectors/c/tasks/0");
            assertFields("ValidateRequest", service, "PUT", "/v1/plugins/group_offset/validate");
            assertFields("StartConnector", service, "PUT", "/v1/connectors/c");
            assertFields("StopConnector", service, "PUT", "/v1/connectors/c/stop");
            assertPathsAreInTheOpenApiDocument(service);
        }
    }

    /** The last request there; the first poll has no batch to name. */
    private static Map<?, ?> assertFields(String sample, FakeService service, String method, String path)
        throws IOException {
        Map<?, ?> sent = service.requests.stream().filter(r -> r.method.equals(method) && r.path.equals(path))
            .reduce((earlier, later) -> later).orElseThrow().body;
        assertEquals(sample(sample).keySet(), sent.keySet());
        return sent;
    }

    private static Set<?> acked(Map<?, ?> request) {
        return ((Map<?, ?>) ((List<?>) request.get("acked")).get(0)).keySet();
    }

    private static void assertPathsAreInTheOpenApiDocument(FakeService service) throws IOException {
        Map<?, ?> paths = (Map<?, ?>) ((Map<?, ?>) Json.read(Files.readString(OPENAPI))).get("paths");
        for (FakeService.Request request : service.requests) {
            boolean documented = false;
            for (Map.Entry<?, ?> path : paths.entrySet()) {
                String pattern = ((String) path.getKey()).replaceAll("\\{[^}]*}", "[^/]+");
                documented |= request.path.matches(pattern)
                    && ((Map<?, ?>) path.getValue()).containsKey(request.method.toLowerCase(java.util.Locale.ROOT));
            }
            assertTrue(documented, request::toString);
        }
        assertFalse(service.requests.isEmpty());
    }

    private static Answer answer(int status, String name) throws IOException {
        HttpHeaders none = HttpHeaders.of(new HashMap<>(), (key, value) -> true);
        return Answer.of(status, none, Json.write(sample(name)).getBytes(StandardCharsets.UTF_8));
    }

    private static Map<?, ?> sample(String name) throws IOException {
        return (Map<?, ?>) Json.read(Files.readString(SAMPLES.resolve(name + ".json")));
    }
}
