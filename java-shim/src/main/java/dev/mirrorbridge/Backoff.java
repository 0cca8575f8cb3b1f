package dev.mirrorbridge;

import java.util.Random;

/**
 * Exponential delays with a cap and jitter, owned by the shim: Connect calls {@code poll()} again at once after a
 * RetriableException, and fails a task on one from {@code start()}.
 */
final class Backoff {
    static final long FIRST_MS = 100;
    /** Short: a task is back at most this long after the service, and calling a dead service costs nothing. */
    static final long CAP_MS = 3_000;
    /** A Retry-After is honoured up to here, so that a wrong one can't silence a task for a day. */
    static final long RETRY_AFTER_CAP_MS = 300_000;

    private final Random random;
    private int failures;

    Backoff(Random random) {
        this.random = random;
    }

    /**
     * The next delay: between half and the whole of 100 ms, 200 ms, 400 ms … 3 s, so that the tasks of a worker
     * don't come back all at once; never less than what the service asked for.
     */
    long next(long retryAfterMs) {
        long whole = Math.min(CAP_MS, FIRST_MS << Math.min(failures, 20));
        failures++;
        long jittered = whole / 2 + (long) (random.nextDouble() * (whole - whole / 2));
        return Math.max(jittered, Math.min(retryAfterMs, RETRY_AFTER_CAP_MS));
    }

    void reset() {
        failures = 0;
    }
}
