package dev.mirrorbridge;

import java.net.Socket;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.CertificateException;
import java.security.cert.X509Certificate;
import java.util.HashMap;
import java.util.Map;
import javax.net.ssl.KeyManager;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLEngine;
import javax.net.ssl.TrustManager;
import javax.net.ssl.TrustManagerFactory;
import javax.net.ssl.X509ExtendedTrustManager;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.config.SslConfigs;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.common.security.ssl.DefaultSslEngineFactory;

/**
 * {@code bridge.ssl.*} to an SSLContext. The keys are those of any Kafka client, so Kafka's own reader of JKS, PKCS12
 * and PEM stores does the work.
 */
final class Tls {
    static final String PREFIX = "bridge.";
    private static final ConfigDef SSL = new ConfigDef().withClientSslSupport();

    private Tls() {
    }

    static SSLContext context(Map<String, String> props) {
        Map<String, Object> ssl = parsed(props);
        DefaultSslEngineFactory stores = new DefaultSslEngineFactory();
        try {
            stores.configure(ssl);
            String check = (String) ssl.get(SslConfigs.SSL_ENDPOINT_IDENTIFICATION_ALGORITHM_CONFIG);
            return check == null || check.isBlank() ? anyHost(stores, ssl) : stores.sslContext();
        } catch (KafkaException | GeneralSecurityException e) {
            throw new ConfigException(PREFIX + blame(ssl, e) + ": " + words(e));
        }
    }

    private static Map<String, Object> parsed(Map<String, String> props) {
        Map<String, String> ssl = new HashMap<>();
        props.forEach((key, value) -> {
            if (key.startsWith(PREFIX + "ssl.") && value != null) {
                ssl.put(key.substring(PREFIX.length()), value);
            }
        });
        if (ssl.containsKey(SslConfigs.SSL_TRUSTSTORE_CERTIFICATES_CONFIG)) {
            ssl.putIfAbsent(SslConfigs.SSL_TRUSTSTORE_TYPE_CONFIG, DefaultSslEngineFactory.PEM_TYPE);
        }
        if (ssl.containsKey(SslConfigs.SSL_KEYSTORE_KEY_CONFIG)) {
            ssl.putIfAbsent(SslConfigs.SSL_KEYSTORE_TYPE_CONFIG, DefaultSslEngineFactory.PEM_TYPE);
        }
        try {
            return SSL.parse(ssl);
        } catch (ConfigException e) {
            throw new ConfigException(e.getMessage().replace("configuration ssl.", "configuration bridge.ssl."));
        }
    }

    /** The JDK's HTTP client always checks the host name, but not through a trust manager that ignores the connection. */
    private static SSLContext anyHost(DefaultSslEngineFactory stores, Map<String, Object> ssl)
        throws GeneralSecurityException {
        KeyManager[] keys = null;
        if (stores.keystore() != null) {
            Object given = ssl.get(SslConfigs.SSL_KEY_PASSWORD_CONFIG);
            Password password = (Password) (given == null ? ssl.get(SslConfigs.SSL_KEYSTORE_PASSWORD_CONFIG) : given);
            KeyManagerFactory factory = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
            factory.init(stores.keystore(), password == null ? null : password.value().toCharArray());
            keys = factory.getKeyManagers();
        }
        KeyStore trusted = stores.truststore();
        TrustManagerFactory factory = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        factory.init(trusted);
        TrustManager[] managers = factory.getTrustManagers();
        for (int i = 0; i < managers.length; i++) {
            if (managers[i] instanceof X509ExtendedTrustManager) {
                managers[i] = new AnyHost((X509ExtendedTrustManager) managers[i]);
            }
        }
        SSLContext context = SSLContext.getInstance((String) ssl.get(SslConfigs.SSL_PROTOCOL_CONFIG));
        context.init(keys, managers, null);
        return context;
    }

    private static String blame(Map<String, Object> ssl, Exception e) {
        Object keystore = ssl.get(SslConfigs.SSL_KEYSTORE_LOCATION_CONFIG);
        Object truststore = ssl.get(SslConfigs.SSL_TRUSTSTORE_LOCATION_CONFIG);
        if (keystore != null && words(e).contains(keystore.toString())) {
            return SslConfigs.SSL_KEYSTORE_LOCATION_CONFIG;
        } else if (truststore != null && words(e).contains(truststore.toString())) {
            return SslConfigs.SSL_TRUSTSTORE_LOCATION_CONFIG;
        } else if (ssl.get(SslConfigs.SSL_TRUSTSTORE_CERTIFICATES_CONFIG) != null
            && ssl.get(SslConfigs.SSL_KEYSTORE_KEY_CONFIG) == null) {
            return SslConfigs.SSL_TRUSTSTORE_CERTIFICATES_CONFIG;
        }
        return SslConfigs.SSL_KEYSTORE_KEY_CONFIG;
    }

    private static String words(Throwable e) {
        StringBuilder words = new StringBuilder();
        for (Throwable cause = e; cause != null; cause = cause.getCause()) {
            if (cause.getMessage() != null && words.indexOf(cause.getMessage()) < 0) {
                words.append(words.length() == 0 ? "" : ": ").append(cause.getMessage());
            }
        }
        return words.toString();
    }

    /** Checks the chain of certificates and nothing about the host. */
    private static final class AnyHost extends X509ExtendedTrustManager {
        private final X509ExtendedTrustManager chain;

        AnyHost(X509ExtendedTrustManager chain) {
            this.chain = chain;
        }

        @Override
        public void checkServerTrusted(X509Certificate[] certs, String auth, SSLEngine engine)
            throws CertificateException {
            chain.checkServerTrusted(certs, auth);
        }

        @Override
        public void checkServerTrusted(X509Certificate[] certs, String auth, Socket socket)
            throws CertificateException {
            chain.checkServerTrusted(certs, auth);
        }

        @Override
        public void checkServerTrusted(X509Certificate[] certs, String auth) throws CertificateException {
            chain.checkServerTrusted(certs, auth);
        }

        @Override
        public void checkClientTrusted(X509Certificate[] certs, String auth, SSLEngine engine)
            throws CertificateException {
            chain.checkClientTrusted(certs, auth);
        }

        @Override
        public void checkClientTrusted(X509Certificate[] certs, String auth, Socket socket)
            throws CertificateException {
            chain.checkClientTrusted(certs, auth);
        }

        @Override
        public void checkClientTrusted(X509Certificate[] certs, String auth) throws CertificateException {
            chain.checkClientTrusted(certs, auth);
        }

        @Override
        public X509Certificate[] getAcceptedIssuers() {
            return chain.getAcceptedIssuers();
        }
    }
}
