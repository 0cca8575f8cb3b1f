"""Checks a configuration of BridgeMirrorSourceConnector; returns all errors at once (stock §1.5, §1.8).

Reads and checks `bridge.transforms`: the transforms that records go through (docs/transforms.md).

Reads the client properties of BridgeMirrorSourceConnector that its own producer honours, and checks them.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bridge.errors import ConfigError
from bridge.mm2.filters import (
    CONFIG_PROPERTIES_EXCLUDE,
    ConfigPropertyFilter,
    PatternList,
    TopicFilter,
    pattern_list_problem,
)
from bridge.mm2.replication_policy import ReplicationPolicy
from bridge.model.addresses import REMOTE as _REMOTE
from bridge.model.addresses import TOKEN as _TOKEN
from bridge.model.addresses import problem, shown
from bridge.model.codecs import CODEC_NAMES, LEVELS
from bridge.model.copying import Transform
from bridge.model.java_values import boolean, integer, split_list
from bridge.model.values import Side
from connectors.config.configdef import ConfigDef, ValidatedConfig, given, invalid, list_problem
from connectors.config.key_effects import OVERRIDE
from connectors.config.mirror_options import SYNCS_LOCATION, mirror_errors
from connectors.config.plugins import (
    CONFIG_PROPERTY_FILTER,
    REPLICATION_POLICY,
    TOPIC_FILTER,
    Plugins,
    load_function,
    token_function_errors,
)
from connectors.config.spark_keys import LOCAL_MASTER
from connectors.ports import ClientCheck
from connectors.source.definition import DEFINITION, EMIT_SYNCS, SHARED, TRANSFORMS
from connectors.source.topic_settings import TIMESTAMP_TYPE, excluded_timestamp_type

_PYTHON = "python:"
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_INTERNAL = re.compile(r"__|mm2.*internal$")
_OWN = ("type", "topics", "to")
"""Keys of a transform that are no parameters of its function."""
_MOST = 100
"""Each name may have errors of its own: a list of a megabyte had 125,000 of them."""
_SERVERS = "target.cluster.bootstrap.servers"
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


class ChosenTransform(NamedTuple):
    """A transform that a configuration names. `topics`: of the source, whose records it is for."""

    transform: Transform
    topics: PatternList


def transforms(
    props: Mapping[str, str], config: ValidatedConfig
) -> tuple[list[ChosenTransform], list[ConfigError]]:
    """Returns the transforms of a configuration, in order, and its errors."""
    if not config.good(TRANSFORMS):
        return [], []
    names = config.items(TRANSFORMS) or ()
    if len(names) > _MOST:
        why = f"it names {len(names):,} transforms, and a record goes through {_MOST} at most"
        return [], [ConfigError(TRANSFORMS, invalid(TRANSFORMS, props.get(TRANSFORMS), why))]
    parameters = {key: value for key, value in props.items() if key.startswith(f"{TRANSFORMS}.")}
    chosen: list[ChosenTransform] = []
    errors = list(_of_no_transform(names, parameters))
    wrong = {error.key for error in config.errors}
    for name in names:
        if name.startswith(_PYTHON):
            result = _function(name, props)
        else:
            result = _named(name, parameters, props, loaded=f"{TRANSFORMS}.{name}.type" not in wrong)
        if isinstance(result, ChosenTransform):
            chosen.append(result)
        else:
            errors += result
    return chosen, errors


def _function(name: str, props: Mapping[str, str]) -> ChosenTransform | list[ConfigError]:
    """Reads a function that is in the list itself: for all topics, and without parameters."""
    errors = _errors(TRANSFORMS, name, {}, "", props)
    function = name.removeprefix(_PYTHON)
    return errors or ChosenTransform(Transform(function, function, {}), PatternList((".*",)))


def _named(
    name: str, given: Mapping[str, str], props: Mapping[str, str], *, loaded: bool
) -> ChosenTransform | list[ConfigError]:
    """Reads the transform of this name. `loaded`: whether its function may be; otherwise the configuration has an error
    that says why not."""
    prefix = f"{TRANSFORMS}.{name}."
    own = {key.removeprefix(prefix): value for key, value in given.items() if key.startswith(prefix)}
    parameters = {key: value for key, value in own.items() if key not in _OWN}
    topics, to = split_list(own.get("topics", ".*")), split_list(own.get("to", ""))
    errors = [ConfigError(f"{prefix}to", text) for text in _of_targets(f"{prefix}to", to)]
    if (
        problem := pattern_list_problem(topics)
        if topics
        else "it is empty, so the transform would have no records"
    ):
        errors.append(ConfigError(f"{prefix}topics", invalid(f"{prefix}topics", own.get("topics"), problem)))
    if not loaded:
        return errors
    if "type" in own:
        errors += _errors(f"{prefix}type", own["type"], parameters, prefix, props, to)
    else:
        missing = f'Missing required configuration "{prefix}type" which has no default value.'
        errors.append(ConfigError(f"{prefix}type", missing))
    if errors:
        return errors
    transform = Transform(name, own["type"].removeprefix(_PYTHON), parameters, to)
    return ChosenTransform(transform, PatternList(topics))


def _of_targets(key: str, topics: Sequence[str]) -> Iterator[str]:
    if problem := list_problem(key, topics):
        yield problem
    for topic in topics:
        if topic and (_TOPIC.fullmatch(topic) is None or topic in (".", "..")):
            yield invalid(key, topic, "a topic's name has up to 249 letters, digits, '.', '_' and '-'")
        elif _INTERNAL.match(topic):
            yield invalid(key, topic, "it is the name of an internal topic")


def _of_no_transform(names: tuple[str, ...], parameters: Mapping[str, str]) -> Iterator[ConfigError]:
    """Yields errors for keys of no transform."""
    for key in parameters:
        name = key.removeprefix(f"{TRANSFORMS}.").partition(".")[0]
        if name not in names:
            why = f"{TRANSFORMS} names no transform {name}"
            yield ConfigError(key, f"Unknown configuration {key}: {why}")


def _errors(
    key: str,
    name: str,
    parameters: Mapping[str, str],
    prefix: str,
    props: Mapping[str, str],
    to: Sequence[str] = (),
) -> list[ConfigError]:
    """Checks a function and its parameters."""
    wrong: list[ConfigError] = []

    def try_out(function: Callable[..., object]) -> str | None:
        wrong.extend(_of_parameters(function, parameters, prefix))
        return None if wrong else _tried_out(function, parameters, to)

    result = load_function(key, name, props, try_out, "called with a batch without records, it")
    return [result] if isinstance(result, ConfigError) else wrong


def _of_parameters(
    function: Callable[..., object], parameters: Mapping[str, str], prefix: str
) -> Iterator[ConfigError]:
    """Checks parameters against the function's signature; a function without one is only tried out."""
    try:
        _, *takes = inspect.signature(function).parameters.values()
    except ValueError:
        return
    named = {
        take.name: take for take in takes if take.kind in (take.KEYWORD_ONLY, take.POSITIONAL_OR_KEYWORD)
    }
    if not any(take.kind is take.VAR_KEYWORD for take in takes):
        for name in parameters:
            if name not in named:
                known = f"it has {', '.join(named)}" if named else "it has none"
                yield ConfigError(
                    f"{prefix}{name}",
                    f"Unknown configuration {prefix}{name}: the transform has no parameter {name}; {known}",
                )
    for parameter in named.values():
        if parameter.default is parameter.empty and parameter.name not in parameters:
            key = f"{prefix}{parameter.name}"
            yield ConfigError(key, f'Missing required configuration "{key}" which has no default value.')


