"""A cache that forgets what nobody asks for."""

from __future__ import annotations

from bridge.kafka.expiring_cache import ExpiringCache


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_what_is_used_stays_and_the_rest_goes() -> None:
    clock = Clock()
    cache: ExpiringCache[str, int] = ExpiringCache(10.0, clock)
    cache.put("used", 1)
    cache.put("written", 1)
    cache.put("unused", 1)
    for second in range(100):
        clock.now += 1.0
        assert cache.get("used") == 1
        cache.put("written", second)
        if second == 8:
            assert len(cache) == 3, "nothing goes before its time"
    assert (cache.get("written"), cache.get("unused"), len(cache)) == (99, None, 2)


def test_what_nobody_used_for_long_is_gone_at_once() -> None:
    clock = Clock()
    cache: ExpiringCache[str, int] = ExpiringCache(10.0, clock)
    cache.put("a", 1)
    clock.now += 19.9
    assert cache.get("a") == 1, "old, and not forgotten yet"
    clock.now += 20.0
    assert (cache.get("a"), len(cache)) == (None, 0)


def test_what_is_dropped_is_gone() -> None:
    clock = Clock()
    cache: ExpiringCache[str, int] = ExpiringCache(10.0, clock)
    cache.put("a", 1)
    clock.now += 11.0
    cache.put("b", 2)
    for key in ("a", "b", "c"):
        cache.drop(key)
    assert len(cache) == 0


def test_it_is_as_large_as_what_was_used_lately() -> None:
    clock = Clock()
    cache: ExpiringCache[int, int] = ExpiringCache(10.0, clock)
    for key in range(20_000):
        clock.now += 0.01
        cache.put(key, key)
        assert len(cache) <= 2_010
