"""Holds what the operator of the service allows connector configurations to name (docs/security.md)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache

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


_ADDRESS = re.compile(r"[0-9]+\.")


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


def fits_server(address: str, patterns: Iterable[str]) -> bool:
    """Whether a pattern has an address, host:port. `*` and `?` stand for characters of the host, or of the port; behind
    the beginning of an IPv4 address for digits and points, so that `10.0.0.*` is no name of anybody's."""
    return any(pattern == "*" or _server(pattern).fullmatch(address) for pattern in patterns)


@lru_cache(maxsize=1024)
def _server(pattern: str) -> re.Pattern[str]:
    host, colon, port = pattern.rpartition(":")
    of_address = _ADDRESS.match(host) is not None and ("*" in host or "?" in host)
    return re.compile(
        _matching(host, "[0-9.]" if of_address else r"[^\s/]") + colon + _matching(port, "[0-9]")
    )


def _matching(pattern: str, character: str) -> str:
    wild = {"*": f"{character}*", "?": character}
    return "".join(wild.get(text) or re.escape(text) for text in pattern)
