package dev.mirrorbridge;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigDef.Importance;
import org.apache.kafka.common.config.ConfigDef.Type;
import org.apache.kafka.common.config.ConfigDef.Width;
import org.apache.kafka.common.config.ConfigValue;

/**
 * The configuration keys of one kind of connector. The service defines them and exports them into this jar as JSON; here
 * they become the ConfigDef that Connect's REST API shows, even while the service is away.
 */
final class Definition {
    final String kind;
    final ConfigDef configDef = new ConfigDef();
    private final Set<String> secrets = new HashSet<>();
    private final List<Map<?, ?>> forbidden = new ArrayList<>();
    private final Pattern secretNames;
    private final List<?> plainNames;

    Definition(Map<?, ?> exported) {
        kind = (String) exported.get("kind");
        for (Object key : (List<?>) exported.get("keys")) {
            define((Map<?, ?>) key);
        }
        Object rules = exported.get("forbidden");
        for (Object rule : rules == null ? List.of() : (List<?>) rules) {
            forbidden.add((Map<?, ?>) rule);
        }
        Map<?, ?> names = (Map<?, ?>) exported.get("secret_names");
        secretNames = Pattern.compile((String) names.get("pattern"), Pattern.CASE_INSENSITIVE);
        plainNames = (List<?>) names.get("but_not");
    }

    static Definition load(String kind) {
        try (InputStream in = Definition.class.getResourceAsStream(kind + ".json")) {
            if (in == null) {
                throw new IllegalStateException("this jar has no definition of " + kind);
            }
            return new Definition((Map<?, ?>) Json.read(new String(in.readAllBytes(), StandardCharsets.UTF_8)));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /**
     * Every key with its value and errors. A value that is forbidden, unless another key has the value that excuses it,
     * is an error with the rule's message: it has to be found while the service is away, too.
     */
    List<ConfigValue> validate(Map<String, String> props) {
        List<ConfigValue> values = configDef.validate(props);
        Map<String, String> texts = new HashMap<>();
        values.forEach(value -> texts.put(value.name(), String.valueOf(value.value())));
        for (Map<?, ?> rule : forbidden) {
            Map<?, ?> unless = (Map<?, ?>) rule.get("unless");
            boolean excused = unless.entrySet().stream().anyMatch(e -> e.getValue().equals(texts.get(e.getKey())));
            if (rule.get("value").equals(texts.get(rule.get("key"))) && !excused) {
                values.stream().filter(value -> value.name().equals(rule.get("key")))
                    .forEach(value -> value.addErrorMessage((String) rule.get("message")));
            }
        }
        return values;
    }

    /** Whether a key is a secret by its definition, or named like one: client properties have no definition. */
    boolean isSecret(String key) {
        return secrets.contains(key)
            || secretNames.matcher(key).find() && plainNames.stream().noneMatch(end -> key.endsWith((String) end));
    }

    private void define(Map<?, ?> key) {
        String name = (String) key.get("name");
        Type type = type(key.get("type"));
        if (type == Type.PASSWORD || Boolean.TRUE.equals(key.get("secret"))) {
            secrets.add(name);
        }
        Object fallback = Boolean.TRUE.equals(key.get("required")) ? ConfigDef.NO_DEFAULT_VALUE : key.get("default");
        configDef.define(name, type, fallback, Validators.of((Map<?, ?>) key.get("validator")),
            Importance.valueOf(text(key, "importance", "LOW")), text(key, "documentation", ""),
            text(key, "group", null), ((Number) key.get("order")).intValue(),
            Width.valueOf(text(key, "width", "NONE")), text(key, "display_name", name), List.of(),
            recommended(type, (List<?>) key.get("recommended")));
    }

    /**
     * Classes are shown as text. A CLASS is loaded by the ConfigDef, but the classes that these keys name live in the
     * service: stock names stand for its own, {@code python:module.Class} for a user's, and the worker has neither.
     */
    private static Type type(Object name) {
        return "CLASS".equals(name) ? Type.STRING : Type.valueOf((String) name);
    }

    private static String text(Map<?, ?> key, String name, String fallback) {
        return key.get(name) == null ? fallback : (String) key.get(name);
    }

    private static ConfigDef.Recommender recommended(Type type, List<?> texts) {
        if (texts == null || texts.isEmpty()) {
            return null;
        }
        List<Object> values = new ArrayList<>();
        for (Object text : texts) {
            values.add(type == Type.LIST ? text : ConfigDef.parseType("recommended", text, type));
        }
        return new Fixed(values);
    }

    private static final class Fixed implements ConfigDef.Recommender {
        private final List<Object> values;

        Fixed(List<Object> values) {
            this.values = values;
        }

        @Override
        public List<Object> validValues(String name, Map<String, Object> parsed) {
            return values;
        }

        @Override
        public boolean visible(String name, Map<String, Object> parsed) {
            return true;
        }
    }
}
