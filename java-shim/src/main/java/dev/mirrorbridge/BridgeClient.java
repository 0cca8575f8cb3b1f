package dev.mirrorbridge;

import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodySubscribers;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import javax.net.ssl.SSLContext;

/** Sends the calls of the HTTP contract. No method blocks: each returns a {@link Call} in flight. */
class BridgeClient implements AutoCloseable {
    private static final long LARGEST_ANSWER = 32L * 1024 * 1024;

    private final Settings settings;
    private final String group = WorkerGroup.id();
    private HttpClient http;
    /** That of {@link #http}; null for plain HTTP. */
    private SSLContext tls;

    BridgeClient(Settings settings) {
        this.settings = settings;
        this.http = http();
    }

    /** A client of its own for each set of certificates: calls in flight keep the one that they started with. */
    private synchronized HttpClient http() {
        SSLContext now = settings.tls == null ? null : settings.tls.current();
        if (http == null || now != tls) {
            tls = now;
            HttpClient.Builder builder = HttpClient.newBuilder()
                .version(HttpClient.Version.HTTP_1_1)
                .followRedirects(HttpClient.Redirect.NEVER)
                .connectTimeout(Duration.ofMillis(settings.requestTimeoutMs));
            http = (now == null ? builder : builder.sslContext(now)).build();
        }
        return http;
    }

    Call validate(String kind, Map<String, String> config, long timeoutMs) {
        return call("PUT", "/v1/plugins/" + segment(kind) + "/validate", inGroup(body("config", config)), timeoutMs);
    }

    /** An older service does not have this path. */
    Call beginSession(long ageUs) {
        return call("POST", Sessions.PATH, body("age_us", ageUs), settings.requestTimeoutMs);
    }

    Call startConnector(String name, String session, String kind, Map<String, String> config) {
        return call("PUT", connector(name), inGroup(start(session, kind, config)), settings.requestTimeoutMs);
    }

    Call stopConnector(String name, String session) {
        return call("PUT", connector(name) + "/stop", inGroup(body("session", session)), settings.requestTimeoutMs);
    }

    /** Each row has {@code source_partition} and {@code source_offset}, the latter null where it is deleted. */
    Call alterOffsets(String name, String kind, Map<String, String> config, List<Map<String, Object>> offsets,
        long timeoutMs) {
        Map<String, Object> body = body("config", config);
        body.put("kind", kind);
        body.put("offsets", offsets);
        body.put("version", Version.VERSION);
        body.put("protocol", Version.PROTOCOL);
        return call("POST", connector(name) + "/offsets", body, timeoutMs);
    }

    Call startTask(TaskAddress task, String kind, Map<String, String> config) {
        Map<String, Object> body = inGroup(start(task.session, kind, config));
        body.put("task_count", task.count);
        return call("PUT", path(task), body, settings.requestTimeoutMs);
    }

    /**
     * {@code batch}: number of the last batch that was read, null before the first; {@code offsets}: stored offsets, null
     * where none can be read; {@code measured} and {@code positions}: numbers of the last measurements and positions that
     * were read, null where none are wanted.
     */
    Call poll(TaskAddress task, long waitMs, int maxRecords, Long batch, List<Map<String, Object>> offsets,
        Long measured, Long positions) {
        Map<String, Object> body = body("session", task.session);
        body.put("wait_ms", waitMs);
        body.put("max_records", maxRecords);
        if (batch != null) {
            body.put("batch", batch);
        }
        if (offsets != null) {
            body.put("offsets", offsets);
        }
        if (measured != null) {
            body.put("measured", measured);
        }
        if (positions != null) {
            body.put("positions", positions);
        }
        return call("POST", path(task) + "/poll", body, waitMs + settings.requestTimeoutMs);
    }

    Call ack(TaskAddress task, List<Map<String, Object>> acked) {
        Map<String, Object> body = body("session", task.session);
        body.put("acked", acked);
        return call("POST", path(task) + "/ack", body, settings.requestTimeoutMs);
    }

    /** Reports that Connect has not polled the task for so long. An older service does not have this path. */
    Call idleTask(TaskAddress task, long idleMs) {
        Map<String, Object> body = body("session", task.session);
        body.put("idle_ms", idleMs);
        return call("POST", path(task) + "/idle", body, settings.requestTimeoutMs);
    }

    Call stopTask(TaskAddress task) {
        return call("DELETE", path(task), inGroup(body("session", task.session)), settings.requestTimeoutMs);
    }

    /** Ends threads and connections at once where the JDK can (21 and later); before that they end with the object. */
    @Override
    public synchronized void close() {
        try {
            HttpClient.class.getMethod("shutdownNow").invoke(http);
        } catch (ReflectiveOperationException olderJdk) {
            // The selector thread ends when the client is collected.
        }
    }

    /**
     * One path segment, percent-encoded: names of connectors may hold slashes, spaces, any script. A name of dots only
     * would be taken for a relative path.
     */
    static String segment(String name) {
        String encoded = URLEncoder.encode(name, StandardCharsets.UTF_8).replace("+", "%20").replace("*", "%2A");
        return encoded.matches("\\.+") ? encoded.replace(".", "%2E") : encoded;
    }

    private static String connector(String name) {
        return "/v1/connectors/" + segment(name);
    }

    private static String path(TaskAddress task) {
        return connector(task.connector) + "/tasks/" + task.index;
    }

    private static Map<String, Object> start(String session, String kind, Map<String, String> config) {
        Map<String, Object> body = body("session", session);
        body.put("kind", kind);
        body.put("config", config);
        body.put("version", Version.VERSION);
        body.put("protocol", Version.PROTOCOL);
        return body;
    }

    /** With the Connect cluster, which connectors of one name belong to. */
    private Map<String, Object> inGroup(Map<String, Object> body) {
        if (group != null) {
            body.put("connect_group_id", group);
        }
        return body;
    }

    private static Map<String, Object> body(String key, Object value) {
        Map<String, Object> body = new LinkedHashMap<>();
        body.put(key, value);
        return body;
    }

    private Call call(String method, String path, Map<String, Object> body, long timeoutMs) {
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(settings.url + path))
            .timeout(Duration.ofMillis(timeoutMs))
            .header("Content-Type", "application/json")
            .header("Accept", "application/json")
            .header("User-Agent", "mirror-bridge-connect/" + Version.VERSION)
            .method(method, BodyPublishers.ofString(Json.write(body)));
        if (settings.token != null) {
            request.header("Authorization", "Bearer " + settings.token);
        }
        HttpRequest built = request.build();
        return new Call(() -> http().sendAsync(built,
            head -> new LimitedBody(BodySubscribers.ofByteArray(), LARGEST_ANSWER)), timeoutMs);
    }
}
