"""Reads a Cassandra address: hosts, keyspace and parameters, and no password in messages.

What decides what a write means (the consistency of each statement, retries, time-outs) is fixed by
the store; an address chooses only between the whole cluster and one datacenter.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote

from lochan.base.errors import InvalidUrl
from lochan.kv.url import StoreUrl

PORT_DEFAULT: Final = 9042
TABLE_DEFAULT: Final = "lochan"

# Calls at a time; each bulk call has several requests on the way, all on one connection per host.
CALLS_DEFAULT: Final = 24
CALLS_MAX: Final = 200

REPLICATION_MAX: Final = 9

_FORM: Final = (
    "the address of a Cassandra store is cassandra://user:password@host:port,host/KEYSPACE"
)
_HOST: Final = re.compile(r"([A-Za-z0-9._-]{1,253}|\[[0-9a-fA-F:.]{2,45}\])(?::([0-9]{1,5}))?\Z")
_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,47}\Z")
_DATACENTER: Final = re.compile(r"[A-Za-z0-9_.-]{1,100}\Z")
_SERIAL: Final = ("cluster", "datacenter")
_PARAMETERS: Final = (
    "calls",
    "datacenter",
    "replication",
    "serial",
    "table",
    "tls",
    "tls_ca_file",
    "tls_certificate_file",
    "tls_key_file",
)


class CassandraAddress:
    """Where the table is; its printed form contains no secret."""

    __slots__ = (
        "_password",
        "calls",
        "datacenter",
        "hosts",
        "keyspace",
        "local",
        "port",
        "printable",
        "replication",
        "table",
        "tls",
        "tls_files",
        "user",
    )

    def __init__(self, printable: str, authority: str, keyspace: str, given: dict[str, str]):
        self.printable = printable
        user, at, hosts = authority.rpartition("@")
        self.user, self._password = _credentials(user, given=bool(at))
        self.hosts, self.port = _hosts(hosts)
        self.keyspace = _name(keyspace, "keyspace")
        self.table = _name(given.get("table", TABLE_DEFAULT), "table")
        self.datacenter = given.get("datacenter")
        if self.datacenter is not None and not _DATACENTER.match(self.datacenter):
            raise InvalidUrl("datacenter is a name of letters, digits, _, - and dots")
        self.local = _choice(given, "serial", _SERIAL) == "datacenter"
        self.replication = _number(given, "replication", REPLICATION_MAX)
        self.calls = _number(given, "calls", CALLS_MAX) or CALLS_DEFAULT
        files = (given.get("tls_ca_file"), given.get("tls_certificate_file"))
        self.tls_files = (*map(_path, files), _path(given.get("tls_key_file")))
        self.tls = _choice(given, "tls", ("false", "true")) == "true"
        if any(self.tls_files) and not self.tls:
            raise InvalidUrl("files for TLS are given without tls=true")

    def __repr__(self) -> str:
        return f"CassandraAddress({self.printable})"

    def password(self) -> str:
        """Returns the password for the driver."""
        return self._password

    def scrub(self, text: str) -> str:
        """Removes the password from a message of the driver, should it contain one."""
        return text.replace(self._password, "***") if self._password else text


def read_address(url: StoreUrl) -> CassandraAddress:
    """Splits an address into its parts."""
    before, _, query = url.rest.partition("?")
    authority, slash, keyspace = before.removeprefix("//").partition("/")
    if not before.startswith("//") or not slash or "@" in keyspace + query:
        raise InvalidUrl(f"{_FORM}; write @ / ? # : in a password as %40 %2F %3F %23 %3A")
    return CassandraAddress(str(url), authority, keyspace, _parameters(query))


def _credentials(text: str, *, given: bool) -> tuple[str, str]:
    user, _, password = text.partition(":")
    if given and not (user and password):
        raise InvalidUrl(f"a user has a name and a password; {_FORM}")
    if re.search(r"[@/?#:]", user + password):
        raise InvalidUrl(
            "an address has one @, before the hosts; write @ / ? # : in a password as "
            "%40 %2F %3F %23 %3A"
        )
    return unquote(user), unquote(password)


def _hosts(text: str) -> tuple[tuple[str, ...], int]:
    """Returns the hosts and their port, which is the same for all nodes of a cluster."""
    hosts: list[str] = []
    ports: set[int] = set()
    for one in text.split(","):
        match = _HOST.match(one)
        if match is None or not 0 < int(match[2] or 1) < 65_536:
            raise InvalidUrl(f"hosts are host:port,host; {_FORM}")
        hosts.append(match[1].strip("[]"))
        if match[2]:
            ports.add(int(match[2]))
    if len(ports) > 1:
        raise InvalidUrl("all nodes of a cluster have one port: give it once")
    return tuple(hosts), ports.pop() if ports else PORT_DEFAULT


def _name(text: str, what: str) -> str:
    if not _NAME.match(text) or text.startswith("system"):
        raise InvalidUrl(
            f"a {what} has 1 to 48 lower-case letters, digits and _, and is none of the "
            f"database's own; {_FORM}"
        )
    return text


def _parameters(query: str) -> dict[str, str]:
    given: dict[str, str] = {}
    for part in filter(None, query.split("&")):
        name, _, value = part.partition("=")
        if name not in _PARAMETERS:
            raise InvalidUrl(
                f"the parameters of a Cassandra store are {', '.join(_PARAMETERS)}, not "
                f"{name[:80]!r}; retries and time-outs are fixed"
            )
        if name in given:
            raise InvalidUrl(f"the parameter {name} is given twice")
        given[name] = unquote(value)
    return given


def _choice(given: dict[str, str], name: str, choices: tuple[str, ...]) -> str:
    """Returns one of the choices, the first one by default."""
    found = given.get(name, choices[0])
    if found not in choices:
        raise InvalidUrl(f"{name} is {' or '.join(choices)}")
    return found


def _number(given: dict[str, str], name: str, most: int) -> int | None:
    text = given.get(name)
    if text is None:
        return None
    digits = text.isascii() and text.isdigit() and len(text) <= 9
    if not digits or not 1 <= int(text) <= most:
        raise InvalidUrl(f"{name} is a whole number from 1 to {most}")
    return int(text)


def _path(text: str | None) -> str | None:
    if text is not None and (not text or "\0" in text):
        raise InvalidUrl("a file for TLS has a path")
    return text
