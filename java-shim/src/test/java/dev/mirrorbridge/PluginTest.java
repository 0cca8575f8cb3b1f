package dev.mirrorbridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.reflect.Modifier;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.ServiceLoader;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.kafka.connect.mirror.MirrorGroupOffsetConnector;
import org.apache.kafka.connect.source.SourceConnector;
import org.junit.jupiter.api.Test;

class PluginTest {
    private static final Set<String> STOCK = Set.of("MirrorSource", "MirrorCheckpoint", "MirrorHeartbeat");

    @Test
    void theManifestListsEveryConnectorAndOnlyNamedOnes() throws IOException {
        List<String> listed = ServiceLoader.load(SourceConnector.class).stream()
            .map(provider -> provider.type().getName()).collect(Collectors.toList());
        assertEquals(manifest(), listed);
        assertEquals(Set.of(MirrorGroupOffsetConnector.class.getName(),
            BridgeMirrorCheckpointConnector.class.getName(), BridgeMirrorHeartbeatConnector.class.getName(),
            BridgeMirrorSourceConnector.class.getName()),
            Set.copyOf(listed));
        assertFalse(listed.contains(BridgeSourceConnector.class.getName()));
    }

    @Test
    void everyConnectorIsPublicAndConcreteAndSaysItsVersion() {
        for (SourceConnector connector : ServiceLoader.load(SourceConnector.class)) {
            assertTrue(Modifier.isPublic(connector.getClass().getModifiers()));
            assertFalse(Modifier.isAbstract(connector.getClass().getModifiers()));
            assertEquals(System.getProperty("shim.version"), connector.version());
        }
        assertEquals(System.getProperty("shim.version"), new BridgeSourceTask().version());
    }

    /** As KIP-1292 has it, so that its JSON works as it stands. */
    @Test
    void theGroupOffsetConnectorHasTheNameOfItsKip() {
        assertEquals("org.apache.kafka.connect.mirror.MirrorGroupOffsetConnector",
            MirrorGroupOffsetConnector.class.getName());
    }

    /** Connect knows a plugin by its simple name too, with and without "Connector"; two of a name are ambiguous. */
    @Test
    void noSimpleNameIsStocks() {
        for (SourceConnector connector : ServiceLoader.load(SourceConnector.class)) {
            String alias = connector.getClass().getSimpleName().replaceAll("(Source|Sink)?Connector$", "");
            assertFalse(STOCK.contains(alias) || STOCK.contains(connector.getClass().getSimpleName()
                .replace("Connector", "")), alias);
        }
    }

    private static List<String> manifest() throws IOException {
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(PluginTest.class.getResourceAsStream(
            "/META-INF/services/" + SourceConnector.class.getName()), StandardCharsets.UTF_8))) {
            return lines.lines().filter(line -> !line.isBlank()).collect(Collectors.toList());
        }
    }
}
