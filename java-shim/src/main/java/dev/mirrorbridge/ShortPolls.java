package dev.mirrorbridge;

import org.apache.kafka.connect.sink.SinkTaskContext;

/**
 * Keeps Connect's polls of a sink task's consumer short. Connect asks for records until the next commit of offsets is
 * due, a minute by default, and calls the task after that only. A timeout that the task sets counts for one poll, and is
 * lost when Connect interrupts that poll to pause or resume: without this thread a resumed task would wait for a minute.
 */
final class ShortPolls {
    static final long POLL_MS = 100;
    private static final long SET_MS = 50;

    private final Thread thread;
    private volatile boolean stopped;

    ShortPolls(SinkTaskContext context, String task) {
        thread = new Thread(() -> run(context), "mirror-bridge-short-polls-" + task);
        thread.setDaemon(true);
    }

    void start() {
        thread.start();
    }

    void stop() {
        stopped = true;
        thread.interrupt();
    }

    private void run(SinkTaskContext context) {
        try {
            while (!stopped) {
                context.timeout(POLL_MS);
                Thread.sleep(SET_MS);
            }
        } catch (InterruptedException end) {
            Thread.currentThread().interrupt();
        }
    }
}
