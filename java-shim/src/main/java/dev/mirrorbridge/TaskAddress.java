package dev.mirrorbridge;

import java.util.Locale;
import java.util.UUID;

/** Which task of which connector, and in which session. */
final class TaskAddress {
    final String connector;
    final int index;
    final int count;
    final String session;

    TaskAddress(String connector, int index, int count, String session) {
        this.connector = connector;
        this.index = index;
        this.count = count;
        this.session = session;
    }

    /**
     * A session id: it begins with the start time, so that the service lets the younger of two tasks win whatever
     * the order in which their calls arrive.
     */
    static String newSession() {
        return String.format(Locale.ROOT, "%013d-%s", System.currentTimeMillis(), UUID.randomUUID());
    }

    @Override
    public String toString() {
        return connector + "-" + index;
    }
}
