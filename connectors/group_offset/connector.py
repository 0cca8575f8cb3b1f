"""MirrorGroupOffsetConnector as a kind of connector."""

from __future__ import annotations

from collections.abc import Mapping

from connectors.base import CheckedOnOpen, Instance, Publisher
from connectors.configdef import ConfigDef, ValidatedConfig, given
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

        options = GroupOffsetOptions.from_props(props, CheckedOnOpen())
        return GroupOffsetInstance(name, options, clusters, given(props), publisher)
