"""Callers with limited rights, and a repository in which all that is hidden carries one word.

Shared by the tests of the service; holds no test of its own.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode
from collections.abc import Callable, Iterator
from typing import Any

from lochan.access.audit import Audit, AuditEvent
from lochan.access.enforcement import EnforcedPolicy
from lochan.access.policy import Action, Call
from lochan.access.rights import AttachedPolicy, compile_rights
from lochan.base.errors import LochanError
from lochan.model.access import AccessPolicy, Statement
from lochan.model.commits import CommitMeta, RecordJob
from lochan.model.specs import parse_spec
from lochan.service.repository import Repository
from lochan.testing.call_counts import CallCounts
from tests.service.bench import ME, Bench, key, new, space

CANARY = "zanzibar"

# Nothing in a repository has this name, which is as long as the canary.
ABSENT = "zinzibar"

READS = ("view_reference", "read_log", "read_entries", "read_content")

_TOKEN = re.compile(r"[A-Za-z0-9_-]{40,}")


def allow(*actions: str, **where: Any) -> Statement:
    return Statement(effect="allow", actions=actions, **where)


def deny(*actions: str, **where: Any) -> Statement:
    return Statement(effect="deny", actions=actions, **where)


def caller(*statements: Statement, name: str = "ann") -> Call:
    """A caller with these rights and no others."""
    policy = AttachedPolicy(AccessPolicy("p", statements), f"user:{name}")
    return Call(name, repository="repo", rights=compile_rights([policy], name, ()))


EVERYTHING = caller(allow("*"), name="admin")


class Refusals:
    """An audit log that keeps what was refused."""

    def __init__(self) -> None:
        self.events: list[AuditEvent] = []

    def wants(self, action: Action, allowed: bool) -> bool:
        return not allowed

    def record(self, event: AuditEvent) -> None:
        self.events.append(event)


def enforced(bench: Bench, audit: Audit | None = None) -> Bench:
    """Another server on the same store, which decides by the rights of calls."""
    return _enforced(bench.again(), audit)


def counted(bench: Bench) -> tuple[Bench, CallCounts]:
    """The same; its calls to the store are counted."""
    server, counts = bench.counted()
    return _enforced(server, None), counts


def _enforced(server: Bench, audit: Audit | None) -> Bench:
    server.repository = Repository(server.repository.context, policy=EnforcedPolicy(audit))
    for group in ("references", "contents", "history", "commits", "merges"):
        setattr(server, group, getattr(server.repository, group))
    return server


def hidden_world() -> Bench:
    """A repository with branches, keys, contents, messages, jobs and sources to be hidden.

    `main`, `dev` and `moved` are there for all. On `main` are the tables open.a, open.b and open.c;
    open.c is to be seen by its name only. Everything below the canary is hidden.
    """
    one = Bench()
    one.commit(space("open"), new("open.a"), new("open.b"), message="first")
    hidden = RecordJob(key=key("open.c"), job=CANARY)
    one.commit(new("open.c", f"location of {CANARY}"), hidden, message="second")
    one.branch(CANARY)
    one.commit(
        space(CANARY, owner=CANARY),
        new(f"{CANARY}.x", CANARY),
        new(f"{CANARY}.y", CANARY),
        RecordJob(key=key(f"{CANARY}.x"), job=CANARY),
        branch=CANARY,
        message=f"message of {CANARY}",
    )
    one.commit(new("open.d"), branch=CANARY, message=f"last of {CANARY}")
    one.merge(CANARY, meta=CommitMeta(message="merged"))
    one.change("open.a", "changed", message="third")
    one.branch("dev")
    one.commit(new(f"{CANARY}.z", CANARY), branch="dev", message=f"dev {CANARY}")
    one.branch("moved", "main~2")
    one.references.assign(ME, "moved", None, parse_spec(CANARY))
    one.references.assign(ME, "moved", None, parse_spec("main"))
    return one


def viewer(*more: Statement, references: tuple[str, ...] = ("main", "dev", "moved")) -> Call:
    """Sees the names below `open`, and all contents there but that of open.c."""
    return caller(
        allow("view_reference", references=references),
        allow("read_log", references=("main", "moved")),
        allow("read_entries", references=references, keys=("open", "open.*")),
        allow("read_content", references=references, keys=("open", "open.a", "open.b", "open.d")),
        *more,
    )


def ruled_viewer() -> Call:
    """Sees the same; conditions select the keys, so that a listing has to look at all of them."""
    references = ("main", "dev", "moved")
    return caller(
        allow("view_reference", references=references),
        allow("read_log", references=("main", "moved")),
        allow("read_entries", references=references, rule="path.startsWith('open')"),
        allow(
            "read_content",
            references=references,
            rule="path.startsWith('open') && path != 'open.c'",
        ),
    )


def outcome(read: Callable[[], Any]) -> Any:
    """What a read returns, or the error that it raises, with all that is shown of it."""
    try:
        found = read()
        return list(found) if isinstance(found, Iterator) else found
    except LochanError as error:
        return (type(error), error.kind, error.public_message, vars(error))


def shown(value: Any) -> bytes:
    """All that an answer shows: its text, and what tokens in it contain."""
    text = repr(value)
    parts = [text.encode()]
    for token in _TOKEN.findall(text):
        parts.append(urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    return b"\n".join(parts)


def shows(value: Any, word: str = CANARY) -> bool:
    return word.encode() in shown(value)


def absent(text: str) -> str:
    """The same text about what does not exist."""
    return text.replace(CANARY, ABSENT)
