"""Planted faults in the kernel's protocols, each of which the explorer must find.

A mutant is patched into the real code; the scenarios named beside it must notice it within 2,000
schedules. A scenario that does not notice its mutant would prove nothing.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from lochan.base.errors import Unavailable, Unknown
from lochan.base.ids import ObjId
from lochan.base.keys import file_key
from lochan.base.names import REFS_NAME
from lochan.kernel import moves, name_index, publish, references
from lochan.kernel.build import Builder, Head
from lochan.kernel.claims import ClaimedProposal
from lochan.kernel.history import contains
from lochan.kernel.plan import CommitPlan, Operation
from lochan.kernel.publish import Published, Publisher
from lochan.kernel.references import ReferenceIndex
from lochan.kv.store import PRESENT, Lost, Stamp, Won
from lochan.persist import rows
from lochan.persist.references import References
from lochan.persist.rows import Done
from tests.sim.kernel_scenarios import SCENARIOS
from tests.sim.mutants import find_violation

SCHEDULES_MAX = 2_000
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}

Patch = Callable[[pytest.MonkeyPatch], None]


def unknown_counts_as_lost(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Publisher, "_resolve", lambda *_: Lost(None))


def unknown_counts_as_won(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Publisher, "_resolve", lambda *_: Done(None))


def head_only_after_unknown(patch: pytest.MonkeyPatch) -> None:
    def look(self, chain):
        found = self.context.references.fetch(self._name)
        return found is not None and found.row.pointer == chain.built[-1].view.obj_id

    patch.setattr(Publisher, "_was_published", look)


def walk_without_resend(patch: pytest.MonkeyPatch) -> None:
    def walk(self, begun):
        return Done(None) if self._was_published(begun.chain) else Lost(None)

    patch.setattr(Publisher, "_resolve", walk)


def walk_that_ignores_moves(patch: pytest.MonkeyPatch) -> None:
    def walk(self, chain):
        context, wanted = self.context, chain.built[-1].view
        found = context.references.fetch(self._name)
        if found is None:
            return False
        head = context.views.load(ObjId(found.row.pointer))
        return contains(context.views, head, wanted.obj_id, wanted.generation)

    patch.setattr(Publisher, "_was_published", walk)


def refusal_on_a_remembered_head(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Publisher, "_is_current", lambda *_: True)


def chain_goes_on_from_a_refused_member(patch: pytest.MonkeyPatch) -> None:
    def plan(self, row, proposals, recent, reach):
        context = self.context
        head = context.views.load(ObjId(row.row.pointer))
        builder = Builder(context.views, context.nodes, context.rule, context.clock, head)
        chain = publish._Chain(row, [], [], row.row, reach)
        for proposal in proposals:
            made = []
            try:
                for one in proposal.plan(Head(head, builder, row.row)):
                    made.append(builder.build(head, one))
                    chain.built.append(made[-1])
                    head = made[-1].view
            except publish.REFUSALS as refusal:
                chain.settled.append(refusal)
                continue
            chain.settled.append(Published(head, tuple(built.view for built in made)))
        return chain

    patch.setattr(Publisher, "_plan", plan)


def blind_set_of_the_head(patch: pytest.MonkeyPatch) -> None:
    right = References.condition

    def blind(self, row, expected):
        condition = right(self, row, expected)
        if expected is None or row.name == REFS_NAME:
            return condition
        return msgspec.structs.replace(condition, expected=PRESENT)

    patch.setattr(References, "condition", blind)


def blind_set_of_the_index(patch: pytest.MonkeyPatch) -> None:
    right = References.condition

    def blind(self, row, expected):
        condition = right(self, row, expected)
        if row.name != REFS_NAME or expected is None:
            return condition
        return msgspec.structs.replace(condition, expected=PRESENT)

    patch.setattr(References, "condition", blind)


def claim_is_checked_once(patch: pytest.MonkeyPatch) -> None:
    right = ClaimedProposal._find

    def once(self, head, claimed):
        if getattr(self, "looked", False):
            return None
        self.looked = True
        return right(self, head, claimed)

    patch.setattr(ClaimedProposal, "_find", once)


def claim_is_never_checked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ClaimedProposal, "_find", lambda *_: None)


def moves_are_logged_after_the_swap_only(patch: pytest.MonkeyPatch) -> None:
    right = moves.moved

    def without(row, move, **changes):
        return msgspec.structs.replace(right(row, move, **changes), moves=row.moves)

    def forget(self, row, copied):
        """Stands for the crash between the swap and the copy."""

    patch.setattr(references, "moved", without)
    patch.setattr(moves.MoveLog, "copy", forget)


def recovery_without_incarnation(patch: pytest.MonkeyPatch) -> None:
    right = ReferenceIndex._finish_create

    def add_again(self, name, element):
        found = self._context.references.fetch(name)
        if found is not None and found.row.deleted:
            row = msgspec.structs.replace(
                found.row, deleted=False, incarnation=element.incarnation, pointer=element.pointer
            )
            self._context.references.update(row, found)
            return row
        return right(self, name, element)

    def find(self, name):
        found = self._context.references.fetch(name)
        if found is not None and not found.row.deleted:
            return found
        element = self._index.find(name)
        if element is None:
            return None
        self._finish_create(name, element)
        return self._context.references.fetch(name)

    patch.setattr(ReferenceIndex, "_finish_create", add_again)
    patch.setattr(ReferenceIndex, "find", find)


def removal_without_incarnation(patch: pytest.MonkeyPatch) -> None:
    def plan(self, head):
        key = file_key(self._name)
        found = head.find([key])[key]
        if found is None:
            return []
        return [CommitPlan([Operation(key, None)], "delete reference")]

    patch.setattr(name_index.RemoveName, "plan", plan)


def tombstone_is_purged_at_once(patch: pytest.MonkeyPatch) -> None:
    right = ReferenceIndex.delete

    def purge(self, name, expected, who):
        row = right(self, name, expected, who)
        found = self._context.references.fetch(name)
        if found is not None and found.row.deleted:
            self._context.references.remove(found)
        return row

    patch.setattr(ReferenceIndex, "delete", purge)


def delete_leaves_the_index(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ReferenceIndex, "_finish_delete", lambda *_: None)


def row_swap_unknown_counts_as_lost(patch: pytest.MonkeyPatch) -> None:
    def send_once(send, *_):
        try:
            return send()
        except Unknown:
            return Lost(None)

    patch.setattr(rows, "send_until_known", send_once)


def unavailable_counts_as_won(patch: pytest.MonkeyPatch) -> None:
    right = Publisher._apply

    def careless(self, objects, condition, apply):
        try:
            return right(self, objects, condition, apply)
        except Unavailable:
            return Won(Stamp(b""))

    patch.setattr(Publisher, "_apply", careless)


MUTANTS: dict[Patch, list[str]] = {
    unknown_counts_as_lost: ["single commits on three servers"],
    unknown_counts_as_won: ["single commits on three servers"],
    head_only_after_unknown: ["single commits on three servers"],
    walk_without_resend: ["single commits on three servers"],
    walk_that_ignores_moves: ["assign during unknown"],
    refusal_on_a_remembered_head: ["expectations on one key"],
    chain_goes_on_from_a_refused_member: ["proposals of several commits"],
    blind_set_of_the_head: ["single commits on three servers"],
    blind_set_of_the_index: ["bulk create"],
    claim_is_checked_once: ["idempotent retries on two servers"],
    claim_is_never_checked: ["idempotent retries on two servers"],
    moves_are_logged_after_the_swap_only: ["assign during unknown"],
    recovery_without_incarnation: ["delete and create again", "bulk create"],
    removal_without_incarnation: ["delete and create again"],
    tombstone_is_purged_at_once: ["delete and create again"],
    delete_leaves_the_index: ["delete and create again"],
    row_swap_unknown_counts_as_lost: ["assign during unknown", "delete and create again"],
    unavailable_counts_as_won: ["single commits on three servers"],
}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_the_explorer_finds(
    mutant: Patch,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:
    mutant(monkeypatch)

    found = find_violation([BY_NAME[name] for name in MUTANTS[mutant]], SCHEDULES_MAX)
    record_property(
        "counted", f"mutant {mutant.__name__}: schedule {found.seed} of {found.scenario}"
    )
