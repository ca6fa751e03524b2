"""Addresses that keys may be fetched from.

The URL comes from the settings of the server only, never from a token. Its host is resolved here,
and the connection goes to the address that was checked: a name that resolves to another address
a moment later changes nothing. Addresses of the link, among them those where clouds hand out
credentials of machines, are refused; loopback is allowed only if the URL itself names it.
"""

from __future__ import annotations

from typing import Final

import httpx

from lochan.base.errors import Invalid, Unavailable
from lochan.base.limits.credentials import KEY_ADDRESS_CHARACTERS_MAX, KEY_FETCH_ADDRESSES_MAX
from lochan.outbound.addresses import (
    METADATA,
    Address,
    embedded,
    is_loopback_host,
    look_up,
    parse_address,
)

_PORTS: Final = {"https": 443, "http": 80}


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


def resolve(url: httpx.URL, *, any_address: bool = False) -> list[str]:
    """Returns addresses of a host that may be connected to; Unavailable if there are none."""
    try:
        addresses = look_up(url.host, url.port or _PORTS[url.scheme])
    except OSError:
        raise Unavailable(f"the host {url.host!r} cannot be resolved") from None
    on_loopback = is_loopback_host(url.host)
    allowed = [
        address
        for address in addresses
        if any_address or is_allowed(parse_address(address), on_loopback=on_loopback)
    ]
    if not allowed:
        raise Unavailable(
            f"the host {url.host!r} resolves to {', '.join(addresses[:3])}, an address that keys "
            "are not fetched from"
        )
    return allowed[:KEY_FETCH_ADDRESSES_MAX]


def is_allowed(address: Address, *, on_loopback: bool) -> bool:
    """Returns whether keys may be fetched from an address; private networks are allowed."""
    address = embedded(address)
    if on_loopback:
        return address.is_loopback
    return not (
        address.is_loopback
        or address.is_link_local
        or address.is_multicast
        or address.is_unspecified
        or address.is_reserved
        or address in METADATA
    )
