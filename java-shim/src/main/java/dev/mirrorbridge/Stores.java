package dev.mirrorbridge;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import javax.net.ssl.SSLContext;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.config.SslConfigs;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The SSLContext of {@code bridge.ssl.*}, rebuilt when a key store or trust store is replaced: certificates expire while
 * connectors run.
 */
final class Stores {
    private static final Logger LOG = LoggerFactory.getLogger(Stores.class);
    private static final long LOOK_NS = 1_000_000_000L;
    private static final List<String> LOCATIONS = List.of(
        SslConfigs.SSL_TRUSTSTORE_LOCATION_CONFIG, SslConfigs.SSL_KEYSTORE_LOCATION_CONFIG);

    private final Map<String, String> props;
    private final List<Path> files = new ArrayList<>();
    private SSLContext context;
    /** What the files looked like when they were read, and when they were last looked at. */
    private String read;
    private String seen;
    private long lookedAt;

    /** Throws {@link ConfigException} with a sentence that names the key. */
    Stores(Map<String, String> props) {
        this.props = Map.copyOf(ofTls(props));
        for (String location : LOCATIONS) {
            String file = this.props.get(Tls.PREFIX + location);
            if (file != null && !file.isBlank()) {
                files.add(Path.of(file));
            }
        }
        this.read = look();
        this.seen = read;
        this.lookedAt = System.nanoTime();
        this.context = Tls.context(this.props);
    }

    /** Looks at the files once a second, and reads changed ones when they are unchanged between two looks. */
    synchronized SSLContext current() {
        if (files.isEmpty() || System.nanoTime() - lookedAt < LOOK_NS) {
            return context;
        }
        lookedAt = System.nanoTime();
        String before = seen;
        seen = look();
        if (!seen.equals(read) && seen.equals(before)) {
            read = seen;
            try {
                context = Tls.context(props);
                LOG.info("The key store or trust store of bridge.ssl.* changed and is in use");
            } catch (ConfigException unusable) {
                LOG.error("The key store or trust store of bridge.ssl.* changed and can't be used: {}. The previous "
                    + "one stays in use", unusable.getMessage());
            }
        }
        return context;
    }

    private String look() {
        StringBuilder found = new StringBuilder();
        for (Path file : files) {
            try {
                BasicFileAttributes now = Files.readAttributes(file, BasicFileAttributes.class);
                found.append(now.fileKey()).append(' ').append(now.size()).append(' ').append(now.lastModifiedTime());
            } catch (IOException unreadable) {
                found.append(unreadable.getClass().getSimpleName());
            }
            found.append('\n');
        }
        return found.toString();
    }

    private static Map<String, String> ofTls(Map<String, String> props) {
        Map<String, String> found = new HashMap<>();
        props.forEach((key, value) -> {
            if (key.startsWith(Tls.PREFIX + "ssl.") && value != null) {
                found.put(key, value);
            }
        });
        return found;
    }
}
