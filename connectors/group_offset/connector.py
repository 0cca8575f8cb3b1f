"""MirrorGroupOffsetConnector as a kind of connector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bridge.errors import ConfigError
from connectors.base import Instance, Publisher
from connectors.configdef import ConfigDef, ValidatedConfig
from connectors.group_offset.options import DEFINITION, GroupOffsetOptions, validate
from connectors.ports import ClientCheck, Clusters


class GroupOffset:
    kind = "group_offset"
    connector_class = "dev.mirrorbridge.MirrorGroupOffsetConnector"

    @property
    def definition(self) -> ConfigDef:
        return DEFINITION

    def validate(self, props: Mapping[str, str | None], clients: ClientCheck) -> ValidatedConfig:
        return validate(props, clients)

    def create(
        self, name: str, props: Mapping[str, str | None], clusters: Clusters, publisher: Publisher
    ) -> Instance:
        # The task drags the translation in; the HTTP process validates only and does without.
        from connectors.group_offset.task import GroupOffsetInstance

        given = {key: value for key, value in props.items() if value is not None}
        options = GroupOffsetOptions.from_props(props, _CheckedOnOpen())
        return GroupOffsetInstance(name, options, clusters, given, publisher)


class _CheckedOnOpen:
    """`Clusters.open` reads the client properties itself, and rejects what `validate` would."""

    def check(self, props: Mapping[str, str]) -> Sequence[ConfigError]:
        return ()
