package dev.mirrorbridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigDef.ConfigKey;
import org.apache.kafka.common.config.ConfigValue;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class DefinitionTest {
    @ParameterizedTest
    @CsvSource(delimiter = '|', value = {
        "INT  | {'kind':'range','min':1,'max':null} | 0 | Invalid value 0 for configuration k: Value must be at least 1",
        "LONG | {'kind':'range','min':null,'max':5} | 9 | Invalid value 9 for configuration k: Value must be no more than 5",
        "LONG | null | bad   | Invalid value bad for configuration k: Not a number of type LONG",
        "SHORT | null | 99999 | Invalid value 99999 for configuration k: Not a number of type SHORT",
        "BOOLEAN | null | yes | Invalid value yes for configuration k: Expected value to be either true or false",
        "STRING | {'kind':'in','values':['source','target']} | Source"
            + " | Invalid value Source for configuration k: String must be one of: source, target",
        "STRING | {'kind':'in','values':['SSL','PLAINTEXT'],'ignore_case':true} | abc"
            + " | Invalid value abc for configuration k: String must be one of (case insensitive): SSL, PLAINTEXT",
        "LIST | {'kind':'in','values':['legacy','new']} | foo"
            + " | Invalid value foo for configuration k: String must be one of: legacy, new",
        "STRING | {'kind':'non_empty'} | '' | Invalid value  for configuration k: String must be non-empty",
        "LIST | {'kind':'list','allow_empty':true} | a,b,a | Configuration 'k' values must not be duplicated.",
        "LIST | {'kind':'list','allow_empty':true} | a,,b  | Configuration 'k' values must not be empty.",
        "LIST | {'kind':'list','allow_empty':false} | '' "
            + " | Configuration 'k' must not be empty. Valid values include: any non-empty value",
        "LIST | {'kind':'pattern_list'} | a,b,a | Configuration 'k' values must not be duplicated.",
        "LIST | {'kind':'pattern_list'} | 'ok,x['"
            + " | Invalid value x[ for configuration k: Not a regular expression: Unclosed character class at position 1",
        "LIST | {'kind':'list','allow_empty':false,'values':['legacy','new']} | foo"
            + " | Invalid value foo for configuration k: String must be one of: legacy, new",
        "LIST | {'kind':'list','allow_empty':false,'values':['legacy','new']} | new,new"
            + " | Configuration 'k' values must not be duplicated.",
        "LIST | {'kind':'list','allow_empty':false,'values':['legacy','new']} | 'new,,a'"
            + " | Configuration 'k' values must not be empty.",
        "LIST | {'kind':'list','allow_empty':false,'values':['legacy','new']} | 'a,,new'"
            + " | Invalid value a for configuration k: String must be one of: legacy, new",
        "LIST | {'kind':'list','allow_empty':false,'values':['legacy','new']} | ''"
            + " | Configuration 'k' must not be empty. Valid values include: [legacy, new]",
        "SHORT | {'kind':'replication_factor'} | 0 | Invalid value 0 for configuration k: Replication factor must be"
            + " positive and not larger than the number of brokers in the Kafka cluster, or -1 to use the broker's default",
        "STRING | {'kind':'url'} | nowhere"
            + " | Invalid value nowhere for configuration k: Must be http://host:port or https://host:port",
    })
    void errorsAreInKafkasWords(String type, String validator, String value, String error) {
        assertTrue(errors(type, validator, value).contains(error), errors(type, validator, value)::toString);
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', value = {
        "STRING | {'kind':'from_the_future','n':1} | anything",
        "LIST | {'kind':'pattern_list'} | '(a,b)'",
        "LIST | {'kind':'pattern_list'} | ''",
        "LIST | {'kind':'list'} | ''",
        "LIST | {'kind':'list','values':['legacy','new']} | 'new,legacy'",
        "SHORT | {'kind':'replication_factor'} | -1",
        "SHORT | {'kind':'replication_factor'} | 3",
        "STRING | {'kind':'in','values':['SSL'],'ignore_case':true} | ssl",
        "INT | {'kind':'range','min':1,'max':3} | 3",
        "CLASS | null | python:my.Filter",
        "STRING | {'kind':'url'} | https://bridge/prefix/",
    })
    void whatIsRightPasses(String type, String validator, String value) {
        assertEquals(List.of(), errors(type, validator, value));
    }

    @Test
    void aKeyIsShownWithAllThatIsKnownOfIt() {
        ConfigKey key = key("'type':'LONG','required':false,'default':'60','importance':'MEDIUM','documentation':'Doc',"
            + "'group':'G','order':3,'width':'SHORT','display_name':'D','recommended':['60','600'],'secret':false");
        assertEquals(60L, key.defaultValue);
        assertEquals(ConfigDef.Importance.MEDIUM, key.importance);
        assertEquals("Doc", key.documentation);
        assertEquals("G", key.group);
        assertEquals(3, key.orderInGroup);
        assertEquals(ConfigDef.Width.SHORT, key.width);
        assertEquals("D", key.displayName);
        assertEquals(List.of(60L, 600L), key.recommender.validValues("k", Map.of()));
    }

    @Test
    void aRequiredKeyHasNoDefaultAndAnOptionalOneMayHaveNull() {
        assertFalse(key("'type':'STRING','required':true,'default':null,'order':1").hasDefault());
        ConfigKey optional = key("'type':'LIST','required':false,'default':null,'order':1,"
            + "'validator':{'kind':'list','allow_empty':false}");
        assertTrue(optional.hasDefault());
        assertEquals(null, optional.defaultValue);
    }

    /** Loaded classes would have to be in the worker; these live in the service. */
    @Test
    void classesAreNamesOnly() {
        ConfigKey key = key("'type':'CLASS','required':false,'default':'no.such.Class','order':1");
        assertEquals(ConfigDef.Type.STRING, key.type);
        assertEquals("no.such.Class", key.defaultValue);
    }

    @Test
    void secretsAreHidden() {
        Definition definition = definition("'type':'PASSWORD','required':false,'default':null,'order':1");
        ConfigValue value = definition.configDef.validate(Map.of("k", "s3cr3t")).get(0);
        assertFalse(value.toString().contains("s3cr3t"));
        assertTrue(definition.isSecret("k"));
        assertTrue(definition("'type':'STRING','secret':true,'required':false,'order':1").isSecret("k"));
    }

    @ParameterizedTest
    @ValueSource(strings = {"bridge.url", "bridge.auth.token", "bridge.task.lease.ms", "bridge.request.timeout.ms",
        "bridge.ssl.truststore.location", "bridge.ssl.keystore.key", "source.cluster.alias", "groups", "topics"})
    void theExportedDefinitionHasTheKey(String name) {
        assertNotNull(Definition.load("group_offset").configDef.configKeys().get(name));
    }

    @ParameterizedTest
    @ValueSource(strings = {"group_offset", "checkpoint", "heartbeat", "source"})
    void everySecretIsOfTypePassword(String kind) {
        Definition.load(kind).configDef.configKeys().values().stream()
            .filter(key -> key.name.matches(".*(password|jaas\\.config|\\.token|keystore\\.key|secret|passphrase)"))
            .forEach(key -> assertEquals(ConfigDef.Type.PASSWORD, key.type, key.name));
    }

    /** The service's list: tests/unit/connectors/config/test_secret_names.py reads the same names. */
    @ParameterizedTest
    @ValueSource(strings = {"group_offset", "checkpoint", "heartbeat", "source"})
    void keysAreNamedLikeSecretsAsForTheService(String kind) throws IOException {
        Path file = Path.of("..", "tests", "contract", "secret_names.json");
        Map<?, ?> names = (Map<?, ?>) Json.read(Files.readString(file));
        Definition definition = Definition.load(kind);
        for (Object key : (List<?>) names.get("secret")) {
            assertTrue(definition.isSecret((String) key), (String) key);
            assertTrue(definition.isSecret(((String) key).toUpperCase(Locale.ROOT)), (String) key);
        }
        for (Object key : (List<?>) names.get("plain")) {
            assertFalse(definition.isSecret((String) key), (String) key);
        }
    }

    @Test
    void theShimsOwnDefaultsAreTheExportedOnes() {
        Map<String, ConfigKey> keys = Definition.load("group_offset").configDef.configKeys();
        assertEquals(Settings.DEFAULT_URL, keys.get(Settings.URL).defaultValue);
        assertEquals("5000", keys.get(Settings.REQUEST_TIMEOUT).defaultValue.toString());
        assertEquals("30000", keys.get("bridge.task.lease.ms").defaultValue.toString());
        assertEquals(ConfigDef.Type.PASSWORD, keys.get(Settings.TOKEN).type);
    }

    private static List<String> errors(String type, String validator, String value) {
        Definition definition = definition("'type':'" + type.trim() + "','required':true,'order':1,'validator':"
            + validator);
        Map<String, String> props = new HashMap<>();
        props.put("k", value);
        return definition.configDef.validate(props).get(0).errorMessages();
    }

    private static ConfigKey key(String members) {
        return definition(members).configDef.configKeys().get("k");
    }

    private static Definition definition(String members) {
        String json = "{'kind':'test','keys':[{'name':'k'," + members + "}],"
            + "'secret_names':{'pattern':'password','but_not':[]}}";
        return new Definition((Map<?, ?>) Json.read(json.replace('\'', '"')));
    }
}
