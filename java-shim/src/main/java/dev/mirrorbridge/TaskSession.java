package dev.mirrorbridge;

import java.util.List;
import java.util.Map;
import java.util.concurrent.locks.ReentrantLock;
import java.util.stream.Collectors;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.source.SourceRecord;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The session of one task at the service: asks for a session, registers, polls, and starts again when the service does not
 * know it; does nothing when fenced, and fails where Connect goes on polling it then.
 *
 * <p>No call of Connect's is held longer than {@link #HOLD_MS}: Connect can stop a task only between two polls. Calls
 * and delays that take longer are carried over from one poll to the next. Nothing but a rejected configuration, wrong
 * credentials or a failure that the service declares permanent ever leaves here as an exception.
 */
final class TaskSession {
    static final long HOLD_MS = 1_000;
    static final long COMMIT_MS = 400;
    static final long STOP_MS = 500;
    /**
     * Connect stops a task before it starts the same one elsewhere. One that it polls for so long after another has taken
     * its place belongs to another Connect cluster, or to a worker that has lost its own: there its failure changes nothing.
     */
    static final long FENCED_MS = 10_000;
    /** Time for the network within a held poll. */
    private static final long WAY_MS = 100;
    /** A service that answers without records and does not hold the call is polled ten times a second, not a thousand. */
    private static final long EMPTY_MS = 100;
    private static final int MAX_RECORDS = 500;
    private static final Logger LOG = LoggerFactory.getLogger(BridgeSourceTask.class);

    private final String kind;
    private final Sessions sessions = new Sessions();
    private volatile TaskAddress address;
    private final Map<String, String> config;
    private final Settings settings;
    private final BridgeClient client;
    private final Pacer pacer;
    private final Backoff backoff;
    private final AckQueue acks;
    private final StoredOffsets stored;
    private final TaskMetrics metrics;
    private final CopyPositions positions;
    private final Link link;
    private final IdleWatch idle;
    /** When the next call may be made. */
    private long notBefore;
    private long sentAt;
    private int timesUnknown;
    /** Number of the last batch that was read, null before the first: the service repeats one that got lost. */
    private Long batch;
    /** Connect polls and commits in threads of their own. */
    private final ReentrantLock flushing = new ReentrantLock();
    private volatile boolean serving;
    private volatile boolean registered;
    /** The service may know this session: a registration was sent, and not refused. */
    private volatile boolean known;
    private volatile boolean fenced;
    private long fencedAt;
    /** Since when another Connect cluster has had the name, by each answer; 0 where the last one was another. */
    private long takenSince;
    /** What the service has said then. */
    private String fencedWords;
    private volatile boolean stopped;
    private volatile Call call;
    private volatile Call ack;

    TaskSession(String kind, TaskAddress address, Map<String, String> config, Settings settings, BridgeClient client,
        Pacer pacer, Backoff backoff, AckQueue acks, StoredOffsets stored, TaskMetrics metrics,
        CopyPositions positions) {
        this.kind = kind;
        this.address = address;
        this.config = config;
        this.settings = settings;
        this.client = client;
        this.pacer = pacer;
        this.backoff = backoff;
        this.acks = acks;
        this.stored = stored;
        this.metrics = metrics;
        this.positions = positions;
        this.link = new Link(LOG, "Task " + address + " at " + settings);
        this.idle = new IdleWatch(idleMs -> client.idleTask(this.address, idleMs), () -> registered && !fenced);
        this.notBefore = pacer.nowMs();
    }

    List<SourceRecord> poll() throws InterruptedException {
        idle.pollBegins();
        try {
            return polled();
        } finally {
            idle.pollEnds(address.toString());
        }
    }

    private List<SourceRecord> polled() throws InterruptedException {
        long end = pacer.nowMs() + HOLD_MS;
        if (call == null) {
            // Connect commits once a minute by default, and the service hands out only so many unwritten records.
            flush();
        }
        for (long left = end - pacer.nowMs(); left > 0 && !stopped; left = end - pacer.nowMs()) {
            failIfReplaced();
            long delay = fenced ? HOLD_MS : notBefore - pacer.nowMs();
            if (delay > 0) {
                pacer.pause(Math.min(delay, left));
                continue;
            }
            Answer answer = next(left);
            if (answer == null || stopped) {
                return null;
            }
            List<SourceRecord> records = handle(answer);
            if (!records.isEmpty()) {
                return records;
            }
        }
        return null;
    }

    private void failIfReplaced() {
        if (fenced && pacer.nowMs() - fencedAt >= FENCED_MS) {
            throw new ConnectException("Invalid value " + address.connector + " for configuration name: A connector of this "
                + "name has started task " + address.index + " at the service " + settings + " since this one did ("
                + fencedWords + "), and this one does nothing. Connect clusters that share a service need connectors of "
                + "different names: give one of the two another, or another " + Settings.URL);
        }
    }

