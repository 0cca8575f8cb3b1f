"""BridgeMirrorHeartbeatConnector as a kind of connector."""

from __future__ import annotations

from collections.abc import Mapping

from connectors.base import CheckedOnOpen, Instance, Publisher
from connectors.configdef import ConfigDef, ValidatedConfig, given
from connectors.heartbeat.options import DEFINITION, HeartbeatOptions, validate
from connectors.ports import ClientCheck, Clusters


class Heartbeat:
    kind = "heartbeat"
    connector_class = "dev.mirrorbridge.BridgeMirrorHeartbeatConnector"

    @property
    def definition(self) -> ConfigDef:
        return DEFINITION

    def validate(self, props: Mapping[str, str | None], clients: ClientCheck) -> ValidatedConfig:
        return validate(props, clients)

    def create(
        self, name: str, props: Mapping[str, str | None], clusters: Clusters, publisher: Publisher
    ) -> Instance:
        # The task drags the translation in; the HTTP process validates only and does without.
        from connectors.heartbeat.task import HeartbeatInstance

        options = HeartbeatOptions.from_props(props, CheckedOnOpen())
        return HeartbeatInstance(name, options, clusters, given(props), publisher)
