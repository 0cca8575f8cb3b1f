package dev.mirrorbridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.mirrorbridge.FakeService.Reply;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.logging.Level;
import java.util.stream.Collectors;
import org.apache.kafka.common.config.Config;
import org.apache.kafka.common.config.ConfigValue;
import org.apache.kafka.connect.mirror.MirrorGroupOffsetConnector;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

@Timeout(60)
class ValidationTest {
    private static final String PATH = "/v1/plugins/group_offset/validate";

    private final FakeService service = FakeService.start();
    private final MirrorGroupOffsetConnector connector = new MirrorGroupOffsetConnector();
    private final Map<String, String> props = Tasks.props(service.url());

    @AfterEach
    void close() {
        Tasks.allowNothing();
        service.close();
    }

    @Test
    void aCleanConfigurationIsCheckedByTheServiceToo() {
        service.answers = request -> new Reply(200, configs("topics", "[]"));
        assertEquals(Map.of(), errors());
        assertEquals(Map.of("config", props), service.await("PUT", PATH).body);
    }

    @Test
    void localErrorsComeFirstAndTheServiceIsNotAsked() {
        props.remove("source.cluster.alias");
        props.put("topics", "a,(");
        Map<String, List<String>> errors = errors();
        assertEquals(List.of("Missing required configuration \"source.cluster.alias\" which has no default value."),
            errors.get("source.cluster.alias").subList(0, 1));
        assertEquals(List.of("Invalid value ( for configuration topics: Not a regular expression: Unclosed group at"
            + " position 1"), errors.get("topics"));
        assertEquals(List.of(), service.requests);
    }

    @Test
    void errorsOfTheServiceAreMergedPerKeyAndOthersAppended() {
        service.answers = request -> new Reply(200, "{\"name\":\"x\",\"error_count\":2,\"groups\":[],\"configs\":["
            + entry("topics", "[\"no such topic\",\"no such topic\"]") + ","
            + entry("source.admin.ssl.foo", "[\"can't be honoured\"]") + "],\"new_field\":{}}");
        assertEquals(Map.of("topics", List.of("no such topic"), "source.admin.ssl.foo", List.of("can't be honoured")),
            errors());
    }

    @Test
    void aBadConfigAnswerIsMergedAsWell() {
        service.answers = request -> new Reply(400, "{\"error_code\":\"bad_config\",\"message\":\"1 error\","
            + "\"validation_errors\":[{\"key\":\"groups\",\"message\":\"no\"}],\"retriable\":false}");
        assertEquals(Map.of("groups", List.of("no")), errors());
    }

    @Test
    void aWrongTokenIsAnErrorOfItsKey() {
        service.answers = request -> FakeService.error(401, "unauthorized", "wrong token");
        props.put("bridge.auth.token", "s3cr3t");
        Map<String, List<String>> errors = errors();
        assertEquals(List.of("bridge.auth.token"), List.copyOf(errors.keySet()));
        assertFalse(errors.toString().contains("s3cr3t"));
    }

