package dev.mirrorbridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.security.KeyStore;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.function.BooleanSupplier;
import java.util.logging.Level;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;
import org.apache.kafka.common.config.ConfigException;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Against a real HTTPS server, with key stores made by the JDK's keytool. */
@Timeout(60)
class TlsTest {
    private static final String POLL = "/v1/connectors/c/tasks/0/poll";
    private static final String PASSWORD = "s3cr3t-store";

    @TempDir
    static Path dir;
    /** Valid for 127.0.0.1, for another host, and the client's. */
    private static Path good;
    private static Path otherHost;
    private static Path client;

    private FakeService service;

    @BeforeAll
    static void keyStores() throws Exception {
        good = keyStore("good", "CN=good", "ip:127.0.0.1");
        otherHost = keyStore("other", "CN=other", "dns:other.example");
        client = keyStore("client", "CN=client", "dns:client");
    }

    @AfterEach
    void close() {
        service.close();
    }

    @Test
    void aPkcs12TrustStoreIsTrusted() throws Exception {
        service = FakeService.start(server(good), false);
        assertServed(trusting(trustStore(good, "PKCS12"), "PKCS12"));
    }

    @Test
    void aJksTrustStoreIsTrusted() throws Exception {
        service = FakeService.start(server(good), false);
        assertServed(trusting(trustStore(good, "JKS"), "JKS"));
    }

    @Test
    void aPemTrustStoreIsTrusted() throws Exception {
        service = FakeService.start(server(good), false);
        Path pem = Files.writeString(dir.resolve("trust.pem"), certificate(good));
        Map<String, String> config = Tasks.config(service.url());
        config.put("bridge.ssl.truststore.location", pem.toString());
        config.put("bridge.ssl.truststore.type", "PEM");
        assertServed(config);
    }

    @Test
    void certificatesInPlaceAreTrusted() throws Exception {
        service = FakeService.start(server(good), false);
        assertServed(inPlace(good));
    }

    @Test
    void theTokenTravelsByTls() throws Exception {
        service = FakeService.start(server(good), false);
        Map<String, String> config = inPlace(good);
        config.put("bridge.auth.token", "s3cr3t-token");
        assertServed(config);
        assertEquals("Bearer s3cr3t-token", service.requests.get(0).authorization);
    }

    @Test
    void theClientShowsItsCertificateFromAStore() throws Exception {
        service = FakeService.start(server(good), true);
        Map<String, String> config = inPlace(good);
        assertNotServed(config);
        config.put("bridge.ssl.keystore.location", client.toString());
        config.put("bridge.ssl.keystore.password", PASSWORD);
        config.put("bridge.ssl.keystore.type", "PKCS12");
        assertServed(config);
    }

    @Test
    void theClientShowsItsCertificateFromPemInPlace() throws Exception {
        service = FakeService.start(server(good), true);
        Map<String, String> config = inPlace(good);
        config.put("bridge.ssl.keystore.certificate.chain", certificate(client));
        config.put("bridge.ssl.keystore.key", key(client));
        assertServed(config);
        config.put("bridge.ssl.endpoint.identification.algorithm", "");
        assertServed(config);
    }

    @Test
    void aCertificateThatIsNotTrustedIsNoFailureButNothingIsSent() throws Exception {
        service = FakeService.start(server(good), false);
        assertNotServed(inPlace(otherHost));
    }

    @Test
    void theHostNameIsCheckedUnlessSwitchedOff() throws Exception {
        service = FakeService.start(server(otherHost), false);
        Map<String, String> config = inPlace(otherHost);
        assertNotServed(config);
        config.put("bridge.ssl.endpoint.identification.algorithm", "");
        assertServed(config);
        Map<String, String> wrong = inPlace(good);
        wrong.put("bridge.ssl.endpoint.identification.algorithm", "");
        assertNotServed(wrong);
    }

    @Test
    void aWrongStorePasswordIsNamedByTheStoresKeyAndNeverShown() throws Exception {
        service = FakeService.start(server(good), false);
        Map<String, String> config = trusting(trustStore(good, "PKCS12"), "PKCS12");
        config.put("bridge.ssl.truststore.password", "wr0ng-passw0rd");
        ConfigException error = assertThrows(ConfigException.class, () -> Settings.from(config));
        assertTrue(error.getMessage().startsWith("bridge.ssl.truststore.location: "), error.getMessage());
        assertFalse(error.getMessage().contains("wr0ng"));
        config.put("bridge.ssl.truststore.type", "PEM");
        assertThrows(ConfigException.class, () -> Settings.from(config));
    }

