"""Long work outside the lane: a proposal is prepared on a head, and grafted onto later heads.

A merge of 100,000 keys takes seconds to plan and to build. In the lane, every small commit on the
same branch would wait for it. So it goes there in steps, and a crash after any of them leaves
objects that nothing refers to:

1. *prepare*, outside the lane: read the row, plan on its head, record what the plan relies on
   (`reliance.py`), build the commits, store their values and nodes. A refusal is final, because the
   row was read after the request came in.
2. *catch up*, outside the lane: read the row again and compare the heads. If the differences are
   not in what the plan relies on, planning there would give the same; they are put into the
   prepared trees, which depend on content alone. Again, until few differences are left.
3. *graft*, in the lane, on the head of the chain: the same with the few that are left; then the
   commit itself, which is small. If there are too many, or if they are in what the plan relies on,
   the preparation is *outdated*: it leaves the chain without an effect, and the driver goes back to
   step 2, or to 1 where the plan does not hold any more.

Nothing is assumed about the head in the lane, so a lost swap, another incarnation, a branch that
was moved, or commits of the same chain cost another round and nothing else. The rounds are bounded:
after two plans the proposal itself is planned in the lane, like any other.

A graft gives the commit that planning on the same head would give: the same plan, because all that
it read is the same; the same trees, because equal content has equal roots.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import Final

import msgspec

from lochan.base.checks import check
from lochan.base.errors import LochanError, Unavailable, Unknown
from lochan.base.ids import ObjId
from lochan.base.keys import Universe
from lochan.base.limits.commits import (
    GRAFT_CHANGES_MIN,
    GRAFT_COMMITS_ON_LOOP_MAX,
    GRAFT_DIFFERENCES_MAX,
    GRAFT_OFFERS_MAX,
    GRAFT_PLANS_MAX,
    GRAFT_ROUNDS_MAX,
    GRAFT_STORED_TOGETHER,
)
from lochan.codec.rows import ReferenceRow
from lochan.index.difference import Difference
from lochan.index.node import Change, NewNode
from lochan.kernel.build import Builder, Built, Head, split_universes
from lochan.kernel.changes import diff_elements
from lochan.kernel.context import RepositoryContext
from lochan.kernel.plan import CommitPlan, Digested, Graft, Plan, TokenPlan
from lochan.kernel.publish import REFUSALS, Proposal, Published, Publisher, Settled
from lochan.kernel.reliance import Reliance
from lochan.kernel.views import CommitView

_KEY: Final = itemgetter(0)


class GraftLimits(msgspec.Struct, frozen=True):
    """When a commit is built outside the lane, and how much of a graft is done in the lane."""

    changes_min: int = GRAFT_CHANGES_MIN
    differences_max: int = GRAFT_DIFFERENCES_MAX
    rounds_max: int = GRAFT_ROUNDS_MAX
    plans_max: int = GRAFT_PLANS_MAX
    offers_max: int = GRAFT_OFFERS_MAX


_LIMITS: Final = GraftLimits()


class _Prepared(msgspec.Struct, frozen=True):
    """Commits that were planned on a head; those of many changes are built and stored.

    `changes` are those of each plan. A plan of few changes is built in the lane.
    """

    row: ReferenceRow
    view: CommitView
    reliance: Reliance
    plans: Sequence[CommitPlan]
    changes: Sequence[Sequence[Change]]


class _NodeStorage:
    """Stores objects before the commit that refers to them, in small batches.

    The writes of others wait for one batch, not for all.
    """

    def __init__(self, context: RepositoryContext) -> None:
        self._context = context
        self._waiting: list[NewNode] = []

    def add(self, new: NewNode) -> None:
        """Stores a node as soon as there are enough of them; `store` stores the rest."""
        self._waiting.append(new)
        if len(self._waiting) == GRAFT_STORED_TOGETHER:
            self._store_nodes(self._waiting)
            self._waiting = []

    def store(self, values: Sequence[tuple[ObjId, bytes]], nodes: Sequence[NewNode]) -> None:
        """Stores values and nodes, and the nodes that were added before."""
        for start in range(0, len(values), GRAFT_STORED_TOGETHER):
            self._store(values[start : start + GRAFT_STORED_TOGETHER])
        nodes, self._waiting = [*self._waiting, *nodes], []
        for start in range(0, len(nodes), GRAFT_STORED_TOGETHER):
            self._store_nodes(nodes[start : start + GRAFT_STORED_TOGETHER])

    def _store_nodes(self, nodes: Sequence[NewNode]) -> None:
        self._store([(new.obj_id, new.raw) for new in nodes])
        self._context.nodes.remember(nodes)

    def _store(self, objects: Sequence[tuple[ObjId, bytes]]) -> None:
        retry = self._context.retry_steps()
        while True:
            try:
                return self._context.objects.store_many(objects)
            except (Unavailable, Unknown):
                # Storing is idempotent.
                retry.again()


class Preparation:
    """A proposal of much work, on its way into the lane; offered there in place of the proposal.

    A driver calls `advance` outside the lane and offers the preparation to the lane, until the
    lane has settled it and it is not outdated.
    """

    def __init__(
        self, publisher: Publisher, proposal: Proposal, limits: GraftLimits = _LIMITS
    ) -> None:
        self._publisher = publisher
        self._context = publisher.context
        self._proposal = proposal
        self._limits = limits
        self._storage = _NodeStorage(publisher.context)
        self._prepared: _Prepared | None = None
        self._plans = 0
        self._offers = 0
        self._in_lane = False
        self.is_outdated = False
        """Whether the lane could not graft it; then what the lane answered means nothing."""

    @property
    def incarnation(self) -> int | None:
        """The incarnation of the branch that is meant, None for the present one."""
        return self._proposal.incarnation

    @property
    def is_heavy(self) -> bool:
        """Whether the work that is left for the lane is too long for an event loop."""
        prepared = self._prepared
        commits = 0 if prepared is None else len(prepared.plans)
        return self._in_lane or not self._is_bounded or commits > GRAFT_COMMITS_ON_LOOP_MAX

    @property
    def _is_bounded(self) -> bool:
        return self._offers < self._limits.offers_max

    def advance(self) -> Settled | None:
        """Steps 1 and 2; returns None if it is ready for the lane, else the outcome."""
        self.is_outdated = False
        self._offers += 1
        try:
            return self._advance()
        except REFUSALS as refusal:
            return refusal

    def _advance(self) -> Settled | None:
        for _ in range(self._limits.rounds_max):
            head = self._fetch_head()
            moved = self._find_moved(head, None)
            plans = None if moved is None else self._grafts(moved)
            if moved is not None and plans is not None:
                if len(moved) <= self._limits.differences_max // 2:
                    return None
                self._catch_up(head, plans)
            elif self._plans == self._limits.plans_max:
                self._in_lane, self._prepared = True, None
                return None
            else:
                self._plans += 1
                if not self._prepare(head):
                    return Published(head.view, ())
                if self._in_lane:
                    return None
        return None

    def plan(self, head: Head) -> Sequence[Plan]:
        """Step 3."""
        self.is_outdated = False
        if self._in_lane:
            return self._proposal.plan(head)
        differences_max = self._limits.differences_max if self._is_bounded else None
        moved = self._find_moved(head, differences_max)
        plans = None if moved is None else self._grafts(moved)
        if plans is None:
            self.is_outdated = True
            return []
        return plans

    def _fetch_head(self) -> Head:
        """Reads the row and returns its head to plan on."""
        context, row = self._context, self._publisher.fetch().row
        self._publisher.check_incarnation(self._proposal, row)
        view = context.views.load(ObjId(row.pointer))
        builder = Builder(
            context.views,
            context.nodes,
            context.rule,
            context.clock,
            view,
            sink=self._storage.add,
        )
        return Head(view, builder, row, context.staged)

    def _prepare(self, head: Head) -> bool:
        """Step 1; returns False if the plan has nothing to do."""
        reliance = Reliance()
        head = Head(head.view, head.builder, head.row, head.records, reliance)
        plans, lines, top = [], [], head.view
        for plan in self._proposal.plan(head):
            if isinstance(plan, TokenPlan):
                # There is nothing to build.
                self._in_lane, self._prepared = True, None
                return True
            if plan.current is None:
                reliance.add_keys([op.key for op in plan.operations])
                reliance.add_keys([relied.key for relied in plan.unchanged])
            if plan.bulk is not None:
                reliance.add_lookup(plan.bulk.have_one_of)
            built = head.builder.build(top, plan)
            changes = built.changes
            if plan.bulk is not None or len(changes) >= self._limits.changes_min:
                plan = self._stored(plan, changes, built)
            plans.append(plan)
            lines.append(changes)
            top = built.view
        self._prepared = _Prepared(head.row, head.view, reliance, plans, lines)
        return bool(plans)

    def _stored(self, plan: CommitPlan, changes: Sequence[Change], built: Built) -> CommitPlan:
        """Stores what a commit refers to; returns its plan with what was built."""
        self._storage.store(built.values, built.nodes)
        body = built.view.body
        graft = Graft(
            split_universes(changes),
            _roots(built.view),
            Digested(b"", None) if body is None else Digested(body.operations, body.own),
            None if body is None else body.unchanged_root,
            is_bulk=plan.bulk is not None,
        )
        # All that was planned is in the graft.
        return msgspec.structs.replace(plan, operations=(), bulk=None, objects=(), graft=graft)

    def _catch_up(self, head: Head, plans: Sequence[CommitPlan]) -> None:
        """Step 2: makes the prepared trees those of a later head."""
        prepared, top, caught_up = self._prepared, head.view, []
        check(prepared is not None, "what catches up was prepared")
        if prepared is None:
            return
        for plan in plans:
            built = head.builder.build(top, plan)
            if plan.graft is not None:
                self._storage.store((), built.nodes)
                graft = msgspec.structs.replace(plan.graft, roots=_roots(built.view), moved=())
                plan = msgspec.structs.replace(plan, graft=graft)
            caught_up.append(plan)
            top = built.view
        self._prepared = _Prepared(
            head.row, head.view, prepared.reliance, caught_up, prepared.changes
        )

    def _find_moved(self, head: Head, differences_max: int | None) -> list[Difference] | None:
        """Returns what a later head has changed; None if the plan does not hold there.

        None, too, if there are more differences than that.
        """
        prepared = self._prepared
        if prepared is None or prepared.row.incarnation != head.row.incarnation:
            return None
        if not head.stands_on(prepared.view):
            return None
        # Also files that are the same at another address: the trees differ by them.
        found: Iterable[Difference] = diff_elements(head.nodes, prepared.view, head.view)
        if differences_max is not None:
            found = islice(found, differences_max + 1)
        moved = list(found)
        if differences_max is not None and len(moved) > differences_max:
            return None
        reliance = prepared.reliance
        if reliance.is_touched(moved, _find_own(prepared)) or not reliance.holds_on(head):
            return None
        return moved

    def _grafts(self, moved: Sequence[Difference]) -> list[CommitPlan] | None:
        """Returns the plans for a later head; None if one of them would change.

        A key that both have changed is the commit's, unless that leaves the key as it is, which a
        commit records.
        """
        prepared = self._prepared
        if prepared is None:
            return None
        plans = []
        for plan, changes in zip(prepared.plans, prepared.changes, strict=True):
            left = []
            for one in moved:
                own = _find_change(changes, one.key)
                if own is None:
                    left.append(one)
                elif own[1] in (one.left, one.right):
                    return None
            moved = left
            if plan.graft is not None:
                graft = msgspec.structs.replace(plan.graft, moved=moved)
                plan = msgspec.structs.replace(plan, graft=graft)
            plans.append(plan)
        return plans


def publish_prepared(preparation: Preparation, offer: Callable[[Proposal], Settled]) -> Settled:
    """Drives a preparation in the calling thread; `offer` waits for the lane."""
    while True:
        try:
            settled = preparation.advance()
        except LochanError as error:
            return error
        if settled is None:
            settled = offer(preparation)
        if isinstance(settled, LochanError) or not preparation.is_outdated:
            return settled


def _roots(view: CommitView) -> dict[Universe, ObjId | None]:
    return {universe: view.index(universe).root for universe in Universe}


def _find_own(prepared: _Prepared) -> Callable[[bytes], Change | None] | None:
    """Returns how to find what one prepared commit does to a key; None if there are others.

    A commit that is built in the lane compares its keys with the head there, so none is excused.
    """
    if len(prepared.plans) != 1 or prepared.plans[0].graft is None:
        return None
    return partial(_find_change, prepared.changes[0])


def _find_change(changes: Sequence[Change], key: bytes) -> Change | None:
    at = bisect_left(changes, key, key=_KEY)
    return changes[at] if at < len(changes) and changes[at][0] == key else None
