"""Defines the base class of values of the readiness topic; readiness_records lists its kinds. Pure."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

VERSION = 1
MOST_TASKS = 10_000


class Value(ABC):
    """The value of a record. Immutable."""

    __slots__ = ()
    kind: ClassVar[str]

    @property
    @abstractmethod
    def meaning(self) -> int:
        """A hash that is equal for values that differ only in their times: such a value is not written again."""

    @abstractmethod
    def fields(self) -> dict[str, Any]:
        """Returns the value as JSON, without the version."""

    @classmethod
    @abstractmethod
    def read(cls, obj: Mapping[str, Any]) -> Self:
        """Reads and checks a value. Raises SchemaError."""

    @classmethod
    def trusted(cls, obj: Mapping[str, Any]) -> Self:
        """Reads fields that were checked before, without checking them again."""
        return cls.read(obj)
