"""Answers of both versions: references as a client can read them, and writes that come later."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from lochan.base.errors import NotABranch
from lochan.faces.answers import takes_additions
from lochan.kernel.publish import Settled
from lochan.model.references import Reference
from lochan.service.pending_writes import PendingWrite
from lochan.transport.exchange import Exchange, Response
from lochan.wire.references import ReferenceV2, reference_v2

_Answer = TypeVar("_Answer")


def reference_for(exchange: Exchange, reference: Reference) -> ReferenceV2:
    """Returns a reference as the client of a request can read it."""
    if not takes_additions(exchange.request):
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