    /** Without a restart of the connector: neither {@code start} nor the configuration is touched. */
    @Test
    void aKeyStoreThatIsReplacedIsTakenUp() throws Exception {
        service = FakeService.start(server(good), true);
        Path store = Files.copy(otherHost, dir.resolve("replaced.p12"), StandardCopyOption.REPLACE_EXISTING);
        Map<String, String> config = inPlace(good);
        config.put("bridge.ssl.keystore.location", store.toString());
        config.put("bridge.ssl.keystore.password", PASSWORD);
        config.put("bridge.ssl.keystore.type", "PKCS12");
        BridgeSourceTask task = Tasks.started(new FastPacer(), config);
        try (LogLines lines = new LogLines()) {
            task.poll();
            assertEquals(List.of(), service.requests);
            Files.copy(client, store, StandardCopyOption.REPLACE_EXISTING);
            pollUntil(task, () -> service.count("POST", POLL) > 0);
            Files.writeString(store, "no key store");
            pollUntil(task, () -> lines.from(Level.SEVERE).size() > 0);
            long before = service.count("POST", POLL);
            pollUntil(task, () -> service.count("POST", POLL) > before);
            assertEquals(1, lines.from(Level.SEVERE).size());
            String line = lines.from(Level.SEVERE).get(0);
            assertTrue(line.contains("bridge.ssl.keystore.location"), line);
            assertFalse(line.contains(PASSWORD), line);
        } finally {
            task.stop();
        }
    }

    @Test
    void aTrustStoreThatIsReplacedIsTakenUp() throws Exception {
        service = FakeService.start(server(good), false);
        Path store = Files.copy(trustStore(otherHost, "PKCS12"), dir.resolve("trust.p12"),
            StandardCopyOption.REPLACE_EXISTING);
        BridgeSourceTask task = Tasks.started(new FastPacer(), trusting(store, "PKCS12"));
        task.poll();
        assertEquals(List.of(), service.requests);
        Files.copy(trustStore(good, "PKCS12"), store, StandardCopyOption.REPLACE_EXISTING);
        pollUntil(task, () -> service.count("POST", POLL) > 0);
        task.stop();
    }

    /** Ends with the test's time where it does not come to be. */
    private static void pollUntil(BridgeSourceTask task, BooleanSupplier done) throws InterruptedException {
        while (!done.getAsBoolean()) {
            task.poll();
        }
    }

    private void assertServed(Map<String, String> config) throws Exception {
        service.requests.clear();
        BridgeSourceTask task = Tasks.started(new FastPacer(), config);
        // The first handshake of a JVM takes longer than a poll is held, where the machine is busy.
        for (int i = 0; i < 20 && service.count("POST", POLL) == 0; i++) {
            task.poll();
        }
        task.stop();
        assertTrue(service.count("POST", POLL) > 0, "polls reach the service");
    }

    private void assertNotServed(Map<String, String> config) throws Exception {
        service.requests.clear();
        BridgeSourceTask task = Tasks.started(new FastPacer(), config);
        task.poll();
        task.stop();
        assertEquals(List.of(), service.requests);
    }

    private Map<String, String> trusting(Path store, String type) {
        Map<String, String> config = Tasks.config(service.url());
        config.put("bridge.ssl.truststore.location", store.toString());
        config.put("bridge.ssl.truststore.password", PASSWORD);
        config.put("bridge.ssl.truststore.type", type);
        return config;
    }

    private Map<String, String> inPlace(Path trusted) throws Exception {
        Map<String, String> config = Tasks.config(service.url());
        config.put("bridge.ssl.truststore.certificates", certificate(trusted));
        return config;
    }

    /** Every server trusts the client's certificate. */
    private static SSLContext server(Path store) throws Exception {
        KeyManagerFactory keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        keys.init(load(store), PASSWORD.toCharArray());
        KeyStore known = KeyStore.getInstance("PKCS12");
        known.load(null, null);
        known.setCertificateEntry("client", load(client).getCertificate("it"));
        TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(known);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(keys.getKeyManagers(), trust.getTrustManagers(), null);
        return context;
    }

    private static Path trustStore(Path of, String type) throws Exception {
        Path path = dir.resolve("trust." + type);
        KeyStore store = KeyStore.getInstance(type);
        store.load(null, null);
        store.setCertificateEntry("it", load(of).getCertificate("it"));
        try (var out = Files.newOutputStream(path)) {
            store.store(out, PASSWORD.toCharArray());
        }
        return path;
    }

    private static KeyStore load(Path path) throws Exception {
        KeyStore store = KeyStore.getInstance("PKCS12");
        try (InputStream in = Files.newInputStream(path)) {
            store.load(in, PASSWORD.toCharArray());
        }
        return store;
    }

    private static String certificate(Path store) throws Exception {
        return pem("CERTIFICATE", load(store).getCertificate("it").getEncoded());
    }

    private static String key(Path store) throws Exception {
        return pem("PRIVATE KEY", load(store).getKey("it", PASSWORD.toCharArray()).getEncoded());
    }

    private static String pem(String what, byte[] bytes) {
        return "-----BEGIN " + what + "-----\n" + Base64.getMimeEncoder(64, new byte[] {'\n'}).encodeToString(bytes)
            + "\n-----END " + what + "-----\n";
    }

    private static Path keyStore(String name, String subject, String alternative) throws Exception {
        Path path = dir.resolve(name + ".p12");
        List<String> command = new ArrayList<>(List.of(
            System.getProperty("java.home") + File.separator + "bin" + File.separator + "keytool", "-genkeypair",
            "-alias", "it", "-keyalg", "EC", "-dname", subject, "-ext", "san=" + alternative, "-validity", "2",
            "-storetype", "PKCS12", "-keystore", path.toString(), "-storepass", PASSWORD));
        Process keytool = new ProcessBuilder(command).redirectErrorStream(true).start();
        String said = new String(keytool.getInputStream().readAllBytes());
        assertEquals(0, keytool.waitFor(), said);
        return path;
    }
}
