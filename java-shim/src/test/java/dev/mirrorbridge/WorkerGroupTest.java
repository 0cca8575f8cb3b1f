package dev.mirrorbridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.config.ConfigValue;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.mirror.MirrorGroupOffsetConnector;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The Connect cluster that the service is told, and a name that another one has. */
@Timeout(60)
@SuppressWarnings("try") // the worker is there, and not asked
class WorkerGroupTest {
    private static final String TASK = "/v1/connectors/c/tasks/0";
    private static final FakeService.Reply TAKEN = FakeService.error(409, "name_taken", "another Connect cluster runs it");

    private final FakeService service = FakeService.start();

    @AfterEach
    void close() {
        service.close();
    }

    @ParameterizedTest
    @CsvSource({
        "east, connect-w:8083, east", "east-one, connect-one, east-one", "east-w1, w1, east", "east-w1-w1, w1, east-w1",
        "a:b c, connect-w:8083, a:b c",
    })
    void itIsInTheClientIdsOfTheWorkersOwnClients(String admin, String client, String group) throws Exception {
        assertNull(WorkerGroup.id());
        try (FakeWorker worker = new FakeWorker(admin, client)) {
            assertEquals(group, WorkerGroup.id());
        }
    }

    @Test
    void ofTwoWorkersInOneJvmNoneIsTold() throws Exception {
        try (FakeWorker one = new FakeWorker("east", "connect-1"); FakeWorker two = new FakeWorker("west", "connect-2")) {
            assertNull(WorkerGroup.id());
        }
    }

    @Test
    void aTaskWhoseNameAnotherConnectClusterRunsFailsInTheServicesWordsAfterSomeTime() throws Exception {
        FastPacer pacer = new FastPacer();
        try (FakeWorker worker = new FakeWorker("east", "connect-1")) {
            BridgeSourceTask task = Tasks.started(pacer, Tasks.config(service.url()));
            service.answers = request -> request.path.equals(TASK) ? TAKEN : FakeService.usual(request);
            for (int i = 0; i < 9; i++) {
                assertNull(task.poll());
            }
            ConnectException failure = assertThrows(ConnectException.class, () -> {
                for (int i = 0; i < 5; i++) {
                    assertNull(task.poll());
                }
            });
            assertEquals("another Connect cluster runs it", failure.getMessage());
            assertEquals("east", service.await("PUT", TASK).body.get("connect_group_id"));
            task.stop();
        }
    }

    @Test
    void aTaskWhoseNameIsFreeAgainInTimeGoesOn() throws Exception {
        BridgeSourceTask task = Tasks.started(new FastPacer(), Tasks.config(service.url()));
        for (int round = 0; round < 3; round++) {
            service.answers = request -> request.path.equals(TASK) ? TAKEN : FakeService.usual(request);
            for (int i = 0; i < 8; i++) {
                assertNull(task.poll());
            }
            service.answers = request -> request.path.equals(TASK)
                ? FakeService.error(409, "name_held", "last heard of 5 s ago") : FakeService.usual(request);
            for (int i = 0; i < 20; i++) {
                assertNull(task.poll());
            }
        }
        service.answers = FakeService::usual;
        for (int i = 0; i < 5; i++) {
            assertNull(task.poll());
        }
        assertTrue(service.count("POST", TASK + "/poll") > 0);
        task.stop();
    }

    @Test
    void aConnectorWhoseNameAnotherConnectClusterRunsFailsInTheServicesWords() throws Exception {
        BlockingQueue<Exception> raised = new LinkedBlockingQueue<>();
        Pacer pacer = new FastPacer();
        service.answers = request -> request.path.equals("/v1/connectors/c") ? TAKEN : FakeService.usual(request);
        Registration registration = new Registration("group_offset", Tasks.props(service.url()),
            Settings.from(Tasks.props(service.url())), pacer, raised::add);
        registration.start();
        Exception failure = raised.poll(30, TimeUnit.SECONDS);
        assertEquals("another Connect cluster runs it", failure.getMessage());
        assertTrue(pacer.nowMs() >= TaskSession.FENCED_MS);
        registration.stop();
    }

    @Test
    void validationTellsTheServiceAndShowsTheRefusalAtTheName() throws Exception {
        service.answers = request -> new FakeService.Reply(200, "{\"name\":\"c\",\"error_count\":1,\"groups\":[],\"configs\":"
            + "[{\"value\":{\"name\":\"name\",\"value\":\"c\",\"errors\":[\"it is taken\"],\"visible\":true}}]}");
        try (FakeWorker worker = new FakeWorker("east", "connect-1")) {
            Map<String, String> props = Tasks.props(service.url());
            List<String> errors = new ArrayList<>();
            for (ConfigValue value : new MirrorGroupOffsetConnector().validate(props).configValues()) {
                if (value.name().equals("name")) {
                    errors.addAll(value.errorMessages());
                }
            }
            assertEquals(List.of("it is taken"), errors);
            Map<?, ?> asked = service.await("PUT", "/v1/plugins/group_offset/validate").body;
            assertEquals("east", asked.get("connect_group_id"));
        }
        new MirrorGroupOffsetConnector().validate(Tasks.props(service.url()));
        assertFalse(service.await("PUT", "/v1/plugins/group_offset/validate").body.containsKey("connect_group_id"));
    }
}
