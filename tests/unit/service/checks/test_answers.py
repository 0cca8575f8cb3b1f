"""Answers of validations: serialized in pieces, and built one at a time."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Sequence
from unittest.mock import patch

from bridge.errors import ConfigError
from bridge.kafka.config.settings import StaticClientCheck
from bridge.protocol.messages import ValidateResponse
from bridge.protocol.operators import ConfigWarning, IgnoredSetting
from bridge.service.checks.answer import answer_of, as_json, scrubbed
from bridge.service.checks.context import CheckContext
from bridge.service.checks.validation import Checker
from bridge.service.ipc.messages import Config
from bridge.service.pool import pools
from connectors.base import Kind
from connectors.config.configdef import ValidatedConfig
from connectors.registry import KINDS
from tests.unit.connectors.configs import CONFIGS


def checker() -> Checker:
    return Checker(CheckContext(KINDS, StaticClientCheck()), pools(2, 32, 120.0))


def test_an_answer_in_pieces_is_that_of_pydantic() -> None:
    kind = KINDS["group_offset"]
    config = {**CONFIGS["group_offset"], "groups": 'a"\\,[,é', "tasks.max": "none"}
    ignored = [IgnoredSetting(key="é", reason='"')]
    judged = kind.validate(config, StaticClientCheck()).with_ignored(ignored, ["é"])
    for answer in (
        judged.response(kind.connector_class, [ConfigWarning(key="a", message="\\")]),
        judged.with_errors([ConfigError("é", '"')]).response("class"),
        ValidatedConfig(()).response("none"),
    ):
        assert json.loads(as_json(answer)) == json.loads(answer.model_dump_json())


def test_a_secret_is_hidden_without_the_blanks_around_it_too() -> None:
    """Errors have values as they are read."""
    config = {"source.cluster.sasl.jaas.config": " planted-s3cr3t\t", "target.cluster.ssl.key.password": None}
    assert scrubbed(KINDS["source"], config, "it has planted-s3cr3t") == "it has [hidden]"


def test_a_configuration_with_too_many_settings_is_answered_too() -> None:
    answer = asyncio.run(checker().validate("group_offset", {f"k{n}": "" for n in range(3_000)}))
    (entry,) = ValidateResponse.model_validate_json(answer).configs
    assert "has 3000 settings" in entry.value.errors[0]


def test_answers_are_built_one_at_a_time() -> None:
    """Before, each validation under way had a thread of its own for it, and the event loop waited for all of them."""
    building = most = 0
    lock = threading.Lock()

    def counted(
        kind: Kind, config: Config, judged: ValidatedConfig, warnings: Sequence[ConfigError]
    ) -> ValidateResponse:
        nonlocal building, most
        with lock:
            building += 1
            most = max(most, building)
        time.sleep(0.01)  # others may begin meanwhile
        try:
            return answer_of(kind, config, judged, warnings)
        finally:
            with lock:
                building -= 1

    async def many() -> None:
        checking = checker()
        config: Config = {**CONFIGS["group_offset"], "tasks.max": "none"}
        await asyncio.gather(*(checking.validate("group_offset", config) for _ in range(8)))

    with patch("bridge.service.checks.validation.answer_of", counted):
        asyncio.run(many())
    assert most == 1
