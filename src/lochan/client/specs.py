"""Specs (`main`, `main@hash~2`, a hash) as the client sends them.

Writes need a hash that starts with a commit, so a spec that is only a name, or a name and relative
steps, is first pinned to the head of the moment.
"""

from __future__ import annotations

from secrets import token_hex
from typing import Final
from urllib.parse import quote

import msgspec

from lochan.client.asking import Ask, Flow
from lochan.client.replies import ReferenceReply, asked
from lochan.model.references import Reference
from lochan.model.specs import ReferenceSpec, parse_spec
from lochan.wire.references import reference_in

API: Final = "/api/v2"
_KEY_BYTES: Final = 16


class Pinned(msgspec.Struct, frozen=True):
    """A spec that starts with a commit; `name` is None where only the hash was given."""

    name: str | None
    hash: str
    kind: str

    def path(self) -> str:
        """Returns the text for a URL, encoded."""
        return quote(f"{self.name or ''}@{self.hash}", safe="")


def path_of(spec: str) -> str:
    """Returns a spec as one segment of a URL, encoded."""
    parsed = parse_spec(spec)
    name = parsed.name or ""
    # A name with slashes is told from a path by the `@` that follows it.
    at = "@" if parsed.hash is not None or parsed.name is None or "/" in name else ""
    return quote(f"{name}{at}{parsed.on_reference}", safe="")


def fetch_reference(name: str, *, fetch_all: bool = False) -> Flow[Reference]:
    """Asks for a reference by its name."""
    query = (("fetch", "ALL"),) if fetch_all else ()
    reply = yield from asked(Ask("GET", f"{API}/trees/{path_of(name)}", query), ReferenceReply)
    return reference_in(reply.reference)


def pinned(spec: ReferenceSpec) -> Flow[Pinned]:
    """Returns the spec with a hash in front of its steps; fetches the head if it has none."""
    if spec.hash is not None:
        kind = "DETACHED" if spec.name is None else "BRANCH"
        return Pinned(spec.name, spec.on_reference, kind)
    reference = yield from fetch_reference(spec.name or "")
    return Pinned(reference.name, reference.hash + spec.on_reference, reference.kind)


def pinned_branch(branch: str, expected: str | None) -> Flow[str]:
    """Returns `branch@expected` for the URL of a write; without `expected` the present head."""
    if expected is None:
        return (yield from pinned(parse_spec(branch))).path()
    return quote(f"{branch}@{expected}", safe="")


def new_key() -> str:
    """Returns an idempotency key, made once for each call of a write."""
    return token_hex(_KEY_BYTES)
