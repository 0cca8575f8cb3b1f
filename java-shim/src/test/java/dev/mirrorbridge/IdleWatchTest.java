package dev.mirrorbridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Set;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** In real time: a task that lives and is not polled says so, once. */
@Timeout(60)
class IdleWatchTest {
    private static final String TASK = "/v1/connectors/c/tasks/0";

    private final FakeService service = FakeService.start();
    private final BridgeSourceTask task = Tasks.started(new Pacer(), Tasks.config(service.url()));

    @AfterEach
    void close() {
        task.stop();
        service.close();
    }

    @Test
    void aTaskThatIsNotPolledSaysSoOnceAndAgainAfterTheNextPolls() throws Exception {
        task.poll();
        Object session = service.await("PUT", TASK).body.get("session");
        FakeService.Request told = service.await("POST", TASK + "/idle");
        assertEquals(Set.of("session", "idle_ms"), told.body.keySet());
        assertEquals(session, told.body.get("session"));
        long idleMs = (Long) told.body.get("idle_ms");
        assertTrue(idleMs >= IdleWatch.AFTER_MS && idleMs < 10_000, "idle for " + idleMs);
        Tasks.sleep(2_500);
        assertEquals(1, service.count("POST", TASK + "/idle"));
        task.poll();
        service.await("POST", TASK + "/idle");
        assertEquals(2, service.count("POST", TASK + "/idle"));
    }

    @Test
    void aTaskWhoseLastPollGotLostSaysSoToo() throws Exception {
        task.poll();
        service.answers = request -> request.path.endsWith("/poll")
            ? FakeService.error(503, "overloaded", "full") : FakeService.usual(request);
        task.poll();
        service.await("POST", TASK + "/idle");
    }

    @Test
    void aPausedTaskGoesOnSayingSoNowAndThen() throws Exception {
        TaskAddress address = new TaskAddress("c", 0, 1, Sessions.byThisClock());
        try (BridgeClient client = new BridgeClient(Settings.from(Tasks.props(service.url())))) {
            IdleWatch watch = new IdleWatch(idleMs -> client.idleTask(address, idleMs), () -> true, 2);
            watch.pollBegins();
            watch.pollEnds("c-0");
            for (int i = 0; i < 5; i++) {
                service.await("POST", TASK + "/idle");
            }
            watch.stop();
        }
    }

    @Test
    void aTaskThatIsPolledSaysNothingThoughItsPollsAreHeld() throws Exception {
        service.polls(FakeService.HANG);
        for (int i = 0; i < 3; i++) {
            task.poll();
        }
        service.answers = FakeService::usual;
        for (int i = 0; i < 3; i++) {
            task.poll();
            Tasks.sleep(100);
        }
        assertEquals(0, service.count("POST", TASK + "/idle"));
    }

    @Test
    void aServiceThatIsOlderIsAskedThreeTimesAndThenLeftAlone() throws Exception {
        service.answers = request -> request.path.endsWith("/idle")
            ? FakeService.error(404, "no_such_route", "Not Found") : FakeService.usual(request);
        task.poll();
        for (int i = 0; i < 3; i++) {
            service.await("POST", TASK + "/idle");
        }
        Tasks.sleep(2_500);
        assertEquals(3, service.count("POST", TASK + "/idle"));
        assertEquals(1, service.count("PUT", TASK), "it is known as before");
        task.poll();
        assertEquals(1, service.count("PUT", TASK));
    }

    @Test
    void aTaskThatWasStoppedOrThatTheServiceDoesNotKnowSaysNothing() throws Exception {
        task.poll();
        task.stop();
        Tasks.sleep(1_500);
        assertEquals(0, service.count("POST", TASK + "/idle"));
        assertFalse(threads());
        service.answers = request -> FakeService.error(503, "overloaded", "full");
        BridgeSourceTask lost = Tasks.started(new Pacer(), Tasks.config(service.url()));
        lost.poll();
        Tasks.sleep(1_500);
        lost.stop();
        assertEquals(0, service.count("POST", TASK + "/idle"));
    }

    private static boolean threads() {
        return Thread.getAllStackTraces().keySet().stream().anyMatch(t -> t.getName().startsWith("mirror-bridge-idle"));
    }
}
