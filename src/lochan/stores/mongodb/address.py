"""Reads a MongoDB address: which parameters it may have, and no password in messages.

Everything that decides what a write means (write concern, read concern, retries, time-outs) is
fixed by the store, so an address that sets it is refused. A password with a bare `@`, `/` or `?`
would be cut in the wrong place, so an address has one bare `@`, before the hosts.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote

from lochan.base.errors import InvalidUrl
from lochan.kv.url import StoreUrl

COLLECTION_DEFAULT: Final = "lochan"

# Each waiting request has a connection; two dozen keep two cores of ours busy.
CONNECTIONS_DEFAULT: Final = 24
CONNECTIONS_MAX: Final = 200

_FORM: Final = "the address of a MongoDB store is mongodb://user:password@host:port/database"
_HOST: Final = re.compile(r"(?:[A-Za-z0-9._-]{1,253}|\[[0-9a-fA-F:.]{2,45}\])(?::([0-9]{1,5}))?\Z")
_DATABASE: Final = re.compile(r"[A-Za-z0-9_-]{1,63}\Z")
_COLLECTION: Final = re.compile(r"[A-Za-z0-9_-]{1,120}\Z")
_OF_MONGODB: Final = ("admin", "config", "local")

_OURS: Final = ("collection", "connections")
_OF_DRIVER: Final = (
    "authMechanism",
    "authSource",
    "directConnection",
    "replicaSet",
    "tls",
    "tlsCAFile",
    "tlsCertificateKeyFile",
    "tlsCertificateKeyFilePassword",
)


class MongoAddress:
    """Where the collection is; its printed form contains no secret."""

    __slots__ = ("_secrets", "_uri", "collection", "connections", "database", "printable")

    def __init__(
        self,
        printable: str,
        uri: str,
        secrets: tuple[str, ...],
        *,
        database: str,
        collection: str,
        connections: int,
    ) -> None:
        self.printable = printable
        self._uri = uri
        self._secrets = secrets
        self.database = database
        self.collection = collection
        self.connections = connections

    def __repr__(self) -> str:
        return f"MongoAddress({self.printable})"

    def for_driver(self) -> str:
        """Returns the address as pymongo takes it, with its password."""
        return self._uri

    def scrub(self, text: str) -> str:
        """Removes passwords from a message of the driver, should it contain one."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text


def read_address(url: StoreUrl) -> MongoAddress:
    """Splits an address into our parameters and those of pymongo."""
    before, _, query = url.rest.partition("?")
    authority, slash, database = before.removeprefix("//").partition("/")
    user, at, hosts = authority.rpartition("@")
    if not before.startswith("//") or not slash or "@" in database + query:
        raise InvalidUrl(f"{_FORM}; write @ / ? # : in a password as %40 %2F %3F %23 %3A")
    _check_user(user, given=bool(at))
    _check_hosts(hosts)
    if not _DATABASE.match(database) or database in _OF_MONGODB:
        raise InvalidUrl(
            "a database has 1 to 63 letters, digits, _ and -, and is none of MongoDB's own "
            f"({', '.join(_OF_MONGODB)}); {_FORM}"
        )
    ours, theirs = _parameters(query)
    password = user.partition(":")[2]
    secrets = [password, theirs.get("tlsCertificateKeyFilePassword", "")]
    uri = f"mongodb://{authority}/{database}"
    if theirs:
        uri += "?" + "&".join(f"{name}={value}" for name, value in theirs.items())
    return MongoAddress(
        str(url),
        uri,
        tuple(filter(None, (*secrets, *map(unquote, secrets)))),
        database=database,
        collection=_collection(ours.get("collection")),
        connections=_connections(ours.get("connections")),
    )


def _check_user(user: str, *, given: bool) -> None:
    name, colon, password = user.partition(":")
    if given and not (name and colon and password):
        raise InvalidUrl(f"a user has a name and a password; {_FORM}")
    if re.search(r"[@/?#:]", name + password):
        raise InvalidUrl(
            "an address has one @, before the hosts; write @ / ? # : in a password as "
            "%40 %2F %3F %23 %3A"
        )


def _check_hosts(hosts: str) -> None:
    for host in hosts.split(","):
        match = _HOST.match(host)
        if match is None or not 0 < int(match[1] or 1) < 65_536:
            raise InvalidUrl(f"hosts are host:port,host:port; {_FORM}")


def _parameters(query: str) -> tuple[dict[str, str], dict[str, str]]:
    """Returns our parameters and those of pymongo."""
    ours: dict[str, str] = {}
    theirs: dict[str, str] = {}
    for part in filter(None, query.split("&")):
        name, _, value = part.partition("=")
        if name not in _OURS and name not in _OF_DRIVER:
            raise InvalidUrl(
                f"the parameters of a MongoDB store are {', '.join(_OURS + _OF_DRIVER)}, not "
                f"{name[:80]!r}; concerns, retries and time-outs are fixed"
            )
        if name in ours or name in theirs:
            raise InvalidUrl(f"the parameter {name} is given twice")
        (ours if name in _OURS else theirs)[name] = value
    return ours, theirs


def _collection(text: str | None) -> str:
    if text is None:
        return COLLECTION_DEFAULT
    if not _COLLECTION.match(text):
        raise InvalidUrl("a collection has 1 to 120 letters, digits, _ and -")
    return text


def _connections(text: str | None) -> int:
    if text is None:
        return CONNECTIONS_DEFAULT
    digits = text.isascii() and text.isdigit() and len(text) <= 9
    if not digits or not 1 <= int(text) <= CONNECTIONS_MAX:
        raise InvalidUrl(f"connections is a whole number from 1 to {CONNECTIONS_MAX}")
    return int(text)
