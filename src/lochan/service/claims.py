"""Writes that carry an idempotency key: done once, and answered alike however often they are sent.

The order of every such write:

1. look the claim of the key up; the same key with another request is refused;
2. if the request was done, authorise the caller for what the claim recorded, and answer from what
   the request did then, whatever became of its source and of its target since;
3. else resolve what the request names, authorise, claim the key, and do the work. If the claim is
   an older one, its incarnation of the target counts: if that is gone, the request is refused.

A try that is refused may have been overtaken by another one of the same request, so it looks once
more before it says so. A refusal is not kept: the same request may be sent again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from lochan.base.errors import (
    AlreadyExists,
    Conflict,
    Invalid,
    KeyReused,
    LochanError,
    NotFound,
    ReferenceNotFound,
)
from lochan.base.ids import ObjId
from lochan.base.limits import IDEMPOTENCY_KEY_CHARACTERS_MAX
from lochan.base.names import RefName
from lochan.codec.rows import ReferenceRow
from lochan.kernel.claims import (
    ClaimedMove,
    ClaimedProposal,
    Done,
    Request,
    claim_on_branch,
    claim_request,
    find_claim,
    find_done,
)
from lochan.kernel.context import RepositoryContext
from lochan.kernel.moves import UNMOVED
from lochan.kernel.publish import Proposal, Published, Publisher, Settled
from lochan.kernel.references import Destination, MovedReference, ReferenceIndex
from lochan.persist.claims import Claim
from lochan.service.calls import Call, Gate, Right

_Earlier = TypeVar("_Earlier")
_Result = TypeVar("_Result")

_REFUSALS: Final = (NotFound, AlreadyExists, Conflict, Invalid)


class Claims:
    """Claims the keys of writes on one repository, and finds what they have done."""

    def __init__(self, context: RepositoryContext, names: ReferenceIndex, gate: Gate) -> None:
        self._context = context
        self._names = names
        self._gate = gate

    def request(self, call: Call, right: Right, name: str, source: str = "") -> Request | None:
        """Returns what the claim of a write records; None for a write without a key."""
        key = call.idempotency_key
        if key is None:
            return None
        check_key(key)
        return Request(call.who, key, call.digest, right.value, name, source)

    def attempt(
        self,
        request: Request | None,
        find: Callable[[Request], _Earlier | None],
        work: Callable[[_Earlier | None], _Result],
    ) -> _Result:
        """Does a write, or answers it from what an earlier try did; `work` gets what `find` found.

        A write without a key is done.
        """
        if request is None:
            return work(None)
        earlier = find(request)
        if earlier is None:
            try:
                return work(None)
            except KeyReused:
                raise
            except _REFUSALS:
                earlier = find(request)
                if earlier is None:
                    raise
        return work(earlier)

    def find(self, call: Call, request: Request) -> Claim | None:
        """Steps 1 and 2: returns the claim of a request, None if it has none."""
        claimed = find_claim(self._context, request)
        if claimed is not None:
            self._gate.check(call, Right(claimed.right), claimed.name or None)
        return claimed

    def find_commits(self, call: Call, request: Request) -> Done | None:
        """Returns what a request has done on its branch; refuses one that never can be done."""
        claimed = self.find(call, request)
        if claimed is None:
            return None
        found = self._names.find(RefName(claimed.name))
        done = find_done(self._context, claimed)
        if done is None and (found is None or found.row.incarnation != claimed.incarnation):
            # Gone before it was looked for: nobody can commit there any more.
            raise _gone(claimed)
        return done

    def find_move(self, call: Call, request: Request) -> MovedReference | None:
        """Returns the move that a request has made; refuses one that never can be made."""
        claimed = self.find(call, request)
        if claimed is None:
            return None
        name = RefName(claimed.name)
        # What was left half done is finished by looking.
        found = self._names.find(name)
        done = self._names.find_done(name, _once(claimed))
        if done is None and (found is None or found.row.incarnation != claimed.incarnation):
            raise _gone(claimed)
        return done

    def claim_move(self, request: Request | None) -> ClaimedMove | None:
        """Claims the key of a request that moves or deletes a reference that is there."""
        if request is None:
            return None
        row = self._names.get(RefName(request.name)).row
        return _once(claim_request(self._context, request, row.incarnation))

    def once(self, request: Request | None, proposal: Proposal) -> Once:
        """Claims the key of a request that commits; a write without a key needs no claim."""
        if request is None:
            return Once(self._context, self._names, proposal, None)
        claimed = claim_on_branch(self._context, request, self._names.find)
        return Once(self._context, self._names, proposal, claimed)


class Once:
    """A proposal as it is published, and what an earlier try has done, if one has."""

    def __init__(
        self,
        context: RepositoryContext,
        names: ReferenceIndex,
        proposal: Proposal,
        claim: Claim | None,
    ) -> None:
        self._context = context
        self._names = names
        self.claim = claim
        self.claimed = None if claim is None else ClaimedProposal(context, proposal, claim)
        self.proposal: Proposal = proposal if self.claimed is None else self.claimed

    @property
    def operation(self) -> bytes | None:
        """The operation id that the claim gives to what is made."""
        return None if self.claim is None else self.claim.operation

    @property
    def done(self) -> Done | None:
        """What an earlier try has done, known after planning."""
        return None if self.claimed is None else self.claimed.done

    def settle(self, settled: Settled) -> Published | Done:
        """Returns what this try published, or what an earlier one did; raises a refusal."""
        if isinstance(settled, LochanError):
            # If the branch is gone nobody planned on it, so nobody has looked.
            if self.claim is not None and isinstance(settled, NotFound):
                done = find_done(self._context, self.claim)
                if done is not None:
                    return done
            raise settled
        return self.done or settled

    def note(self, settled: Published, who: str, source: ObjId | None) -> Published | Done:
        """Notes in the row of the branch that there was nothing to do, so it stays the answer.

        If the branch has moved since that was found out, it is found out anew.
        """
        outcome: Published | Done = settled
        while isinstance(outcome, Published) and not outcome.commits and self.claim is not None:
            name = RefName(self.claim.name)
            decide = _note(self._context, self.claim, outcome, source)
            try:
                made = self._names.move(name, decide, who, once=_once(self.claim))
            except _HeadMoved:
                publisher = Publisher(self._context, name, self._names.find)
                (again,) = publisher.publish([self.proposal])
                outcome = self.settle(again)
                continue
            except NotFound as error:
                return self._found_or(error)
            return Done(self._context.views.load(ObjId(made.row.pointer)), (), _source_of(made))
        return outcome

    def _found_or(self, error: NotFound) -> Done:
        done = None if self.claim is None else find_done(self._context, self.claim)
        if done is None:
            raise error
        return done


class _HeadMoved(Exception):
    """The branch is not where there was nothing to do."""


def _note(
    context: RepositoryContext, claimed: Claim, settled: Published, source: ObjId | None
) -> Callable[[ReferenceRow], Destination]:
    def decide(row: ReferenceRow) -> Destination:
        if row.pointer != settled.head.obj_id or find_done(context, claimed, row) is not None:
            raise _HeadMoved
        named = "" if source is None else source.hex()
        return Destination(settled.head.obj_id, UNMOVED, named)

    return decide


def _source_of(made: MovedReference) -> str:
    return "" if made.move is None else made.move.source


def _once(claimed: Claim) -> ClaimedMove:
    return ClaimedMove(claimed.operation, claimed.incarnation)


def _gone(claimed: Claim) -> ReferenceNotFound:
    return ReferenceNotFound(
        f"the reference {claimed.name!r} that this request was first sent for was deleted, and the "
        "request was not done; send it with a new idempotency key"
    )


def check_key(key: str) -> None:
    """Refuses a key that cannot be one."""
    if not 0 < len(key) <= IDEMPOTENCY_KEY_CHARACTERS_MAX or not key.isprintable():
        raise Invalid(
            f"an idempotency key has 1 to {IDEMPOTENCY_KEY_CHARACTERS_MAX} printable characters"
        )
