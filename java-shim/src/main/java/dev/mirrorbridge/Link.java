package dev.mirrorbridge;

import org.slf4j.Logger;

/** Logs the connection to the service once per change: a service that is away for a day takes two lines. */
final class Link {
    private enum State { NEW, UP, LOST }

    private final Logger log;
    private final String who;
    private State state = State.NEW;

    /** {@code who} names the connector or task and the service's address; it carries no secret. */
    Link(Logger log, String who) {
        this.log = log;
        this.who = who;
    }

    void up() {
        if (state == State.LOST) {
            log.info("{}: the service is available again", who);
        } else if (state == State.NEW) {
            log.info("{}: connected", who);
        }
        state = State.UP;
    }

    void lost(String why) {
        String line = why.replaceAll("\\s*\\R\\s*", " ");
        if (state != State.LOST) {
            log.warn("{}: the service is not available ({}); retrying, the task or connector does not fail", who, line);
        } else {
            log.debug("{}: the service is still not available ({})", who, line);
        }
        state = State.LOST;
    }

    void fenced() {
        log.warn("{}: fenced by a newer session of the same task or connector; this one does nothing from now on", who);
    }
}
