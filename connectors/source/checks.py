"""Checks a configuration of BridgeMirrorSourceConnector; returns all errors at once (stock §1.5, §1.8)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bridge.errors import ConfigError
from bridge.mm2.filters import (
    CONFIG_PROPERTIES_EXCLUDE,
    ConfigPropertyFilter,
    TopicFilter,
)
from bridge.mm2.replication_policy import ReplicationPolicy
from bridge.model.connect_address import REMOTE as _REMOTE
from bridge.model.connect_address import TOKEN as _TOKEN
from bridge.model.connect_address import problem, shown
from bridge.model.java_values import boolean, integer
from bridge.model.values import Side
from connectors.config.configdef import ConfigDef, ValidatedConfig, given
from connectors.config.mirror_options import SYNCS_LOCATION, mirror_errors
from connectors.config.plugins import (
    CONFIG_PROPERTY_FILTER,
    REPLICATION_POLICY,
    TOPIC_FILTER,
    Plugins,
)
from connectors.config.spark_keys import LOCAL_MASTER
from connectors.config.token_functions import token_function_errors
from connectors.config.validators import invalid
from connectors.ports import ClientCheck
from connectors.source.configs import TIMESTAMP_TYPE, excluded_timestamp_type
from connectors.source.definition import DEFINITION, EMIT_SYNCS, SHARED
from connectors.source.transforms import ChosenTransform, transforms
from connectors.source.writing import client_property, writing_errors

Props = Mapping[str, str | None]

_AUTHENTICATE, _SECRET = "spark.authenticate", "spark.authenticate.secret"
_PARALLELISM = "spark.default.parallelism"
_FOR_A_SERVER = (
    *(_REMOTE, "spark.master", _TOKEN),
    *(_PARALLELISM, "spark.archives", "spark.speculation"),
)
"""Keys that mean something with a Spark Connect server, or have an error of their own."""

COMMITTED = "read_committed"
NOT_EXACTLY_ONCE = (
    "BridgeMirrorSourceConnector can only provide exactly-once guarantees when its source consumer is configured with "
    "isolation.level set to 'read_committed'; otherwise, records from aborted and uncommitted transactions will be "
    "replicated from the source cluster to the target cluster."
)
NO_SYNCS_TO_SET_UP = (
    "This connector can't set up offset syncs while emit.offset-syncs.enabled is false: take out the keys that "
    "begin with offset-syncs- or offset-syncs.topic."
)


@dataclass(frozen=True, slots=True)
class ChosenPlugins:
    """Plugins; None together with an error."""

    topic_filter: TopicFilter | None
    config_filter: ConfigPropertyFilter | None
    policy: ReplicationPolicy | None
    transforms: Sequence[ChosenTransform]


def validate(props: Props, clients: ClientCheck) -> ValidatedConfig:
    """Checks a configuration: every key with its value and errors; rules across keys, plugins and client properties
    included."""
    return check(props, clients)[0]


def check(
    props: Props, clients: ClientCheck, definition: ConfigDef = DEFINITION
) -> tuple[ValidatedConfig, ChosenPlugins]:
    """Checks a configuration. `definition`: the source connector's, or one that has all of its keys."""
    there = given(props)
    config = definition.validate(props).with_errors(clients.refused(there))
    loading = Plugins(there, config)
    chosen, wrong = transforms(there, config)
    plugins = ChosenPlugins(
        loading.load(TOPIC_FILTER),
        loading.load(CONFIG_PROPERTY_FILTER),
        loading.load(REPLICATION_POLICY),
        chosen,
    )
    errors = [
        *mirror_errors(there, config),
        *_across(there, config),
        *_reading(there),
        *_slices(there),
        *_other_machines(there),
        *writing_errors(there, config),
        *clients.check(there),
        *token_function_errors(there, config),
        *_writing(there, config, clients),
        *loading.errors,
        *wrong,
    ]
    if plugins.config_filter is not None and config.good(CONFIG_PROPERTIES_EXCLUDE):
        errors += _timestamp_type(plugins.config_filter, config)
    return config.with_errors(errors), plugins


def _across(there: Mapping[str, str], config: ValidatedConfig) -> Iterator[ConfigError]:
    """Checks stock's two rules across keys. Connect's own key is parsed as Connect does."""
    required = there.get("exactly.once.support", "").lower() == "required"
    if required and isolation(there) != COMMITTED:
        yield ConfigError("exactly.once.support", NOT_EXACTLY_ONCE)
    set_up = any(key.startswith(("offset-syncs-", "offset-syncs.topic.")) for key in there)
    if config.good(EMIT_SYNCS) and not config.flag(EMIT_SYNCS) and set_up:
        yield ConfigError(EMIT_SYNCS, NO_SYNCS_TO_SET_UP)


