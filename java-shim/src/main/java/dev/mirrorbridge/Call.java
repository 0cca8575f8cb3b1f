package dev.mirrorbridge;

import java.io.IOException;
import java.net.ConnectException;
import java.net.http.HttpResponse;
import java.net.http.HttpTimeoutException;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Supplier;
import javax.net.ssl.SSLException;

/**
 * One call in flight. It outlives the {@code poll()} that began it: a service that hangs holds no poll longer than
 * a second, and the next poll goes on waiting where the last one stopped.
 */
final class Call {
    private final Supplier<CompletableFuture<HttpResponse<byte[]>>> send;
    private final long deadlineMs;
    private CompletableFuture<HttpResponse<byte[]>> exchange;
    private boolean again = true;
    private boolean cancelled;

    Call(Supplier<CompletableFuture<HttpResponse<byte[]>>> send, long timeoutMs) {
        this.send = send;
        this.deadlineMs = nowMs() + timeoutMs;
        this.exchange = send.get();
    }

    /** Waits for that long at most; null while the call is in flight. */
    Answer await(long ms) throws InterruptedException {
        long end = nowMs() + ms;
        while (true) {
            long left = Math.min(end, deadlineMs) - nowMs();
            try {
                HttpResponse<byte[]> response = current().get(Math.max(left, 0), TimeUnit.MILLISECONDS);
                return Answer.of(response.statusCode(), response.headers(), response.body());
            } catch (TimeoutException stillInFlight) {
                if (nowMs() < deadlineMs) {
                    return null;
                }
                cancel();
                return Answer.away("no answer in time");
            } catch (CancellationException stopped) {
                return Answer.away("stopped");
            } catch (ExecutionException failed) {
                if (!sendAgain(failed.getCause())) {
                    return Answer.away(failed.getCause());
                }
            }
        }
    }

    /** Aborts the request, from any thread; whoever waits gets an answer at once. */
    synchronized void cancel() {
        cancelled = true;
        exchange.cancel(true);
    }

    private synchronized CompletableFuture<HttpResponse<byte[]>> current() {
        return exchange;
    }

    /**
     * A server may close an idle connection at the moment that we reuse it. That says nothing of the service, and
     * every call of the contract is idempotent: it is sent once more, at once and without a log line.
     */
    private synchronized boolean sendAgain(Throwable cause) {
        boolean stale = cause instanceof IOException && !(cause instanceof ConnectException)
            && !(cause instanceof HttpTimeoutException) && !(cause instanceof SSLException);
        if (!again || !stale || cancelled) {
            return false;
        }
        again = false;
        exchange = send.get();
        return true;
    }

    private static long nowMs() {
        return System.nanoTime() / 1_000_000;
    }
}
