"""Reads a PostgreSQL address: our parameters for us, the rest for libpq, no password in messages.

A password with a bare `@`, `/` or `?` would be cut in the wrong place, and parts of it would appear
in messages as a host or a port. So an address may contain one bare `@`, before the host; every
other one is written %40. libpq's message about an address that it cannot read is never repeated.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from lochan.base.errors import InvalidUrl
from lochan.kv.url import StoreUrl

SCHEMA_DEFAULT: Final = "lochan"

# PostgreSQL serves each connection by a process. A dozen keep two cores busy, and leave most of the
# hundred connections that a database has by default to other servers.
POOL_DEFAULT: Final = 12
POOL_MAX: Final = 100

# Long enough for a full batch on a slow disk, short enough for a user who waits for the answer.
STATEMENT_TIMEOUT_MS_DEFAULT: Final = 10_000
STATEMENT_TIMEOUT_MS_MAX: Final = 600_000

# A row is held for one round trip and one preparation; a longer wait means that a server is stuck.
LOCK_TIMEOUT_MS_DEFAULT: Final = 2_000

_SCHEMA: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}\Z")

# Parameters for libpq that the address does not contain: a host that vanished is noticed in 25 s
# even if no statement is running, and connecting ends after a bounded time.
_DEFAULTS: Final = {
    "application_name": "lochan",
    "connect_timeout": "5",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
}

_FORM: Final = "the address of a PostgreSQL store is postgresql://user:password@host:port/database"


class Address:
    """Where the database is and how to use it; its printed form contains no secret."""

    __slots__ = (
        "_conninfo",
        "lock_timeout_ms",
        "pool",
        "printable",
        "schema",
        "statement_timeout_ms",
    )

    def __init__(
        self,
        printable: str,
        conninfo: Mapping[str, str],
        *,
        schema: str,
        pool: int,
        statement_timeout_ms: int,
        lock_timeout_ms: int,
    ) -> None:
        self.printable = printable
        self._conninfo = dict(conninfo)
        self.schema = schema
        self.pool = pool
        self.statement_timeout_ms = statement_timeout_ms
        self.lock_timeout_ms = lock_timeout_ms

    def __repr__(self) -> str:
        return f"Address({self.printable})"

    def connect(self) -> psycopg.Connection[tuple[object, ...]]:
        """Opens one connection; every statement is its own transaction and prepared at once."""
        conninfo = make_conninfo(**self._conninfo)
        return psycopg.connect(conninfo, autocommit=True, prepare_threshold=0)

    def scrub(self, text: str) -> str:
        """Removes passwords from a message of the driver, should it contain one."""
        for name in ("password", "sslpassword"):
            secret = self._conninfo.get(name)
            if secret:
                text = text.replace(secret, "***")
        return text


def read_address(url: StoreUrl) -> Address:
    """Splits an address into our parameters and those of libpq."""
    _check_form(url.rest)
    before, _, query = url.rest.partition("?")
    ours: dict[str, str] = {}
    theirs: list[str] = []
    for part in filter(None, query.split("&")):
        name, _, value = part.partition("=")
        if name not in _OURS:
            theirs.append(part)
        elif name in ours:
            raise InvalidUrl(f"the parameter {name} is given twice")
        else:
            ours[name] = value
    text = f"{url.scheme}:{before}" + ("?" + "&".join(theirs) if theirs else "")
    return Address(
        str(url),
        _DEFAULTS | _conninfo(text),
        schema=_schema(ours.get("schema", SCHEMA_DEFAULT)),
        pool=_number(ours, "pool", POOL_DEFAULT, POOL_MAX),
        statement_timeout_ms=_number(
            ours, "statement_timeout_ms", STATEMENT_TIMEOUT_MS_DEFAULT, STATEMENT_TIMEOUT_MS_MAX
        ),
        lock_timeout_ms=_number(
            ours, "lock_timeout_ms", LOCK_TIMEOUT_MS_DEFAULT, STATEMENT_TIMEOUT_MS_MAX
        ),
    )


_OURS: Final = frozenset({"schema", "pool", "statement_timeout_ms", "lock_timeout_ms"})


def _check_form(rest: str) -> None:
    if not rest.startswith("//"):
        raise InvalidUrl(_FORM)
    authority = re.split(r"[/?#]", rest[2:], maxsplit=1)[0]
    if rest.count("@") > authority.count("@") or authority.count("@") > 1:
        raise InvalidUrl(
            "an address has one @, before the host; write @ / ? # : in a password as %40 %2F %3F "
            "%23 %3A"
        )


def _conninfo(text: str) -> dict[str, str]:
    try:
        parsed = conninfo_to_dict(text)
    except psycopg.Error:
        # The message of libpq may quote the address with its password.
        raise InvalidUrl(
            f"libpq cannot read the address or one of its parameters; {_FORM}"
        ) from None
    port = str(parsed.get("port", ""))
    if not re.fullmatch(r"[0-9,]*", port):
        raise InvalidUrl(f"the port is not a number; {_FORM}")
    return {name: str(value) for name, value in parsed.items() if value is not None}


def _schema(text: str) -> str:
    if not _SCHEMA.match(text) or text.startswith("pg_"):
        raise InvalidUrl("a schema is lower-case letters, digits and _, at most 63, not pg_…")
    return text


def _number(ours: Mapping[str, str], name: str, default: int, most: int) -> int:
    text = ours.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and 1 <= int(text) <= most):
        raise InvalidUrl(f"{name} is a whole number from 1 to {most}")
    return int(text)