def _slices(there: Mapping[str, str]) -> Iterator[ConfigError]:
    text = there.get(_PARALLELISM, "1")
    number = integer(text, 32)
    if number is None or number < 1:
        why = "Not a number of type INT" if number is None else "Value must be at least 1"
        yield ConfigError(_PARALLELISM, invalid(_PARALLELISM, text, why))


def _other_machines(there: Mapping[str, str]) -> Iterator[ConfigError]:
    """Executors elsewhere get the passwords of both clusters over the network."""
    if _REMOTE in there:
        yield from _connect_server(there)
        return
    master = there.get("spark.master", "local")
    if LOCAL_MASTER.fullmatch(master) is not None:
        return
    if boolean(there.get(SHARED, "")):
        why = (
            "connectors share a Spark of a local master only; on a cluster they share a Spark Connect server "
            "(spark.remote), or each has an application"
        )
        yield ConfigError(SHARED, invalid(SHARED, there[SHARED], why))
    authenticate = there.get(_AUTHENTICATE)
    if authenticate is None:
        why = (
            "executors on other machines get the passwords of both clusters; give true, and Spark authenticates and "
            "encrypts, or false where nobody else can listen or connect"
        )
        yield ConfigError(_AUTHENTICATE, f"Missing configuration {_AUTHENTICATE}: {why}")
    elif boolean(authenticate) and master.startswith("spark://") and _SECRET not in there:
        why = (
            "a standalone master, its workers and this driver need the same one with spark.authenticate=true"
        )
        yield ConfigError(_SECRET, f"Missing configuration {_SECRET}: {why}")


def _connect_server(there: Mapping[str, str]) -> Iterator[ConfigError]:
    """A Spark Connect server has its own master and settings, and gets the passwords in one message."""
    address = there[_REMOTE]
    if (why := problem(address)) is not None:
        # Whoever has put a token there need not read it again in the log.
        yield ConfigError(_REMOTE, invalid(_REMOTE, shown(address), why))
    if "spark.master" in there:
        why = f"{_REMOTE} says where the copy runs, and its server has a master: leave one of them out"
        yield ConfigError("spark.master", invalid("spark.master", there["spark.master"], why))
    for key in sorted(there):
        if key.startswith("spark.") and key not in _FOR_A_SERVER:
            why = f"with {_REMOTE} the server's own settings hold, and {key} does nothing: leave it out"
            yield ConfigError(key, why)


def isolation(there: Mapping[str, str]) -> str:
    """Returns the isolation level of the source's consumer; unlike stock's it is read_committed by default."""
    return client_property(there, "isolation.level", "consumer.", "source.consumer.")[1] or COMMITTED


def _reading(there: Mapping[str, str]) -> Iterator[ConfigError]:
    key, value = client_property(there, "auto.offset.reset", "consumer.", "source.consumer.")
    if value not in ("", "earliest", "latest"):
        why = "must be earliest or latest: a partition without a position has to begin somewhere"
        yield ConfigError(key, invalid(key, value, why))


def _writing(
    there: Mapping[str, str], config: ValidatedConfig, clients: ClientCheck
) -> Iterator[ConfigError]:
    """Checks the producers: of records to the target, of offset syncs to either side."""
    yield from clients.check_producer(Side.TARGET, there)
    if config.flag(EMIT_SYNCS) and config.value(SYNCS_LOCATION) == "source":
        yield from clients.check_producer(Side.SOURCE, there)


def _timestamp_type(chosen: ConfigPropertyFilter, config: ValidatedConfig) -> Iterator[ConfigError]:
    if not excluded_timestamp_type(chosen):
        why = (
            f"{TIMESTAMP_TYPE} must be excluded: a remote topic that gets LogAppendTime from its upstream topic has "
            "the timestamps of all copies overwritten by the target's brokers, and offsets can't be translated by them"
        )
        text = ",".join(config.items(CONFIG_PROPERTIES_EXCLUDE) or ())
        yield ConfigError(CONFIG_PROPERTIES_EXCLUDE, invalid(CONFIG_PROPERTIES_EXCLUDE, text, why))
