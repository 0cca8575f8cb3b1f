"""Source offsets of a stock mirror, as its Connect workers have stored them."""

from __future__ import annotations

import pytest

from bridge.dedicated.stored_offsets import Offsets, put

NAME = "MirrorSourceConnector"
KEY = b'["MirrorSourceConnector",{"cluster":"A","partition":3,"topic":"t"}]'
THERE = '{"cluster": "A", "partition": 3, "topic": "t"}'


def offsets_of(*records: tuple[bytes | None, bytes | None]) -> Offsets:
    offsets: Offsets = {}
    for key, value in records:
        put(offsets, NAME, key, value)
    return offsets


def test_the_newest_counts_in_whatever_order_the_fields_stand() -> None:
    other = b'["MirrorSourceConnector",{"topic":"t","cluster":"A","partition":3}]'
    assert offsets_of((KEY, b'{"offset":41}'), (other, b'{"offset":42}')) == {THERE: {"offset": 42}}


def test_a_null_takes_it_back() -> None:
    assert offsets_of((KEY, b'{"offset":41}'), (KEY, None)) == {}


@pytest.mark.parametrize(
    "key",
    [
        None,
        b"",
        b"\xff",
        b'"MirrorSourceConnector"',
        b'["MirrorSourceConnector"]',
        b'["MirrorSourceConnector",3]',
        b'["MirrorHeartbeatConnector",{"sourceClusterAlias":"A","targetClusterAlias":"B"}]',
    ],
)
def test_what_is_not_its_own_is_passed_over(key: bytes | None) -> None:
    assert offsets_of((key, b'{"offset":41}')) == {}