def _tried_out(
    function: Callable[..., object], parameters: Mapping[str, str], to: Sequence[str]
) -> str | None:
    """Calls the function with a batch without records; returns what is wrong with its result. What it raises for its
    parameters is found here, before there are records."""
    from bridge.transforms.contract import ContractBroken, call, nothing

    try:
        call(function, dict(parameters), nothing(), to)
    except ContractBroken as broken:
        return f"called with a batch without records, {broken}"
    return None


def client_property(props: Mapping[str, str], name: str, *prefixes: str) -> tuple[str, str]:
    """Returns the key that sets a client property, and its value, "" when not given; of the prefixes the last one wins,
    as `source.consumer.*` does over `consumer.*` (stock §1.1)."""
    effective = (f"{prefixes[0]}{name}", "")
    for key in (f"{prefix}{name}" for prefix in prefixes):
        if key in props:
            effective = key, props[key]
    return effective


def written_with(props: Mapping[str, str], name: str) -> tuple[str, str]:
    """Returns the key and value of a property of the producer of copies. Stock writes them with Connect's producer,
    hence the override."""
    return client_property(props, name, "producer.", "target.producer.", OVERRIDE)


def compression_level(props: Mapping[str, str]) -> int | None:
    """Returns the compression level of the configured codec; None for its default."""
    codec = written_with(props, "compression.type")[1]
    has_levels = any(codec == leveled.name for leveled in LEVELS)
    text = written_with(props, f"compression.{codec}.level")[1] if has_levels else ""
    return int(text) if text else None


