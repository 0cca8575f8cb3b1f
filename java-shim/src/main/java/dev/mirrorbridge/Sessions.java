package dev.mirrorbridge;

import java.util.Locale;
import java.util.UUID;
import java.util.regex.Pattern;

/**
 * The sessions of one task or connector, from its start on. The service gives them, so that the younger of two tasks wins
 * whatever the order in which their calls arrive and whatever the clocks of their workers show: it is told how long ago
 * the start was, by a clock that nobody sets.
 */
final class Sessions {
    static final String PATH = "/v1/sessions";
    private static final Pattern SESSION = Pattern.compile("[0-9]{13}-[0-9A-Za-z-]{1,64}");

    private final long began = System.nanoTime();

    /** A call that asks for a session. */
    Call ask(BridgeClient client) {
        return client.beginSession((System.nanoTime() - began) / 1_000);
    }

    /** The session of the answer; of an older service, which gives none, one by this worker's clock; or null. */
    static String of(Answer answer) {
        Object given = answer.body.get("session");
        if (answer.kind == Answer.Kind.OK && given instanceof String && SESSION.matcher((String) given).matches()) {
            return (String) given;
        }
        return "no_such_route".equals(answer.body.get("error_code")) ? byThisClock() : null;
    }

    /** An answer that has no session, as what it is: one that is not of the contract's form counts as none. */
    static Answer withoutOne(Answer answer) {
        boolean strange = answer.kind == Answer.Kind.OK || answer.kind == Answer.Kind.FENCED;
        return strange ? Answer.away("an answer that is not of the contract's form") : answer;
    }

    static String byThisClock() {
        return String.format(Locale.ROOT, "%013d-%s", System.currentTimeMillis(), UUID.randomUUID());
    }
}
