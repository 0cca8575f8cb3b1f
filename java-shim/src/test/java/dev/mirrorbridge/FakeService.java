package dev.mirrorbridge;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import com.sun.net.httpserver.HttpsConfigurator;
import com.sun.net.httpserver.HttpsServer;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLParameters;

/** The service as tests need it: answers as told, remembers what it was asked. */
final class FakeService implements AutoCloseable {
    static final String ACCEPTED =
        "{\"name\":\"c\",\"task\":0,\"lease_ms\":30000,\"version\":\"0.1.0\",\"protocol\":1}";
    static final String NOTHING = "{\"records\":[],\"failure\":null,\"held_ms\":0.0,\"batch\":4}";
    static final Reply HANG = new Reply(-1, "");
    static final Reply DROP = new Reply(-3, "");
    static final Reply CUT = new Reply(-2, "");

    final List<Request> requests = new CopyOnWriteArrayList<>();
    volatile Function<Request, Reply> answers = FakeService::usual;
    private final BlockingQueue<Request> arrivals = new LinkedBlockingQueue<>();
    private final CountDownLatch closed = new CountDownLatch(1);
    private final ExecutorService threads = Executors.newCachedThreadPool();
    private final HttpServer server;

    private FakeService(HttpServer server) {
        this.server = server;
        server.createContext("/", this::handle);
        server.setExecutor(threads);
        server.start();
    }

    static FakeService start() {
        return startAt(0);
    }

    static FakeService startAt(int port) {
        try {
            return new FakeService(HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), port), 0));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    static FakeService start(SSLContext tls, boolean clientMustShow) {
        try {
            HttpsServer server = HttpsServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
            server.setHttpsConfigurator(new HttpsConfigurator(tls) {
                @Override
                public void configure(com.sun.net.httpserver.HttpsParameters parameters) {
                    SSLParameters ssl = tls.getDefaultSSLParameters();
                    ssl.setNeedClientAuth(clientMustShow);
                    parameters.setSSLParameters(ssl);
                }
            });
            return new FakeService(server);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    static Reply usual(Request request) {
        if (request.path.endsWith(Sessions.PATH)) {
            return new Reply(200, "{\"session\":\"" + Sessions.byThisClock() + "\"}");
        }
        return new Reply(200, request.path.endsWith("/poll") ? NOTHING : ACCEPTED);
    }

    /** As usual, but polls are answered so. */
    void polls(Reply reply) {
        answers = request -> request.path.endsWith("/poll") ? reply : usual(request);
    }

    static Reply error(int status, String code, String message) {
        Map<String, Object> body = new HashMap<>();
        body.put("error_code", code);
        body.put("message", message);
        return new Reply(status, Json.write(body));
    }

    int port() {
        return server.getAddress().getPort();
    }

    String url() {
        return (server instanceof HttpsServer ? "https" : "http") + "://127.0.0.1:" + port();
    }

    /** The next request of that method and path, skipping others. */
    Request await(String method, String path) {
        try {
            for (Request next = take(); next != null; next = take()) {
                if (next.method.equals(method) && next.path.equals(path)) {
                    return next;
                }
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        throw new AssertionError("no " + method + " " + path + " among " + requests);
    }

    long count(String method, String path) {
        return requests.stream().filter(r -> r.method.equals(method) && r.path.equals(path)).count();
    }

    private Request take() throws InterruptedException {
        return arrivals.poll(30, TimeUnit.SECONDS);
    }

    @Override
    public void close() {
        closed.countDown();
        server.stop(0);
        threads.shutdownNow();
    }

    private void handle(HttpExchange exchange) throws IOException {
        try {
            String body = new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8);
            Request request = new Request(exchange, body);
            requests.add(request);
            arrivals.add(request);
            Reply reply = answers.apply(request);
            if (reply == HANG) {
                closed.await();
                return;
            }
            if (reply == DROP) {
                return;
            }
            byte[] bytes = (reply == CUT ? "{\"records\":[" : reply.body).getBytes(StandardCharsets.UTF_8);
            reply.headers.forEach((name, value) -> exchange.getResponseHeaders().set(name, value));
            exchange.sendResponseHeaders(reply == CUT ? 200 : reply.status, bytes.length + (reply == CUT ? 100 : 0));
            exchange.getResponseBody().write(bytes);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } finally {
            exchange.close();
        }
    }

    static final class Reply {
        final int status;
        final String body;
        final Map<String, String> headers = new HashMap<>();

        Reply(int status, String body) {
            this.status = status;
            this.body = body;
        }

        Reply with(String header, String value) {
            headers.put(header, value);
            return this;
        }
    }

    static final class Request {
        final String method;
        final String path;
        final String authorization;
        final String protocol;
        final Map<?, ?> body;

        Request(HttpExchange exchange, String body) {
            this.method = exchange.getRequestMethod();
            this.path = exchange.getRequestURI().getRawPath();
            this.authorization = exchange.getRequestHeaders().getFirst("Authorization");
            this.protocol = exchange.getProtocol();
            this.body = body.isEmpty() ? Map.of() : (Map<?, ?>) Json.read(body);
        }

        @Override
        public String toString() {
            return method + " " + path;
        }
    }
}
