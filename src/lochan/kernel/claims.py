"""Idempotency: a request with a key takes effect once, on whichever server it is tried again.

1. *Claim* the key: a row, put if absent (`persist/claims.py`), records which request it belongs to,
   which branch and which incarnation of it is meant, and where the head was then.
2. The commits of the request carry the claim's operation id in a hidden header. A request that
   finds nothing to do leaves a move with that id in the row of the branch, which moves nothing.
3. *Every* attempt, before its swap, searches for that id in the commits and moves after the claim.
   Found: the request was done, and what was found is the answer. To search only once would miss the
   effect of another server that is published meanwhile.

So there is one effect for each claim, because it is made by the compare-and-swap of the branch's
own row; and it is found whatever became of the branch since: in the line of the head, in the lines
that it was moved away from, and after its deletion in the tombstone and the log of moves.

The same key with another request is refused. Claims are swept after a day.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from lochan.base.errors import KeyReused, ReferenceNotFound
from lochan.base.ids import ObjId
from lochan.base.names import RefName
from lochan.codec.commits import Headers
from lochan.codec.rows import ReferenceRow
from lochan.kernel.build import Head
from lochan.kernel.context import RepositoryContext
from lochan.kernel.history import iterate_log
from lochan.kernel.moves import moves_since
from lochan.kernel.plan import CommitPlan, Plan
from lochan.kernel.publish import Find, Proposal, check_takes_commits
from lochan.kernel.views import EMPTY_VIEW, CommitView
from lochan.persist.claims import Claim, ClaimRows, claim_key

OPERATION_HEADER: Final = "operation"
_OPERATION_BYTES: Final = 16


class KeyedRequest(msgspec.Struct, frozen=True):
    """A request that carries an idempotency key, as its claim records it."""

    principal: str
    key: str
    digest: bytes
    right: str
    name: str
    source: str = ""


class RequestOutcome(msgspec.Struct, frozen=True):
    """What a request has done: the commits that it made on a head, none if nothing was to do.

    `source` is what was merged or moved to, where only the move knows it.
    """

    target: CommitView
    commits: tuple[CommitView, ...]
    source: str = ""


def find_claim(context: RepositoryContext, request: KeyedRequest) -> Claim | None:
    """Returns the claim that the same request has made before; KeyReused if another one has."""
    rows = ClaimRows(context.store, context.instance)
    found = rows.fetch(claim_key(request.principal, request.key))
    return None if found is None else check_same(found.row, request)


def claim_request(
    context: RepositoryContext,
    request: KeyedRequest,
    incarnation: int,
    generation: int = 0,
    version: int = 0,
) -> Claim:
    """Claims the key of a request, or returns the claim that the same request has made before."""
    claim_row = Claim(
        1,
        claim_key(request.principal, request.key),
        request.digest,
        request.right,
        request.name,
        request.source,
        incarnation,
        generation,
        version,
        context.random.random_bytes(_OPERATION_BYTES),
        context.clock.now_us(),
    )
    rows = ClaimRows(context.store, context.instance)
    return check_same(rows.add(claim_row, context.retry()), request)


def claim_on_branch(
    context: RepositoryContext, request: KeyedRequest, find: Find | None = None
) -> Claim:
    """Claims the key of a request that commits to a branch.

    `find` is how the branch is read; `ReferenceIndex.find` finishes one that was left half made.
    """
    name = RefName(request.name)
    found = (find or context.references.fetch)(name)
    if found is None or found.row.deleted:
        raise ReferenceNotFound(f"Named reference '{name}' not found")
    row = found.row
    check_takes_commits(row)
    head = context.views.load(ObjId(row.pointer))
    return claim_request(context, request, row.incarnation, head.generation, row.version)


def check_same(claimed: Claim, request: KeyedRequest) -> Claim:
    """Returns a claim if it is that of the request."""
    if (claimed.digest, claimed.right, claimed.name) != (
        request.digest,
        request.right,
        request.name,
    ):
        raise KeyReused("this idempotency key was used for another request; use a new one")
    return claimed


class ClaimedProposal:
    """A proposal that is done at most once, however many servers try it."""

    def __init__(self, context: RepositoryContext, proposal: Proposal, claimed: Claim) -> None:
        self._context = context
        self._proposal = proposal
        self._claimed = claimed
        self.done: RequestOutcome | None = None
        self.incarnation: int | None = claimed.incarnation

    def plan(self, head: Head) -> Sequence[Plan]:
        """Plans nothing if the request was done already; else marks its commits."""
        self.done = self._find(head)
        if self.done is not None:
            return []
        plans = list(self._proposal.plan(head))
        operation = self._claimed.operation.hex()
        return [
            msgspec.structs.replace(plan, hidden=marked(plan.hidden, operation))
            if isinstance(plan, CommitPlan)
            else plan
            for plan in plans
        ]

    def _find(self, head: Head) -> RequestOutcome | None:
        return _find_in_lines(self._context, self._claimed, head.line(), head.row)


def find_done(
    context: RepositoryContext, claimed: Claim, row: ReferenceRow | None = None
) -> RequestOutcome | None:
    """Returns what a request on a branch has done, whatever became of the branch since.

    With a `row` the search starts there, for a caller that will swap exactly that row.
    """
    if row is None:
        # The row before the log: what leaves the one is in the other by then.
        found = context.references.fetch(RefName(claimed.name))
        row = None if found is None else found.row
    line: Iterator[CommitView] = iter(())
    if row is not None and row.incarnation == claimed.incarnation:
        line = iterate_log(context.views, ObjId(row.pointer))
    return _find_in_lines(context, claimed, line, row)


def _find_in_lines(
    context: RepositoryContext,
    claimed: Claim,
    line: Iterator[CommitView],
    row: ReferenceRow | None,
) -> RequestOutcome | None:
    """Searches the line of the head, and the lines that the branch was moved away from since."""
    views = context.views
    moves = moves_since(context.moves, claimed.name, claimed.incarnation, claimed.version, row)
    for move in moves:
        if move.operation == claimed.operation:
            return RequestOutcome(views.load(ObjId(move.new)), (), move.source)
    # What was committed since follows the head of the claim, or the target of a move, which may be
    # older than the claim.
    floor = min([claimed.generation, *(views.load(ObjId(one.new)).generation for one in moves)])
    for one in (line, *(iterate_log(views, ObjId(move.old)) for move in moves)):
        found = find_in_line(claimed, one, floor)
        if found is not None:
            return found
    return None


def find_in_line(claimed: Claim, line: Iterator[CommitView], floor: int) -> RequestOutcome | None:
    """Searches a line for the commits of a claim, above a generation."""
    mark = (OPERATION_HEADER, (claimed.operation.hex(),))
    made: list[CommitView] = []
    for view in line:
        if not made and view.generation <= floor:
            return None
        if view.body is None or mark not in view.body.hidden:
            if made:
                return RequestOutcome(view, tuple(made[::-1]))
        else:
            made.append(view)
    return RequestOutcome(EMPTY_VIEW, tuple(made[::-1])) if made else None


def marked(hidden: Headers, operation: str) -> Headers:
    """Returns hidden headers with an operation id in place of any other."""
    kept = [header for header in hidden if header[0] != OPERATION_HEADER]
    return tuple(sorted([*kept, (OPERATION_HEADER, (operation,))]))
