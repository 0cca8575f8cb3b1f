"""MirrorMaker's keys that all connectors share, with stock names, types and defaults, and the rules."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from bridge.errors import ConfigError
from bridge.mm2.replication_policy import ALIASES, TOPIC_MAP, TOPIC_MAP_FILE
from bridge.model.copying import KEY as BATCH_LIMIT
from bridge.model.copying import MOST_BYTES
from bridge.model.key_rules import honoured, ignored
from connectors.config.cluster_options import PROTOCOLS
from connectors.config.configdef import (
    REQUIRED,
    Importance,
    In,
    Key,
    ListOf,
    NonEmpty,
    Range,
    Type,
    ValidatedConfig,
    Width,
    invalid,
)

SOURCE_ALIAS, TARGET_ALIAS = "source.cluster.alias", "target.cluster.alias"
SEPARATOR = "replication.policy.separator"
POLICY_CLASS = "replication.policy.class"
PROVIDERS = "config.providers"
SYNCS_LOCATION = "offset-syncs.topic.location"
STOCK = "org.apache.kafka.connect.mirror."
MAP_POLICY = "python:bridge.policies.TopicMap"
_FORWARDING_ADMIN = "org.apache.kafka.clients.admin.ForwardingAdmin"
_JMX_REPORTER = "org.apache.kafka.common.metrics.JmxReporter"

PYTHON_CLASS = (
    " A stock class name selects the bridge's own of the same behaviour; python:module.Class loads yours in "
    "the service, if it allows the module. (STRING here although stock has CLASS: the worker would try to load a "
    "CLASS.)"
)
_NO_METRICS = "the connector has no JMX metrics, as in MirrorMaker; the service's metrics are at /metrics"
_ONLY_JMX = "in the worker: it shows the connector's metrics as MBeans, by stock's names (docs/operations.md)"
_LEGAL_ALIAS = re.compile(r"[a-zA-Z0-9._-]+")
_LEGAL_SEPARATOR = re.compile(r"[a-zA-Z0-9._-]*")
_KEEPING_NAMES = ("IdentityReplicationPolicy", "LegacyReplicationPolicy")
_PART_OF_NAMES = "an alias is part of topic names and takes only letters, digits, '.', '_' and '-'"
_HIGH, _LOW = Importance.HIGH, Importance.LOW


def mirror_keys(group: str, *, measured: bool = False) -> list[Key]:
    """Returns the keys, in stock's order (stock §1.1). `measured`: the connector has stock's metrics in the worker."""
    return [
        Key(
            "enabled",
            Type.BOOLEAN,
            "true",
            _LOW,
            "Whether to replicate source->target; false: the connector runs no task. Heartbeats go on, as in "
            "MirrorMaker; emit.heartbeats.enabled is for them.",
            group,
        ),
        Key(
            SOURCE_ALIAS,
            Type.STRING,
            REQUIRED,
            _HIGH,
            "Alias of the source cluster, as in the names of the remote topics.",
            group,
            validator=NonEmpty(),
        ),
        Key(
            TARGET_ALIAS,
            Type.STRING,
            "target",
            _HIGH,
            "Alias of the target cluster; used to see cycles, and in metrics.",
            group,
            validator=NonEmpty(),
        ),
        Key(
            "admin.timeout.ms",
            Type.LONG,
            "60000",
            _LOW,
            "Timeout for administrative tasks, e.g. listing groups or committing offsets.",
            group,
            validator=Range(1),
        ),
        Key(
            POLICY_CLASS,
            Type.STRING,
            STOCK + "DefaultReplicationPolicy",
            _LOW,
            "Class which defines the remote topic naming convention; the same as the mirror's."
            + PYTHON_CLASS,
            group,
            width=Width.LONG,
            recommended=(
                STOCK + "DefaultReplicationPolicy",
                STOCK + "IdentityReplicationPolicy",
                STOCK + "LegacyReplicationPolicy",
                MAP_POLICY,
            ),
        ),
        Key(
            SEPARATOR,
            Type.STRING,
            ".",
            _LOW,
            "Separator used in remote topic naming convention; the same as the mirror's.",
            group,
            width=Width.SHORT,
        ),
        Key(
            "replication.policy.internal.topic.separator.enabled",
            Type.BOOLEAN,
            "true",
            _LOW,
            "Whether the separator is used in the names of internal topics too; read only when "
            "replication.policy.separator is given.",
            group,
        ),
        Key(
            ALIASES,
            Type.LIST,
            "",
            _LOW,
            "Aliases that contain the separator, of all clusters that topics come through. The name of a remote topic "
            "that begins with one of them is read as a topic of that cluster (the longest that fits), any other name "
            "up to its first separator.",
            group,
            validator=ListOf(),
        ),
        Key(
            TOPIC_MAP,
            Type.STRING,
            None,
            _LOW,
            f"For replication.policy.class={MAP_POLICY}: the names of remote topics, as a=b,c.*=d.$0. On the left "
            "stands a topic or a pattern for whole names, of which the first that fits counts; on the right its name "
            "on the target, with $0 for the whole name or $1 for the pattern's group. Two topics that would get one "
            "name are an error. Topics without an entry are named <alias><separator><topic>.",
            group,
            width=Width.LONG,
        ),
        Key(
            TOPIC_MAP_FILE,
            Type.STRING,
            None,
            _LOW,
            f"A file with the entries of {TOPIC_MAP} instead, one a line, as the service sees it; # begins a comment. "
            "It is read when the connector starts.",
            group,
            width=Width.LONG,
        ),
        Key(
            "forwarding.admin.class",
            Type.STRING,
            _FORWARDING_ADMIN,
            _LOW,
            "Stock's hook for managing topics through other systems. It is a Java class, so that none but the default "
            "can be honoured.",
            group,
            width=Width.LONG,
            validator=In((_FORWARDING_ADMIN,)),
        ),
        Key(
            "metric.reporters",
            Type.LIST,
            _JMX_REPORTER,
            _LOW,
            "Java classes that are told of the connector's metrics in the worker: the default, which makes MBeans of "
            "them by stock's names, or none. Connectors without such metrics ignore it.",
            group,
            width=Width.LONG,
            validator=ListOf(values=(_JMX_REPORTER,)),
            rule=honoured(_ONLY_JMX) if measured else ignored(_NO_METRICS),
        ),
        Key(
            "security.protocol",
            Type.STRING,
            "PLAINTEXT",
            Importance.MEDIUM,
            "Without effect, as in MirrorMaker: give source.cluster.security.protocol or "
            "target.cluster.security.protocol.",
            group,
            validator=PROTOCOLS,
            rule=ignored(
                "it reaches no client, as in MirrorMaker; give source.cluster.security.protocol or "
                "target.cluster.security.protocol"
            ),
        ),
        Key(
            PROVIDERS,
            Type.LIST,
            "",
            _LOW,
            "Aliases of ConfigProviders. The worker's own have replaced their references before the service gets the "
            "configuration; one that only this key names is a Java class, so that a reference to it is an error.",
            group,
            validator=ListOf(),
            rule=ignored(
                "the worker's own config.providers resolve references, before the service gets them"
            ),
        ),
    ]


def batch_limit(group: str) -> Key:
    return Key(
        BATCH_LIMIT,
        Type.INT,
        str(MOST_BYTES),
        _LOW,
        "How many bytes a batch of records may have when it is decompressed, and a 32nd of it how many records. "
        "A batch may exceed an eighth of this limit only if it decompresses to at most 1,000 times its size. "
        "A larger one counts as undecodable. Look-ups of single records and reads of internal topics have a quarter "
        "of these limits.",
        group,
        validator=Range(1_048_576, 2_147_483_647),
    )


def metric_names(group: str) -> Key:
    return Key(
        "metric.names.formats",
        Type.LIST,
        "legacy",
        _LOW,
        "How the JMX metrics in the worker are named, as in stock: legacy, MBeans of kafka.connect.mirror; new, the "
        "worker's own metrics of plugins, kafka.connect:type=plugins, from Kafka 4.1 on; or both.",
        group,
        validator=ListOf(allow_empty=False, values=("legacy", "new")),
    )


def syncs_location(doc: str, group: str) -> Key:
    places = ("source", "target")
    return Key(
        SYNCS_LOCATION, Type.STRING, "source", _LOW, doc, group, validator=In(places), recommended=places
    )


def mirror_errors(props: Mapping[str, str], config: ValidatedConfig) -> Iterator[ConfigError]:
    """Checks rules across the keys of `mirror_keys`."""
    yield from separator_errors(config)
    yield from _alias_errors(config)
    yield from _map_errors(props, config)
    for provider in config.items(PROVIDERS) or ():
        referring = sorted(key for key, value in props.items() if f"${{{provider}:" in value)
        if referring:
            why = (
                f"{', '.join(referring)} refers to ${{{provider}:...}}, and the service can't load a Java provider; "
                "name the provider in the worker's own config.providers"
            )
            yield ConfigError(PROVIDERS, invalid(PROVIDERS, provider, why))


def _map_errors(props: Mapping[str, str], config: ValidatedConfig) -> Iterator[ConfigError]:
    """A map that nobody reads is no map. Policies of others may read it."""
    chosen = config.text(POLICY_CLASS)
    if chosen.startswith("python:"):
        return
    for key in (TOPIC_MAP, TOPIC_MAP_FILE):
        if props.get(key):
            why = f"{chosen.removeprefix(STOCK)} does not read it; give {POLICY_CLASS}={MAP_POLICY}"
            yield ConfigError(key, f"Invalid configuration {key}: {why}")


def separator_errors(config: ValidatedConfig) -> Iterator[ConfigError]:
    """Checks that the separator may be part of a topic's name, and is none only where no name has to be read by it."""
    if not config.good(SEPARATOR):
        return
    separator = config.text(SEPARATOR)
    if not _LEGAL_SEPARATOR.fullmatch(separator):
        why = (
            "a separator is part of topic names and takes only letters, digits, '.', '_' and '-' (what follows a value "
            "on its line is part of it, a comment too)"
        )
        yield ConfigError(SEPARATOR, invalid(SEPARATOR, separator, why))
    policy = config.text(POLICY_CLASS).removeprefix(STOCK)
    if not separator and policy not in _KEEPING_NAMES and not policy.startswith("python:"):
        why = (
            f"String must be non-empty, but with {' and '.join(_KEEPING_NAMES)}; for topics that keep their names give "
            f"{POLICY_CLASS}={STOCK}{_KEEPING_NAMES[0]}"
        )
        yield ConfigError(SEPARATOR, invalid(SEPARATOR, separator, why))


