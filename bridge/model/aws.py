"""Names of AWS' own Kafka clusters (MSK)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from bridge.model.java_values import trimmed

_HOST = re.compile(
    r"(?:^|\.)kafka(?:-serverless)?\.(?P<region>[a-z]{2,}(?:-[a-z]+)+-[0-9]+)\.amazonaws\.com(?:\.cn)?$"
)
_AMAZON = (".amazonaws.com", ".amazonaws.com.cn")
_ADDRESS = re.compile(r"[0-9.]+|.*[:\[\]].*")
"""An IP address, or the end of one: addresses have no domain."""


def is_beside(host: str, servers: Sequence[str]) -> bool:
    """Whether a host that a cluster names as its broker is one of MSK, one of the servers (host:port) that it was found
    by, or below the same domain as one of these."""
    host = host.lower().rstrip(".")
    names = [_host(server) for server in servers]
    if host in names or (region_of(f"{host}:0") is not None and any(map(region_of, servers))):
        return True
    # Beside MSK's own names others have theirs.
    own = [name for name in names if not name.endswith(_AMAZON)]
    domains = [*own, *(domain for name in own if "." in (domain := name.partition(".")[2]))]
    return any(host.endswith(f".{domain}") for domain in domains if not _ADDRESS.fullmatch(domain))


def _host(server: str) -> str:
    return trimmed(server).rpartition("//")[2].rpartition(":")[0].lower().rstrip(".")


def region_of(server: str) -> str | None:
    """The region that the name of an MSK broker (host:port) tells; None for another one. Below these names nobody but
    AWS has machines."""
    found = _HOST.search(_host(server))
    return None if found is None else found["region"]
