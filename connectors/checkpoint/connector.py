"""BridgeMirrorCheckpointConnector as a kind of connector."""

from __future__ import annotations

from collections.abc import Mapping

from connectors.base import CheckedOnOpen, Instance, Publisher
from connectors.checkpoint.options import DEFINITION, CheckpointOptions, validate
from connectors.configdef import ConfigDef, ValidatedConfig, given
from connectors.ports import ClientCheck, Clusters


class Checkpoint:
    kind = "checkpoint"
    connector_class = "dev.mirrorbridge.BridgeMirrorCheckpointConnector"

    @property
    def definition(self) -> ConfigDef:
        return DEFINITION

    def validate(self, props: Mapping[str, str | None], clients: ClientCheck) -> ValidatedConfig:
        return validate(props, clients)

    def create(
        self, name: str, props: Mapping[str, str | None], clusters: Clusters, publisher: Publisher
    ) -> Instance:
        # The task drags the translation in; the HTTP process validates only and does without.
        from connectors.checkpoint.task import CheckpointInstance

        options = CheckpointOptions.from_props(props, CheckedOnOpen())
        return CheckpointInstance(name, options, clusters, given(props), publisher)
