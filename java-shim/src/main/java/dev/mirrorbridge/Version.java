package dev.mirrorbridge;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.Properties;

/** Version of the shim, the same as the jar's and the service's, and of the HTTP contract that it speaks. */
final class Version {
    static final String VERSION = load();
    static final int PROTOCOL = 1;

    private Version() {
    }

    private static String load() {
        Properties properties = new Properties();
        try (InputStream in = Version.class.getResourceAsStream("version.properties")) {
            properties.load(in);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return properties.getProperty("version");
    }
}
