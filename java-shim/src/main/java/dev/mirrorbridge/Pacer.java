package dev.mirrorbridge;

/** The clock, and sleeps that {@code stop()} can end from another thread; tests use one that does not wait. */
class Pacer {
    private boolean awake;

    long nowMs() {
        return System.nanoTime() / 1_000_000;
    }

    /** Sleeps for that long, or until {@link #wake()}. */
    synchronized void pause(long ms) throws InterruptedException {
        long end = nowMs() + ms;
        for (long left = ms; left > 0 && !awake; left = end - nowMs()) {
            wait(left);
        }
    }

    /** Ends the sleep in progress and all later ones. */
    synchronized void wake() {
        awake = true;
        notifyAll();
    }
}