def writing_errors(props: Mapping[str, str], config: ValidatedConfig) -> Iterator[ConfigError]:
    """Checks the properties that copies are written with."""
    key, value = written_with(props, "batch.size")
    size = integer(value or "0", 32)
    if size is None or size < 0:
        yield ConfigError(key, invalid(key, value, "Not a number of type INT that is at least 0"))
    key, value = written_with(props, "compression.type")
    if value and value not in CODEC_NAMES:
        yield ConfigError(key, invalid(key, value, f"String must be one of: {', '.join(CODEC_NAMES)}"))
    for codec in LEVELS:
        key, value = written_with(props, f"compression.{codec.name}.level")
        if value and (why := codec.level_problem(value)) is not None:
            yield ConfigError(key, invalid(key, value, why))
    yield from _servers(props, config)


def _servers(props: Mapping[str, str], config: ValidatedConfig) -> Iterator[ConfigError]:
    """Refuses an override of the bootstrap servers that names another cluster: with stock copies alone would go there,
    and topics and offset runs would not be found."""
    key = f"{OVERRIDE}bootstrap.servers"
    servers = config.items(_SERVERS)
    if servers and props.get(key) and set(split_list(props[key])) != set(servers):
        why = f"copies go to the cluster of {_SERVERS}, {','.join(servers)}; remove it: the servers stand there only"
        yield ConfigError(key, invalid(key, props[key], why))


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
    stated = given(props)
    config = definition.validate(props).with_errors(clients.refused(stated))
    loading = Plugins(stated, config)
    chosen, wrong = transforms(stated, config)
    plugins = ChosenPlugins(
        loading.load(TOPIC_FILTER),
        loading.load(CONFIG_PROPERTY_FILTER),
        loading.load(REPLICATION_POLICY),
        chosen,
    )
    errors = [
        *mirror_errors(stated, config),
        *_across(stated, config),
        *_reading(stated),
        *_slices(stated),
        *_other_machines(stated),
        *writing_errors(stated, config),
        *clients.check(stated),
        *token_function_errors(stated, config),
        *_writing(stated, config, clients),
        *loading.errors,
        *wrong,
    ]
    if plugins.config_filter is not None and config.good(CONFIG_PROPERTIES_EXCLUDE):
        errors += _timestamp_type(plugins.config_filter, config)
    return config.with_errors(errors), plugins


def _across(props: Mapping[str, str], config: ValidatedConfig) -> Iterator[ConfigError]:
    """Checks stock's two rules across keys. Connect's own key is parsed as Connect does."""
    required = props.get("exactly.once.support", "").lower() == "required"
    if required and isolation(props) != COMMITTED:
        yield ConfigError("exactly.once.support", NOT_EXACTLY_ONCE)
    set_up = any(key.startswith(("offset-syncs-", "offset-syncs.topic.")) for key in props)
    if config.good(EMIT_SYNCS) and not config.flag(EMIT_SYNCS) and set_up:
        yield ConfigError(EMIT_SYNCS, NO_SYNCS_TO_SET_UP)


