package dev.mirrorbridge;

import java.util.HashMap;
import java.util.Map;

/** Tasks and configurations for tests. */
final class Tasks {
    private Tasks() {
    }

    static Map<String, String> props(String url) {
        Map<String, String> props = new HashMap<>();
        props.put("name", "c");
        props.put("connector.class", "MirrorGroupOffsetConnector");
        props.put("source.cluster.alias", "A");
        props.put("target.cluster.alias", "B");
        props.put("source.cluster.bootstrap.servers", "localhost:9092");
        props.put("target.cluster.bootstrap.servers", "localhost:9192");
        props.put("bridge.url", url);
        return props;
    }

    static Map<String, String> config(String url) {
        Map<String, String> config = props(url);
        config.put("bridge.kind", "group_offset");
        config.put("task.index", "0");
        config.put("task.count", "1");
        return config;
    }

    static BridgeSourceTask started(Pacer pacer, Map<String, String> config) {
        BridgeSourceTask task = new BridgeSourceTask() {
            @Override
            Pacer pacer() {
                return pacer;
            }
        };
        task.start(config);
        return task;
    }

    /** Sets the URLs that the worker's operator allows besides loopback; until {@link #allowNothing}. */
    static void allow(String urls) {
        System.setProperty(AllowedUrls.PROPERTY, urls);
    }

    static void allowNothing() {
        System.clearProperty(AllowedUrls.PROPERTY);
    }

    static void sleep(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** Returns a URL of this machine where nothing listens. */
    static String unusedUrl() {
        FakeService gone = FakeService.start();
        gone.close();
        return gone.url();
    }
}
