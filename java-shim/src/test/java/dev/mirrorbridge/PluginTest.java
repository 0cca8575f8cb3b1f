package dev.mirrorbridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.reflect.Modifier;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.ServiceLoader;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.kafka.connect.connector.Connector;
import org.apache.kafka.connect.mirror.MirrorGroupOffsetConnector;
import org.apache.kafka.connect.sink.SinkConnector;
import org.apache.kafka.connect.source.SourceConnector;
import org.junit.jupiter.api.Test;

class PluginTest {
    private static final Set<String> STOCK = Set.of("MirrorSource", "MirrorCheckpoint", "MirrorHeartbeat");

    @Test
    void theManifestsListEveryConnectorAndOnlyNamedOnes() throws IOException {
        List<String> listed = listed(SourceConnector.class);
        assertEquals(manifest(SourceConnector.class), listed);
        assertEquals(Set.of(MirrorGroupOffsetConnector.class.getName(),
            BridgeMirrorCheckpointConnector.class.getName(), BridgeMirrorHeartbeatConnector.class.getName(),
            BridgeMirrorSourceConnector.class.getName()),
            Set.copyOf(listed));
        assertFalse(listed.contains(BridgeSourceConnector.class.getName()));
        assertEquals(List.of(BridgeMirrorSinkConnector.class.getName()), listed(SinkConnector.class));
        assertEquals(manifest(SinkConnector.class), listed(SinkConnector.class));
    }

    @Test
    void everyConnectorIsPublicAndConcreteAndSaysItsVersion() {
        for (Connector connector : all()) {
            assertTrue(Modifier.isPublic(connector.getClass().getModifiers()));
            assertFalse(Modifier.isAbstract(connector.getClass().getModifiers()));
            assertEquals(System.getProperty("shim.version"), connector.version());
        }
        assertEquals(System.getProperty("shim.version"), new BridgeSinkTask().version());
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
    void noSimpleNameIsStocksNorAnother() {
        Set<String> aliases = new HashSet<>();
        for (Connector connector : all()) {
            assertTrue(aliases.add(connector.getClass().getSimpleName().replaceAll("Connector$", "")));
            String alias = connector.getClass().getSimpleName().replaceAll("(Source|Sink)?Connector$", "");
            assertFalse(STOCK.contains(alias) || STOCK.contains(connector.getClass().getSimpleName()
                .replace("Connector", "")), alias);
        }
    }

    private static List<Connector> all() {
        List<Connector> all = new ArrayList<>();
        ServiceLoader.load(SourceConnector.class).forEach(all::add);
        ServiceLoader.load(SinkConnector.class).forEach(all::add);
        return all;
    }

    private static List<String> listed(Class<? extends Connector> kind) {
        return ServiceLoader.load(kind).stream().map(provider -> provider.type().getName()).collect(Collectors.toList());
    }

    private static List<String> manifest(Class<? extends Connector> kind) throws IOException {
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(PluginTest.class.getResourceAsStream(
            "/META-INF/services/" + kind.getName()), StandardCharsets.UTF_8))) {
            return lines.lines().filter(line -> !line.isBlank()).collect(Collectors.toList());
        }
    }
}
