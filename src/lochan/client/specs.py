"""Specs (`main`, `main@hash~2`, a hash) as the client sends them.

Writes need a hash that starts with a commit, so a spec that is only a name, or a name and relative
steps, is first pinned to the present head.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote

import msgspec

from lochan.client.exchange import exchange
from lochan.client.messages import Flow, HttpRequest
from lochan.client.replies import ReferenceReply
from lochan.model.references import Reference
from lochan.wire.references import reference_in
from lochan.wire.refpaths import RefPath, parse_ref_path

TREES: Final = "/api/v2/trees"
"""The path of references and of all that is read and written at one of them."""

_HASH_FIRST: Final = re.compile(r"[0-9a-fA-F]{64}(?![0-9A-Za-z._/-])")


class Pinned(msgspec.Struct, frozen=True):
    """A spec that starts with a commit; `name` is None where only the hash was given."""

    name: str | None
    hash: str
    kind: str

    def path(self) -> str:
        """Returns the text for a URL, encoded."""
        return quote(f"{self.name or ''}@{self.hash}", safe="")


def parse_spec(spec: str) -> RefPath:
    """Parses a spec; a bare hash is a commit without a name."""
    return parse_ref_path(f"@{spec}" if _HASH_FIRST.match(spec) else spec)


def quoted_spec(spec: str) -> str:
    """Returns a spec as one segment of a URL, encoded."""
    return quote(parse_spec(spec).path(), safe="")


def tree_path(spec: str) -> str:
    """Returns the path of a URL for what is read at a spec, encoded."""
    return f"{TREES}/{quoted_spec(spec)}"


def fetch_reference(name: str, *, fetch_all: bool = False) -> Flow[Reference]:
    """Fetches a reference by its name."""
    query = (("fetch", "ALL"),) if fetch_all else ()
    reply = yield from exchange(HttpRequest("GET", tree_path(name), query), ReferenceReply)
    return reference_in(reply.reference)


def pin(spec: str) -> Flow[Pinned]:
    """Returns the spec with a hash before its steps; fetches the head if it names no hash."""
    parsed = parse_spec(spec)
    if parsed.hash is not None:
        kind = "DETACHED" if parsed.name is None else "BRANCH"
        return Pinned(parsed.name, parsed.hash + parsed.steps, kind)
    reference = yield from fetch_reference(parsed.name or "")
    return Pinned(reference.name, reference.hash + parsed.steps, reference.kind)


def pinned_tree_path(branch: str, expected: str | None) -> Flow[str]:
    """Returns the path of a write to a branch at the expected hash: by default its present head."""
    if expected is None:
        return f"{TREES}/{(yield from pin(branch)).path()}"
    return f"{TREES}/{quote(f'{branch}@{expected}', safe='')}"
