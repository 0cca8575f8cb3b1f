"""Take-over: ours goes on where stock stopped, under the same name and by the same JSON, and stock where ours did."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bridge.local import ConnectFailed
from bridge.mm2.records import Checkpoint
from bridge.model.values import TopicPartition
from tests.e2e.control import aliased, beats, checkpoints, latest, our_control, wait_checkpoint
from tests.e2e.flow import SHIFT, Flow, stays
from tests.support import bounds, commit, connector, eventually, read, stock_config, unique
from tests.support.forms import mostly_long
from tests.support.waits import WAIT

INTERVALS = 3.0
"""Seconds; the intervals here have one."""


# -- take-over ------------------------------------------------------------------------------------------------------


def in_order(offsets: list[Any]) -> list[str]:
    return sorted(json.dumps(each, sort_keys=True) for each in offsets)


class Pair:
    """A checkpoint and a heartbeat connector of one aliased, by their names; ours or stock's in turn."""

    def __init__(self, unique_flow: Flow, groups: str) -> None:
        self._mine, self._rest = unique_flow, unique_flow.worker.rest
        self.names = {kind: unique(f"taken-{kind.lower()}") for kind in ("Checkpoint", "Heartbeat")}
        settings = {"groups": groups, "emit_heartbeats_interval_seconds": 1}
        self._stocks = {
            kind: stock_config(kind, unique_flow.source, unique_flow.target, **settings)
            for kind in self.names
        }
        self._ours = {kind: our_control(kind, unique_flow, **settings) for kind in self.names}

    def stock(self) -> None:
        """With what ours has added left in the JSON, once ours has been there: the class alone is changed."""
        before = {kind: self._rest.config(name) for kind, name in self._there().items()}
        self._put({kind: {**before.get(kind, {}), **config} for kind, config in self._stocks.items()})

    def ours(self) -> None:
        for kind, config in self._ours.items():
            changed = {key for key in config if config[key] != self._stocks[kind].get(key)}
            assert changed == {"connector.class", "bridge.url", "bridge.task.lease.ms"}
        self._put(self._ours)

    def stop(self) -> None:
        for name in self.names.values():
            self._rest.stop(name)
        for name in self.names.values():
            self._rest.wait_state(name, "STOPPED", tasks=0)

    def delete(self) -> None:
        for name in self._there().values():
            self._rest.delete(name)

    def offsets(self) -> dict[str, list[str]]:
        return {kind: in_order(self._rest.offsets(name)) for kind, name in self.names.items()}

    def keys(self) -> dict[str, list[bytes]]:
        """Of all that was ever written to Connect's own offsets topic for the two, as it is."""
        result: dict[str, list[bytes]] = {kind: [] for kind in self.names}
        topic = f"{self._mine.worker.group_id}-offsets"
        for partition in bounds(self._mine.target.bootstrap, topic):
            for record in read(self._mine.target.bootstrap, topic, partition):
                assert record.key is not None
                for kind, name in self.names.items():
                    if json.loads(record.key)[0] == name:
                        result[kind].append(record.key)
        return result

    def _there(self) -> dict[str, str]:
        known = self._rest.connectors()
        return {kind: name for kind, name in self.names.items() if name in known}

    def _put(self, configs: dict[str, dict[str, str]]) -> None:
        for kind, name in self.names.items():
            self._rest.put(name, configs[kind])
            self._rest.resume(name)
        for name in self.names.values():
            self._rest.wait_running(name)


def assert_more_of_the_same(now: dict[str, list[bytes]], before: dict[str, list[bytes]]) -> None:
    """Each of the two has written since, and no key, byte for byte, that was not there."""
    for kind, keys in now.items():
        assert len(keys) > len(before[kind])
        assert set(keys) == set(before[kind])


@pytest.mark.long
@pytest.mark.parametrize("how", ["stopped", "deleted"])
def test_ours_goes_on_where_stock_stopped_and_stock_where_ours_did(
    unique_flow: Flow, mirrored: str, how: str
) -> None:
    mark = unique("taken")
    offsets = {f"{mark}-far": 300, f"{mark}-near": 950, f"{mark}-end": 1000}
    place = TopicPartition(unique_flow.remote(mirrored), 0)
    for group, offset in offsets.items():
        commit(unique_flow.source.bootstrap, group, {(mirrored, 0): offset})
    pair = Pair(unique_flow, f"{mark}.*")

    def committed_offsets(group: str) -> Checkpoint:
        return latest(unique_flow.target, unique_flow.source.name, group)[place]

    def ended() -> dict[str, list[str]]:
        """Stopped, with every offset flushed; what Connect keeps."""
        pair.stop()
        result = pair.offsets()
        if how == "deleted":
            pair.delete()
        return result

    try:
        pair.stock()
        eventually(
            lambda: all(committed_offsets(group) for group in offsets), WAIT, what="stock's checkpoints"
        )
        eventually(lambda: len(pair.offsets()["Checkpoint"]) == 3, WAIT, what="stock's offsets in Connect")
        eventually(lambda: len(pair.offsets()["Heartbeat"]) == 1, WAIT, what="stock's offsets in Connect")
        by_stock, kept = {group: committed_offsets(group) for group in offsets}, ended()
        assert by_stock[f"{mark}-far"].downstream_offset < 300 + SHIFT, (
            "stock re-reads; else nothing is shown here"
        )
        keys, beaten = pair.keys(), len(beats(unique_flow))

        # Ours, by the same JSON under the same name.
        pair.ours()
        for group, offset in offsets.items():
            wait_checkpoint(unique_flow, group, mirrored, offset + SHIFT)
        eventually(
            lambda: len(beats(unique_flow)) >= beaten + 2,
            WAIT,
            what="heartbeats of ours",
            watched=unique_flow.watched,
        )
        assert ended() == kept
        since = pair.keys()
        assert_more_of_the_same(since, keys)
        for group in offsets:
            rows = [
                each
                for each in checkpoints(unique_flow.target, unique_flow.source.name)
                if each.group == group
            ]
            lows = [each.downstream_offset for each in rows]
            assert lows == sorted(lows), f"{group} went back in the checkpoints topic: {rows}"

        # And back: stock reads ours at its start, and writes nothing lower.
        beaten = len(beats(unique_flow))
        pair.stock()
        offsets[f"{mark}-far"] = 700
        commit(unique_flow.source.bootstrap, f"{mark}-far", {(mirrored, 0): 700})

        def moved() -> None:
            assert committed_offsets(f"{mark}-far").upstream_offset == 700

        eventually(moved, WAIT, what="stock's checkpoint for a group that moved", watched=unique_flow.watched)
        assert committed_offsets(f"{mark}-far").downstream_offset > 300 + SHIFT
        eventually(
            lambda: len(beats(unique_flow)) >= beaten + 2,
            WAIT,
            what="heartbeats of stock",
            watched=unique_flow.watched,
        )
        still = [f"{mark}-near", f"{mark}-end"]
        stays(
            lambda: all(
                committed_offsets(group).downstream_offset == offsets[group] + SHIFT for group in still
            ),
            INTERVALS,
            what="stock takes ours for the newest",
        )
        assert ended() == kept
        assert_more_of_the_same(pair.keys(), since)
    finally:
        pair.delete()


