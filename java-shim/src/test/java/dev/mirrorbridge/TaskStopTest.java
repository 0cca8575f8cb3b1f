package dev.mirrorbridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.logging.Level;
import org.apache.kafka.connect.source.SourceRecord;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** In real time: no call of Connect's lasts much longer than a second, whatever the service does. */
@Timeout(60)
class TaskStopTest {
    /** Well below the request timeout, which a call that is waited for takes. */
    private static final long BUSY_MS = 5_000;
    private static final String TASK = "/v1/connectors/c/tasks/0";

    private final ExecutorService worker = Executors.newSingleThreadExecutor();
    private final FakeService service = FakeService.start();
    private BridgeSourceTask task = Tasks.started(new Pacer(), Tasks.config(service.url()));

    @AfterEach
    void close() {
        Tasks.allowNothing();
        service.close();
        worker.shutdownNow();
    }

    @Test
    void aPollLastsASecondThoughTheServiceHangs() throws Exception {
        service.polls(FakeService.HANG);
        for (int i = 0; i < 2; i++) {
            long began = System.nanoTime();
            assertNull(task.poll());
            assertTrue(millisSince(began) < BUSY_MS, "poll took " + millisSince(began) + " ms");
        }
        assertEquals(1, service.count("POST", TASK + "/poll"), "the call in flight is carried over");
        stopsWithinASecond();
    }

    @Test
    void aCallThatIsNeverAnsweredIsGivenUpAfterTheRequestTimeout() throws Exception {
        service.close();
        FakeService silent = FakeService.start();
        silent.answers = request -> FakeService.HANG;
        Map<String, String> config = Tasks.config(silent.url());
        config.put("bridge.request.timeout.ms", "200");
        task = Tasks.started(new Pacer(), config);
        assertNull(task.poll());
        assertTrue(silent.count("POST", Sessions.PATH) >= 2);
        stopsWithinASecond();
        silent.close();
    }

    @Test
    void stopEndsAPollInFlightWithinASecond() throws Exception {
        service.polls(FakeService.HANG);
        Future<List<SourceRecord>> poll = worker.submit(task::poll);
        service.await("POST", TASK + "/poll");
        stopsWithinASecond();
        assertNull(poll.get(BUSY_MS, TimeUnit.MILLISECONDS));
    }

    @Test
    void stopEndsABackOffWithinASecondAndAllLaterPollsReturnAtOnce() throws Exception {
        service.answers = request -> FakeService.error(503, "overloaded", "full").with("Retry-After", "60");
        Future<List<SourceRecord>> poll = worker.submit(task::poll);
        service.await("POST", Sessions.PATH);
        stopsWithinASecond();
        assertNull(poll.get(BUSY_MS, TimeUnit.MILLISECONDS));
        long began = System.nanoTime();
        assertNull(task.poll());
        assertTrue(millisSince(began) < TaskSession.HOLD_MS);
    }

    @Test
    void stopTakesNoSecondThoughTheServiceHangsOnIt() throws Exception {
        task.poll();
        service.answers = request -> FakeService.HANG;
        stopsWithinASecond();
        service.await("DELETE", TASK);
    }

    @Test
    void aHostThatNobodyKnowsIsNoFailure() throws Exception {
        Tasks.allow("http://no-such-host.invalid:8900");
        BridgeSourceTask lost = Tasks.started(new Pacer(), Tasks.config("http://no-such-host.invalid:8900"));
        try (LogLines log = new LogLines()) {
            long began = System.nanoTime();
            assertNull(lost.poll());
            assertTrue(millisSince(began) < BUSY_MS, "poll took " + millisSince(began) + " ms");
            assertTrue(log.from(Level.WARNING).size() <= 1);
        }
        lost.stop();
    }

    @Test
    void stopSaysGoodBye() throws Exception {
        task.poll();
        task.stop();
        Object session = service.await("PUT", TASK).body.get("session");
        assertEquals(Map.of("session", session), service.await("DELETE", TASK).body);
    }

    @Test
    void aTaskThatNeverPolledStopsWithoutACall() {
        task.stop();
        new BridgeSourceTask().stop();
        assertEquals(List.of(), service.requests);
    }

    @Test
    void aServiceThatComesBackIsFoundAgain() throws Exception {
        task.poll();
        int port = service.port();
        service.close();
        try (LogLines log = new LogLines()) {
            assertNull(task.poll());
            assertTrue(log.from(Level.WARNING).get(0).contains("connection refused"));
        }
        try (FakeService again = FakeService.startAt(port)) {
            again.answers = request -> request.path.endsWith("/poll") && again.count("PUT", TASK) == 0
                ? FakeService.error(404, "unknown_task", "no task 0 of c") : FakeService.usual(request);
            for (int i = 0; i < 4 && again.count("POST", TASK + "/poll") < 2; i++) {
                assertNull(task.poll());
            }
            again.await("PUT", TASK);
            again.await("POST", TASK + "/poll");
            task.stop();
        }
    }

    private void stopsWithinASecond() {
        long began = System.nanoTime();
        task.stop();
        assertTrue(millisSince(began) < BUSY_MS, "stop took " + millisSince(began) + " ms");
    }

    private static long millisSince(long nanos) {
        return (System.nanoTime() - nanos) / 1_000_000;
    }
}
