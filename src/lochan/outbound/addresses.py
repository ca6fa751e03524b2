"""Which network addresses a server may connect to on behalf of its settings.

A name is resolved once, and the connection goes to the very address that was checked: a name that
resolves to another address a moment later changes nothing. An IPv6 address that leads to an IPv4
address is judged by that one.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable
from typing import Final

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

LookUp = Callable[[str, int], list[str]]
"""Returns the addresses of a host and port; OSError if there are none."""

# Addresses of clouds for their own machines that are not link-local.
METADATA: Final = frozenset(
    ipaddress.ip_address(text)
    for text in ("100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254")
)
_NAT64: Final = tuple(map(ipaddress.IPv6Network, ("64:ff9b::/96", "64:ff9b:1::/48")))


def look_up(host: str, port: int) -> list[str]:
    """Asks the system for the addresses of a host."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError:
        raise OSError("the name of the host cannot be encoded") from None
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def parse_address(text: str) -> Address:
    """Returns an address without its zone; an IPv6 address as the IPv4 address it leads to."""
    return embedded(ipaddress.ip_address(text.partition("%")[0]))


def is_loopback_host(host: str) -> bool:
    """Returns whether a host is literally this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_public(address: Address) -> bool:
    """Returns whether an address belongs to a machine of the public internet."""
    return address.is_global and not (
        address.is_multicast or address.is_reserved or address in METADATA
    )


def embedded(address: Address) -> Address:
    """Returns the IPv4 address that an IPv6 address leads to, or else the address itself."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address.sixtofour is not None:
            return address.sixtofour
        if any(address in network for network in _NAT64):
            return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address
