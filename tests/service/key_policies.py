"""A policy that allows everything but some actions on some keys; holds no test of its own."""

from __future__ import annotations

from typing import Any

import msgspec

from lochan.access.enforcement import raw_key
from lochan.access.policy import Action, Call, KeyRight, OpenPolicy, Resource
from lochan.base.errors import ContentNotFound, Denied
from lochan.base.keys import table_key
from lochan.service.repository import Repository
from lochan.testing.call_counts import CallCounts
from tests.service.bench import WRITES, Bench, key

ANY_REFERENCE = "*"

# In the names and contents of what a caller may not see; no answer and no error has it.
CANARY = "canary"


class Without(msgspec.Struct, frozen=True):
    """All keys but those with a name, and those below it."""

    names: frozenset[str]

    def covers(self, raw: bytes) -> bool:
        return not any(
            raw == prefix or raw.startswith(prefix + b"\1")
            for prefix in (bytes(table_key(key(name))) for name in self.names)
        )

    def next_range(self, raw: bytes) -> tuple[bytes, bytes | None]:
        return raw, None


class KeyPolicy(OpenPolicy):
    """Denies (action, reference, key); its errors name the keys, which is allowed to a policy."""

    def __init__(self, *denied: tuple[Action, str | None, str]) -> None:
        self.denied = denied
        self.audited: list[tuple[Action, str | None]] = []

    def decide(self, call: Call, action: Action, resource: Resource) -> None:
        right = self.key_right(call, action, resource.repository, resource.reference)
        bad = [] if right is None else [k for k in resource.keys if not right.covers(raw_key(k))]
        if bad:
            self.audited.append((action, resource.reference))
            if action is Action.READ_CONTENT:
                raise ContentNotFound(f"there is no {bad}")
            raise Denied(f"{call.principal} may not {action.value} {bad}")

    def key_right(
        self, call: Call, action: Action, repository: str, reference: str | None
    ) -> KeyRight | None:
        names = {
            name
            for denied, where, name in self.denied
            if denied is action and where in (reference, ANY_REFERENCE)
        }
        return Without(frozenset(names)) if names else None


def limited(
    bench: Bench, *denied: tuple[Action, str | None, str]
) -> tuple[Bench, KeyPolicy, CallCounts]:
    """Another server on the same store, with such a policy, and its calls to the store."""
    server, counts = bench.counted()
    policy = KeyPolicy(*denied)
    server.repository = Repository(server.repository.context, policy=policy)
    server.references = server.repository.references
    server.commits = server.repository.commits
    server.merges = server.repository.merges
    counts.reset()
    return server, policy, counts


def written(counts: CallCounts) -> set[str]:
    return set(counts.calls) & set(WRITES)


def shown(answer: Any) -> str:
    """Everything that an answer or an error would show."""
    if isinstance(answer, Exception):
        details = getattr(answer, "details", ())
        return f"{answer!r} {vars(answer)!r} {details!r} {answer.__cause__!r}"
    return repr(answer)
