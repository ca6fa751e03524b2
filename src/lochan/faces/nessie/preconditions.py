"""Hashes that a request brings: which commit to read, and what a writer expects.

A writer names the commit that it expects, in the URL or with `If-Match`; both must agree. A hash
that does not start with a commit ("~1") would mean something else a moment later, so it is for
reading only, and only on a reference that has a name.
"""

from __future__ import annotations

import re
from typing import Final

from lochan.base.errors import Invalid
from lochan.faces.calls import read_call
from lochan.faces.nessie.params import write_headers
from lochan.faces.nessie.responses import not_a_branch
from lochan.model.specs import ReferenceSpec
from lochan.transport.exchange import Exchange

_ETAG: Final = re.compile(r'"([0-9a-fA-F]{8,64})"')

ANY_HEAD: Final = "*"
"""The value of `If-Match: *`: any head."""


def check_readable(spec: ReferenceSpec, what: str = "Expected hash") -> ReferenceSpec:
    """Returns the specification of a read; Invalid if it starts nowhere."""
    if spec.name is None and spec.hash is None:
        raise Invalid(f"{what} must contain a starting commit ID.")
    return spec


def check_unambiguous(spec: ReferenceSpec, what: str = "Target hash") -> ReferenceSpec:
    """Returns the specification of a commit that a write names; Invalid without a hash."""
    if spec.hash is None:
        if spec.steps:
            raise Invalid(f"{what} must contain a starting commit ID.")
        raise Invalid(f"{what} must be provided.")
    return spec


def expected_of(
    exchange: Exchange, path: ReferenceSpec, purpose: str
) -> tuple[str, ReferenceSpec | None]:
    """Returns the branch that is to be written and the hash expected there.

    The hash is None only for `If-Match: *`. A reference that is no branch is refused first, a
    missing hash second.
    """
    if path.name is None:
        raise not_a_branch(purpose)
    if path.hash is None and exchange.request.headers.get("if-match") is None:
        # The request does not name the commit that it expects.
        if exchange.repository.references.get(read_call(exchange), path.name).kind != "BRANCH":
            raise not_a_branch(purpose)
    return path.name, expected_hash(exchange, path)


def expected_hash(exchange: Exchange, path: ReferenceSpec) -> ReferenceSpec | None:
    """Returns what a writer expects, from the URL or from `If-Match`; both must agree."""
    matched = if_match(exchange)
    on_reference = path.on_reference
    if matched is None or (matched == ANY_HEAD and on_reference):
        return check_unambiguous(path, "Expected hash")
    if on_reference and on_reference != matched:
        raise Invalid("If-Match and the hash in the address disagree; say it once.")
    return None if matched == ANY_HEAD else ReferenceSpec(None, matched)


def if_match(exchange: Exchange) -> str | None:
    """Returns the hash that `If-Match` names, None without that header."""
    headers = exchange.request.headers
    if not headers.derive(write_headers).has_if_match:
        return None
    values = headers.all("if-match")
    text = values[0].strip()
    if text == ANY_HEAD and len(values) == 1:
        return ANY_HEAD
    match = _ETAG.fullmatch(text)
    if match is None or len(values) > 1:
        raise Invalid('If-Match names one hash, in quotes: If-Match: "2e1cfa82..."')
    return match.group(1).lower()
