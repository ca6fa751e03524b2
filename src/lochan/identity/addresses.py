"""Addresses that keys may be fetched from.

The URL comes from the settings of the server only, never from a token. Its host is resolved here,
and the connection goes to the address that was checked: a name that resolves to another address
a moment later changes nothing. Addresses of the link, among them those where clouds hand out
credentials of machines, are refused; loopback is allowed only if the URL itself names it.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import Final

import httpx

from lochan.base.errors import Invalid, Unavailable
from lochan.base.limits.credentials import KEY_ADDRESS_CHARACTERS_MAX, KEY_FETCH_ADDRESSES_MAX

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# Addresses of clouds for their own machines that are not link-local.
_METADATA: Final = frozenset(
    ipaddress.ip_address(text)
    for text in ("100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254")
)
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")


def key_url(text: str) -> httpx.URL:
    """Checks the URL of a set of keys: https, or http on this machine; no password."""
    if len(text) > KEY_ADDRESS_CHARACTERS_MAX:
        raise Invalid("the address of the signing keys is too long")
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL:
        raise Invalid("the address of the signing keys is no URL") from None
    if not url.host or url.userinfo or url.fragment:
        raise Invalid("the address of the signing keys needs a host, and has no user or password")
    if url.scheme != "https" and not (url.scheme == "http" and is_loopback_host(url.host)):
        raise Invalid("the address of the signing keys begins with https://")
    return url


def is_loopback_host(host: str) -> bool:
    """Returns whether a host is literally this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def resolve(url: httpx.URL, *, any_address: bool = False) -> list[str]:
    """Returns addresses of a host that may be connected to; Unavailable if there are none."""
    try:
        found = socket.getaddrinfo(
            url.host, url.port or (443 if url.scheme == "https" else 80), type=socket.SOCK_STREAM
        )
    except (OSError, UnicodeError):
        raise Unavailable(f"the host {url.host!r} cannot be resolved") from None
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    on_loopback = is_loopback_host(url.host)
    allowed = [
        address
        for address in addresses
        if any_address or is_allowed(_address(address), on_loopback=on_loopback)
    ]
    if not allowed:
        raise Unavailable(
            f"the host {url.host!r} resolves to {', '.join(addresses[:3])}, an address that keys "
            "are not fetched from"
        )
    return allowed[:KEY_FETCH_ADDRESSES_MAX]


def is_allowed(address: Address, *, on_loopback: bool) -> bool:
    """Returns whether keys may be fetched from an address; private networks are allowed."""
    embedded = _embedded(address)
    if on_loopback:
        return embedded.is_loopback
    return not (
        embedded.is_loopback
        or embedded.is_link_local
        or embedded.is_multicast
        or embedded.is_unspecified
        or embedded.is_reserved
        or embedded in _METADATA
    )


def _address(text: str) -> Address:
    return ipaddress.ip_address(text.partition("%")[0])


def _embedded(address: Address) -> Address:
    """Returns the IPv4 address that an IPv6 address leads to, or else the address itself."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address.sixtofour is not None:
            return address.sixtofour
        if address in _NAT64:
            return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address
