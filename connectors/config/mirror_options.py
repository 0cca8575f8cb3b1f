"""MirrorMaker's keys that all connectors share, with stock names, types and defaults, and the rules."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from bridge.errors import ConfigError
from bridge.model.batch_limits import KEY as BATCH_LIMIT
from bridge.model.batch_limits import MOST_BYTES
from bridge.model.key_rules import ignored
from connectors.config.cluster_options import PROTOCOLS
from connectors.config.configdef import REQUIRED, Importance, Key, Type, ValidatedConfig, Width
from connectors.config.validators import In, ListOf, NonEmpty, Range, invalid

SOURCE_ALIAS, TARGET_ALIAS = "source.cluster.alias", "target.cluster.alias"
SEPARATOR = "replication.policy.separator"
POLICY_CLASS = "replication.policy.class"
PROVIDERS = "config.providers"
SYNCS_LOCATION = "offset-syncs.topic.location"
STOCK = "org.apache.kafka.connect.mirror."
_FORWARDING_ADMIN = "org.apache.kafka.clients.admin.ForwardingAdmin"
_JMX_REPORTER = "org.apache.kafka.common.metrics.JmxReporter"

PYTHON_CLASS = (
    " A stock class name selects the bridge's own of the same behaviour; python:module.Class loads yours in "
    "the service, if it allows the module. (STRING here although stock has CLASS: the worker would try to load a "
    "CLASS.)"
)
_METRICS = "the service's metrics have names of their own, at /metrics"
_LEGAL_ALIAS = re.compile(r"[a-zA-Z0-9._-]+")
_HIGH, _LOW = Importance.HIGH, Importance.LOW


def mirror_keys(group: str) -> list[Key]:
    """Returns the keys, in stock's order (stock §1.1)."""
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
            recommended=(STOCK + "DefaultReplicationPolicy", STOCK + "IdentityReplicationPolicy"),
        ),
        Key(
            SEPARATOR,
            Type.STRING,
            ".",
            _LOW,
            "Separator used in remote topic naming convention; the same as the mirror's.",
            group,
            width=Width.SHORT,
            validator=NonEmpty(),
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
            "Java classes that would be told of metrics: none but the default can be honoured, and that one has no "
            "effect; the service shows its metrics at /metrics.",
            group,
            width=Width.LONG,
            validator=ListOf(values=(_JMX_REPORTER,)),
            rule=ignored(_METRICS),
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
        "More than an eighth of it may become of a batch only where that is at most 1,000 times what it has "
        "compressed. What has more counts as a batch that nobody can decode. A quarter of all that holds where "
        "single records are looked up, and internal topics read.",
        group,
        validator=Range(1_048_576, 2_147_483_647),
    )


def metric_names(group: str) -> Key:
    return Key(
        "metric.names.formats",
        Type.LIST,
        "legacy",
        _LOW,
        "How stock names its JMX metrics. Without effect: the service's metrics have names of their own, at /metrics.",
        group,
        validator=ListOf(allow_empty=False, values=("legacy", "new")),
        rule=ignored(_METRICS),
    )


def syncs_location(doc: str, group: str) -> Key:
    places = ("source", "target")
    return Key(
        SYNCS_LOCATION, Type.STRING, "source", _LOW, doc, group, validator=In(places), recommended=places
    )


def mirror_errors(given: Mapping[str, str], config: ValidatedConfig) -> Iterator[ConfigError]:
    """Checks rules across the keys of `mirror_keys`."""
    yield from alias_errors(config)
    for provider in config.items(PROVIDERS) or ():
        referring = sorted(key for key, value in given.items() if f"${{{provider}:" in value)
        if referring:
            why = (
                f"{', '.join(referring)} refers to ${{{provider}:...}}, and the service can't load a Java provider; "
                "name the provider in the worker's own config.providers"
            )
            yield ConfigError(PROVIDERS, invalid(PROVIDERS, provider, why))


def alias_errors(config: ValidatedConfig) -> Iterator[ConfigError]:
    """Checks that aliases differ, hold only what a topic name may hold, and not the separator."""
    aliases = [key for key in (SOURCE_ALIAS, TARGET_ALIAS) if config.good(key)]
    for key in aliases:
        alias = config.text(key)
        if not _LEGAL_ALIAS.fullmatch(alias):
            why = "an alias is part of topic names and takes only letters, digits, '.', '_' and '-'"
            yield ConfigError(key, invalid(key, alias, why))
        elif config.good(SEPARATOR) and (separator := config.text(SEPARATOR)) in alias:
            why = (
                f"the alias contains the separator '{separator}' of {SEPARATOR}, so the source of a remote "
                "topic can't be told from its name; choose an alias without it, or another separator"
            )
            yield ConfigError(key, invalid(key, alias, why))
    if len(aliases) == 2 and config.text(SOURCE_ALIAS) == config.text(TARGET_ALIAS):
        why = f"must differ from {SOURCE_ALIAS}, otherwise every topic looks like a cycle"
        yield ConfigError(TARGET_ALIAS, invalid(TARGET_ALIAS, config.text(TARGET_ALIAS), why))
