"""Errors that end a pipeline. A module of its own: the driver asks, and needs nothing of what slices import."""

from __future__ import annotations

from bridge.errors import KafkaFailure, KafkaFault
from bridge.model.copying import PipelineSpec

_PERMANENT = {KafkaFault.CREDENTIALS, KafkaFault.TOPIC_CONFIG}
"""Faults that waiting does not resolve."""


def permanent(failure: KafkaFailure, spec: PipelineSpec) -> bool:
    """Whether it ends the pipeline. A right may be granted while it waits, unless somebody waits for the end."""
    waits_for_the_end = spec.until_caught_up and failure.fault is KafkaFault.NOT_AUTHORIZED
    return failure.fault in _PERMANENT or waits_for_the_end
