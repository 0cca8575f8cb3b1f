package dev.mirrorbridge;

import java.net.URI;
import java.net.URISyntaxException;
import java.util.Locale;

/**
 * The URLs to which this worker lets connectors send their configurations, which have their secrets resolved: loopback, and
 * those that the operator of the worker allows. A connector's configuration can't extend them.
 */
final class AllowedUrls {
    static final String PROPERTY = "mirror.bridge.allowed.urls";
    static final String ENVIRONMENT = "MIRROR_BRIDGE_ALLOWED_URLS";
    private static final String ANY = "*";

    private AllowedUrls() {
    }

    /** The setting of this worker; the system property takes precedence. */
    static String configured() {
        String property = System.getProperty(PROPERTY);
        String value = property == null ? System.getenv(ENVIRONMENT) : property;
        return value == null ? "" : value.strip();
    }

    /** Null if the service there may get configurations, else the sentence that says why not. */
    static String refusal(URI url, String allowed) {
        if (BridgeUrl.isLoopback(url)) {
            return null;
        }
        for (String each : allowed.split(",")) {
            if (covers(each.strip(), url)) {
                return null;
            }
        }
        return String.format("This worker sends configurations, with their secrets, only to loopback addresses and to "
            + "the URLs in its environment variable %s (or -D%s), %s", ENVIRONMENT, PROPERTY,
            allowed.isEmpty() ? "which is not set" : "which is " + allowed);
    }

    /** Compares scheme, host and port, and the path as a prefix; no patterns, which are easily too wide for URLs. */
    private static boolean covers(String allowed, URI url) {
        if (allowed.equals(ANY)) {
            return true;
        }
        try {
            URI other = new URI(allowed.replaceAll("/+$", ""));
            return other.getHost() != null && other.getScheme() != null && origin(other).equals(origin(url))
                && (path(url) + "/").startsWith(path(other) + "/");
        } catch (URISyntaxException invalid) {
            return false;
        }
    }

    private static String origin(URI url) {
        int standard = BridgeUrl.isTls(url) ? 443 : 80;
        int port = url.getPort() < 0 ? standard : url.getPort();
        return (url.getScheme() + "://" + url.getHost() + ":" + port).toLowerCase(Locale.ROOT);
    }

    private static String path(URI url) {
        String path = url.normalize().getRawPath();
        return path == null ? "" : path.replaceAll("/+$", "");
    }
}
