package dev.mirrorbridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.URI;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.Config;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.config.ConfigValue;
import org.apache.kafka.connect.mirror.MirrorGroupOffsetConnector;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class AllowedUrlsTest {
    private static final String OURS = "https://bridge.example.org:8900, http://service:8900/mirror/";

    @AfterEach
    void unset() {
        Tasks.allowNothing();
    }

    @ParameterizedTest
    @ValueSource(strings = {"http://127.0.0.1:8900", "http://localhost:1", "https://[::1]:8900", "http://127.1.2.3"})
    void loopbackIsAlwaysAllowed(String url) {
        assertNull(AllowedUrls.refusal(URI.create(url), ""));
    }

    @ParameterizedTest
    @ValueSource(strings = {"https://bridge.example.org:8900", "https://BRIDGE.example.org:8900/any/path",
        "http://service:8900/mirror", "http://service:8900/mirror/deeper"})
    void whatTheWorkerNamesIsAllowed(String url) {
        assertNull(AllowedUrls.refusal(URI.create(url), OURS));
        assertNull(AllowedUrls.refusal(URI.create(url), "*"));
    }

    @ParameterizedTest
    @ValueSource(strings = {"https://evil.example", "http://bridge.example.org:8900", "https://bridge.example.org",
        "https://bridge.example.org:8901", "https://bridge.example.org.evil:8900",
        "https://evil-bridge.example.org:8900",
        "http://service:8900", "http://service:8900/mirrors", "http://service:8900/mirror/../other",
        "http://127.0.0.1.evil.example:8900", "https://localhost.evil:8900"})
    void nothingElseIs(String url) {
        String said = AllowedUrls.refusal(URI.create(url), OURS);
        assertNotNull(said);
        assertTrue(said.endsWith("(or -Dmirror.bridge.allowed.urls), which is " + OURS), said);
        String nothing = AllowedUrls.refusal(URI.create(url), "");
        assertTrue(nothing.contains("MIRROR_BRIDGE_ALLOWED_URLS") && nothing.endsWith("which is not set"), nothing);
    }

    @Test
    void standardPortsAreThoseOfTheScheme() {
        assertNull(AllowedUrls.refusal(URI.create("https://a"), "https://a:443"));
        assertNull(AllowedUrls.refusal(URI.create("http://a:80"), "http://a"));
        assertNotNull(AllowedUrls.refusal(URI.create("https://a"), "not a url,a:443,https://"));
    }

    @Test
    void noConnectorReachesAnotherAddress() {
        Map<String, String> props = Tasks.config("https://evil.example:8900");
        ConfigException error = assertThrows(ConfigException.class, () -> Settings.from(props));
        String start = "Invalid value https://evil.example:8900 for configuration bridge.url: This worker sends";
        assertTrue(error.getMessage().startsWith(start), error.getMessage());
        Tasks.allow("https://evil.example:8900");
        assertEquals("https://evil.example:8900", Settings.from(props).toString());
    }

    @Test
    void validationRefusesItAndSendsNothing() throws Exception {
        try (FakeService service = FakeService.start()) {
            Map<String, String> props = Tasks.props("http://0.0.0.0:" + service.port());
            Config config = new MirrorGroupOffsetConnector().validate(props);
            ConfigValue url = config.configValues().stream().filter(v -> v.name().equals("bridge.url")).findFirst()
                .orElseThrow();
            assertTrue(url.errorMessages().toString().contains("MIRROR_BRIDGE_ALLOWED_URLS"), url.toString());
            assertEquals(List.of(), service.requests);
        }
    }
}
