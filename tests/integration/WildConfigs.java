package org.apache.kafka.connect.mirror;

import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.Config;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigValue;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.connect.runtime.ConnectorConfig;
import org.apache.kafka.connect.runtime.SourceConnectorConfig;
import org.apache.kafka.connect.runtime.distributed.DistributedConfig;
import org.apache.kafka.connect.runtime.isolation.Plugins;
import org.apache.kafka.connect.source.SourceConnector;

/**
 * What stock says of configurations. A question is "connect" with keys and values, "dedicated" with a file, or "legacy"
 * with the consumer's file, the producer's file, and the words of the command line. An answer has what stock refuses: by
 * the key, or by what it can't make of it ("start", with what that is). Nothing is reached.
 */
public final class WildConfigs {
    private static final Plugins PLUGINS = new Plugins(Map.of("plugin.discovery", "service_load"));

    private final Map<String, String> wrong = new TreeMap<>();

    private WildConfigs() {
    }

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            List<String> fields = new ArrayList<>();
            for (String field : line.split("\t")) {
                fields.add(new String(Base64.getDecoder().decode(field.substring(1)), StandardCharsets.UTF_8));
            }
            WildConfigs answer = new WildConfigs();
            List<String> given = fields.subList(1, fields.size());
            switch (fields.get(0)) {
                case "connect" -> answer.connect(given);
                case "dedicated" -> answer.dedicated(given.get(0));
                default -> answer.legacy(given);
            }
            List<String> encoded = new ArrayList<>();
            answer.wrong.forEach((key, message) -> encoded.addAll(List.of(encoded(key), encoded(message))));
            out.println(String.join("\t", encoded));
        }
        out.flush();
    }

    private void connect(List<String> given) {
        Map<String, String> config = new HashMap<>();
        for (int at = 0; at < given.size(); at += 2) {
            config.put(given.get(at), given.get(at + 1));
        }
        validate("", config);
    }

    /** As Connect does: its own keys with those of transformations and converters, and then the connector's. */
    private void validate(String where, Map<String, String> config) {
        Map<String, String> before = new TreeMap<>(wrong);
        tried(where + "connect", () -> {
            ConfigDef ours = ConnectorConfig.enrich(PLUGINS, SourceConnectorConfig.configDef(), config, false);
            return added(where, new Config(ours.validate(config)));
        });
        String connector = config.getOrDefault("connector.class", "");
        tried(where + "connector", () -> added(where, made(connector).validate(config)));
        if (before.equals(wrong)) {
            started(where, connector.substring(connector.lastIndexOf('.') + 1), config);
        }
    }

    private static SourceConnector made(String connector) {
        return switch (connector.substring(connector.lastIndexOf('.') + 1)) {
            case "MirrorSourceConnector" -> new MirrorSourceConnector();
            case "MirrorCheckpointConnector" -> new MirrorCheckpointConnector();
            case "MirrorHeartbeatConnector" -> new MirrorHeartbeatConnector();
            default -> throw new IllegalArgumentException("no connector of MirrorMaker: " + connector);
        };
    }

    private boolean added(String where, Config validated) {
        for (ConfigValue value : validated.configValues()) {
            for (String message : value.errorMessages()) {
                wrong.merge(where + value.name(), message, (one, other) -> one.equals(other) ? one : one + "\n" + other);
            }
        }
        return true;
    }

    /** Whether what is valid can be used as well: the clients' configurations, and filters. */
    private void started(String where, String connector, Map<String, String> config) {
        switch (connector) {
            case "MirrorSourceConnector" -> tried(where + "start", () -> {
                MirrorSourceConfig source = new MirrorSourceConfig(config);
                clients(where, source);
                tried(where + "start source consumer", () -> consumer(source.sourceConsumerConfig("replication-consumer")));
                tried(where + "start offset-syncs producer", () -> producer(source.offsetSyncsTopicProducerConfig()));
                return source.topicFilter() != null && source.configPropertyFilter() != null;
            });
            case "MirrorCheckpointConnector" -> tried(where + "start", () -> {
                MirrorCheckpointConfig checkpoint = new MirrorCheckpointConfig(config);
                clients(where, checkpoint);
                tried(where + "start offset-syncs consumer", () -> consumer(checkpoint.offsetSyncsTopicConsumerConfig()));
                return checkpoint.topicFilter() != null && checkpoint.groupFilter() != null;
            });
            default -> tried(where + "start", () -> {
                MirrorHeartbeatConfig heartbeat = new MirrorHeartbeatConfig(config);
                return tried(where + "start target admin", () -> new AdminClientConfig(heartbeat.targetAdminConfig("heartbeats")));
            });
        }
    }

    private void clients(String where, MirrorConnectorConfig config) {
        tried(where + "start source admin", () -> new AdminClientConfig(config.sourceAdminConfig("admin")));
        tried(where + "start target admin", () -> new AdminClientConfig(config.targetAdminConfig("admin")));
    }

    private static Object consumer(Map<String, Object> properties) {
        properties.put("key.deserializer", ByteArrayDeserializer.class.getName());
        properties.put("value.deserializer", ByteArrayDeserializer.class.getName());
        return new ConsumerConfig(properties);
    }

    private static Object producer(Map<String, Object> properties) {
        properties.put("key.serializer", ByteArraySerializer.class.getName());
        properties.put("value.serializer", ByteArraySerializer.class.getName());
        return new ProducerConfig(properties);
    }

    private void dedicated(String file) {
        Properties read = new Properties();
        tried("file", () -> {
            read.load(new ByteArrayInputStream(file.getBytes(StandardCharsets.ISO_8859_1)));
            Map<String, String> properties = Utils.propsToStringMap(read);
            properties.put("plugin.discovery", "service_load");
            MirrorMakerConfig config = new MirrorMakerConfig(properties);
            if (config.clusterPairs().isEmpty()) {
                throw new IllegalArgumentException("No source->target replication flows.");
            }
            for (SourceAndTarget pair : config.clusterPairs()) {
                flow(config, pair);
            }
            return true;
        });
    }

    private void flow(MirrorMakerConfig config, SourceAndTarget pair) {
        tried(pair + " worker", () -> new DistributedConfig(config.workerConfig(pair)));
        for (Class<?> connector : List.of(MirrorSourceConnector.class, MirrorCheckpointConnector.class, MirrorHeartbeatConnector.class)) {
            Map<String, String> properties = config.connectorBaseConfig(pair, connector);
            properties.remove("plugin.discovery");
            boolean runs = connector == MirrorHeartbeatConnector.class || properties.getOrDefault("enabled", "true").trim().equalsIgnoreCase("true");
            if (runs) {
                validate(pair + " " + connector.getSimpleName() + " ", properties);
            }
        }
    }

    /** MirrorMaker 1 is in the jars of Kafka 3 only. Its options are parsed as it does it, and its clients configured. */
    private void legacy(List<String> given) {
        String[] words = given.subList(2, given.size()).toArray(String[]::new);
        tried("options", () -> {
            Object options = instance("kafka.tools.MirrorMaker$MirrorMakerOptions", (Object) words);
            Object set = options.getClass().getField("options").get(options);
            boolean topics = false;
            for (String name : List.of("consumerConfig", "producerConfig", "include", "whitelist", "numStreams", "abortOnSendFailure",
                "offsetCommitIntervalMs", "messageHandler", "consumerRebalanceListener")) {
                Object option = called(options, name + "Opt");
                Object value = tried("--" + name, () -> called(set, "valueOf", option)) ? called(set, "valueOf", option) : null;
                if (name.endsWith("Config") && value == null && !wrong.containsKey("--" + name)) {
                    wrong.put("--" + name, "Missing required argument");
                }
                if (value != null && (name.equals("messageHandler") || name.equals("consumerRebalanceListener"))) {
                    tried("--" + name, () -> Class.forName(value.toString()));
                }
                if (value != null && (name.equals("include") || name.equals("whitelist"))) {
                    topics = true;
                    tried("--" + name, () -> instance("org.apache.kafka.server.util.TopicFilter$IncludeList", value));
                }
            }
            if (!topics) {
                wrong.put("--include", "include must be specified");
            }
            return true;
        });
        tried("consumer", () -> consumer(properties(given.get(0))));
        tried("producer", () -> producer(properties(given.get(1))));
    }

    private static Map<String, Object> properties(String file) throws Exception {
        Properties read = new Properties();
        read.load(new ByteArrayInputStream(file.getBytes(StandardCharsets.ISO_8859_1)));
        return new HashMap<>(Utils.propsToStringMap(read));
    }

    private static Object instance(String name, Object argument) throws Exception {
        return Class.forName(name).getConstructor(argument.getClass()).newInstance(argument);
    }

    private static Object called(Object on, String method, Object... arguments) throws Exception {
        for (var each : on.getClass().getMethods()) {
            boolean fits = each.getName().equals(method) && each.getParameterCount() == arguments.length;
            if (fits && (arguments.length == 0 || each.getParameterTypes()[0].isInstance(arguments[0]))) {
                return each.invoke(on, arguments);
            }
        }
        throw new IllegalArgumentException(method);
    }

    private boolean tried(String what, Callable<Object> action) {
        try {
            action.call();
            return true;
        } catch (InvocationTargetException e) {
            wrong.put(what, String.valueOf(e.getCause().getMessage()));
        } catch (Exception e) {
            wrong.put(what, String.valueOf(e.getMessage()));
        }
        return false;
    }

    private static String encoded(String text) {
        return "+" + Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8));
    }
}
