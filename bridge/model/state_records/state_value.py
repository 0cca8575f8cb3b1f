"""What a value of the readiness topic is; its kinds are named in readiness_records. Pure."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

VERSION = 1
MOST_TASKS = 10_000


class Value(ABC):
    """What stands under a key. Immutable."""

    __slots__ = ()
    kind: ClassVar[str]

    @property
    @abstractmethod
    def meaning(self) -> int:
        """Equal for values that read the same, but for their times: one that means the same is not written again."""

    @abstractmethod
    def fields(self) -> dict[str, Any]:
        """As JSON, without the version."""

    @classmethod
    @abstractmethod
    def read(cls, obj: Mapping[str, Any]) -> Self:
        """Raises SchemaError."""

    @classmethod
    def trusted(cls, obj: Mapping[str, Any]) -> Self:
        """The same of what was read before: it is not checked again."""
        return cls.read(obj)
