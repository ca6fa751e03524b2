"""Options of the data source `lochan`, checked before anything is asked.

Spark shows options in plans and in its logs and hands them to every worker, so they carry
addresses, never credentials: see `access`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import msgspec

from lochan.base.errors import Invalid, InvalidUrl
from lochan.base.limits.spark_reads import SPARK_CLIENTS_MAX, SPARK_SLICE_COMMITS, SPARK_SLICE_KEYS
from lochan.client import DEFAULT_BRANCH, Client
from lochan.client.credentials import environment_values
from lochan.model.commits import ContentKey
from lochan.spark.access import check_address
from lochan.wire.keys import key_from_path

EARLIEST: Final = "earliest"
LATEST: Final = "latest"

_ALWAYS: Final = ("uri", "repository", "kind")

# What each kind understands beside these; the order is the one of messages and of the docs.
KIND_OPTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "refs": ("prefix", "metadata"),
    "log": ("ref", "since", "seq", "commitsPerPartition"),
    "entries": ("ref", "prefix", "content", "keysPerPartition"),
    "diff": ("from", "to", "prefix"),
    "changes": ("ref", "since", "seq", "commitsPerPartition", "maxCommits", "onReassign"),
}

# What is meant for one of the two ways to read only.
_FOR_BATCHES: Final = ("seq",)
_FOR_STREAMS: Final = ("maxCommits", "onReassign")

# Spark loses the options of a table whose source is written in Python.
_TABLES: Final = (
    ". (The OPTIONS of CREATE TABLE do not come here: make a temporary view, or give all of them "
    "in the query, FROM t WITH (uri='…', kind='…').)"
)

_FLAGS: Final = {"true": True, "false": False}


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a read; `seq` is how many commits `ref` has, if the caller knows it.

    `prefix` is that of names for references, and a key as one text for entries and differences.
    """

    uri: str
    kind: str
    repository: str = "default"
    ref: str = DEFAULT_BRANCH
    before: str = ""
    after: str = ""
    since: str = EARLIEST
    prefix: str = ""
    metadata: bool = False
    content: bool = True
    seq: int | None = None
    commits_per_partition: int = SPARK_SLICE_COMMITS
    keys_per_partition: int = SPARK_SLICE_KEYS
    commits_max: int | None = None
    reset: bool = False

    def client(self) -> Client:
        """Returns the client of this process, which all reads of one repository share."""
        return _client(os.getpid(), self.uri, self.repository, environment_values())

    def prefix_key(self) -> ContentKey | None:
        """Returns the key below which is read; a dot inside an element is written as in URLs."""
        return key_from_path(self.prefix) if self.prefix else None


def read_options(given: Mapping[str, str], *, follow: bool | None = None) -> Options:
    """Parses options as a user writes them; Invalid if one is unknown, empty or not valid.

    `follow` is whether a stream is read, None where that is not known yet.
    """
    words = {name.lower(): value for name, value in given.items()}
    kind = words.get("kind", "")
    if kind not in KIND_OPTIONS:
        problem = f"{kind!r} is no kind" if kind else "the option 'kind' is missing"
        raise Invalid(f"{problem}; there are {', '.join(KIND_OPTIONS)}{'' if kind else _TABLES}")
    known = {name.lower(): name for name in (*_ALWAYS, *KIND_OPTIONS[kind])}
    for name, value in words.items():
        if name not in known:
            listed = ", ".join(known.values())
            raise Invalid(f"kind {kind!r} has no option {name!r}; it has {listed}")
        if not value:
            raise Invalid(f"the option {known[name]!r} is empty; leave it out, or give it a value")
    _check_use(words, follow=follow)
    reassign = words.get("onreassign", "fail")
    if reassign not in ("fail", "reset"):
        raise Invalid(f"the option 'onReassign' is fail or reset, not {reassign!r}")
    options = Options(
        uri=_address(words["uri"]),
        kind=kind,
        repository=words.get("repository", "default"),
        ref=words.get("ref", DEFAULT_BRANCH),
        before=words.get("from", ""),
        after=words.get("to", ""),
        since=words.get("since", EARLIEST),
        prefix=words.get("prefix", ""),
        metadata=_flag(words, "metadata", default=False),
        content=_flag(words, "content", default=True),
        seq=_number(words, "seq", None, least=0),
        commits_per_partition=_number(words, "commitsPerPartition", SPARK_SLICE_COMMITS) or 1,
        keys_per_partition=_number(words, "keysPerPartition", SPARK_SLICE_KEYS) or 1,
        commits_max=_number(words, "maxCommits", None),
        reset=reassign == "reset",
    )
    if kind == "diff" and not (options.before and options.after):
        raise Invalid("kind 'diff' needs the options 'from' and 'to'")
    if kind != "refs":
        options.prefix_key()
    return options


def _check_use(words: Mapping[str, str], *, follow: bool | None) -> None:
    """Refuses options that have no effect, and a read without an address."""
    if "uri" not in words:
        raise Invalid("the option 'uri' is missing: the address of a server, http://host:port")
    if follow is None:
        return
    without, use = (_FOR_BATCHES, "batch") if follow else (_FOR_STREAMS, "stream")
    for name in without:
        if name.lower() in words:
            raise Invalid(f"the option {name!r} is for a {use}; here it would have no effect")


@lru_cache(maxsize=SPARK_CLIENTS_MAX)
def _client(
    _process: int, uri: str, repository: str, _environment: tuple[str | None, ...]
) -> Client:
    """Makes a client: to load certificates takes longer than to read a page, so it is kept.

    Workers are forked, and a connection belongs to the process that made it. The client finds its
    credentials itself.
    """
    return Client(uri, repository)


def _address(uri: str) -> str:
    if not uri.lower().startswith(("http:", "https:")):
        raise InvalidUrl(
            "the option 'uri' is not the address of a server, http://host:port; workers are "
            "other processes and cannot open a store"
        )
    return check_address(uri)


def _flag(words: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = words.get(name.lower(), "").lower()
    if not text:
        return default
    if text not in _FLAGS:
        raise Invalid(f"the option {name!r} is true or false, not {text[:40]!r}")
    return _FLAGS[text]


def _number(words: Mapping[str, str], name: str, default: int | None, least: int = 1) -> int | None:
    text = words.get(name.lower(), "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= 18 and int(text) >= least):
        raise Invalid(f"the option {name!r} is a number from {least}, not {text[:40]!r}")
    return int(text)
