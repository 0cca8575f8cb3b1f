package dev.mirrorbridge;

import java.util.function.BooleanSupplier;
import java.util.function.LongFunction;

/**
 * Reports to the service that Connect does not poll its task: Connect calls nothing when it pauses a task, and the
 * connector, which it does stop, may use another service. In a thread of its own, in real time.
 */
final class IdleWatch {
    private static final long LOOK_MS = 200;
    /** Consecutive checks without a poll. Not the time alone: a JVM that was suspended has polled nothing either. */
    private static final int LOOKS = 5;
    static final long AFTER_MS = LOOKS * LOOK_MS;
    private static final long ANSWER_MS = 1_000;
    /** Reports each time that polls stop: an older service, or one that is away, goes by the lease. */
    private static final int TRIES = 3;
    /** And once a minute after that: a paused connector keeps its name. */
    private static final int AGAIN_LOOKS = 300;

    private final LongFunction<Call> report;
    private final BooleanSupplier registered;
    private final int againLooks;
    private Thread thread;
    private Call call;
    private boolean polling;
    private boolean stopped;
    private long polledAt;
    private int tries;
    private int looks;
    private int due = LOOKS;

    /**
     * {@code report} sends for how long the task was not polled; {@code registered}: the service knows the task, also
     * where the last answer got lost.
     */
    IdleWatch(LongFunction<Call> report, BooleanSupplier registered) {
        this(report, registered, AGAIN_LOOKS);
    }

    IdleWatch(LongFunction<Call> report, BooleanSupplier registered, int againLooks) {
        this.report = report;
        this.registered = registered;
        this.againLooks = againLooks;
    }

    synchronized void pollBegins() {
        polling = true;
    }

    /** The first one starts the thread: a task that is never polled needs none. */
    synchronized void pollEnds(String name) {
        polling = false;
        looks = 0;
        due = LOOKS;
        polledAt = System.nanoTime();
        tries = 0;
        if (thread == null && !stopped) {
            thread = new Thread(this::run, "mirror-bridge-idle-" + name);
            thread.setDaemon(true);
            thread.start();
        }
    }

    synchronized void stop() {
        stopped = true;
        notifyAll();
        if (call != null) {
            call.cancel();
        }
    }

    private void run() {
        try {
            while (isDue()) {
                Answer answer = call.await(ANSWER_MS);
                call.cancel();
                if (answer != null && answer.kind == Answer.Kind.OK) {
                    reported();
                }
            }
        } catch (InterruptedException end) {
            Thread.currentThread().interrupt();
        }
    }

    /** Waits until a report is due, and sends it; false when the task is stopped. */
    private synchronized boolean isDue() throws InterruptedException {
        while (!stopped) {
            long idleMs = (System.nanoTime() - polledAt) / 1_000_000;
            if (!polling && looks >= due && registered.getAsBoolean()) {
                tries++;
                due = looks + (tries < TRIES ? LOOKS : againLooks);
                call = report.apply(idleMs);
                return true;
            }
            wait(LOOK_MS);
            looks++;
        }
        return false;
    }

    /** Once is enough for a minute, unless it was polled meanwhile. */
    private synchronized void reported() {
        if (!polling && tries > 0) {
            tries = TRIES;
            due = looks + againLooks;
        }
    }
}
