package dev.mirrorbridge;

import java.util.Map;
import java.util.Random;
import java.util.function.Consumer;
import org.apache.kafka.connect.errors.ConnectException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.slf4j.MDC;

/**
 * Registers a connector at the service, in a thread of its own: Connect's {@code start()} must not wait for a network.
 * Ends when the service has accepted or rejected it. Tasks send the configuration too, so that nothing is lost when the
 * service restarts.
 */
final class Registration {
    private static final Logger LOG = LoggerFactory.getLogger(BridgeSourceConnector.class);
    static final long STOP_MS = 500;

    private final String name;
    private final Sessions sessions = new Sessions();
    private volatile String session;
    private final Settings settings;
    private final BridgeClient client;
    private final Pacer pacer;
    private final Backoff backoff = new Backoff(new Random());
    private final Link link;
    private final Thread thread;
    private volatile boolean stopped;
    private volatile Call call;

    Registration(String kind, Map<String, String> props, Settings settings, Pacer pacer,
        Consumer<ConnectException> raise) {
        this.name = props.get("name");
        this.settings = settings;
        this.client = new BridgeClient(settings);
        this.pacer = pacer;
        this.link = new Link(LOG, "Connector " + name + " at " + settings);
        Map<String, String> logContext = MDC.getCopyOfContextMap();
        this.thread = new Thread(() -> {
            if (logContext != null) {
                MDC.setContextMap(logContext);
            }
            register(kind, props, raise);
        }, "mirror-bridge-start-" + name);
        thread.setDaemon(true);
    }

    void start() {
        thread.start();
    }

    /** Connect calls this for pause, stop and shutdown alike; the service only learns that this session has ended. */
    void stop() {
        stopped = true;
        pacer.wake();
        thread.interrupt();
        Call inFlight = call;
        if (inFlight != null) {
            inFlight.cancel();
        }
        String last = session;
        if (last != null) {
            reportStop(last);
        }
        client.close();
    }

    private void reportStop(String last) {
        try {
            Call stopCall = client.stopConnector(name, last);
            stopCall.await(STOP_MS);
            stopCall.cancel();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** Asks again for a while where another Connect cluster has the name, as a task does. */
    private void register(String kind, Map<String, String> props, Consumer<ConnectException> raise) {
        long takenSince = 0;
        try {
            while (!stopped) {
                boolean asks = session == null;
                call = asks ? sessions.ask(client) : client.startConnector(name, session, kind, props);
                Answer answer = call.await(Long.MAX_VALUE / 4);
                if (asks) {
                    session = Sessions.of(answer);
                    if (session != null) {
                        continue;
                    }
                    answer = Sessions.withoutOne(answer);
                }
                if (stopped || done(answer, raise)) {
                    return;
                }
                if (answer.kind != Answer.Kind.NAME_TAKEN) {
                    takenSince = 0;
                } else if (takenSince == 0) {
                    takenSince = pacer.nowMs();
                } else if (pacer.nowMs() - takenSince >= TaskSession.FENCED_MS) {
                    raise.accept(new ConnectException(answer.words));
                    return;
                }
                link.lost(answer.words);
                pacer.pause(backoff.next(answer.retryAfterMs));
            }
        } catch (InterruptedException stop) {
            call.cancel();
        }
    }

    private boolean done(Answer answer, Consumer<ConnectException> raise) {
        switch (answer.kind) {
            case OK:
                link.up();
                return true;
            case BAD_CONFIG:
                raise.accept(new ConnectException(answer.words));
                return true;
            case CREDENTIALS:
                raise.accept(new ConnectException(Validation.credentials(settings, answer)));
                return true;
            case FENCED:
                link.fenced();
                return true;
            case UNKNOWN:
                session = null;
                return false;
            default:
                return false;
        }
    }
}
