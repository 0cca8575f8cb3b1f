package dev.mirrorbridge;

import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.Config;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.config.ConfigValue;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Validates a configuration: by its definition first, and without errors by the service. Connect has errors but no
 * warnings, so while the service is away the local checks decide; what it rejects later fails the connector.
 */
final class Validation {
    private static final Logger LOG = LoggerFactory.getLogger(Validation.class);
    private static final long TIMEOUT_MS = 2_000;
    private static final String REACHABILITY = "bridge.validate.reachability";
    /** For a service that tries to reach both clusters: it takes five seconds for that, and then answers. */
    private static final long CLUSTERS_TIMEOUT_MS = 6_500;

    private final Definition definition;
    private final Map<String, String> props;
    private final Map<String, ConfigValue> values = new LinkedHashMap<>();

    private Validation(Definition definition, Map<String, String> props) {
        this.definition = definition;
        this.props = props;
    }

    static Config of(Definition definition, Map<String, String> props) {
        Validation validation = new Validation(definition, BridgeConnector.withoutNulls(props));
        List<ConfigValue> local = definition.validate(validation.props);
        local.forEach(value -> validation.values.put(value.name(), value));
        if (local.stream().allMatch(value -> value.errorMessages().isEmpty())) {
            validation.remotely();
        }
        return new Config(new ArrayList<>(validation.values.values()));
    }

    private void remotely() {
        Settings settings;
        try {
            settings = Settings.from(props);
        } catch (ConfigException e) {
            error(keyIn(e.getMessage()), e.getMessage());
            return;
        }
        String refusal = settings.refusal(props, definition);
        if (refusal != null) {
            error(Settings.URL, refusal);
            return;
        }
        try (BridgeClient client = new BridgeClient(settings)) {
            long timeout = timeoutMs(settings);
            Call call = client.validate(definition.kind, props, timeout);
            Answer answer = call.await(timeout);
            merge(answer == null ? Answer.away("no answer in time") : answer, settings);
            call.cancel();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private long timeoutMs(Settings settings) {
        boolean off = "off".equals(props.getOrDefault(REACHABILITY, "").trim());
        return off ? Math.min(TIMEOUT_MS, settings.requestTimeoutMs) : CLUSTERS_TIMEOUT_MS;
    }

    private void merge(Answer answer, Settings settings) {
        List<String[]> errors = new ArrayList<>();
        Answer.Kind kind = answer.kind;
        try {
            if (kind == Answer.Kind.OK) {
                collect((List<?>) answer.body.get("configs"), errors);
                ignored((List<?>) answer.body.get("ignored_settings"));
                warnings((List<?>) answer.body.get("warnings"));
            } else if (kind == Answer.Kind.BAD_CONFIG) {
                for (Object item : (List<?>) answer.body.get("validation_errors")) {
                    Map<?, ?> one = (Map<?, ?>) item;
                    errors.add(new String[] {(String) one.get("key"), (String) one.get("message")});
                }
            } else if (kind == Answer.Kind.CREDENTIALS) {
                errors.add(new String[] {Settings.TOKEN, credentials(settings, answer)});
            } else if ("too_large".equals(answer.body.get("error_code"))) {
                errors.add(new String[] {largest(), "The service at " + settings
                    + " does not take a configuration as large as this one: " + answer.words});
            }
        } catch (ClassCastException | NullPointerException notOfTheContract) {
            kind = Answer.Kind.AWAY;
        }
        if (kind == Answer.Kind.OK || !errors.isEmpty()) {
            errors.forEach(one -> error(one[0], one[1]));
        } else {
            LOG.warn("{}: the service at {} could not validate the configuration ({}); only the local checks were made",
                props.get("name"), settings, answer.words.isEmpty() ? "not the contract's form" : answer.words);
        }
    }

    /** The key with the longest value. */
    private String largest() {
        return Collections.max(props.entrySet(), Comparator.comparingInt(entry -> entry.getValue().length())).getKey();
    }

    static String credentials(Settings settings, Answer answer) {
        return "The service at " + settings + " refused " + Settings.TOKEN + ": " + answer.words;
    }

    /** Settings without effect. Connect's API has no field for them: the log has the reasons. */
    private void ignored(List<?> settings) {
        List<String> words = new ArrayList<>();
        for (Object item : settings == null ? List.of() : settings) {
            Map<?, ?> setting = (Map<?, ?>) item;
            words.add(setting.get("key") + " (" + setting.get("reason") + ")");
        }
        if (!words.isEmpty()) {
            LOG.warn("{}: {} setting(s) of the configuration have no effect: {}", props.get("name"), words.size(),
                String.join("; ", words));
        }
    }

    /** Warnings. Connect's API has no field for them either. */
    private void warnings(List<?> warnings) {
        for (Object item : warnings == null ? List.of() : warnings) {
            LOG.warn("{}: {}", props.get("name"), ((Map<?, ?>) item).get("message"));
        }
    }

    private void collect(List<?> configs, List<String[]> errors) {
        for (Object config : configs) {
            Map<?, ?> value = (Map<?, ?>) ((Map<?, ?>) config).get("value");
            if (Boolean.FALSE.equals(value.get("visible"))) {
                values.computeIfAbsent((String) value.get("name"), ConfigValue::new).visible(false);
            }
            Object listed = value.get("errors");
            for (Object message : listed == null ? List.of() : (List<?>) listed) {
                errors.add(new String[] {(String) value.get("name"), (String) message});
            }
        }
    }

    /** Keys without a definition (client prefixes) get a value of their own; the configured value is not repeated. */
    private void error(String key, String message) {
        ConfigValue value = values.computeIfAbsent(key, ConfigValue::new);
        if (!value.errorMessages().contains(message)) {
            value.addErrorMessage(message);
        }
    }

    /** The key that an error of {@link Settings} is about: the first that it names. */
    private String keyIn(String message) {
        for (String word : message.split("[^A-Za-z0-9.]+")) {
            if (definition.configDef.configKeys().containsKey(word)) {
                return word;
            }
        }
        return Settings.URL;
    }
}
