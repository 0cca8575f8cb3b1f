"""Transforms of ours that need no process of their own: compiled, they end, fail with nothing, and take no more memory
than what they make. Whatever they leave out goes the way of all transforms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bridge.kafka.record import arrow_columns
from bridge.kafka.record.arrow_columns import BrokenRecord, Fields
from bridge.kafka.record.columns import Records
from bridge.model.copying import Transform
from bridge.transforms.ready import Compiled, compiled_masks

_MASKS = "bridge.transforms.mask_fields"
_PARAMETERS = {"fields", "replacement", "column"}


class Native(NamedTuple):
    masks: Compiled
    column: str


def native(transform: Transform) -> Native | None:
    """Returns the transform's compiled form; None for one that takes a process."""
    parameters = transform.parameters
    column = parameters.get("column", "value")
    if transform.function != _MASKS or parameters.keys() - _PARAMETERS or column not in ("key", "value"):
        return None
    try:
        masks = compiled_masks(parameters["fields"], parameters.get("replacement"))
    except (KeyError, ValueError):
        return None  # the process says what is wrong
    return None if masks is None else Native(masks, column)


def through(records: Records, chain: Sequence[Native]) -> Records | None:
    """Runs the whole chain over records; None where one of them has to go another way."""
    try:
        fields = arrow_columns.cut(records)
    except BrokenRecord:
        return None
    for each in chain:
        masked = _masked(fields, each)
        if masked is None:
            return None
        fields = masked
    return arrow_columns.joined(fields)


def _masked(fields: Fields, each: Native) -> Fields | None:
    texts = fields.keys if each.column == "key" else fields.values
    made = each.masks.apply(texts.validity, texts.ends, texts.data, len(fields.offsets))
    if made is None or made[2]:
        return None
    changed = texts._replace(ends=made[0], data=made[1])
    return fields._replace(keys=changed) if each.column == "key" else fields._replace(values=changed)
