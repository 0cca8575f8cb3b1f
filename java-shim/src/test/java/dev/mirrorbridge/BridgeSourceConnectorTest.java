package dev.mirrorbridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.mirrorbridge.FakeService.Reply;
import dev.mirrorbridge.FakeService.Request;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.mirror.MirrorGroupOffsetConnector;
import org.apache.kafka.connect.source.ExactlyOnceSupport;
import org.apache.kafka.connect.source.SourceConnectorContext;
import org.apache.kafka.connect.storage.OffsetStorageReader;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

@Timeout(60)
class BridgeSourceConnectorTest {
    /** Well below the request timeout, which a call that is waited for takes. */
    private static final long BUSY_MS = 5_000;
    private static final String PATH = "/v1/connectors/c";

    private final FakeService service = FakeService.start();
    private final BlockingQueue<Exception> raised = new LinkedBlockingQueue<>();
    private final MirrorGroupOffsetConnector connector = connector();

    @AfterEach
    void close() {
        Tasks.allowNothing();
        service.close();
        connector.stop();
    }

    @Test
    void startReturnsThoughTheServiceHangs() {
        service.answers = request -> FakeService.HANG;
        long began = System.nanoTime();
        connector.start(Tasks.props(service.url()));
        assertTrue(millisSince(began) < BUSY_MS);
        service.await("POST", Sessions.PATH);
    }

    @Test
    void theServiceIsToldTheConfigurationAndBothVersions() {
        Map<String, String> props = Tasks.props(service.url());
        props.put("unset", null);
        props.replace("target.cluster.alias", "\tB  ");
        connector.start(props);
        Request request = service.await("PUT", PATH);
        assertEquals(Tasks.props(service.url()), request.body.get("config"));
        assertEquals("group_offset", request.body.get("kind"));
        assertEquals(Version.VERSION, request.body.get("version"));
        assertEquals(1L, request.body.get("protocol"));
        assertTrue(((String) request.body.get("session")).matches("[0-9]{13}-[0-9A-Za-z-]{1,64}"));
    }

    @Test
    void oneThatIsNotEnabledHasNoTasks() {
        Map<String, String> props = Tasks.props(service.url());
        connector.start(props);
        assertEquals(3, connector.taskConfigs(3).size());
        connector.stop();
        props.put("enabled", " FALSE ");
        connector.start(props);
        assertEquals(List.of(), connector.taskConfigs(3));
    }

    @Test
    void startWithTheServiceAwayGoesOnUntilItIsThere() {
        int port = service.port();
        service.close();
        connector.start(Tasks.props(service.url()));
        try (FakeService late = FakeService.startAt(port)) {
            late.await("PUT", PATH);
            connector.stop();
        }
        assertEquals(List.of(), List.copyOf(raised));
    }

    @ParameterizedTest
    @ValueSource(ints = {200, 404, 422, 500, 503})
    void garbageIsTriedAgainWithBackOffAndRaisesNothing(int status) throws Exception {
        CountDownLatch third = new CountDownLatch(3);
        service.answers = request -> {
            third.countDown();
            return new Reply(status, "<html>");
        };
        connector.start(Tasks.props(service.url()));
        assertTrue(third.await(30, TimeUnit.SECONDS));
        assertTrue(raised.isEmpty());
    }

    @Test
    void aConfigurationThatTheServiceRejectsIsRaisedInItsWords() throws Exception {
        service.answers = request -> FakeService.error(400, "bad_config", "topics: nothing matches");
        connector.start(Tasks.props(service.url()));
        Exception error = raised.poll(30, TimeUnit.SECONDS);
        assertEquals(ConnectException.class, error.getClass());
        assertEquals("topics: nothing matches", error.getMessage());
    }

    @Test
    void aWrongTokenIsRaisedByItsKeyAndNeverByItsValue() throws Exception {
        service.answers = request -> FakeService.error(401, "unauthorized", "wrong token");
        Map<String, String> props = Tasks.props(service.url());
        props.put("bridge.auth.token", "s3cr3t");
        connector.start(props);
        String message = raised.poll(30, TimeUnit.SECONDS).getMessage();
        assertTrue(message.contains("bridge.auth.token") && !message.contains("s3cr3t"), message);
    }

