"""Answers: JSON, and the tag of the hash that they show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

from lochan.base.errors import NotABranch
from lochan.http.exchange import Exchange, Response
from lochan.http.nessie.params import takes_additions
from lochan.kernel.publish import Settled
from lochan.model.references import Reference
from lochan.service.pending_writes import PendingWrite
from lochan.wire.codec import encode
from lochan.wire.references import ReferenceV2, reference_v2

SUCCESS_TYPE: Final = b"application/json;charset=UTF-8"

NO_CONTENT: Final = Response(204)

_Answer = TypeVar("_Answer")


def etag(digits: str) -> tuple[tuple[bytes, bytes], ...]:
    """Returns the header that carries a hash, so that `If-Match` may bring it back."""
    return ((b"etag", b'"%b"' % digits.encode("ascii")),)


def answer(value: Any, digits: str | None = None, status: int = 200) -> Response:
    """Returns a value as the answer, tagged with the hash that it shows."""
    headers = () if digits is None else etag(digits)
    return Response(status, encode(value), headers, SUCCESS_TYPE)


def reference_for(exchange: Exchange, reference: Reference) -> ReferenceV2:
    """Returns a reference as the client of a request can read it."""
    if not takes_additions(exchange):
        reference = msgspec.structs.replace(reference, expires_us=None, annotation=None)
    return reference_v2(reference)


def later(
    outcome: PendingWrite[_Answer],
    finish: Callable[[_Answer], Response],
    purpose: str = "commit into",
) -> PendingWrite[Response]:
    """Returns a write that is answered when it is published; refuses a tag with its own message."""
    inner = outcome.finish

    def finished(settled: Settled) -> Response:
        try:
            return finish(inner(settled))
        except NotABranch:
            raise not_a_branch(purpose) from None

    return outcome.finished_by(finished)


def not_a_branch(purpose: str) -> NotABranch:
    """Returns the error for a reference that is no branch, in words that clients know."""
    return NotABranch(f"Reference to {purpose} must be a branch.")
