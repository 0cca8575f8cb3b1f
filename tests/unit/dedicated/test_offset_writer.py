"""Source offsets as a stock mirror's workers write them."""

from __future__ import annotations

from bridge.dedicated.stock_offsets import Offsets, key, put
from bridge.model.values import TopicPartition
from connectors.source.take_over import stocks_partition


def test_keys_are_stocks_to_the_byte_and_read_again() -> None:
    partition = stocks_partition("A", TopicPartition("t", 3))
    golden = b'["MirrorSourceConnector",{"cluster":"A","partition":3,"topic":"t"}]'
    assert key("MirrorSourceConnector", partition) == golden
    assert key("MirrorSourceConnector", dict(reversed(list(partition.items())))) == golden
    offsets: Offsets = {}
    put(offsets, "MirrorSourceConnector", golden, b'{"offset":42}')
    assert list(offsets.values()) == [{"offset": 42}]
