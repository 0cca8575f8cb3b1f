"""What connector configurations may name, as whoever runs the service allows it (docs/security.md)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

SPARK_KEYS = "MIRROR_BRIDGE_ALLOWED_SPARK_KEYS"
SPARK_MASTERS = "MIRROR_BRIDGE_ALLOWED_SPARK_MASTERS"
PYTHON_MODULES = "MIRROR_BRIDGE_ALLOWED_PYTHON_MODULES"
BOOTSTRAP = "MIRROR_BRIDGE_ALLOWED_BOOTSTRAP"
IMPORT_SECONDS = "MIRROR_BRIDGE_IMPORT_SECONDS"


@dataclass(frozen=True, slots=True)
class Policy:
    """Patterns may have `*` and `?`. Keys, masters and modules are allowed beside those that always are
    (connectors.config.allowed_names); no folder and no address means any."""

    spark_keys: tuple[str, ...] = ()
    spark_masters: tuple[str, ...] = ()
    python_modules: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    bootstrap: tuple[str, ...] = ()
    import_seconds: float = 3.0
    """Time in which classes and functions of the operator's have to be loaded."""


def fits(text: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(text, pattern) for pattern in patterns)
