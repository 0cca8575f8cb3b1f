"""Holds what the operator of the service allows connector configurations to name (docs/security.md)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

SPARK_KEYS = "MIRROR_BRIDGE_ALLOWED_SPARK_KEYS"
SPARK_MASTERS = "MIRROR_BRIDGE_ALLOWED_SPARK_MASTERS"
PYTHON_MODULES = "MIRROR_BRIDGE_ALLOWED_PYTHON_MODULES"
FOLDERS = "MIRROR_BRIDGE_ALLOWED_FOLDERS"
BOOTSTRAP = "MIRROR_BRIDGE_ALLOWED_BOOTSTRAP"
AWS_ROLES = "MIRROR_BRIDGE_ALLOWED_AWS_ROLES"
OAUTH_HOSTS = "MIRROR_BRIDGE_ALLOWED_TOKEN_ENDPOINTS"
IMPORT_SECONDS = "MIRROR_BRIDGE_IMPORT_SECONDS"


@dataclass(frozen=True, slots=True)
class Policy:
    """Patterns with `*` and `?`. Keys, masters and modules are allowed in addition to those that always are
    (connectors.config.allowed_names). An empty list of folders, bootstrap servers or token endpoints allows any."""

    spark_keys: tuple[str, ...] = ()
    spark_masters: tuple[str, ...] = ()
    python_modules: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    bootstrap: tuple[str, ...] = ()
    token_endpoints: tuple[str, ...] = ()
    aws_roles: tuple[str, ...] = ()
    open_to_others: bool = False
    """Whether others than users of this machine may send configurations: without lists of folders, servers and roles
    these may not name what lets them in as the service."""
    import_seconds: float = 3.0
    """Seconds in which Python code that a configuration names has to be loaded."""


def allows(key: str, value: str, patterns: Iterable[str], *, by_value: bool) -> bool:
    """Whether a pattern allows a key of Spark: by its name, `spark.yarn.*`, or with a value,
    `spark.plugins=org.example.*`. `by_value`: by one with a value alone."""
    for pattern in patterns:
        name, has_value, values = pattern.partition("=")
        if fnmatchcase(key, name) and (fnmatchcase(value, values) if has_value else not by_value):
            return True
    return False


def fits(text: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(text, pattern) for pattern in patterns)
