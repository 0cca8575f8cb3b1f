package dev.mirrorbridge;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * The little JSON that the contract needs: objects, lists, strings, numbers, booleans, null.
 *
 * <p>A library of our own, because every JSON library that a plugin bundles is one more that can clash with the
 * worker's, and the worker's own is hidden from plugins. Whole numbers are {@link Long}, others {@link Double}.
 */
final class Json {
    /** Deeper nesting is refused: no message of the contract needs it, and a hostile one must not end the stack. */
    private static final int MAX_DEPTH = 64;

    private final String text;
    private int at;
    private int depth;

    private Json(String text) {
        this.text = text;
    }

    /** Reads one value and nothing after it; throws {@link IllegalArgumentException} on anything else. */
    static Object read(String text) {
        Json json = new Json(text);
        Object value = json.value();
        if (json.peek() != 0 || json.at < text.length()) {
            throw json.error("text after the value");
        }
        return value;
    }

    static String write(Object value) {
        StringBuilder out = new StringBuilder(256);
        write(value, out);
        return out.toString();
    }

    private static void write(Object value, StringBuilder out) {
        if (value == null || value instanceof Boolean || value instanceof Integer || value instanceof Long) {
            out.append(value);
        } else if (value instanceof Double) {
            double number = (Double) value;
            out.append(Double.isFinite(number) ? value : null);
        } else if (value instanceof CharSequence) {
            quote((CharSequence) value, out);
        } else if (value instanceof Map) {
            char before = '{';
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
                out.append(before);
                quote(String.valueOf(entry.getKey()), out);
                out.append(':');
                write(entry.getValue(), out);
                before = ',';
            }
            out.append(before == '{' ? "{}" : "}");
        } else if (value instanceof Iterable) {
            char before = '[';
            for (Object item : (Iterable<?>) value) {
                out.append(before);
                write(item, out);
                before = ',';
            }
            out.append(before == '[' ? "[]" : "]");
        } else {
            throw new IllegalArgumentException("no JSON form of " + value.getClass().getName());
        }
    }

    private static void quote(CharSequence value, StringBuilder out) {
        out.append('"');
        for (int i = 0; i < value.length(); i++) {
            char c = value.charAt(i);
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < ' ' || Character.isSurrogate(c)) {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        out.append('"');
    }

    private Object value() {
        switch (peek()) {
            case '{':
                return object();
            case '[':
                return list();
            case '"':
                return string();
            case 't':
                return literal("true", Boolean.TRUE);
            case 'f':
                return literal("false", Boolean.FALSE);
            case 'n':
                return literal("null", null);
            default:
                return number();
        }
    }

    private Map<String, Object> object() {
        Map<String, Object> members = new LinkedHashMap<>();
        enter();
        for (boolean more = peek() != '}'; more; more = comma()) {
            if (peek() != '"') {
                throw error("a member name was expected");
            }
            String name = string();
            if (peek() != ':') {
                throw error("':' was expected");
            }
            at++;
            members.put(name, value());
        }
        leave('}');
        return members;
    }

    private List<Object> list() {
        List<Object> items = new ArrayList<>();
        enter();
        for (boolean more = peek() != ']'; more; more = comma()) {
            items.add(value());
        }
        leave(']');
        return items;
    }

    private String string() {
        StringBuilder out = new StringBuilder();
        for (at++; at < text.length(); at++) {
            char c = text.charAt(at);
            if (c == '"') {
                at++;
                return out.toString();
            } else if (c < ' ') {
                throw error("a control character in a string");
            }
            out.append(c == '\\' ? escape() : c);
        }
        throw error("the string does not end");
    }

    /** Leaves {@link #at} on the last character of the escape. */
    private char escape() {
        at++;
        char c = at < text.length() ? text.charAt(at) : 0;
        int plain = "\"\\/bfnrt".indexOf(c);
        if (c != 0 && plain >= 0) {
            return "\"\\/\b\f\n\r\t".charAt(plain);
        }
        if (c != 'u' || !text.substring(at + 1, Math.min(at + 5, text.length())).matches("[0-9a-fA-F]{4}")) {
            throw error("an unknown escape");
        }
        at += 4;
        return (char) Integer.parseInt(text.substring(at - 3, at + 1), 16);
    }

    private Object number() {
        int start = at;
        while (at < text.length() && "+-.eE0123456789".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
        String digits = text.substring(start, at);
        if (!digits.matches("-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]+)?")) {
            throw error("a value was expected");
        }
        try {
            return Long.valueOf(digits);
        } catch (NumberFormatException fractionOrHuge) {
            return Double.valueOf(digits);
        }
    }

    private Object literal(String word, Object value) {
        if (!text.startsWith(word, at)) {
            throw error("a value was expected");
        }
        at += word.length();
        return value;
    }

    private void enter() {
        if (++depth > MAX_DEPTH) {
            throw error("nested too deeply");
        }
        at++;
    }

    private void leave(char end) {
        if (peek() != end) {
            throw error("'" + end + "' was expected");
        }
        depth--;
        at++;
    }

    private boolean comma() {
        boolean found = peek() == ',';
        at += found ? 1 : 0;
        return found;
    }

    /** Next character that is not white space, 0 at the end. */
    private char peek() {
        while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
        return at < text.length() ? text.charAt(at) : 0;
    }

    private IllegalArgumentException error(String what) {
        return new IllegalArgumentException("not JSON at character " + at + ": " + what);
    }
}
