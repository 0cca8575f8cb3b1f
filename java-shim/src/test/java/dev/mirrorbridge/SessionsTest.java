package dev.mirrorbridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.connect.mirror.MirrorGroupOffsetConnector;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A worker's own clock decides nothing: the service gives the sessions, and hears only how long ago the start was. */
@Timeout(60)
class SessionsTest {
    private static final String TASK = "/v1/connectors/c/tasks/0";
    private static final String GIVEN = "0000000000007-001-0a0b0c0d-77";

    private final FakeService service = FakeService.start();
    private final AtomicInteger asked = new AtomicInteger();

    @AfterEach
    void close() {
        service.close();
    }

    /** As a service that counts from 1970: no worker's clock shows that time. */
    private FakeService.Reply given(FakeService.Request request) {
        if (request.path.equals(Sessions.PATH)) {
            return new FakeService.Reply(200, "{\"session\":\"" + GIVEN + asked.incrementAndGet() + "\"}");
        }
        return FakeService.usual(request);
    }

    @Test
    void aTaskSpeaksInTheSessionThatItIsGiven() throws Exception {
        service.answers = this::given;
        BridgeSourceTask task = Tasks.started(new Pacer(), Tasks.config(service.url()));
        Tasks.sleep(30);
        task.poll();
        long age = (Long) service.await("POST", Sessions.PATH).body.get("age_us");
        assertTrue(age >= 30_000 && age < 60_000_000, "age_us " + age);
        assertEquals(GIVEN + 1, service.await("PUT", TASK).body.get("session"));
        assertEquals(GIVEN + 1, service.await("POST", TASK + "/poll").body.get("session"));
        task.stop();
        assertEquals(GIVEN + 1, service.await("DELETE", TASK).body.get("session"));
        assertEquals(1, asked.get());
    }

    @Test
    void aTaskThatIsNotKnownAsksAgainWithItsWholeAge() throws Exception {
        service.answers = this::given;
        BridgeSourceTask task = Tasks.started(new Pacer(), Tasks.config(service.url()));
        task.poll();
        long first = (Long) service.await("POST", Sessions.PATH).body.get("age_us");
        service.await("POST", TASK + "/poll");
        service.answers = request -> asked.get() == 1 && !request.path.equals(Sessions.PATH)
            ? FakeService.error(404, "unknown_task", "given by another run of the service") : given(request);
        task.poll();
        assertTrue((Long) service.await("POST", Sessions.PATH).body.get("age_us") > first);
        assertEquals(GIVEN + 2, service.await("PUT", TASK).body.get("session"));
        task.stop();
    }

    @Test
    void aConnectorSpeaksInTheSessionThatItIsGivenAndAsksAgainWhenThatIsNotKnown() {
        service.answers = request -> asked.get() == 1 && request.method.equals("PUT")
            ? FakeService.error(404, "unknown_connector", "given by another run of the service") : given(request);
        MirrorGroupOffsetConnector connector = new MirrorGroupOffsetConnector();
        connector.start(Tasks.props(service.url()));
        assertEquals(GIVEN + 1, service.await("PUT", "/v1/connectors/c").body.get("session"));
        assertEquals(GIVEN + 2, service.await("PUT", "/v1/connectors/c").body.get("session"));
        connector.stop();
        assertEquals(GIVEN + 2, service.await("PUT", "/v1/connectors/c/stop").body.get("session"));
    }

    @Test
    void anOlderServiceGivesNoneSoTheWorkersClockCounts() throws Exception {
        service.answers = request -> request.path.equals(Sessions.PATH)
            ? FakeService.error(404, "no_such_route", "There is nothing at /v1/sessions") : FakeService.usual(request);
        BridgeSourceTask task = Tasks.started(new FastPacer(), Tasks.config(service.url()));
        task.poll();
        String session = (String) service.await("PUT", TASK).body.get("session");
        long age = System.currentTimeMillis() - Long.parseLong(session.substring(0, 13));
        assertTrue(age >= 0 && age < 60_000, session);
        assertNotEquals(Map.of(), service.await("POST", TASK + "/poll").body);
        task.stop();
    }

    @ParameterizedTest
    @ValueSource(strings = {"{}", "{\"session\":7}", "{\"session\":\"soon\"}", "<html>", "[]"})
    void whatIsNoSessionIsAskedForAgain(String body) throws Exception {
        service.answers = request -> asked.getAndIncrement() < 3 ? new FakeService.Reply(200, body)
            : FakeService.usual(request);
        FastPacer pacer = new FastPacer();
        BridgeSourceTask task = Tasks.started(pacer, Tasks.config(service.url()));
        for (int i = 0; i < 60 && service.count("PUT", TASK) == 0; i++) {
            task.poll();
        }
        assertEquals(4, service.count("POST", Sessions.PATH));
        service.await("PUT", TASK);
        task.stop();
    }
}
