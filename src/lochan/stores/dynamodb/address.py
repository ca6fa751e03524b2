"""Reads the address of a DynamoDB store."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import parse_qsl, urlsplit

import msgspec

from lochan.base.errors import InvalidUrl
from lochan.kv.url import StoreUrl

# Each waiting request has a connection; two dozen keep two cores of ours busy.
CONNECTIONS_DEFAULT: Final = 24
CONNECTIONS_MAX: Final = 200

_FORM: Final = "the address of a DynamoDB store is dynamodb://REGION/TABLE"
_REGION: Final = re.compile(r"[a-z0-9-]{1,64}\Z")
_TABLE: Final = re.compile(r"[A-Za-z0-9_.-]{3,255}\Z")
_PROFILE: Final = re.compile(r"[A-Za-z0-9_.@:/+-]{1,128}\Z")


class DynamoAddress(msgspec.Struct, frozen=True):
    """Where the table is; it contains no secret."""

    region: str
    table: str
    endpoint: str | None
    profile: str | None
    connections: int


def read_address(url: StoreUrl) -> DynamoAddress:
    """Splits an address into its parts."""
    where, _, query = url.rest.partition("?")
    region, slash, table = where.removeprefix("//").partition("/")
    if not where.startswith("//") or not slash or not _REGION.match(region):
        raise InvalidUrl(_FORM)
    if not _TABLE.match(table):
        raise InvalidUrl(f"a table has 3 to 255 letters, digits, _, - and dots; {_FORM}")
    given = _parameters(query)
    return DynamoAddress(
        region,
        table,
        _endpoint(given.get("endpoint")),
        _profile(given.get("profile")),
        _connections(given.get("connections")),
    )


def _parameters(query: str) -> dict[str, str]:
    given: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in ("endpoint", "profile", "connections"):
            raise InvalidUrl(
                "the parameters of a DynamoDB store are endpoint, profile and connections, "
                f"not {name[:80]!r}"
            )
        if name in given:
            raise InvalidUrl(f"the parameter {name} is given twice")
        given[name] = value
    return given


def _endpoint(text: str | None) -> str | None:
    if text is None:
        return None
    try:
        parts = urlsplit(text)
        port_is_valid = parts.port is None or parts.port > 0
    except ValueError:
        port_is_valid, parts = False, urlsplit("")
    plain = not (parts.username or parts.password or parts.query or parts.fragment)
    if parts.scheme not in ("http", "https") or not parts.hostname or not (port_is_valid and plain):
        raise InvalidUrl("endpoint is http://HOST:PORT or https://HOST, without a user")
    return text


def _profile(text: str | None) -> str | None:
    if text is not None and not _PROFILE.match(text):
        raise InvalidUrl("profile is the name of a profile of the AWS configuration")
    return text


def _connections(text: str | None) -> int:
    if text is None:
        return CONNECTIONS_DEFAULT
    digits = text.isascii() and text.isdigit() and len(text) <= 9
    if not digits or not 1 <= int(text) <= CONNECTIONS_MAX:
        raise InvalidUrl(f"connections is a whole number from 1 to {CONNECTIONS_MAX}")
    return int(text)