# -- offsets by the REST API (KIP-875) ------------------------------------------------------------------------------

CHECKPOINT_KEY: dict[str, Any] = {"group": "g", "topic": "A.t", "partition": 3}
HEARTBEAT_KEY: dict[str, Any] = {"sourceClusterAlias": "A", "targetClusterAlias": "B"}
ZERO = {"offset": 0}
ALTERED = "altered successfully"


def alterations(key: dict[str, Any]) -> list[tuple[Any, Any]]:
    """Pairs of source partition and offset: what is refused, each in a way of its own, and what is not."""
    missing = [({name: value for name, value in key.items() if name != gone}, ZERO) for gone in key]
    wrong = [({**key, name: False}, ZERO) for name in key]
    numbers = [({**key, "partition": at}, ZERO) for at in (-1, 1.5, "0", 2**40)] if "partition" in key else []
    offsets = [
        (key, offset) for offset in ({}, {"offset": 1}, {"offset": -1}, {"offset": "0"}, {"offset": None})
    ]
    fine = [(key, ZERO), (key, None), ({"nobody": "knows"}, None), ({**key, "more": "x"}, ZERO)]
    return [*missing, *wrong, *numbers, *offsets, (None, ZERO), *fine]


@pytest.mark.parametrize(
    ("kind", "key"),
    mostly_long([("Checkpoint", CHECKPOINT_KEY), ("Heartbeat", HEARTBEAT_KEY)]),
    ids=["checkpoint", "heartbeat"],
)
def test_offsets_are_altered_and_reset_as_stocks(flow: Flow, kind: str, key: dict[str, Any]) -> None:
    """Every answer of PATCH and DELETE, its text included, and what GET shows once Connect has read it back."""
    rest, unique_flow = flow.worker.rest, aliased(flow)
    # No heartbeat comes between: each of the two waits an interval for its first.
    settings = {"groups": "nobody", "emit_heartbeats_interval_seconds": 600}
    answers = []
    for config in (
        stock_config(kind, unique_flow.source, unique_flow.target, **settings),
        our_control(kind, unique_flow, **settings),
    ):
        with connector(flow.worker, config, unique("alter")) as name:
            messages = [
                _answer(flow, name, config, "PATCH", [(key, ZERO)]),
                _answer(flow, name, config, "DELETE"),
            ]
            rest.stop(name)
            rest.wait_state(name, "STOPPED", tasks=0)
            kept: dict[str, Any] = {}
            for partition, offset in alterations(key):
                messages.append(_answer(flow, name, config, "PATCH", [(partition, offset)]))
                if ALTERED in messages[-1]:
                    kept[json.dumps(partition, sort_keys=True)] = {"partition": partition, "offset": offset}
                _wait_offsets(flow, name, [each for each in kept.values() if each["offset"] is not None])
            assert any(each["offset"] is not None for each in kept.values())
            messages.append(_answer(flow, name, config, "DELETE"))
            _wait_offsets(flow, name, [])
            answers.append(messages)
    assert answers[1] == answers[0]
    for words in ("which is required", "must be", "the only accepted value is 0", "may not be null", ALTERED):
        assert any(words in each for each in answers[0]), answers[0]


def _wait_offsets(flow: Flow, name: str, expected: list[Any]) -> None:
    def shown() -> None:
        assert in_order(flow.worker.rest.offsets(name)) == in_order(expected)

    eventually(shown, WAIT, what=f"Connect shows the offsets of {name}", watched=flow.watched)


def _answer(
    flow: Flow,
    name: str,
    config: dict[str, str],
    method: str,
    pairs: list[tuple[Any, Any]] | None = None,
) -> str:
    """Status and words, without the names that differ."""
    body = (
        None if pairs is None else {"offsets": [{"partition": one, "offset": other} for one, other in pairs]}
    )
    try:
        answer = str(flow.worker.rest.call(method, f"/connectors/{name}/offsets", body=body))
    except ConnectFailed as refused:
        answer = f"{refused.status} {refused}"
    return answer.replace(name, "NAME").replace(config["connector.class"].rpartition(".")[2], "CLASS")
