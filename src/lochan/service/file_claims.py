"""Staged writes with an idempotency key: answered from their record when they are sent again.

1. Read the claim of the key. If it has an outcome, decide on the target as for a new request and
   answer from the outcome.
2. Claim the key; the operation id of the claim is that of the staged write, so that a conditional
   write recognises what an earlier try has put.
3. Stage the write.
4. Record the outcome in the claim.

A crash between 3 and 4, or a reply that is lost there, leaves a claim without an outcome: the same
request sent again stages the same write again. So a file that another request has written in
between is replaced once more; a request whose answer was received is never done again. If it is
refused then, its earlier try may be the reason, in a commit that does not show who deleted a file:
so such a refusal is Unknown, it does not state that nothing was written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

import msgspec

from lochan.access.policy import Action, Call
from lochan.base.errors import Corrupt, Unknown
from lochan.base.names import RefName
from lochan.codec.forms import DECODE_FAILURES
from lochan.codec.rows import ReferenceRow
from lochan.kernel.claims import KeyedRequest, claim_request, find_claim
from lochan.kernel.context import RepositoryContext
from lochan.persist.claims import Claim, ClaimRows
from lochan.service.claims import Claims
from lochan.staging.writer import NO_EFFECT

_Answer = TypeVar("_Answer")
_OPERATION_BYTES: Final = 16
_encode: Final = msgspec.msgpack.Encoder().encode


class StagedWrite(Generic[_Answer]):
    """One staged write of a caller, done once if it has an idempotency key."""

    def __init__(
        self,
        context: RepositoryContext,
        request: KeyedRequest | None,
        row: ReferenceRow,
        kind: type[_Answer],
    ) -> None:
        self._context = context
        self._request = request
        self._incarnation = row.incarnation
        self._kind = kind
        self._claim: Claim | None = None

    def find_earlier(self) -> _Answer | None:
        """Step 1: the answer to an earlier try, None if there is none."""
        if self._request is None:
            return None
        self._claim = find_claim(self._context, self._request)
        if self._claim is None or not self._claim.outcome:
            return None
        try:
            return msgspec.msgpack.decode(self._claim.outcome, type=self._kind)
        except DECODE_FAILURES as error:
            raise Corrupt(f"not the outcome of a staged write: {error}") from None

    def do(self, write: Callable[[bytes], _Answer]) -> _Answer:
        """Steps 2 to 4; `write` gets the operation id."""
        context, request = self._context, self._request
        if request is None:
            return write(context.random.random_bytes(_OPERATION_BYTES))
        claim = self._claim or claim_request(context, request, self._incarnation)
        may_be_done = self._claim is not None
        try:
            answer = write(claim.operation)
            may_be_done = True
            rows = ClaimRows(context.store, context.instance)
            rows.record(claim.key, claim.operation, _encode(answer), context.retry())
        except NO_EFFECT as error:
            if not may_be_done:
                raise
            raise Unknown(
                f"a try of this request may have been done ({error.message})",
                public="it is unknown whether this request was done; read the file",
            ) from error
        return answer

    def do_once(self, write: Callable[[bytes], _Answer]) -> _Answer:
        """All steps."""
        earlier = self.find_earlier()
        return self.do(write) if earlier is None else earlier


def staged_write(
    context: RepositoryContext,
    claims: Claims,
    call: Call,
    action: Action,
    row: ReferenceRow,
    kind: type[_Answer],
) -> StagedWrite[_Answer]:
    """Returns the write of a caller that was decided on under a row."""
    request = claims.request(call, action, RefName(row.name))
    return StagedWrite(context, request, row, kind)
