package dev.mirrorbridge;

import java.net.URI;
import java.net.URISyntaxException;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;

/** The URL of the service: {@code http://host:port} or {@code https://…}, with or without a path before /v1. */
final class BridgeUrl implements ConfigDef.Validator {
    @Override
    public void ensureValid(String key, Object value) {
        if (value != null) {
            parse(key, value.toString());
        }
    }

    static URI parse(String key, String value) {
        try {
            URI url = new URI(value.trim().replaceAll("/+$", ""));
            boolean http = "http".equalsIgnoreCase(url.getScheme()) || "https".equalsIgnoreCase(url.getScheme());
            if (url.getRawUserInfo() != null) {
                throw new ConfigException(key, "[hidden]", "Must not contain credentials: use bridge.auth.token");
            }
            if (http && url.getHost() != null && url.getRawQuery() == null && url.getRawFragment() == null) {
                return url;
            }
        } catch (URISyntaxException invalid) {
            // Reported below, without the parser's message, which repeats the whole value.
        }
        Object shown = value.contains("@") ? "[hidden]" : value;
        throw new ConfigException(key, shown, "Must be http://host:port or https://host:port");
    }

    static boolean isTls(URI url) {
        return "https".equalsIgnoreCase(url.getScheme());
    }

    /** Whether requests to this URL stay on the machine; by its text alone, without DNS. */
    static boolean isLoopback(URI url) {
        String host = url.getHost();
        return host.equalsIgnoreCase("localhost") || host.equals("[::1]") || host.equals("[0:0:0:0:0:0:0:1]")
            || host.matches("127(\\.[0-9]{1,3}){3}");
    }

    @Override
    public String toString() {
        return "http:// or https:// URL";
    }
}
