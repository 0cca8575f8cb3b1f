package dev.mirrorbridge;

import static dev.mirrorbridge.OffsetRows.map;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigValue;
import org.apache.kafka.connect.errors.ConnectException;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class BridgeMirrorSinkConnectorTest {
    private static final String BOTH = "topics and topics.regex are mutually exclusive options, but both are set.";
    private static final String NONE = "Must configure one of topics or topics.regex";

    private final BridgeMirrorSinkConnector connector = new BridgeMirrorSinkConnector();
    private final Map<String, String> props = Tasks.props(Tasks.unusedUrl());

    @AfterEach
    void stop() {
        connector.stop();
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 8})
    void thereIsOneTaskWhateverIsAllowed(int most) {
        connector.start(props);
        List<Map<String, String>> configs = connector.taskConfigs(most);
        assertEquals(1, configs.size());
        assertEquals("sink", configs.get(0).get("bridge.kind"));
        assertEquals(BridgeSinkTask.class, connector.taskClass());
    }

    @Test
    void notEnabledThereIsNone() {
        props.put("enabled", "false");
        connector.start(props);
        assertEquals(List.of(), connector.taskConfigs(3));
    }

    /** Connect has the same errors, and shows ours in their place: they are there while the service is away, too. */
    @ParameterizedTest
    @CsvSource(nullValues = "-", value = {
        "-, -, " + NONE, "' ', -, " + NONE, "-, '', " + NONE, "a, b.*, '" + BOTH + "'", "'a,b', -, -", "-, b.*, -"})
    void oneOfTopicsAndTopicsRegexIsRequired(String topics, String regex, String error) {
        given("topics", topics);
        given("topics.regex", regex);
        assertEquals(error == null ? Map.of() : Map.of("topics", List.of(error)), errors());
    }

    @Test
    void aPatternThatIsNoneIsFoundWhileTheServiceIsAway() {
        props.put("topics.regex", "(");
        assertEquals(Map.of("topics.regex", List.of("Invalid value ( for configuration topics.regex: Not a regular "
            + "expression: Unclosed group at position 1")), errors());
    }

    @Test
    void whatTheServiceSaysOfTopicsIsNotSaidTwice() {
        try (FakeService service = FakeService.start()) {
            service.answers = request -> new FakeService.Reply(200, "{\"name\":\"x\",\"error_count\":1,\"groups\":[],"
                + "\"configs\":[{\"definition\":null,\"value\":{\"name\":\"topics\",\"value\":null,\"recommended_values\":[],"
                + "\"errors\":[\"" + NONE + "\"],\"visible\":true}}]}");
            props.put("bridge.url", service.url());
            assertEquals(Map.of("topics", List.of(NONE)), errors());
        }
    }

    /** Offsets of groups say where to go on, those that Connect stores of sources which record was the last one. */
    @Test
    void theServiceAltersWhereCopyingGoesOn() {
        try (FakeService service = FakeService.start()) {
            service.answers = request -> new FakeService.Reply(200, "{\"offsets\":[]}");
            Map<TopicPartition, Long> offsets = new HashMap<>();
            offsets.put(new TopicPartition("t", 3), 42L);
            offsets.put(new TopicPartition("t", 4), null);
            Map<String, String> flow = Tasks.props(service.url());
            flow.put("source.cluster.alias", "A ");
            assertTrue(connector.alterOffsets(flow, offsets));
            Map<?, ?> body = service.await("POST", "/v1/connectors/c/offsets").body;
            assertEquals("sink", body.get("kind"));
            assertEquals(Set.of(
                map("source_partition", map("cluster", "A", "topic", "t", "partition", 3L), "source_offset",
                    map("offset", 41L)),
                map("source_partition", map("cluster", "A", "topic", "t", "partition", 4L), "source_offset", null)),
                Set.copyOf((List<?>) body.get("offsets")));
            service.answers = request -> FakeService.error(409, "refused", "why");
            assertEquals("The offsets are not altered: why", assertThrows(ConnectException.class,
                () -> connector.alterOffsets(Tasks.props(service.url()), Map.of())).getMessage());
        }
        assertFalse(connector.alterOffsets(props, Map.of()), "managed elsewhere");
    }

    private void given(String key, String value) {
        if (value != null) {
            props.put(key, value);
        }
    }

    private Map<String, List<String>> errors() {
        return new TreeMap<>(connector.validate(props).configValues().stream()
            .filter(value -> !value.errorMessages().isEmpty())
            .collect(Collectors.toMap(ConfigValue::name, ConfigValue::errorMessages)));
    }
}
