package org.apache.kafka.connect.mirror;

import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.utils.Utils;

/**
 * What stock's MirrorMakerConfig makes of files. A question is "digest" or "show" and the bytes of a file; an answer has
 * the names of its parts and what is in them, all of it or a digest. Names and values begin with "+" and are base64.
 */
public class MirrorMakerConfigs {
    private static final String DISCOVERY = "plugin.discovery";
    private static final List<Class<?>> CONNECTORS =
        List.of(MirrorSourceConnector.class, MirrorCheckpointConnector.class, MirrorHeartbeatConnector.class);

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            List<byte[]> fields = new ArrayList<>();
            for (String field : line.split("\t")) {
                fields.add(Base64.getDecoder().decode(field.substring(1)));
            }
            boolean whole = new String(fields.get(0), StandardCharsets.UTF_8).equals("show");
            Map<String, String> parts = parts(fields.get(1));
            List<String> answer = new ArrayList<>();
            for (Map.Entry<String, String> part : parts.entrySet()) {
                answer.add(encoded(part.getKey()));
                answer.add(encoded(whole || part.getKey().startsWith("error") ? part.getValue() : digest(part.getValue())));
            }
            out.println(String.join("\t", answer));
        }
        out.flush();
    }

    private static Map<String, String> parts(byte[] file) throws Exception {
        Properties read = new Properties();
        read.load(new ByteArrayInputStream(file));
        Map<String, String> properties = Utils.propsToStringMap(read);
        Map<String, String> parts = new TreeMap<>();
        parts.put("properties", text(properties));
        MirrorMakerConfig config;
        // It looks for plugins in every jar each time, half a second long, unless only services are asked for.
        properties.put(DISCOVERY, "service_load");
        try {
            config = new MirrorMakerConfig(properties);
        } catch (ConfigException e) {
            parts.put("error", String.valueOf(e.getMessage()));
            return parts;
        }
        parts.put("names", String.join("\n", new TreeSet<>(config.allConfigNames())));
        parts.put("clusters", String.join("\n", new TreeSet<>(config.clusters())));
        TreeSet<String> pairs = new TreeSet<>();
        config.clusterPairs().forEach(pair -> pairs.add(pair.toString()));
        parts.put("pairs", String.join("\n", pairs));
        for (String source : config.clusters()) {
            try {
                parts.put("client " + source, text(config.clientConfig(source).originalsStrings()));
            } catch (ConfigException e) {
                parts.put("error of client " + source, String.valueOf(e.getMessage()));
            }
            for (String target : config.clusters()) {
                SourceAndTarget flow = new SourceAndTarget(source, target);
                if (!source.equals(target)) {
                    parts.put("worker " + flow, text(config.workerConfig(flow)));
                    for (Class<?> connector : CONNECTORS) {
                        parts.put(connector.getSimpleName() + " " + flow, text(config.connectorBaseConfig(flow, connector)));
                    }
                }
            }
        }
        return parts;
    }

    private static String text(Map<String, String> properties) {
        StringBuilder text = new StringBuilder();
        Map<String, String> sorted = new TreeMap<>(properties);
        sorted.remove(DISCOVERY);
        sorted.forEach((key, value) -> text.append(key).append('=').append(value).append('\n'));
        return text.toString();
    }

    private static String digest(String text) throws Exception {
        byte[] hash = MessageDigest.getInstance("SHA-256").digest(text.getBytes(StandardCharsets.UTF_8));
        return Base64.getEncoder().encodeToString(Arrays.copyOf(hash, 12));
    }

    private static String encoded(String text) {
        return "+" + Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8));
    }
}