def _slices(props: Mapping[str, str]) -> Iterator[ConfigError]:
    text = props.get(_PARALLELISM, "1")
    number = integer(text, 32)
    if number is None or number < 1:
        why = "Not a number of type INT" if number is None else "Value must be at least 1"
        yield ConfigError(_PARALLELISM, invalid(_PARALLELISM, text, why))


def _other_machines(props: Mapping[str, str]) -> Iterator[ConfigError]:
    """Executors elsewhere get the passwords of both clusters over the network."""
    if _REMOTE in props:
        yield from _connect_server(props)
        return
    master = props.get("spark.master", "local")
    if LOCAL_MASTER.fullmatch(master) is not None:
        return
    if boolean(props.get(SHARED, "")):
        why = (
            "connectors share a Spark of a local master only; on a cluster they share a Spark Connect server "
            "(spark.remote), or each has an application"
        )
        yield ConfigError(SHARED, invalid(SHARED, props[SHARED], why))
    authenticate = props.get(_AUTHENTICATE)
    if authenticate is None:
        why = (
            "executors on other machines get the passwords of both clusters; give true, and Spark authenticates and "
            "encrypts, or false where nobody else can listen or connect"
        )
        yield ConfigError(_AUTHENTICATE, f"Missing configuration {_AUTHENTICATE}: {why}")
    elif boolean(authenticate) and master.startswith("spark://") and _SECRET not in props:
        why = (
            "a standalone master, its workers and this driver need the same one with spark.authenticate=true"
        )
        yield ConfigError(_SECRET, f"Missing configuration {_SECRET}: {why}")


def _connect_server(props: Mapping[str, str]) -> Iterator[ConfigError]:
    """A Spark Connect server has its own master and settings, and gets the passwords in one message."""
    address = props[_REMOTE]
    if (why := problem(address)) is not None:
        # Whoever has put a token there need not read it again in the log.
        yield ConfigError(_REMOTE, invalid(_REMOTE, shown(address), why))
    if "spark.master" in props:
        why = f"{_REMOTE} says where the copy runs, and its server has a master: leave one of them out"
        yield ConfigError("spark.master", invalid("spark.master", props["spark.master"], why))
    for key in sorted(props):
        if key.startswith("spark.") and key not in _FOR_A_SERVER:
            why = f"with {_REMOTE} the server's own settings hold, and {key} does nothing: leave it out"
            yield ConfigError(key, why)


def isolation(props: Mapping[str, str]) -> str:
    """Returns the isolation level of the source's consumer; unlike stock's it is read_committed by default."""
    return client_property(props, "isolation.level", "consumer.", "source.consumer.")[1] or COMMITTED


def _reading(props: Mapping[str, str]) -> Iterator[ConfigError]:
    key, value = client_property(props, "auto.offset.reset", "consumer.", "source.consumer.")
    if value not in ("", "earliest", "latest"):
        why = "must be earliest or latest: a partition without a position has to begin somewhere"
        yield ConfigError(key, invalid(key, value, why))


def _writing(
    props: Mapping[str, str], config: ValidatedConfig, clients: ClientCheck
) -> Iterator[ConfigError]:
    """Checks the producers: of records to the target, of offset syncs to either side."""
    yield from clients.check_producer(Side.TARGET, props)
    if config.flag(EMIT_SYNCS) and config.value(SYNCS_LOCATION) == "source":
        yield from clients.check_producer(Side.SOURCE, props)


def _timestamp_type(chosen: ConfigPropertyFilter, config: ValidatedConfig) -> Iterator[ConfigError]:
    if not excluded_timestamp_type(chosen):
        why = (
            f"{TIMESTAMP_TYPE} must be excluded: a remote topic that gets LogAppendTime from its upstream topic has "
            "the timestamps of all copies overwritten by the target's brokers, and offsets can't be translated by them"
        )
        text = ",".join(config.items(CONFIG_PROPERTIES_EXCLUDE) or ())
        yield ConfigError(CONFIG_PROPERTIES_EXCLUDE, invalid(CONFIG_PROPERTIES_EXCLUDE, text, why))
