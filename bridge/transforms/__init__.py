"""Transforms of records on their way to the target, for `bridge.transforms` (docs/transforms.md)."""

from bridge.transforms.contract import SCHEMA
from bridge.transforms.ready import drop_where, mask_fields

__all__ = ["SCHEMA", "drop_where", "mask_fields"]
