package dev.mirrorbridge;

import java.net.ConnectException;
import java.net.http.HttpHeaders;
import java.nio.channels.UnresolvedAddressException;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.ZonedDateTime;
import java.time.format.DateTimeFormatter;
import java.time.format.DateTimeParseException;
import java.util.Map;

/**
 * The result of one call, by what the shim has to do about it.
 *
 * <p>Only {@link Kind#BAD_CONFIG}, {@link Kind#CREDENTIALS} and a {@link Kind#NAME_TAKEN} that lasts are permanent. Any malformed answer
 * (a proxy's page, a truncated body, an unexpected status) counts as the service being away.
 */
final class Answer {
    enum Kind { OK, BAD_CONFIG, CREDENTIALS, FENCED, NAME_TAKEN, UNKNOWN, AWAY }

    private static final int LONGEST_WORDS = 4_000;

    final Kind kind;
    final Map<?, ?> body;
    /** The service's message for an operator, or the error of the connection. */
    final String words;
    final long retryAfterMs;

    private Answer(Kind kind, Map<?, ?> body, String words, long retryAfterMs) {
        this.kind = kind;
        this.body = body;
        this.words = words;
        this.retryAfterMs = retryAfterMs;
    }

    static Answer away(String why) {
        return new Answer(Kind.AWAY, Map.of(), why, 0);
    }

    /** In words that can't be mistaken for Kafka Connect's own exception of the same name. */
    static Answer away(Throwable why) {
        if (why instanceof ConnectException) {
            boolean nameless = why.getCause() instanceof UnresolvedAddressException;
            return away(nameless ? "its host name is not known" : "connection refused");
        }
        String message = why.getMessage();
        return away(why.getClass().getSimpleName() + (message == null ? "" : ": " + message));
    }

    static Answer of(int status, HttpHeaders headers, byte[] bytes) {
        Object read;
        try {
            read = Json.read(new String(bytes, StandardCharsets.UTF_8));
        } catch (IllegalArgumentException garbage) {
            read = null;
        }
        boolean readable = read instanceof Map;
        Map<?, ?> body = readable ? (Map<?, ?>) read : Map.of();
        if (status / 100 == 2) {
            return readable ? new Answer(Kind.OK, body, "", 0) : away("HTTP " + status + " with an unreadable body");
        }
        String code = String.valueOf(body.get("error_code"));
        String words = body.get("message") instanceof String ? (String) body.get("message") : "HTTP " + status;
        if (words.length() > LONGEST_WORDS) {
            words = words.substring(0, LONGEST_WORDS) + "…";
        }
        return new Answer(kind(status, code), body, words, retryAfterMs(status, headers));
    }

    private static Kind kind(int status, String code) {
        if (status == 400 && code.equals("bad_config")) {
            return Kind.BAD_CONFIG;
        } else if (status == 401 || status == 403) {
            return Kind.CREDENTIALS;
        } else if (status == 409 && code.equals("fenced")) {
            return Kind.FENCED;
        } else if (status == 409 && code.equals("name_taken")) {
            return Kind.NAME_TAKEN;
        } else if (status == 404 && (code.equals("unknown_task") || code.equals("unknown_connector"))) {
            return Kind.UNKNOWN;
        }
        return Kind.AWAY;
    }

    private static long retryAfterMs(int status, HttpHeaders headers) {
        String value = headers.firstValue("Retry-After").orElse("").trim();
        if ((status != 429 && status != 503) || value.isEmpty()) {
            return 0;
        }
        try {
            if (value.matches("[0-9]{1,9}")) {
                return Long.parseLong(value) * 1000;
            }
            ZonedDateTime until = ZonedDateTime.parse(value, DateTimeFormatter.RFC_1123_DATE_TIME);
            return Math.max(0, until.toInstant().toEpochMilli() - Instant.now().toEpochMilli());
        } catch (DateTimeParseException notATime) {
            return 0;
        }
    }
}
