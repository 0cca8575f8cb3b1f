"""Says what addresses are: of this machine, of AWS, of a Spark Connect server; and how clusters are named in logs.

Names of AWS' own Kafka clusters (MSK).

Names clusters in logs and in health: by side, alias and bootstrap servers.

Addresses of Spark Connect servers: sc://host:15002/;use_ssl=true. Pure.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence

from bridge.model.java_values import trimmed
from bridge.model.values import Side

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_HOST = re.compile(
    r"(?:^|\.)kafka(?:-serverless)?\.(?P<region>[a-z]{2,}(?:-[a-z]+)+-[0-9]+)\.amazonaws\.com(?:\.cn)?$"
)
_AMAZON = (".amazonaws.com", ".amazonaws.com.cn")
_IP_ADDRESS = re.compile(r"[0-9.]+|.*[:\[\]].*")
"""An IP address, or the end of one: addresses have no domain."""
REMOTE = "spark.remote"
"""The address of a Spark Connect server; there is no master then."""
TOKEN = "spark.connect.authenticate.token"  # noqa: S105
"""The token that the server asks for; not in the address, which is shown."""
_DEFAULT_PORT = 15002
_ADDRESS = re.compile(
    r"sc://(?P<host>\[[0-9a-fA-F:]+\]|[A-Za-z0-9._-]+)(:(?P<port>\d{1,5}))?(/(?P<rest>(;[^;=]+=[^;]*)*))?"
)
_HERE = ("localhost", "127.0.0.1", "[::1]")


def parse_address(text: str) -> _Address:
    """Reads an address as sockets name one: without its interface (`fe80::1%eth0`), and an IPv4 address that is written
    as IPv6 (`::ffff:127.0.0.1`) as what it is. Raises ValueError."""
    address = ipaddress.ip_address(text.partition("%")[0])
    return getattr(address, "ipv4_mapped", None) or address


def is_near(address: _Address) -> bool:
    """Whether an address is one of this machine, or answers only to machines beside it, as a cloud's metadata service
    does."""
    return address.is_loopback or address.is_link_local or address.is_unspecified


def network_of(host: str) -> str:
    """Returns what counts as one address: an IPv4 address, or an IPv6 network of 64 bits, as who has one of these has
    all of its addresses. What is no address stays as it is."""
    try:
        address = parse_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((int(address) >> 64 << 64, 64)))
    return str(address)


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
    return any(host.endswith(f".{domain}") for domain in domains if not _IP_ADDRESS.fullmatch(domain))


def _host(server: str) -> str:
    return trimmed(server).rpartition("//")[2].rpartition(":")[0].lower().rstrip(".")


def region_of(server: str) -> str | None:
    """The region that the name of an MSK broker (host:port) tells; None for another one. Below these names nobody but
    AWS has machines."""
    found = _HOST.search(_host(server))
    return None if found is None else found["region"]


def cluster_name(side: Side, props: Mapping[str, str | None]) -> str:
    """Returns a name such as `source cluster A (kafka-a:9092)`."""
    alias = props.get(f"{side}.cluster.alias") or side.value
    servers = props.get(f"{side}.cluster.bootstrap.servers")
    return f"{side} cluster {alias}" + (f" ({servers})" if servers else "")


def problem(address: str) -> str | None:
    """Returns what is wrong with an address: passwords would go to another machine in the open, or a token be shown."""
    match = _ADDRESS.fullmatch(address)
    if match is None:
        return "it must be sc://HOST or sc://HOST:PORT, with parameters behind it as in sc://HOST:15002/;use_ssl=true"
    parameters = _parameters(match["rest"] or "")
    if "token" in parameters:
        return f"addresses are shown, tokens must not be: give the token as {TOKEN}"
    if match["host"].lower() not in _HERE and parameters.get("use_ssl", "").lower() != "true":
        return (
            "the passwords of both clusters go to that server: behind the address of another machine it must have "
            "/;use_ssl=true"
        )
    return None


def shown(address: str) -> str:
    """Returns the address without its parameters."""
    match = _ADDRESS.fullmatch(address)
    return "a server that has no address" if match is None else f"sc://{match['host']}:{endpoint(address)[1]}"


def endpoint(address: str) -> tuple[str, int]:
    """Host and port; the address has no problem."""
    match = _ADDRESS.fullmatch(address)
    assert match is not None, "checked before"
    return match["host"].strip("[]"), int(match["port"] or _DEFAULT_PORT)


def with_token(props: Mapping[str, str]) -> str:
    """The address as Spark's client takes it."""
    address, token = props[REMOTE], props.get(TOKEN)
    if not token:
        return address
    return f"{address.rstrip('/')}{'' if '/;' in address else '/'};token={_quoted(token)}"


def _parameters(text: str) -> dict[str, str]:
    return dict(parameter.split("=", 1) for parameter in text.split(";") if parameter)


def _quoted(text: str) -> str:
    """As in a URL: a token may have what separates parameters."""
    plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~"
    return "".join(
        each if each in plain else "".join(f"%{byte:02X}" for byte in each.encode()) for each in text
    )
