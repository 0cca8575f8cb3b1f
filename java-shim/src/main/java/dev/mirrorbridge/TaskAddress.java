package dev.mirrorbridge;

/** Which task of which connector, and in which session; null before the service has given one. */
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

    TaskAddress in(String other) {
        return new TaskAddress(connector, index, count, other);
    }

    @Override
    public String toString() {
        return connector + "-" + index;
    }
}
