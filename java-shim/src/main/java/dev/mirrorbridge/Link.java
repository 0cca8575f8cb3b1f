package dev.mirrorbridge;

import org.slf4j.Logger;

/** What is known of the way to the service, logged once per change: a service away for a day is two lines. */
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
            log.info("{}: the service answers again", who);
        } else if (state == State.NEW) {
            log.info("{}: connected", who);
        }
        state = State.UP;
    }

    void lost(String why) {
        String line = why.replaceAll("\\s*\\R\\s*", " ");
        if (state != State.LOST) {
            log.warn("{}: the service does not serve us ({}); trying on, nothing fails meanwhile", who, line);
        } else {
            log.debug("{}: still not served ({})", who, line);
        }
        state = State.LOST;
    }

    void fenced() {
        log.warn("{}: a newer session has taken over; this one is idle from now on", who);
    }
}