    @Test
    void aConfigurationThatTheServiceDoesNotTakeIsAnErrorOfItsLargestKey() {
        String words = "The request body has 2000000 bytes; the limit is 1048576 bytes";
        service.answers = request -> FakeService.error(413, "too_large", words);
        props.put("topics", "x".repeat(2_000));
        Map<String, List<String>> errors = errors();
        assertEquals(List.of("topics"), List.copyOf(errors.keySet()));
        assertTrue(errors.toString().contains(words));
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "<html>", "{}", "{\"configs\":[7]}", "{\"configs\":[{}]}"})
    void whateverElseComesPassesOnTheLocalChecksWithOneWarning(String body) {
        service.answers = request -> new Reply(200, body);
        try (LogLines log = new LogLines()) {
            assertEquals(Map.of(), errors());
            assertEquals(1, log.from(Level.WARNING).size());
        }
    }

    @Test
    void withTheServiceAwayAPutGoesThroughWithOneWarning() {
        service.close();
        try (LogLines log = new LogLines()) {
            assertEquals(Map.of(), errors());
            assertEquals(1, log.from(Level.INFO).size());
            assertEquals(1, log.from(Level.WARNING).size());
        }
    }

    @Test
    void withTheServiceHangingAPutGoesThroughAfterTwoSecondsWhereNoClusterIsTried() {
        service.answers = request -> FakeService.HANG;
        props.put("bridge.validate.reachability", "off");
        long began = System.nanoTime();
        assertEquals(Map.of(), errors());
        assertTrue(System.nanoTime() - began < 5_500_000_000L);
    }

    @ParameterizedTest
    @ValueSource(strings = {"bridge.auth.token", "source.cluster.sasl.jaas.config", "target.consumer.ssl.key.password",
        "admin.sasl.oauthbearer.client.credentials.client.secret", "target.cluster.ssl.keystore.certificate.chain",
        "bridge.transforms.mask.passphrase", "value.converter.basic.auth.user.info"})
    void secretsAreNotSentOverPlainHttpToAnotherHost(String key) {
        props.put("bridge.url", "http://bridge.example:" + service.port());
        Tasks.allow("*");
        props.put(key, "s3cr3t");
        Map<String, List<String>> errors = errors();
        assertEquals(List.of("bridge.url"), List.copyOf(errors.keySet()));
        assertTrue(errors.toString().contains(key));
        assertFalse(errors.toString().contains("s3cr3t"));
        assertEquals(List.of(), service.requests);
    }

    @ParameterizedTest
    @ValueSource(strings = {"http://localhost:%d", "http://127.0.0.1:%d/", "HTTP://127.0.0.1:%d"})
    void loopbackIsGoodEnoughForSecrets(String url) {
        service.answers = request -> new Reply(200, configs("topics", "[]"));
        props.put("bridge.url", String.format(url, service.port()));
        props.put("bridge.auth.token", "s3cr3t");
        assertEquals(Map.of(), errors());
        assertEquals("Bearer s3cr3t", service.await("PUT", PATH).authorization);
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "bridge:8900", "ftp://bridge", "http://", "http://a b", "http://h?x=1",
        "http://user:s3cr3t@h:1"})
    void aUrlThatIsNoneIsALocalErrorWithoutItsSecrets(String url) {
        props.put("bridge.url", url);
        Map<String, List<String>> errors = errors();
        assertEquals(List.of("bridge.url"), List.copyOf(errors.keySet()));
        assertFalse(errors.toString().contains("s3cr3t"));
    }

    @Test
    void aTokenThatFitsNoHeaderIsALocalErrorWithoutItsValue() {
        props.put("bridge.auth.token", "s3cr3t\nX: y");
        Map<String, List<String>> errors = errors();
        assertEquals(List.of("bridge.auth.token"), List.copyOf(errors.keySet()));
        assertFalse(errors.toString().contains("s3cr3t"));
    }

    @Test
    void aKeyStoreThatIsNotThereIsALocalErrorOfItsKey() {
        props.put("bridge.url", "https://bridge.example");
        Tasks.allow("https://bridge.example");
        props.put("bridge.ssl.truststore.location", "/no/such/file.jks");
        Map<String, List<String>> errors = errors();
        assertEquals(List.of("bridge.ssl.truststore.location"), List.copyOf(errors.keySet()));
        assertTrue(errors.toString().contains("/no/such/file.jks"), errors::toString);
    }

    @Test
    void settingsThatDoNothingAreNotVisibleAndTheLogHasTheReasons() {
        service.answers = request -> new Reply(200, "{\"name\":\"x\",\"error_count\":0,\"groups\":[],\"configs\":["
            + unseen("metric.names.formats") + "," + unseen("consumer.fetch.min.bytes") + "],\"ignored_settings\":["
            + "{\"key\":\"metric.reporters\",\"reason\":\"one\"},{\"key\":\"tasks.max\",\"reason\":\"two\"}]}");
        try (LogLines log = new LogLines()) {
            List<String> unseen = connector.validate(props).configValues().stream().filter(value -> !value.visible())
                .map(ConfigValue::name).collect(Collectors.toList());
            assertEquals(List.of("metric.names.formats", "consumer.fetch.min.bytes"), unseen);
            assertEquals(List.of("c: 2 setting(s) of the configuration have no effect: metric.reporters (one); tasks.max (two)"),
                log.from(Level.WARNING));
        }
    }

    @Test
    void withTheServiceHangingAPutGoesThroughAfterTheTimeThatClustersTake() {
        service.answers = request -> FakeService.HANG;
        long began = System.nanoTime();
        assertEquals(Map.of(), errors());
        long took = System.nanoTime() - began;
        assertTrue(took > 6_000_000_000L && took < 30_000_000_000L);
    }

    @Test
    void warningsStandInTheLogAndRefuseNothing() {
        service.answers = request -> new Reply(200, "{\"name\":\"x\",\"error_count\":0,\"groups\":[],\"configs\":[],"
            + "\"warnings\":[{\"key\":\"source.cluster.bootstrap.servers\",\"message\":\"can't be reached\"}]}");
        try (LogLines log = new LogLines()) {
            assertEquals(Map.of(), errors());
            assertEquals(List.of("c: can't be reached"), log.from(Level.WARNING));
        }
    }

    @Test
    void keysThatAreGivenAsNullCountAsNotGiven() {
        service.answers = request -> new Reply(200, configs("topics", "[]"));
        props.put("bridge.url", null);
        props.put("topics", null);
        props.put("source.cluster.alias", null);
        assertEquals(List.of("source.cluster.alias"), List.copyOf(errors().keySet()));
    }

    private Map<String, List<String>> errors() {
        Config config = connector.validate(props);
        Map<String, List<String>> errors = new TreeMap<>();
        for (ConfigValue value : config.configValues()) {
            if (!value.errorMessages().isEmpty()) {
                errors.put(value.name(), value.errorMessages());
            }
        }
        return errors;
    }

    private static String configs(String key, String errors) {
        return "{\"name\":\"x\",\"error_count\":0,\"groups\":[],\"configs\":[" + entry(key, errors) + "]}";
    }

    private static String unseen(String key) {
        return "{\"definition\":{},\"value\":{\"name\":\"" + key + "\",\"value\":null,\"errors\":[],\"visible\":false}}";
    }

    private static String entry(String key, String errors) {
        return "{\"definition\":{},\"value\":{\"name\":\"" + key + "\",\"value\":\"v\",\"errors\":" + errors + "}}";
    }
}
