package dev.mirrorbridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.mirrorbridge.FakeService.Reply;
import dev.mirrorbridge.FakeService.Request;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.logging.Level;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.source.SourceRecord;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class BridgeSourceTaskTest {
    private static final String TASK = "/v1/connectors/c/tasks/0";
    private static final String POLL = TASK + "/poll";
    private static final String RECORD = "{\"source_partition\":{\"group\":\"g\"},\"source_offset\":{\"offset\":0},"
        + "\"topic\":\"t\",\"value\":\"AAE=\"}";

    private final FakeService service = FakeService.start();
    private final FastPacer pacer = new FastPacer();
    private BridgeSourceTask task;

    @BeforeEach
    void start() {
        task = Tasks.started(pacer, Tasks.config(service.url()));
    }

    @AfterEach
    void close() {
        task.stop();
        service.close();
    }

    @Test
    void startTouchesNoNetwork() {
        assertEquals(List.of(), service.requests);
    }

    @Test
    void theFirstPollRegistersWithTheConnectorsOwnConfigurationAndBothVersions() throws Exception {
        assertNull(task.poll());
        Request request = service.await("PUT", TASK);
        assertTrue(((String) request.body.get("session")).matches("[0-9]{13}-[0-9A-Za-z-]{1,64}"));
        assertEquals("group_offset", request.body.get("kind"));
        assertEquals(1L, request.body.get("task_count"));
        assertEquals(Tasks.props(service.url()), request.body.get("config"));
        assertEquals(Version.VERSION, request.body.get("version"));
        assertEquals(1L, request.body.get("protocol"));
        assertEquals("HTTP/1.1", request.protocol);
    }

    @Test
    void theSessionIsOfTheTaskAndALaterTaskHasAGreaterOne() throws Exception {
        task.poll();
        Object first = service.await("PUT", TASK).body.get("session");
        assertEquals(first, service.await("POST", POLL).body.get("session"));
        assertNotEquals(Sessions.byThisClock(), Sessions.byThisClock());
        assertTrue(((String) first).compareTo("0000000000001-x") > 0);
    }

    @Test
    void aPollAsksTheServiceToHoldItForASecondAtMost() throws Exception {
        task.poll();
        long wait = (Long) service.await("POST", POLL).body.get("wait_ms");
        assertTrue(wait > 500 && wait <= 1000, "wait_ms " + wait);
    }

    @Test
    void noRecordsIsNullAndNotAnEmptyList() throws Exception {
        assertNull(task.poll());
    }

    @Test
    void aServiceThatHoldsNothingIsNotAskedInAHotLoop() throws Exception {
        task.poll();
        assertEquals(10, service.count("POST", POLL));
    }

    @Test
    void recordsArriveAsConnectsOwn() throws Exception {
        service.polls(new Reply(200, "{\"records\":[" + RECORD + "],\"something_new\":1}"));
        List<SourceRecord> records = task.poll();
        assertEquals("t", records.get(0).topic());
        assertEquals(1, records.size());
    }

    @Test
    void theNextPollNamesTheBatchThatWasRead() throws Exception {
        service.polls(new Reply(200, "{\"records\":[" + RECORD + "],\"batch\":7}"));
        assertEquals(1, task.poll().size());
        assertFalse(service.await("POST", POLL).body.containsKey("batch"));
        service.answers = request -> new Reply(200, "{\"records\":[" + RECORD + "],\"batch\":8}");
        assertEquals(1, task.poll().size());
        assertEquals(7L, service.await("POST", POLL).body.get("batch"));
    }

    @ParameterizedTest
    @ValueSource(strings = {"{\"records\":[7],\"batch\":8}", "{\"records\":[],\"batch\":\"8\"}", "<html>", ""})
    void anAnswerThatCouldNotBeReadIsAskedForAgain(String garbage) throws Exception {
        service.polls(new Reply(200, "{\"records\":[" + RECORD + "],\"batch\":7}"));
        task.poll();
        service.await("POST", POLL);
        service.polls(new Reply(200, garbage));
        assertNull(task.poll());
        assertEquals(7L, service.await("POST", POLL).body.get("batch"));
        service.answers = FakeService::usual;
        task.poll();
        task.poll();
        assertEquals(7L, service.await("POST", POLL).body.get("batch"));
    }

    @Test
    void theBatchOutlivesAServiceThatForgotTheTask() throws Exception {
        service.polls(new Reply(200, "{\"records\":[" + RECORD + "],\"batch\":7}"));
        task.poll();
        service.await("POST", POLL);
        service.polls(FakeService.error(404, "unknown_task", "no task 0 of c"));
        task.poll();
        service.answers = FakeService::usual;
        service.await("PUT", TASK);
        assertEquals(7L, service.await("POST", POLL).body.get("batch"));
    }

    @ParameterizedTest
    @ValueSource(ints = {200, 204, 301, 404, 409, 413, 422, 429, 500, 502, 503})
    void whateverAProxyAnswersTheTaskDoesNotFail(int status) throws Exception {
        service.answers = request -> new Reply(status, status == 204 ? "" : "<html>garbage</html>");
        for (int i = 0; i < 10; i++) {
            assertNull(task.poll());
        }
    }

    @Test
    void aBodyThatIsCutOffIsNoFailure() throws Exception {
        service.polls(FakeService.CUT);
        assertNull(task.poll());
        service.answers = FakeService::usual;
        assertNull(task.poll());
    }

    @Test
    void anIdleConnectionThatTheServerClosedIsReplacedWithoutAWord() throws Exception {
        task.poll();
        List<Integer> first = new ArrayList<>(List.of(1));
        service.answers = request -> !first.isEmpty() && first.remove(0) == 1 ? FakeService.DROP
            : FakeService.usual(request);
        try (LogLines log = new LogLines()) {
            task.poll();
            assertEquals(List.of(), log.from(Level.ALL));
        }
        assertEquals(List.of(), first);
    }

    @ParameterizedTest
    @ValueSource(strings = {"{\"records\":7}", "{\"records\":[{}]}", "{\"records\":[{\"topic\":1}]}",
        "{\"records\":[{\"topic\":\"t\",\"source_partition\":{},\"source_offset\":{},\"value\":\"not base64!\"}]}"})
    void recordsThatAreNotOfTheContractAreNoFailure(String body) throws Exception {
        service.polls(new Reply(200, body));
        assertNull(task.poll());
    }

    @Test
    void backOffGrowsToItsCapAndIsSpreadOverPollsOfASecond() throws Exception {
        service.answers = request -> FakeService.error(503, "overloaded", "full");
        for (int i = 0; i < 400; i++) {
            assertNull(task.poll());
        }
        assertTrue(pacer.pauses.stream().allMatch(ms -> ms <= 1000));
        long requests = service.requests.size();
        assertTrue(requests > 130 && requests < 275, requests + " requests in 400 s");
    }

    @ParameterizedTest
    @CsvSource({"429", "503"})
    void retryAfterIsHonoured(int status) throws Exception {
        service.answers = request -> FakeService.error(status, "overloaded", "full").with("Retry-After", "7");
        for (int i = 0; i < 6; i++) {
            task.poll();
        }
        assertEquals(1, service.requests.size());
        task.poll();
        task.poll();
        assertEquals(2, service.requests.size());
    }

    @Test
    void theServiceAwayForLongIsTwoLinesOfLog() throws Exception {
        task.poll();
        try (LogLines log = new LogLines()) {
            service.answers = request -> FakeService.error(500, "oops", "two\nlines");
            for (int i = 0; i < 100; i++) {
                assertNull(task.poll());
            }
            assertEquals(1, log.from(Level.INFO).size(), log.from(Level.INFO)::toString);
            assertTrue(log.from(Level.INFO).get(0).contains("two lines"));
            service.answers = FakeService::usual;
            for (int i = 0; i < 60 && log.from(Level.INFO).size() < 2; i++) {
                task.poll();
            }
            assertEquals(2, log.from(Level.INFO).size(), log.from(Level.INFO)::toString);
            assertTrue(log.from(Level.INFO).get(1).contains("is available again"));
            task.poll();
            assertEquals(2, log.from(Level.INFO).size());
        }
    }

    @Test
    void aServiceThatForgotTheTaskIsAskedAndToldAgainAtOnce() throws Exception {
        task.poll();
        List<Integer> first = new ArrayList<>(List.of(1));
        service.answers = request -> request.path.endsWith("/poll") && !first.isEmpty() && first.remove(0) == 1
            ? FakeService.error(404, "unknown_task", "no task 0 of c") : FakeService.usual(request);
        task.poll();
        assertEquals(2, service.count("PUT", TASK));
        assertEquals(2, service.count("POST", Sessions.PATH));
        assertEquals(2, service.requests.stream().map(r -> r.body.get("session")).filter(Objects::nonNull).distinct().count());
    }

    @Test
    void aServiceThatForgetsAgainAndAgainIsToldWithBackOff() throws Exception {
        service.polls(FakeService.error(404, "unknown_task", "no task 0 of c"));
        for (int i = 0; i < 100; i++) {
            assertNull(task.poll());
        }
        assertTrue(service.requests.size() < 200, service.requests.size() + " requests in 100 s");
    }

    @Test
    void aFencedTaskLogsOnceAsksNothingMoreAndFailsWhereConnectGoesOnPollingIt() throws Exception {
        task.poll();
        service.polls(FakeService.error(409, "fenced", "a newer session"));
        try (LogLines log = new LogLines()) {
            assertNull(task.poll());
            int requests = service.requests.size();
            for (int i = 0; i < 8; i++) {
                assertNull(task.poll());
            }
            ConnectException failure = assertThrows(ConnectException.class, () -> {
                for (int i = 0; i < 5; i++) {
                    assertNull(task.poll());
                }
            });
            assertTrue(failure.getMessage().startsWith("Invalid value c for configuration name: "), failure.getMessage());
            assertTrue(failure.getMessage().contains("a newer session"), failure.getMessage());
            task.commit();
            task.stop();
            assertEquals(requests, service.requests.size());
            assertEquals(1, log.from(Level.INFO).size());
        }
        assertTrue(pacer.pauses.stream().allMatch(ms -> ms <= 1000));
    }

    @Test
    void aBadConfigurationFailsTheTaskInTheServicesWords() {
        service.answers = request -> FakeService.error(400, "bad_config", "groups: no such filter");
        assertEquals("groups: no such filter", assertThrows(ConnectException.class, task::poll).getMessage());
    }

    @Test
    void aFailureThatTheServiceDeclaresFailsTheTaskInItsWords() {
        service.polls(new Reply(200, "{\"records\":[],\"failure\":\"cluster A refuses the credentials\"}"));
        ConnectException error = assertThrows(ConnectException.class, task::poll);
        assertEquals("cluster A refuses the credentials", error.getMessage());
    }

    @ParameterizedTest
    @CsvSource({"401,unauthorized", "403,forbidden"})
    void aWrongTokenFailsTheTaskByItsKeyAndNeverByItsValue(int status, String code) {
        Map<String, String> config = Tasks.config(service.url());
        config.put("bridge.auth.token", "s3cr3t-token");
        BridgeSourceTask guarded = Tasks.started(pacer, config);
        service.answers = request -> FakeService.error(status, code, "the token is wrong");
        try (LogLines log = new LogLines()) {
            ConnectException error = assertThrows(ConnectException.class, guarded::poll);
            assertTrue(error.getMessage().contains("bridge.auth.token"));
            assertTrue(error.getMessage().contains("the token is wrong"));
            assertFalse((error + log.from(Level.ALL).toString()).contains("s3cr3t"));
        }
        assertEquals("Bearer s3cr3t-token", service.await("POST", Sessions.PATH).authorization);
        guarded.stop();
    }

    @Test
    void namesAreEncodedIntoThePath() throws Exception {
        Map<String, String> config = Tasks.config(service.url() + "/prefix/");
        config.put("name", "a/b c+é?#%..");
        BridgeSourceTask named = Tasks.started(pacer, config);
        named.poll();
        service.await("PUT", "/prefix/v1/connectors/a%2Fb%20c%2B%C3%A9%3F%23%25../tasks/0");
        assertEquals("%2E%2E", BridgeClient.segment(".."));
        named.stop();
    }
}
