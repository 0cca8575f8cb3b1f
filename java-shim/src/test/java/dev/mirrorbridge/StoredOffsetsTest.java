package dev.mirrorbridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.mirrorbridge.FakeService.Reply;
import dev.mirrorbridge.FakeService.Request;
import java.lang.reflect.Proxy;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;
import java.util.logging.Level;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.source.SourceTaskContext;
import org.apache.kafka.connect.storage.OffsetStorageReader;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What the service asks of Connect's offset storage, over a storage of the test's own. */
class StoredOffsetsTest {
    private static final String POLL = "/v1/connectors/c/tasks/0/poll";
    private static final String ASKING = "{\"records\":[],\"offsets_of\":["
        + "{\"topic\":\"orders\",\"partition\":3,\"cluster\":\"A\"},{\"cluster\":\"A\",\"partition\":4,\"topic\":\"orders\"}]}";

    private final FakeService service = FakeService.start();
    private final BridgeSourceTask task = new BridgeSourceTask();
    private volatile Function<Collection<?>, Map<?, ?>> storage = asked -> Map.of();

    @BeforeEach
    void start() {
        OffsetStorageReader reader = new OffsetStorageReader() {
            @Override
            public <T> Map<String, Object> offset(Map<String, T> partition) {
                throw new AssertionError("one by one");
            }

            @Override
            @SuppressWarnings("unchecked")
            public <T> Map<Map<String, T>, Map<String, Object>> offsets(Collection<Map<String, T>> partitions) {
                return (Map<Map<String, T>, Map<String, Object>>) storage.apply(partitions);
            }
        };
        task.initialize((SourceTaskContext) Proxy.newProxyInstance(getClass().getClassLoader(),
            new Class<?>[] {SourceTaskContext.class}, (proxy, method, given) -> reader));
        task.start(Tasks.config(service.url()));
        service.polls(new Reply(200, ASKING));
    }

    @AfterEach
    void close() {
        task.stop();
        service.close();
    }

    /** The first poll that tells offsets; polls go on until then. */
    private List<?> told() throws Exception {
        for (int i = 0; i < 50; i++) {
            task.poll();
            for (Request request : service.requests) {
                if (request.path.equals(POLL) && !((List<?>) request.body.get("offsets")).isEmpty()) {
                    return (List<?>) request.body.get("offsets");
                }
            }
        }
        throw new AssertionError("no offsets in " + service.requests);
    }

    @Test
    void theyAreToldInAPollByHashMapsAsStockKeepsThem() throws Exception {
        Map<String, Object> third = new HashMap<>(Map.of("cluster", "A", "partition", 3, "topic", "orders"));
        storage = asked -> {
            for (Object partition : asked) {
                assertEquals(HashMap.class, partition.getClass());
                assertEquals(Integer.class, ((Map<?, ?>) partition).get("partition").getClass());
            }
            return Map.of(third, Map.of("offset", 42L));
        };
        List<?> offsets = told();
        assertEquals(2, offsets.size());
        assertEquals(Map.of("source_partition", Map.of("cluster", "A", "partition", 3L, "topic", "orders"),
            "source_offset", Map.of("offset", 42L)), offsets.get(0));
        assertNull(((Map<?, ?>) offsets.get(1)).get("source_offset"));
    }

    @Test
    void aStorageThatTakesItsTimeHoldsNoPollAndIsAskedOnce() throws Exception {
        CountDownLatch ready = new CountDownLatch(1);
        AtomicInteger times = new AtomicInteger();
        storage = asked -> {
            times.incrementAndGet();
            try {
                ready.await();
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
            return Map.of();
        };
        long began = System.nanoTime();
        task.poll();
        task.poll();
        assertTrue((System.nanoTime() - began) / 1_000_000 < 10_000, "polls are held for a second each");
        assertTrue(service.count("POST", POLL) > 2);
        assertEquals(1, times.get());
        ready.countDown();
        assertEquals(2, told().size());
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void aStorageThatFailsIsAskedAgainAndSaysSoOnce(boolean throwing) throws Exception {
        AtomicInteger times = new AtomicInteger();
        storage = asked -> {
            if (times.incrementAndGet() > 3) {
                return Map.of();
            }
            if (throwing) {
                throw new ConnectException("Failed to fetch offsets.");
            }
            return Map.of(asked.iterator().next(), Map.of("offset", new Object()));
        };
        try (LogLines log = new LogLines()) {
            assertEquals(2, told().size());
            List<String> warnings = log.from(Level.WARNING);
            assertEquals(1, warnings.size(), warnings::toString);
            assertTrue(warnings.get(0).contains("offset storage can't be read"));
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"{\"offsets_of\":7}", "{\"offsets_of\":[7]}", "{\"offsets_of\":[{\"partition\":null}]}"})
    void aQuestionThatIsNotOfTheContractIsNoFailure(String body) throws Exception {
        service.polls(new Reply(200, body));
        assertNull(task.poll());
    }
}
