"""Source offsets of a stock mirror, as its Connect workers have stored them."""

from __future__ import annotations

import pytest

from bridge.dedicated.stock_offsets import Offsets, put
from bridge.service.state.source_offsets import pack_stored_offsets

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


@pytest.mark.parametrize(
    "value",
    [
        b"[" * 100_000,
        b'{"offset":' + b"[" * 900 + b"]" * 900 + b"}",
        b'{"offset":"\\ud800"}',
        b'{"offset":42,"\\ud800":1}',
        b'{"offset":9223372036854775808}',
        b'{"offset":true}',
        b'{"offset":-1}',
        b'{"offset":41.0}',
        b'{"offset":NaN}',
    ],
    ids=lambda value: value[:30].decode(),
)
def test_what_no_offset_can_be_is_never_handed_on(value: bytes) -> None:
    """The frame to the rounds process has no room for half a character or endless nesting: no offset would come."""
    found = offsets_of((KEY, value))
    assert found in ({}, {THERE: {"offset": 42}}, {THERE: {}})
    pack_stored_offsets("mirror", 1, [({"topic": "t"}, offset) for offset in found.values()])


@pytest.mark.parametrize(
    "key",
    [
        b"[" * 100_000,
        b'["MirrorSourceConnector",{"topic":' + b"[" * 960 + b"]" * 960 + b"}]",
        b'["MirrorSourceConnector",{"topic":"\\ud800"}]',
    ],
    ids=lambda key: key[:40].decode(),
)
def test_a_key_of_whoever_writes_there_ends_nothing(key: bytes) -> None:
    assert THERE not in offsets_of((key, b'{"offset":41}'))
