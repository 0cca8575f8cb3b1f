package dev.mirrorbridge;

import java.util.Locale;
import java.util.UUID;
import java.util.regex.Pattern;

/**
 * Requests the sessions of one task or connector. The service issues them, so that the task that started later wins in
 * whatever order calls arrive and whatever the workers' clocks show: the request has the time since the start, by a
 * monotonic clock.
 */
final class Sessions {
    static final String PATH = "/v1/sessions";
    private static final Pattern SESSION = Pattern.compile("[0-9]{13}-[0-9A-Za-z-]{1,64}");

    private final long began = System.nanoTime();

    /** Requests a session. */
    Call ask(BridgeClient client) {
        return client.beginSession((System.nanoTime() - began) / 1_000);
    }

    /** The session of the answer; one by this worker's clock if the service is older and issues none; or null. */
    static String of(Answer answer) {
        Object given = answer.body.get("session");
        if (answer.kind == Answer.Kind.OK && given instanceof String && SESSION.matcher((String) given).matches()) {
            return (String) given;
        }
        return "no_such_route".equals(answer.body.get("error_code")) ? byThisClock() : null;
    }

    /** The answer to a request that got no session; a malformed one counts as the service being away. */
    static Answer withoutOne(Answer answer) {
        boolean strange = answer.kind == Answer.Kind.OK || answer.kind == Answer.Kind.FENCED;
        return strange ? Answer.away("an answer that is not of the contract's form") : answer;
    }

    static String byThisClock() {
        return String.format(Locale.ROOT, "%013d-%s", System.currentTimeMillis(), UUID.randomUUID());
    }
}
