"""BridgeMirrorSourceConnector as a kind of connector.

Checks whether a configuration would copy topics that a running connector copies. Pure.

The driver sees the claims of all connectors of the source alias and refuses in any case (see
bridge.pipeline.layouts.ownership); this tells an operator before anything is started.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from bridge.errors import ConfigError
from bridge.model.copy_owners import opposite_refusals, refusals
from bridge.model.key_rules import Use
from bridge.model.values import Side
from connectors.base import CheckedOnOpen, ConnectorKind, CopiedTopics, Instance, Publisher
from connectors.config.configdef import ConfigDef, given
from connectors.config.mirror_options import POLICY_CLASS, SOURCE_ALIAS, TARGET_ALIAS
from connectors.ports import Clusters, Pipelines
from connectors.source.checks import validate
from connectors.source.definition import DEFINITION
from connectors.source.options import SourceOptions

CLIENTS = {
    (Side.SOURCE, "admin"): Use.ADMIN,
    (Side.TARGET, "admin"): Use.ADMIN,
    (Side.SOURCE, "consumer"): Use.COPY,
    (Side.TARGET, "consumer"): Use.FOLLOW,
    (Side.TARGET, "producer"): Use.WRITE,
    (Side.SOURCE, "producer"): Use.SYNC,
}
_CLUSTER = "target.cluster.bootstrap.servers"


def _make(
    name: str,
    props: Mapping[str, str | None],
    clusters: Clusters,
    pipelines: Pipelines,
    publisher: Publisher,
) -> Instance:
    from connectors.source.options import SourceOptions
    from connectors.source.task import SourceInstance

    options = SourceOptions.from_props(props, CheckedOnOpen())
    return SourceInstance(name, options, clusters, pipelines, given(props), publisher)


def _taken(props: Mapping[str, str | None], others: Sequence[CopiedTopics]) -> Sequence[ConfigError]:

    return taken(props, others)


KIND = ConnectorKind(
    "source", "dev.mirrorbridge.BridgeMirrorSourceConnector", DEFINITION, CLIENTS, validate, _make, _taken
)


def taken(
    props: Mapping[str, str | None], others: Iterable[CopiedTopics], definition: ConfigDef = DEFINITION
) -> list[ConfigError]:
    """Returns errors for a configuration that has no others."""
    name = props.get("name") or ""
    props = given(props)
    options = SourceOptions.from_props(props, CheckedOnOpen(), definition)
    owners = {
        (topic, target): other.name
        for other in others
        if other.name not in (name, *options.take_over_from) and _same_flow(props, other.config)
        for topic, target in other.topics
        if (remote := options.remote_of(topic)) is not None and target in (remote, *options.also(topic))
    }
    this = name or "this connector"
    loops = {
        (topic, target): other.name
        for other in others
        if options.may_go_round and _opposite_flow(props, other.config)
        for target, topic in other.topics
        if options.remote_of(topic) == target
    }
    return [
        *(ConfigError("topics", text) for text in refusals(owners, this)),
        *(ConfigError(POLICY_CLASS, text) for text in opposite_refusals(loops, this)),
    ]


def _same_flow(one: Mapping[str, str | None], other: Mapping[str, str | None]) -> bool:
    return all(one.get(key) == other.get(key) for key in (SOURCE_ALIAS, _CLUSTER))


def _opposite_flow(one: Mapping[str, str | None], other: Mapping[str, str | None]) -> bool:
    aliases = one.get(SOURCE_ALIAS), one.get(TARGET_ALIAS)
    return aliases == (other.get(TARGET_ALIAS), other.get(SOURCE_ALIAS))