    /** Sends acknowledgements while the service is available; what could not be sent stays queued. */
    void flush() throws InterruptedException {
        if (!flushing.tryLock()) {
            return;
        }
        try {
            List<AckQueue.Ack> written = acks.next();
            if (written.isEmpty() || !serving || stopped) {
                return;
            }
            ack = client.ack(address, written.stream().map(AckQueue.Ack::body).collect(Collectors.toList()));
            Answer answer = ack.await(COMMIT_MS);
            ack.cancel();
            if (answer != null && answer.kind == Answer.Kind.OK) {
                acks.accepted(written);
            }
        } finally {
            flushing.unlock();
        }
    }

    /** From any thread: ends sleeps, aborts calls in flight, and reports the stop if that is quick. */
    void stop() {
        stopped = true;
        idle.stop();
        pacer.wake();
        for (Call inFlight : new Call[] {call, ack}) {
            if (inFlight != null) {
                inFlight.cancel();
            }
        }
        if (known && !fenced) {
            try {
                Call last = client.stopTask(address);
                last.await(STOP_MS);
                last.cancel();
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }
        client.close();
    }

    /** The answer to the call in flight, or to a new one; null if it is still to come. */
    private Answer next(long left) throws InterruptedException {
        if (call == null) {
            sentAt = pacer.nowMs();
            call = request(left);
            if (stopped) {
                call.cancel();
            }
        }
        Answer answer = call.await(left);
        if (answer != null) {
            call = null;
        }
        return answer;
    }

    private Call request(long left) {
        if (address.session == null) {
            return sessions.ask(client);
        }
        known = true;
        return registered
            ? client.poll(address, Math.max(0, left - WAY_MS), MAX_RECORDS, batch, stored.drain(), metrics.seen(),
                positions.seen())
            : client.startTask(address, kind, config);
    }

    private List<SourceRecord> handle(Answer answer) {
        if (address.session == null) {
            address = address.in(Sessions.of(answer));
            if (address.session != null) {
                return List.of();
            }
            answer = Sessions.withoutOne(answer);
        }
        return act(answer);
    }

    private List<SourceRecord> act(Answer answer) {
        if (answer.kind != Answer.Kind.NAME_TAKEN) {
            takenSince = 0;
        }
        switch (answer.kind) {
            case OK:
                return registered ? polled(answer) : registered();
            case BAD_CONFIG:
                throw new ConnectException(answer.words);
            case CREDENTIALS:
                throw new ConnectException(Validation.credentials(settings, answer));
            case FENCED:
                fenced = true;
                fencedAt = pacer.nowMs();
                fencedWords = answer.words;
                serving = false;
                link.fenced();
                return List.of();
            case NAME_TAKEN:
                return taken(answer);
            case UNKNOWN:
                return unknown(answer);
            default:
                return lost(answer);
        }
    }

    private List<SourceRecord> registered() {
        registered = true;
        return List.of();
    }

    private List<SourceRecord> polled(Answer answer) {
        Object failure = answer.body.get("failure");
        if (failure != null) {
            throw new ConnectException(failure.toString());
        }
        List<SourceRecord> records;
        try {
            records = RecordCodec.records(answer.body);
            stored.read((List<?>) answer.body.get("offsets_of"));
            metrics.read((Map<?, ?>) answer.body.get("measured"));
            positions.read((Map<?, ?>) answer.body.get("positions"));
            batch = (Long) answer.body.get("batch");
        } catch (RuntimeException notOfTheContract) {
            return lost(Answer.away("an answer that is not of the contract's form"));
        }
        link.up();
        backoff.reset();
        serving = true;
        timesUnknown = 0;
        if (records.isEmpty()) {
            notBefore = sentAt + EMPTY_MS;
        }
        return records;
    }

    /** Not at once: a worker that was renamed may be back before its tasks of before have lapsed. */
    private List<SourceRecord> taken(Answer answer) {
        if (takenSince == 0) {
            takenSince = pacer.nowMs();
        } else if (pacer.nowMs() - takenSince >= FENCED_MS) {
            throw new ConnectException(answer.words);
        }
        return lost(answer);
    }

    /** Registers again when the service was restarted or the lease expired: at once, then with back-off. */
    private List<SourceRecord> unknown(Answer answer) {
        registered = false;
        serving = false;
        known = false;
        address = address.in(null);
        metrics.forget();
        positions.forget();
        return timesUnknown++ == 0 ? List.of() : lost(answer);
    }

    private List<SourceRecord> lost(Answer answer) {
        serving = false;
        link.lost(answer.words);
        notBefore = pacer.nowMs() + backoff.next(answer.retryAfterMs);
        return List.of();
    }
}
