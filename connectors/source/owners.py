"""Checks whether a configuration would copy topics that a running connector copies. Pure.

The driver sees the claims of all connectors of the source alias and refuses in any case (bridge.pipeline.claims); this
tells an operator before anything is started.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bridge.errors import ConfigError
from bridge.model.copy_owners import refusals
from connectors.base import CheckedOnOpen, CopiedTopics
from connectors.config.mirror_options import SOURCE_ALIAS
from connectors.source.options import SourceOptions

_CLUSTER = "target.cluster.bootstrap.servers"


def taken(props: Mapping[str, str | None], others: Iterable[CopiedTopics]) -> list[ConfigError]:
    """Returns errors for a configuration that has no others."""
    name = props.get("name") or ""
    options = SourceOptions.from_props(props, CheckedOnOpen())
    owners = {
        (topic, target): other.name
        for other in others
        if other.name not in (name, *options.take_over_from) and _same_flow(props, other.config)
        for topic, target in other.topics
        if (remote := options.remote_of(topic)) is not None and target in (remote, *options.also(topic))
    }
    return [ConfigError("topics", text) for text in refusals(owners, name or "this connector")]


def _same_flow(one: Mapping[str, str | None], other: Mapping[str, str | None]) -> bool:
    return all(one.get(key) == other.get(key) for key in (SOURCE_ALIAS, _CLUSTER))
