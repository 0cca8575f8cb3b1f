"""Says what an address is: of this machine, or whose connections count together."""

from __future__ import annotations

import ipaddress

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


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
