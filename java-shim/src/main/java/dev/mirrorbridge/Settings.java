package dev.mirrorbridge;

import java.net.URI;
import java.util.Map;
import java.util.TreeSet;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigDef.Importance;
import org.apache.kafka.common.config.ConfigDef.Range;
import org.apache.kafka.common.config.ConfigDef.Type;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.config.types.Password;

/** How to reach the service: the few keys that the shim itself reads. All others are the service's. */
final class Settings {
    static final String URL = "bridge.url";
    static final String TOKEN = "bridge.auth.token";
    static final String REQUEST_TIMEOUT = "bridge.request.timeout.ms";
    static final String DEFAULT_URL = "http://127.0.0.1:8900";

    private static final ConfigDef OWN = new ConfigDef()
        .define(URL, Type.STRING, DEFAULT_URL, new BridgeUrl(), Importance.HIGH, "")
        .define(TOKEN, Type.PASSWORD, null, Importance.HIGH, "")
        .define(REQUEST_TIMEOUT, Type.LONG, 5000L, Range.atLeast(1), Importance.LOW, "");

    final URI url;
    final String token;
    final long requestTimeoutMs;
    /** Null for plain HTTP. */
    final Stores tls;

    private Settings(URI url, String token, long requestTimeoutMs, Stores tls) {
        this.url = url;
        this.token = token;
        this.requestTimeoutMs = requestTimeoutMs;
        this.tls = tls;
    }

    /** Reads and checks; throws {@link ConfigException} with a sentence that names the key and holds no secret. */
    static Settings from(Map<String, String> props) {
        Map<String, Object> own = OWN.parse(props);
        URI url = BridgeUrl.parse(URL, (String) own.get(URL));
        String refusal = AllowedUrls.refusal(url, AllowedUrls.configured());
        if (refusal != null) {
            throw new ConfigException(URL, url, refusal);
        }
        Password password = (Password) own.get(TOKEN);
        String token = password == null ? "" : password.value().strip();
        if (!token.chars().allMatch(c -> c > ' ' && c < 127)) {
            throw new ConfigException(TOKEN, Password.HIDDEN, "Must be of visible ASCII characters without spaces");
        }
        return new Settings(url, token.isEmpty() ? null : token, (Long) own.get(REQUEST_TIMEOUT),
            BridgeUrl.isTls(url) ? new Stores(props) : null);
    }

    /**
     * Configurations reach us with their secrets resolved: those travel by TLS or loopback only. Null if this one may
     * be sent, else the sentence that says why not.
     */
    String refusal(Map<String, String> props, Definition definition) {
        if (BridgeUrl.isTls(url) || BridgeUrl.isLoopback(url)) {
            return null;
        }
        TreeSet<String> secrets = new TreeSet<>();
        props.forEach((key, value) -> {
            if (definition.isSecret(key) && value != null && !value.isBlank()) {
                secrets.add(key);
            }
        });
        return secrets.isEmpty() ? null : String.format("Invalid value %s for configuration %s: Secrets are sent by "
            + "https or to a loopback address only, and this configuration has %s", url, URL, secrets);
    }

    @Override
    public String toString() {
        return url.toString();
    }
}
