"""Writes: authorised, claimed if they have an idempotency key, and answered alike when resent.

The order of every write, whatever it writes:

1. If it has a key, read its claim; the same key with another request is refused. If the request
   was done, decide on what the claim recorded, and answer from what the request did then, whatever
   became of its source and of its target since. The decisions are the same as on the first try:
   on the target, on the sources by their names, and on the keys that the request changed.
2. Decide by the name of the target, before anything that the request names is read; resolve the
   sources, and decide on each (`service/resolve.py`).
3. Claim the key, after a decision on the row of the target, and on the keys if the caller has
   rights over some keys only. If the claim is an older one, its incarnation of the target counts:
   if that is gone, the request is refused.
4. Plan and publish. Each attempt decides on the row and the head that it is about to write.

A try that is refused may have been overtaken by another try of the same request, so it reads the
claim once more before it reports the refusal. A refusal is not recorded: the same request may be
sent again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, Generic, NoReturn, TypeVar

import msgspec

from lochan.access.policy import Action, Call
from lochan.base.errors import (
    AlreadyExists,
    Conflict,
    Denied,
    Invalid,
    KeyReused,
    LochanError,
    NotFound,
    ReferenceNotFound,
)
from lochan.base.ids import ObjId
from lochan.base.limits.requests import IDEMPOTENCY_KEY_CHARACTERS_MAX
from lochan.base.names import RefName
from lochan.catalog.types import ContentTypes
from lochan.codec.rows import ReferenceRow
from lochan.kernel.claims import (
    ClaimedProposal,
    KeyedRequest,
    RequestOutcome,
    claim_on_branch,
    claim_request,
    find_claim,
    find_done,
)
from lochan.kernel.context import RepositoryContext
from lochan.kernel.moves import UNMOVED, Once
from lochan.kernel.publish import Proposal, Published, Publisher, Settled
from lochan.kernel.references import Destination, MovedReference, ReferenceIndex
from lochan.persist.claims import Claim
from lochan.persist.references import StampedRow
from lochan.service.pending_writes import PendingWrite, answered
from lochan.service.policy import Access, WriteTarget, initiator_of
from lochan.service.resolve import Reads, Resolver

_Answer = TypeVar("_Answer")
_Earlier = TypeVar("_Earlier")

_REFUSALS: Final = (NotFound, AlreadyExists, Conflict, Invalid)


class BranchWrite(msgspec.Struct, Generic[_Answer], frozen=True):
    """A proposal for the lane of a branch, and how to answer from what became of it.

    `answer` is for what this try published, `refused` returns an answer to a refusal or raises it.
    `source` is recorded if a claimed write had nothing to do.
    """

    proposal: Proposal
    claim: Claim | None
    answer: Callable[[Published], _Answer]
    refused: Callable[[LochanError], _Answer]
    source: ObjId | None = None
    operations: int = 1


class NamesWrite(msgspec.Struct, Generic[_Answer], frozen=True):
    """A proposal for the lane of the index of names; `finish` writes the rows of the references."""

    proposal: Proposal
    claim: Claim | None
    finish: Callable[[ClaimedProposal | None, Settled], _Answer]
    operations: int = 1


ClaimKey = Callable[[], Claim | None]
"""Claims the key of a write on a branch, step 3; None for a write without a key."""

ClaimMove = Callable[[], Once | None]
"""Claims the key of a move of a reference, step 3; None for a move without a key."""


class Claims:
    """Builds the writes on one repository."""

    def __init__(self, context: RepositoryContext, names: ReferenceIndex) -> None:
        self._context = context
        self._names = names

    def write(
        self,
        target: WriteTarget,
        prepare: Callable[[ClaimKey], BranchWrite[_Answer] | NamesWrite[_Answer]],
        earlier: Callable[[RequestOutcome], _Answer],
        *,
        dry_run: bool = False,
    ) -> PendingWrite[_Answer]:
        """Builds a write on a branch, or answers it from what an earlier try did.

        `prepare` does step 2, calls its argument to claim the key (step 3), and returns the
        proposal. A dry run claims nothing.
        """
        request = self._request(target, dry_run=dry_run)
        if request is None:
            return _recorded(
                target,
                lambda: self._pending(target, prepare(lambda: None), earlier, dry_run=dry_run),
            )

        def claim() -> Claim:
            return claim_on_branch(self._context, request, find)

        def find(name: RefName) -> StampedRow | None:
            found = self._names.find(name)
            if found is not None:
                target.check_row(found.row)
            return found

        attempt = partial(
            self._attempt,
            lambda: self._find_earlier(target, request, partial(find_done, self._context)),
            lambda done: answered(earlier(done)),
            lambda: self._pending(target, prepare(claim), earlier),
        )
        return _recorded(target, attempt)

    def move(
        self,
        target: WriteTarget,
        work: Callable[[ClaimMove], _Answer],
        earlier: Callable[[MovedReference], _Answer],
        *,
        dry_run: bool = False,
    ) -> _Answer:
        """Moves or deletes a reference, or answers from what an earlier try did.

        `work` does steps 2 and 4, and calls its argument to claim the key (step 3). A dry run
        claims nothing.
        """
        request = self._request(target, dry_run=dry_run)

        def authorise_and_work() -> _Answer:
            target.check()
            return work(claim)

        def claim() -> Once | None:
            if request is None:
                return None
            row = self._names.get(target.name).row
            target.check_row(row)
            return _claimed_move(claim_request(self._context, request, row.incarnation))

        if request is None:
            return _recorded(target, authorise_and_work)

        def find_move(claim: Claim) -> MovedReference | None:
            return self._names.find_done(target.name, _claimed_move(claim))

        find = partial(self._find_earlier, target, request, find_move)
        return _recorded(target, partial(self._attempt, find, earlier, authorise_and_work))

    def request(
        self, call: Call, action: Action, name: str, source: str = ""
    ) -> KeyedRequest | None:
        """Returns what the claim of a write records; None for a write without a key."""
        key = call.idempotency_key
        if key is None:
            return None
        check_key(key)
        return KeyedRequest(call.principal, key, call.digest, action.value, name, source)

    def _request(self, target: WriteTarget, *, dry_run: bool) -> KeyedRequest | None:
        if dry_run:
            return None
        return self.request(target.call, target.action, target.name, target.source)

    def _attempt(
        self,
        find: Callable[[], _Earlier | None],
        answer: Callable[[_Earlier], _Answer],
        work: Callable[[], _Answer],
    ) -> _Answer:
        """Answers from an earlier try, or does the work; after a refusal searches once more."""
        earlier = find()
        if earlier is None:
            try:
                return work()
            except KeyReused:
                raise
            except _REFUSALS:
                earlier = find()
                if earlier is None:
                    raise
        return answer(earlier)

    def _find_claim(self, target: WriteTarget, request: KeyedRequest) -> Claim | None:
        """Step 1, up to the decision."""
        claim = find_claim(self._context, request)
        if claim is not None:
            target.check(claim.incarnation)
        return claim

    def _find_earlier(
        self,
        target: WriteTarget,
        request: KeyedRequest,
        search: Callable[[Claim], _Earlier | None],
    ) -> _Earlier | None:
        """Returns what an earlier try has done; raises if the request can never be done."""
        claim = self._find_claim(target, request)
        if claim is None:
            return None
        # This read finishes a creation or a deletion that was left half done.
        found = self._names.find(RefName(claim.name))
        done = search(claim)
        if done is None and (found is None or found.row.incarnation != claim.incarnation):
            # The incarnation was gone before the search: no try can write it any more.
            raise ReferenceNotFound(
                f"the reference {claim.name!r} that this request was first sent for was deleted, "
                "and the request was not done; send it with a new idempotency key"
            )
        return done

    def _pending(
        self,
        target: WriteTarget,
        write: BranchWrite[_Answer] | NamesWrite[_Answer],
        earlier: Callable[[RequestOutcome], _Answer],
        *,
        dry_run: bool = False,
    ) -> PendingWrite[_Answer]:
        """The one place where a pending write is built."""
        claim = write.claim
        claimed = None if claim is None else ClaimedProposal(self._context, write.proposal, claim)
        finish: Callable[[Settled], _Answer]
        if isinstance(write, NamesWrite):
            finish = partial(write.finish, claimed)
        elif claim is not None and claimed is not None:
            finish = partial(self._finish_claimed, target, write, claim, claimed, earlier)
        else:
            finish = partial(_finish, write)

        return PendingWrite(
            target.name,
            claimed or write.proposal,
            lambda settled: _recorded(target, partial(finish, settled)),
            dry_run,
            write.operations,
            isinstance(write, NamesWrite),
            claim is not None,
            isinstance(write, BranchWrite),
        )

    def _finish_claimed(
        self,
        target: WriteTarget,
        write: BranchWrite[_Answer],
        claim: Claim,
        claimed: ClaimedProposal,
        earlier: Callable[[RequestOutcome], _Answer],
        settled: Settled,
    ) -> _Answer:
        """Answers from what this try or another one of the same request did.

        That there was nothing to do is recorded in the row of the branch, so that it stays the
        answer. If the branch has moved since that was found out, the write is published again.
        """
        while True:
            done = claimed.done
            if isinstance(settled, NotFound):
                # A branch that is gone was not planned on, so the claim was not searched for.
                done = find_done(self._context, claim)
            if done is not None:
                return earlier(done)
            if isinstance(settled, LochanError) or settled.commits:
                return _finish(write, settled)
            decide = _unmoved(self._context, claim, settled, write.source)
            try:
                made = self._names.move(
                    target.name, decide, initiator_of(target.call), once=_claimed_move(claim)
                )
            except _HeadMoved:
                publisher = Publisher(self._context, target.name, self._names.find)
                (settled,) = publisher.publish([claimed])
            except NotFound as error:
                settled = error
            else:
                source = "" if made.move is None else made.move.source
                return earlier(
                    RequestOutcome(self._context.views.load(ObjId(made.row.pointer)), (), source)
                )


class RepositoryWrites(Reads):
    """What the use cases that write a repository have in common."""

    def __init__(
        self,
        context: RepositoryContext,
        types: ContentTypes,
        resolver: Resolver,
        claims: Claims,
        access: Access,
    ) -> None:
        super().__init__(context, types, resolver)
        self._claims = claims
        self._access = access


def _recorded(target: WriteTarget, work: Callable[[], _Answer]) -> _Answer:
    """Does some work; a denial that is not one of the policy is recorded like those that are."""
    try:
        return work()
    except Denied as error:
        target.record(error)
        raise


def _finish(write: BranchWrite[_Answer], settled: Settled) -> _Answer:
    if isinstance(settled, LochanError):
        return write.refused(settled)
    return write.answer(settled)


def raise_refusal(error: LochanError) -> NoReturn:
    """Raises what a write was refused for: the usual `refused` of a write."""
    raise error


class _HeadMoved(Exception):
    """The branch is no longer at the commit where there was nothing to do."""


def _unmoved(
    context: RepositoryContext, claim: Claim, settled: Published, source: ObjId | None
) -> Callable[[ReferenceRow], Destination]:
    def decide(row: ReferenceRow) -> Destination:
        if row.pointer != settled.head.obj_id or find_done(context, claim, row) is not None:
            raise _HeadMoved
        return Destination(settled.head.obj_id, UNMOVED, "" if source is None else source.hex())

    return decide


def _claimed_move(claim: Claim) -> Once:
    return Once(claim.operation, claim.incarnation)


def check_key(key: str) -> None:
    """Refuses a malformed idempotency key."""
    if not 0 < len(key) <= IDEMPOTENCY_KEY_CHARACTERS_MAX or not key.isprintable():
        raise Invalid(
            f"an idempotency key has 1 to {IDEMPOTENCY_KEY_CHARACTERS_MAX} printable characters"
        )
