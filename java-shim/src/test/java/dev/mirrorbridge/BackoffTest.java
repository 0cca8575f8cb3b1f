package dev.mirrorbridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.HashSet;
import java.util.Random;
import java.util.Set;
import org.junit.jupiter.api.Test;

class BackoffTest {
    @Test
    void delaysDoubleUpToTheCapWithJitterBelow() {
        Backoff backoff = new Backoff(new Random(0));
        Set<Long> capped = new HashSet<>();
        for (int i = 0; i < 200; i++) {
            long whole = i < 5 ? 100L << i : 3_000;
            long delay = backoff.next(0);
            assertTrue(delay >= whole / 2 && delay <= whole, "delay " + i + " is " + delay);
            if (whole == 3_000) {
                capped.add(delay);
            }
        }
        assertTrue(capped.size() > 100, "jittered");
    }

    @Test
    void aSuccessBeginsAnew() {
        Backoff backoff = new Backoff(new Random(0));
        for (int i = 0; i < 20; i++) {
            backoff.next(0);
        }
        backoff.reset();
        assertTrue(backoff.next(0) <= 100);
    }

    @Test
    void whatTheServiceAsksForIsTheLeastWithinReason() {
        Backoff backoff = new Backoff(new Random(0));
        assertEquals(7_000, backoff.next(7_000));
        assertEquals(300_000, backoff.next(Long.MAX_VALUE));
    }
}
