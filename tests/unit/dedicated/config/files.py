"""Files of dedicated mode for tests, and their plans."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from bridge.dedicated.config.plan import ConnectorPlan, MirrorPlan
from bridge.dedicated.config.reading import plan_of_properties
from bridge.errors import ConfigRejected
from bridge.java_properties import parse_properties
from bridge.kafka.config.settings import StaticClientCheck

BOTH = {
    "clusters": "A, B",
    "A.bootstrap.servers": "a:9092",
    "B.bootstrap.servers": "b:9092",
    "A->B.enabled": "true",
}
"""Two clusters and one flow."""


def planned(file: Mapping[str, str] | str, **environment: str) -> MirrorPlan:
    """The plan of a file's properties, or of its text."""
    properties = parse_properties(file, "mm2.properties") if isinstance(file, str) else file
    return plan_of_properties(properties, StaticClientCheck(), environment)


def errors(file: Mapping[str, str], **environment: str) -> dict[str, str]:
    """What is wrong with a file, by key."""
    with pytest.raises(ConfigRejected) as rejected:
        planned(file, **environment)
    messages = {error.key: error.message for error in rejected.value.errors}
    assert len(messages) == len(rejected.value.errors), rejected.value.errors
    return messages


def connector(plan: MirrorPlan, flow: str, name: str) -> ConnectorPlan:
    chosen = next(each for each in plan.flows if each.name == flow)
    return next(each for each in chosen.connectors if each.name == name)


def config(plan: MirrorPlan, flow: str, name: str = "MirrorSourceConnector") -> Mapping[str, str]:
    return connector(plan, flow, name).config
