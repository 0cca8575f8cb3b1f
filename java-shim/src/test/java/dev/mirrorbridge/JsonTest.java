package dev.mirrorbridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class JsonTest {
    @ParameterizedTest
    @ValueSource(strings = {"null", "true", "false", "0", "-1", "9223372036854775807", "1.5", "\"\"", "[]", "{}",
        "[1,[2,[]],{\"a\":null}]", "{\"a\":{\"b\":[true]},\"c\":\"d\"}", "\"é世\\u0000\\\"\\\\\""})
    void whatIsReadIsWrittenBack(String text) {
        assertEquals(text, Json.write(Json.read(text)));
    }

    @ParameterizedTest
    @ValueSource(strings = {"", " ", "nul", "tru", "01", "1.", "+1", "-", "1 2", "\"", "\"\\x\"", "\"\\u12\"", "[", "[1",
        "[1,]", "[,1]", "{", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{a:1}", "{1:2}", "]", "'a'", "\"\n\"", "NaN", "1e",
        "{}\u0000", "<html>"})
    void whatIsNotJsonIsRefused(String text) {
        assertThrows(IllegalArgumentException.class, () -> Json.read(text));
    }

    @Test
    void nestingIsBounded() {
        assertThrows(IllegalArgumentException.class, () -> Json.read("[".repeat(100_000)));
        assertEquals("[".repeat(64) + "]".repeat(64), Json.write(Json.read("[".repeat(64) + "]".repeat(64))));
    }

    @Test
    void siblingsAreNotNesting() {
        assertEquals(1000, ((List<?>) Json.read("[" + "[],".repeat(999) + "{}]")).size());
    }

    @Test
    void whiteSpaceAndEscapesAreRead() {
        assertEquals(Map.of("a", List.of(1L, "\"\\/\b\f\n\r\té\uD83D\uDE00")),
            Json.read(" {\t\"a\" :\n[ 1 ,\r\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\ud83d\\ude00\" ] } "));
    }

    @Test
    void numbersAreLongsIfWhole() {
        assertEquals(Arrays.asList(1L, 1.0, 1e3, 1e19), Json.read("[1,1.0,1e3,10000000000000000000]"));
    }

    @Test
    void mapsKeepTheirOrderAndOddKeysBecomeText() {
        Map<Object, Object> map = new LinkedHashMap<>();
        map.put("z", 1);
        map.put("a", null);
        map.put(3, new ArrayList<>(List.of(2L, "x")));
        assertEquals("{\"z\":1,\"a\":null,\"3\":[2,\"x\"]}", Json.write(map));
    }

    @Test
    void whatHasNoJsonFormIsRefused() {
        assertThrows(IllegalArgumentException.class, () -> Json.write(new Object()));
        assertEquals("null", Json.write(Double.NaN));
    }
}