def _alias_errors(config: ValidatedConfig) -> Iterator[ConfigError]:
    """Checks that aliases differ, hold only what a topic name may hold, and the separator only where replication
    policies are told how to read them."""
    read = (config.items(ALIASES) or ()) if config.good(ALIASES) else ()
    for alias in read:
        if not _LEGAL_ALIAS.fullmatch(alias):
            yield ConfigError(ALIASES, invalid(ALIASES, alias, _PART_OF_NAMES))
    separator = config.text(SEPARATOR) if config.good(SEPARATOR) else ""
    aliases = [key for key in (SOURCE_ALIAS, TARGET_ALIAS) if config.good(key)]
    for key in aliases:
        alias = config.text(key)
        if not _LEGAL_ALIAS.fullmatch(alias):
            yield ConfigError(key, invalid(key, alias, _PART_OF_NAMES))
        elif separator and separator in alias and alias not in read:
            why = (
                f"the alias contains the separator '{separator}' of {SEPARATOR}, so the source of a remote "
                f"topic can't be told from its name; name it in {ALIASES}, or choose an alias without it, or another "
                "separator"
            )
            yield ConfigError(key, invalid(key, alias, why))
    if len(aliases) == 2 and config.text(SOURCE_ALIAS) == config.text(TARGET_ALIAS):
        why = f"must differ from {SOURCE_ALIAS}, otherwise every topic looks like a cycle"
        yield ConfigError(TARGET_ALIAS, invalid(TARGET_ALIAS, config.text(TARGET_ALIAS), why))
