"""What the rounds process needs of the outside, and how its maker is named across the process boundary."""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from connectors.base import Kind
from connectors.ports import ClientCheck, Clusters


@dataclass(frozen=True, slots=True)
class RoundsContext:
    """Of the rounds process: the kinds, the clusters that they are given, and how to let go of all of it."""

    kinds: Mapping[str, Kind]
    clusters: Clusters
    close: Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class CheckContext:
    """Of the HTTP process: what checking a configuration takes. Opens nothing."""

    kinds: Mapping[str, Kind]
    clients: ClientCheck


Factory = Callable[[], RoundsContext]


def load_factory(path: str) -> Factory:
    """`module:function`; functions don't cross processes, names do."""
    module, _, name = path.partition(":")
    factory: Factory = getattr(importlib.import_module(module), name)
    return factory
