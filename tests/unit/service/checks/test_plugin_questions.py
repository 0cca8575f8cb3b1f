"""What is asked of a connector whose configuration names code of others: answered in a process of its own."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from bridge import errors
from bridge.errors import (
    BridgeError,
    ConfigError,
    ConfigRejected,
    KafkaFailure,
    KafkaFault,
    NotAnswered,
    OperationRefused,
)
from bridge.model.values import Side, TopicPartition
from bridge.policy import Policy
from bridge.service.checks import plugin_questions
from bridge.service.checks.plugin_questions import AlterInPluginProcess, call, packed, unpacked
from bridge.service.wiring import alter_offsets, check_context, doctor_here, mirror_queries
from bridge.translation.runs.reset_positions import PartitionReset, ResetOutcome
from connectors.registry import KINDS
from tests.support.messages import message_pattern
from tests.unit.connectors.configs import SOURCE

NAME = "code_of_another"
PROPS = SOURCE | {"name": "c", "topic.filter.class": f"python:{NAME}.Filter", "replication.factor": "many"}
"""With an error, so that no cluster is asked."""
FILTER = "class Filter:\n    def should_replicate_topic(self, topic): return True\n"


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    monkeypatch.syspath_prepend(tmp_path)

    def write(text: str) -> None:
        (tmp_path / f"{NAME}.py").write_text(text)

    return write


def test_the_doctor_says_the_same_and_loads_nothing_here(own: Callable[[str], None]) -> None:
    own(FILTER)
    doctor = check_context(Policy()).doctor
    assert doctor is not None
    result = doctor(KINDS["source"], "c", PROPS, [], None)
    assert NAME not in sys.modules
    assert result == doctor_here(KINDS["source"], "c", PROPS, [], None)
    del sys.modules[NAME]
    assert "replication.factor" in result.model_dump_json()


def test_a_function_that_gets_tokens_is_called_in_the_other_process(own: Callable[[str], None]) -> None:
    own("def token(properties, options): raise ValueError('not today')")
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        props = {
            "source.cluster.bootstrap.servers": f"127.0.0.1:{server.getsockname()[1]}",
            "source.cluster.security.protocol": "SASL_PLAINTEXT",
            "source.cluster.sasl.mechanism": "OAUTHBEARER",
            "source.cluster.sasl.login.callback.handler.class": f"python:{NAME}.token",
        }
        probe = check_context(Policy()).probe
        assert probe is not None
        probed = probe(props, [Side.SOURCE], 1.0)
    assert (list(probed.unreachable), probed.cluster_ids) == ([Side.SOURCE], {})
    assert NAME not in sys.modules


def test_errors_come_back_as_they_are(own: Callable[[str], None]) -> None:
    own(FILTER)
    with pytest.raises(ConfigRejected) as altering:
        alter_offsets()("source", "c", PROPS, [])
    assert [error.key for error in altering.value.errors] == ["replication.factor"]
    wrong = PROPS | {"target.cluster.security.protocol": "NOTLS"}
    with pytest.raises(ConfigRejected) as asking:
        mirror_queries().replication_hops(wrong, "A", Side.TARGET)
    assert "target.cluster.security.protocol" in {error.key for error in asking.value.errors}
    assert NAME not in sys.modules


def test_what_hangs_or_ends_there_is_no_answer(own: Callable[[str], None]) -> None:
    own("while True: pass")
    with pytest.raises(NotAnswered, match=r"failed: no answer within 0.5 s"):
        call("alter", "source", "c", PROPS, [], seconds=0.5)
    own("import os\nos._exit(3)")
    with pytest.raises(NotAnswered, match=message_pattern("service.loader_ended", how="exit status 3")):
        call("alter", "source", "c", PROPS, [])


def test_rows_come_back_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [PartitionReset(TopicPartition("a", 1), "A.a", 7, 3, ResetOutcome.AGAIN)]

    def answered(*asked: Any) -> Any:
        assert asked[:2] == ("alter", "sink")
        return json.loads(json.dumps(rows))

    monkeypatch.setattr(plugin_questions, "call", answered)
    assert AlterInPluginProcess(lambda *_: [])("sink", "c", PROPS, []) == rows
    assert AlterInPluginProcess(lambda *_: [])("sink", "c", SOURCE, []) == []


@pytest.mark.parametrize(
    "error",
    [
        ConfigRejected([ConfigError("a", "b"), ConfigError("c", "d")]),
        KafkaFailure(KafkaFault.CREDENTIALS, "no", retriable=False),
        OperationRefused("it would lose records"),
        NotAnswered("ask again"),
        errors.NotFound("there is none", code=errors.ErrorCode.UNKNOWN_TASK),
    ],
    ids=lambda error: type(error).__name__,
)
def test_every_error_of_ours_crosses(error: BridgeError) -> None:
    decoded = unpacked(*json.loads(json.dumps(packed(error))))
    assert (type(decoded), str(decoded), decoded.code) == (type(error), str(error), error.code)


def test_an_error_that_nobody_knows_is_no_answer() -> None:
    for name in ("Strange", "GroupsRefused", "ErrorCode", "dataclass"):
        assert isinstance(unpacked(name, "text", "kafka", None), NotAnswered)
