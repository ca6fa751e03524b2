"""Moving a branch to other commits: fast-forward, force and rebase.

None of them commits on the branch; each moves its row by compare-and-swap and is recorded in
the ref-log, with the old head. The steps, and what a crash after each leaves:

1. read the row and decide on its head; refusals are raised here, conflicts all together. The
   caller's rights are checked twice: on the row, before anything else, and on what the move would
   change;
2. rebase only: store the replayed commits and their nodes (a crash leaves objects that
   nothing refers to; the collector removes them);
3. swap the row, on condition that it is the one of step 1. Lost: start over, so a commit that came
   between is considered, too. A lost reply is resolved as for every other move.

Staged files stay on top of a fast-forward and of a rebase, which bring what others have committed;
those that it would change below are a conflict, as in a merge. `force` is refused while files are
staged: it is not asked for by who staged them, and they would stand on another content.

A dry run ends before step 2 and returns what would have been done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Final, Protocol

import msgspec

from lochan.base.errors import HeadConflict, NotABranch, TooLarge
from lochan.base.ids import ObjId
from lochan.base.limits.commits import REBASE_COMMITS_MAX
from lochan.base.names import RefName
from lochan.codec.commits import Headers
from lochan.codec.rows import Move, ReferenceRow
from lochan.index.source import NodeSource
from lochan.kernel.build import Builder, Built, Head
from lochan.kernel.changes import line_above
from lochan.kernel.context import RepositoryContext
from lochan.kernel.history import (
    has_merged,
    is_ancestor,
    iterate_log,
    merge_base,
    shared_sequence,
)
from lochan.kernel.merge import Carried, carry, replayed
from lochan.kernel.merge_choices import Choices, check_choices
from lochan.kernel.moves import UNMOVED, Once
from lochan.kernel.plan import CommitPlan
from lochan.kernel.provenance import Initiator, Provenance, read_provenance
from lochan.kernel.references import Destination, MovedReference, ReferenceIndex
from lochan.kernel.staged_conflicts import check_moved
from lochan.kernel.views import CommitView

_REBASE: Final = "rebase"

_Choose = Callable[[CommitView, ReferenceRow], Destination | None]


class MoveRights(Protocol):
    """What a caller may do to the branch that is moved; each attempt checks it."""

    def check_row(self, row: ReferenceRow) -> None:
        """Raises Denied unless the caller may move this row; first of all."""
        ...

    def check_change(self, nodes: NodeSource, before: CommitView, after: CommitView) -> None:
        """Raises Denied unless the caller may change every key that differs between two heads."""
        ...


class AllMoves:
    """Allows everything: the kernel by itself has no policy."""

    def check_row(self, row: ReferenceRow) -> None:
        """Returns."""

    def check_change(self, nodes: NodeSource, before: CommitView, after: CommitView) -> None:
        """Returns."""


_ALL_MOVES: Final = AllMoves()


class StagedGuard(Protocol):
    """Keeps moves that set a head elsewhere from losing or hiding staged files."""

    def prepare(self, row: ReferenceRow, *, dry_run: bool) -> None:
        """Prepares a row for a move that drops its sealed tokens; StagedWork if it has changes.

        It may change the row, so that a swap of the row that was read is lost.
        """
        ...


class NothingStaged:
    """Has nothing to keep: the kernel by itself stages no files."""

    def prepare(self, row: ReferenceRow, *, dry_run: bool) -> None:
        """Returns."""


NOTHING_STAGED: Final = NothingStaged()

Carry = Callable[[Head, Sequence[Carried], Choices], Sequence[CommitPlan]]
"""Plans commits that carry changes onto a head; reports all conflicts together."""


class Source(msgspec.Struct, frozen=True):
    """The destination of a branch: a commit, and how the user named it."""

    view: CommitView
    name: str = ""

    @property
    def text(self) -> str:
        """How the ref-log names it."""
        return self.name or self.view.obj_id.hex()


class HeadMoved(msgspec.Struct, frozen=True):
    """The branch before and afterwards; `moved` is False if there was nothing to do."""

    row: ReferenceRow
    moved: bool
    before: ObjId
    commits: tuple[CommitView, ...] = ()
    """What a rebase made anew."""


class HeadMoves:
    """Moves branches of one repository."""

    def __init__(
        self,
        context: RepositoryContext,
        names: ReferenceIndex,
        guard: StagedGuard = NOTHING_STAGED,
    ) -> None:
        self._context = context
        self._names = names
        self._guard = guard

    def fast_forward(
        self,
        name: RefName,
        source: Source,
        who: Initiator,
        *,
        expected: ObjId | None = None,
        dry_run: bool = False,
        once: Once | None = None,
        rights: MoveRights = _ALL_MOVES,
    ) -> HeadMoved:
        """Moves a branch to a commit that has everything of it; HeadConflict if it has not."""
        views = self._context.views

        def choose(head: CommitView, row: ReferenceRow) -> Destination | None:
            if has_merged(views, head, source.view):
                return None
            if not has_merged(views, source.view, head):
                raise HeadConflict(
                    f"{row.name!r} has commits that {source.text!r} has not; merge or rebase"
                )
            rights.check_change(self._context.nodes, head, source.view)
            check_moved(self._context.staged, self._context.nodes, row, head, source.view)
            return Destination(source.view.obj_id, "fast-forward", source.text, head.obj_id)

        return head_moved(
            self._context,
            self._move(name, choose, who, expected, dry_run, once, rights),
            look=False,
        )

    def force(
        self,
        name: RefName,
        source: Source,
        who: Initiator,
        *,
        expected: ObjId | None = None,
        dry_run: bool = False,
        once: Once | None = None,
        rights: MoveRights = _ALL_MOVES,
    ) -> HeadMoved:
        """Sets a branch to a commit whatever it has; the old head stays in the ref-log.

        StagedWork if files are staged.
        """
        views = self._context.views

        def choose(head: CommitView, row: ReferenceRow) -> Destination | None:
            if row.pointer == source.view.obj_id:
                return None
            rights.check_change(self._context.nodes, head, source.view)
            self._guard.prepare(row, dry_run=dry_run)
            base = merge_base(views, head, source.view)
            shown = b"" if base is None else base.obj_id
            return Destination(source.view.obj_id, "force", source.text, shown, drops_sealed=True)

        return head_moved(
            self._context,
            self._move(name, choose, who, expected, dry_run, once, rights),
            look=False,
        )

    def rebase(
        self,
        name: RefName,
        onto: Source,
        who: Initiator,
        *,
        choices: Choices | None = None,
        expected: ObjId | None = None,
        dry_run: bool = False,
        plan: Carry | None = None,
        once: Once | None = None,
        rights: MoveRights = _ALL_MOVES,
    ) -> HeadMoved:
        """Makes the commits that only the branch has anew on another head, and moves it there.

        Those that leave nothing to do are skipped, and so is what merges took from the other head.
        Conflicts of all commits are reported together. `plan` carries them, perhaps under more
        rules.
        """
        operation = self._context.random.random_bytes(16) if once is None else once.operation
        rebase = _Rebase(self._context, onto, choices or Choices(), who, plan or carry, operation)

        def choose(head: CommitView, row: ReferenceRow) -> Destination | None:
            wanted = rebase.plan(head, row)
            if wanted is not None:
                rights.check_change(rebase.nodes, head, rebase.top)
                check_moved(self._context.staged, rebase.nodes, row, head, rebase.top)
            if wanted is not None and not dry_run:
                rebase.store()
            return wanted

        result = self._move(name, choose, who, expected, dry_run, once, rights)
        if not dry_run:
            rebase.remember()
        if once is not None and not dry_run:
            return head_moved(self._context, result)
        moved = head_moved(self._context, result, look=False)
        return msgspec.structs.replace(moved, commits=tuple(one.view for one in rebase.built))

    def _move(
        self,
        name: RefName,
        choose: _Choose,
        who: Initiator,
        expected: ObjId | None,
        dry_run: bool,
        once: Once | None,
        rights: MoveRights,
    ) -> MovedReference:
        def decide(row: ReferenceRow) -> Destination | None:
            rights.check_row(row)
            if row.kind != "BRANCH":
                raise NotABranch(f"{row.name!r} is not a branch; only branches are moved so")
            if expected is not None and row.pointer != expected:
                raise HeadConflict(
                    f"{row.name!r} points at {row.pointer.hex()}, not at {expected.hex()}"
                )
            return choose(self._context.views.load(ObjId(row.pointer)), row)

        once = None if dry_run else once
        return self._names.move(name, decide, who, dry_run=dry_run, once=once)


def head_moved(
    context: RepositoryContext, result: MovedReference, *, look: bool = True
) -> HeadMoved:
    """Returns what became of a branch by one of these moves, just now or earlier.

    Which commits a rebase has made is read from history, if one may `look` there.
    """
    move = result.move
    if move is None or move.kind == UNMOVED:
        return HeadMoved(result.row, False, ObjId(result.row.pointer))
    made = _rebased(context, move) if look else ()
    return HeadMoved(result.row, True, ObjId(move.old), made)


def _rebased(context: RepositoryContext, move: Move) -> tuple[CommitView, ...]:
    """Returns the commits of a rebase, oldest first; they are recognised by operation ids."""
    made: list[CommitView] = []
    if move.kind == _REBASE:
        for view in iterate_log(context.views, ObjId(move.new)):
            provenance = read_provenance(() if view.body is None else view.body.hidden)
            if provenance.operation != _operation_of(move.operation, provenance.source):
                break
            made.append(view)
    return tuple(made[::-1])


def _operation_of(rebase: bytes, commit: str) -> str:
    """Returns the operation id of a replayed commit: of the rebase and the commit replayed."""
    return sha256(rebase + commit.encode()).digest()[:16].hex()


class _Rebase:
    """Commits replayed on another head; planned anew whenever the branch has moved.

    Each replayed commit gets an operation id of its own, made from that of the rebase and the
    commit it comes from: it is another commit, and planning again makes the same one.
    """

    def __init__(
        self,
        context: RepositoryContext,
        onto: Source,
        choices: Choices,
        who: Initiator,
        plan: Carry,
        operation: bytes,
    ) -> None:
        check_choices(choices)
        self._context = context
        self._onto = onto
        self._choices = choices
        self._who = who
        self._carry = plan
        self._operation = operation
        self.built: list[Built] = []
        self.top = onto.view
        self.nodes: NodeSource = context.nodes

    def plan(self, head: CommitView, row: ReferenceRow) -> Destination | None:
        """Replays what only the branch has; None if it stands on the other head already."""
        context, onto = self._context, self._onto.view
        self.built = []
        if is_ancestor(context.views, onto, head):
            return None
        shared = shared_sequence(context.views, head, onto)
        if head.sequence - shared > REBASE_COMMITS_MAX:
            raise TooLarge(f"a rebase replays at most {REBASE_COMMITS_MAX} commits; merge instead")
        base = merge_base(context.views, head, onto)
        shown = b"" if base is None else base.obj_id
        builder = Builder(context.views, context.nodes, context.rule, context.clock, onto)
        start = Head(onto, builder, row)
        self.nodes = builder.nodes
        line = line_above(context.views, shared, head)
        carried = replayed(
            context, line, start, hidden=lambda commit: self._provenance(commit, shown)
        )
        self.top = onto
        for one in self._carry(start, carried, self._choices):
            self.built.append(builder.build(self.top, one))
            self.top = self.built[-1].view
        return Destination(self.top.obj_id, _REBASE, self._onto.text, shown)

    def store(self) -> None:
        """Step 2; storing is idempotent, so a lost reply is answered by storing again."""
        objects = [item for one in self.built for item in one.objects()]
        self._context.repeat(lambda: self._context.objects.store_many(objects))

    def remember(self) -> None:
        """Keeps in memory what was published; the next read of the branch needs it."""
        for one in self.built:
            self._context.views.remember(one.view)
            self._context.nodes.remember(one.nodes)

    def _provenance(self, commit: CommitView, base: bytes) -> Headers:
        operation = _operation_of(self._operation, commit.obj_id.hex())
        made = Provenance(_REBASE, commit.obj_id.hex(), base.hex(), self._who, operation)
        return made.headers()
