"""Specs (`main`, `main@hash~2`, a hash) as the client sends them.

Writes need a hash that starts with a commit, so a spec that is only a name, or a name and relative
steps, is first pinned to the present head.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

import msgspec

from lochan.client.failures import exchange
from lochan.client.messages import Flow, HttpRequest
from lochan.model.references import Reference
from lochan.model.specs import ReferenceSpec, parse_spec
from lochan.wire.references import SingleReference, reference_in

TREES: Final = "/api/v2/trees"
"""The path of references and of all that is read and written at one of them."""


class Pinned(msgspec.Struct, frozen=True):
    """A spec that starts with a commit; `name` is None where only the hash was given."""

    name: str | None
    hash: str
    kind: str

    def path(self) -> str:
        """Returns the text for a URL, encoded."""
        return quote(f"{self.name or ''}@{self.hash}", safe="")


def quoted_spec(spec: ReferenceSpec) -> str:
    """Returns a spec as one segment of a URL, encoded."""
    name = spec.name or ""
    # The `@` after a name with slashes distinguishes it from a path.
    at = "@" if spec.hash is not None or spec.name is None or "/" in name else ""
    return quote(f"{name}{at}{spec.on_reference}", safe="")


def tree_path(spec: ReferenceSpec) -> str:
    """Returns the path of a URL for what is read at a spec, encoded."""
    return f"{TREES}/{quoted_spec(spec)}"


def commit_text(spec: ReferenceSpec) -> str:
    """Returns a spec as the body of a request names a commit: a hash alone without an `@`."""
    return spec.on_reference if spec.name is None else spec.text()


def fetch_reference(name: str, *, fetch_all: bool = False) -> Flow[Reference]:
    """Fetches a reference by its name."""
    query = (("fetch", "ALL"),) if fetch_all else ()
    http = HttpRequest("GET", tree_path(parse_spec(name)), query)
    reply = yield from exchange(http, SingleReference)
    return reference_in(reply.reference)


def pin(spec: ReferenceSpec) -> Flow[Pinned]:
    """Returns the spec with a hash before its steps; fetches the head if it names no hash."""
    if spec.hash is not None:
        kind = "DETACHED" if spec.name is None else "BRANCH"
        return Pinned(spec.name, spec.on_reference, kind)
    reference = yield from fetch_reference(spec.name or "")
    return Pinned(reference.name, reference.hash + spec.on_reference, reference.kind)


def pinned_tree_path(branch: str, expected: ReferenceSpec | None) -> Flow[str]:
    """Returns the path of a write to a branch at the expected hash: by default its present head."""
    if expected is None:
        return f"{TREES}/{(yield from pin(parse_spec(branch))).path()}"
    return f"{TREES}/{quote(f'{branch}@{expected.on_reference}', safe='')}"