    @Test
    void stopTellsTheServiceAndReturnsWithinASecondThoughItHangs() {
        connector.start(Tasks.props(service.url()));
        Object session = service.await("PUT", PATH).body.get("session");
        service.answers = request -> FakeService.HANG;
        long began = System.nanoTime();
        connector.stop();
        assertTrue(millisSince(began) < BUSY_MS, "stop took " + millisSince(began) + " ms");
        assertEquals(Map.of("session", session), service.await("PUT", PATH + "/stop").body);
    }

    @Test
    void stopEndsABackOffWithinASecondAndTheThreadWithIt() throws Exception {
        service.answers = request -> FakeService.error(503, "overloaded", "full").with("Retry-After", "60");
        connector.start(Tasks.props(service.url()));
        service.await("POST", Sessions.PATH);
        long began = System.nanoTime();
        connector.stop();
        assertTrue(millisSince(began) < BUSY_MS);
        for (Thread thread : Thread.getAllStackTraces().keySet()) {
            if (thread.getName().equals("mirror-bridge-start-c")) {
                thread.join(BUSY_MS);
                assertFalse(thread.isAlive());
            }
        }
    }

    @Test
    void aConnectorThatNeverStartedStops() {
        new MirrorGroupOffsetConnector().stop();
    }

    @Test
    void taskConfigsAreStaticAndNeedNoNetwork() {
        service.close();
        connector.start(Tasks.props(service.url()));
        List<Map<String, String>> configs = connector.taskConfigs(3);
        assertEquals(configs, connector.taskConfigs(3));
        assertEquals(3, configs.size());
        for (int i = 0; i < 3; i++) {
            Map<String, String> expected = new HashMap<>(Tasks.props(service.url()));
            expected.put("bridge.kind", "group_offset");
            expected.put("task.index", Integer.toString(i));
            expected.put("task.count", "3");
            assertEquals(expected, configs.get(i));
        }
        assertEquals(BridgeSourceTask.class, connector.taskClass());
    }

    @Test
    void secretsDoNotStartOverPlainHttpToAnotherHost() {
        Map<String, String> props = Tasks.props("http://bridge.example:8900");
        Tasks.allow("*");
        props.put("source.admin.sasl.jaas.config", "s3cr3t");
        String message = assertThrows(ConnectException.class, () -> connector.start(props)).getMessage();
        assertTrue(message.contains("bridge.url") && message.contains("source.admin.sasl.jaas.config"), message);
        assertFalse(message.contains("s3cr3t"));
    }

    @Test
    void offsetsCanBeDeletedAndNothingElse() {
        Map<Map<String, ?>, Map<String, ?>> offsets = new HashMap<>();
        offsets.put(Map.of("whatever", 1), null);
        offsets.put(null, null);
        assertTrue(connector.alterOffsets(Map.of(), offsets));
        offsets.put(Map.of("group", "g"), Map.of("offset", 1L));
        assertThrows(ConnectException.class, () -> connector.alterOffsets(Map.of(), offsets));
        offsets.clear();
        offsets.put(null, Map.of("offset", 1L));
        assertEquals("Source partitions may not be null",
            assertThrows(ConnectException.class, () -> connector.alterOffsets(Map.of(), offsets)).getMessage());
    }

    @Test
    void noRecordsAreNeverTwoOfARecord() {
        assertEquals(ExactlyOnceSupport.SUPPORTED, connector.exactlyOnceSupport(Map.of()));
    }

    private MirrorGroupOffsetConnector connector() {
        MirrorGroupOffsetConnector made = new MirrorGroupOffsetConnector();
        made.initialize(new SourceConnectorContext() {
            @Override
            public OffsetStorageReader offsetStorageReader() {
                return null;
            }

            @Override
            public void requestTaskReconfiguration() {
                throw new AssertionError("task configs are static");
            }

            @Override
            public void raiseError(Exception error) {
                raised.add(error);
            }
        });
        return made;
    }

    private static long millisSince(long nanos) {
        return (System.nanoTime() - nanos) / 1_000_000;
    }
}
