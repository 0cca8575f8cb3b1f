"""Answers of checks: as Connect has them, as JSON, and without the configuration's secrets.

Answers to altered offsets: what is logged, and the message as JSON.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from bridge.errors import ConfigError, ConfigRejected
from bridge.policy import fits
from bridge.protocol.messages import AlteredOffset, ValidateResponse
from bridge.protocol.operators import ConfigWarning
from bridge.service.ipc.messages import Config
from bridge.translation.runs.reset_positions import PartitionReset
from connectors.base import Kind
from connectors.config.client_keys import looks_secret
from connectors.config.configdef import Type, ValidatedConfig, given
from connectors.config.spark_keys import HARMLESS

log = logging.getLogger(__name__)


LEAST_SECRET = 4
"""Shorter values are not hidden in error texts: `a` would hide every a."""


def answer_of(
    kind: Kind, config: Config, judged: ValidatedConfig, warnings: Sequence[ConfigError]
) -> ValidateResponse:
    """The answer without secrets."""
    secrets = secrets_of(kind, config)
    answer = judged.response(kind.connector_class, [_warning(warning, secrets) for warning in warnings])
    if not secrets or not answer.error_count:
        return answer
    entries = [
        entry.model_copy(
            update={
                "value": entry.value.model_copy(
                    update={"errors": [without(secrets, text) for text in entry.value.errors]}
                )
            }
        )
        for entry in answer.configs
    ]
    return answer.model_copy(update={"configs": entries})


def as_json(answer: ValidateResponse) -> bytes:
    """Serializes an answer entry by entry: others have their turn between them, not within one call of pydantic."""
    entries = b",".join(entry.model_dump_json().encode() for entry in answer.configs)
    return b'{"configs":[' + entries + b"]," + answer.model_dump_json(exclude={"configs"}).encode()[1:]


def _warning(error: ConfigError, secrets: list[str]) -> ConfigWarning:
    return ConfigWarning(key=error.key, message=without(secrets, error.message))


def rejected(kind: Kind, config: Config, errors: Sequence[ConfigError]) -> ConfigRejected:
    """Builds the error with all errors of the configuration, and none of its secrets."""
    secrets = secrets_of(kind, config)
    return ConfigRejected([replace(error, message=without(secrets, error.message)) for error in errors])


def scrubbed(kind: Kind, config: Mapping[str, str | None], text: str) -> str:
    """The text without the configuration's secrets."""
    return without(secrets_of(kind, config), text)


def secrets_of(kind: Kind, config: Mapping[str, str | None]) -> list[str]:
    """Values that must not be shown: of PASSWORD keys, and of keys that are named like secrets."""
    hidden = secret_keys(kind, config)
    secrets = {
        value for name, value in given(config).items() if len(value) >= LEAST_SECRET and name in hidden
    }
    return sorted(secrets, key=len, reverse=True)


def secret_keys(kind: Kind, names: Iterable[str]) -> frozenset[str]:
    """Returns those of the keys whose values must not be shown."""
    hidden = {key.name for key in kind.definition.keys.values() if key.type is Type.PASSWORD}
    return frozenset(name for name in names if name in hidden or looks_secret(name))


def unlogged_keys(kind: Kind, names: Iterable[str]) -> frozenset[str]:
    """Returns those of the keys whose values are in no log: secret ones, and of Spark's all but sizes, numbers and
    names, for what a key of some library holds nobody here knows."""
    listed = list(names)
    foreign = (name for name in listed if name.startswith("spark.") and not fits(name, HARMLESS))
    return secret_keys(kind, listed) | frozenset(foreign)


def without(secrets: list[str], text: str) -> str:
    for secret in secrets:
        text = text.replace(secret, "[hidden]")
    return text


def log_and_pack(name: str, rows: Iterable[PartitionReset]) -> bytes:
    """AlteredOffsets as JSON, packed row by row: there may be thousands, and a thread that packs all of them in one go
    holds up the others."""
    packed: list[bytes] = []
    for row in rows:
        fields = row.source.topic, row.source.partition, row.position, row.to, row.outcome.value
        if row.changes:
            log.info(
                "partition %s-%d: position altered from offset %d to %d: %s",
                *fields,
                extra={"connector": name},
            )
        altered = AlteredOffset(
            topic=row.source.topic,
            partition=row.source.partition,
            target_topic=row.target_topic,
            position=row.position,
            to=row.to,
            outcome=row.outcome.value,
        )
        packed.append(altered.model_dump_json().encode())
    return b'{"offsets":[' + b",".join(packed) + b"]}"
