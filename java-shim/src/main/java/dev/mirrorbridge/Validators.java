package dev.mirrorbridge;

import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;
import java.util.stream.Collectors;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigDef.Validator;
import org.apache.kafka.common.config.ConfigException;

/** The exported validators, with the messages of Kafka's own for the same error (those of 4.3, in any worker). */
final class Validators {
    /**
     * Characters. Java compiles a long literal in quadratic time, and a megabyte would hold a thread of the worker for
     * minutes: what is longer is left to the service, which has limits.
     */
    private static final int LONGEST_PATTERN = 10_000;

    private Validators() {
    }

    /** Null for none, and for a kind that this version doesn't know: the service validates everything again. */
    static Validator of(Map<?, ?> exported) {
        if (exported == null) {
            return null;
        }
        switch (String.valueOf(exported.get("kind"))) {
            case "range":
                return unlessNull(range((Number) exported.get("min"), (Number) exported.get("max")));
            case "in":
                return unlessNull(in((List<?>) exported.get("values"), exported.get("ignore_case")));
            case "non_empty":
                return unlessNull(new ConfigDef.NonEmptyString());
            case "list":
                boolean emptyAllowed = !Boolean.FALSE.equals(exported.get("allow_empty"));
                List<?> among = (List<?>) exported.get("values");
                return unlessNull((name, value) -> list(name, (List<?>) value, emptyAllowed,
                    among == null ? List.of() : among));
            case "pattern_list":
                return unlessNull((name, value) -> patterns(name, (List<?>) value));
            case "regex":
                return unlessNull((name, value) -> pattern(name, (String) value));
            case "url":
                return new BridgeUrl();
            case "replication_factor":
                return unlessNull((name, value) -> replicationFactor(name, (Number) value));
            default:
                return null;
        }
    }

    private static Validator unlessNull(Validator validator) {
        return (name, value) -> {
            if (value != null) {
                validator.ensureValid(name, value);
            }
        };
    }

    private static Validator range(Number min, Number max) {
        return max == null ? ConfigDef.Range.atLeast(min)
            : ConfigDef.Range.between(min == null ? Double.NEGATIVE_INFINITY : min, max);
    }

    private static Validator in(List<?> values, Object ignoreCase) {
        boolean anyCase = Boolean.TRUE.equals(ignoreCase);
        List<String> allowed = values.stream().map(String::valueOf).collect(Collectors.toList());
        String words = "String must be one of" + (anyCase ? " (case insensitive)" : "") + ": "
            + String.join(", ", allowed);
        return (name, value) -> {
            for (Object item : value instanceof List ? (List<?>) value : List.of(value)) {
                String text = item.toString();
                if (allowed.stream().noneMatch(one -> anyCase ? one.equalsIgnoreCase(text) : one.equals(text))) {
                    throw new ConfigException(name, item, words);
                }
            }
        };
    }

    private static void replicationFactor(String name, Number value) {
        if (value.intValue() != -1 && value.intValue() < 1) {
            throw new ConfigException(name, value, "Replication factor must be positive and not larger than the number "
                + "of brokers in the Kafka cluster, or -1 to use the broker's default");
        }
    }

    private static void list(String name, List<?> values, boolean emptyAllowed, List<?> among) {
        if (values.isEmpty() && !emptyAllowed) {
            throw new ConfigException("Configuration '" + name + "' must not be empty. Valid values include: "
                + (among.isEmpty() ? "any non-empty value" : among));
        }
        if (new HashSet<Object>(values).size() < values.size()) {
            throw new ConfigException("Configuration '" + name + "' values must not be duplicated.");
        }
        for (Object value : values) {
            if (value.equals("")) {
                throw new ConfigException("Configuration '" + name + "' values must not be empty.");
            }
            if (!among.isEmpty()) {
                in(among, false).ensureValid(name, value);
            }
        }
    }

    private static void pattern(String name, String value) {
        if (!value.isEmpty()) {
            patterns(name, List.of(value));
        }
    }

    /** Stock joins the list to one pattern, so that "(a,b)" works there; what compiles joined is right here too. */
    private static void patterns(String name, List<?> values) {
        list(name, values, true, List.of());
        if (values.stream().anyMatch(value -> ((String) value).length() > LONGEST_PATTERN)) {
            return;
        }
        try {
            Pattern.compile(String.join("|", values.toArray(new String[0])));
        } catch (PatternSyntaxException joined) {
            PatternSyntaxException fault = joined;
            for (Object value : values) {
                try {
                    Pattern.compile((String) value);
                } catch (PatternSyntaxException alone) {
                    fault = alone;
                    break;
                }
            }
            throw new ConfigException(name, fault.getPattern(), "Not a regular expression: " + fault.getDescription()
                + " at position " + Math.max(fault.getIndex(), 0));
        }
    }
}
