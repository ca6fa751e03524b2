"""Random requests on the kernel's own proposals: commits, merges, picks, reverts, claims, moves.

Keys and values are few, so that changes meet each other and values come back (A to B, then B to A).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from random import Random
from typing import Any

import msgspec

from lochan.base.ids import InstanceId, ObjId
from lochan.base.keys import table_key
from lochan.base.names import RefName
from lochan.codec.elements import pack_table
from lochan.codec.rows import Description
from lochan.index.layers import find_many
from lochan.kernel import merge as merging
from lochan.kernel.build import Head
from lochan.kernel.claims import ClaimedProposal
from lochan.kernel.head_moves import HeadMoves, Source
from lochan.kernel.history import iterate_log
from lochan.kernel.merge import CarryProposal, MergeProposal
from lochan.kernel.merge_choices import Behaviour, Choices, KeyChoice
from lochan.kernel.plan import ANY, Anything, CommitPlan, Operation
from lochan.kernel.provenance import Initiator
from lochan.kernel.publish import Publisher
from lochan.kernel.references import NewReferenceRow, ReferenceIndex
from lochan.kernel.repository import Ports, create_repository
from lochan.kernel.views import CommitView
from lochan.testing.models import merges as model
from lochan.testing.models.history import Content, applied
from lochan.testing.models.history import History as Plain
from lochan.testing.models.merges import Conflict, Outcome, Planned
from lochan.testing.sim import Server
from tests.kernel.workbench import claim
from tests.sim.kernel_scenarios import parts_of
from tests.sim.mixed_requests import (
    BRANCHES,
    MAIN,
    SIDE,
    THIRD,
    DrawnMove,
    Draws,
    Lanes,
    Moved,
    Request,
)

KEYS = [bytes(table_key([name])) for name in "abc"]
VALUES = "ABC"


def element(key: bytes, value: str) -> bytes:
    return pack_table(1, ObjId(value.encode() * 32), key[-1:] * 16)


class App:
    """What one server has in memory."""

    def __init__(self, server: Server) -> None:
        self.context = parts_of(server, server.world.prepared[:2])
        self.names = ReferenceIndex(self.context)
        self.heads = HeadMoves(self.context, self.names)
        self.lanes = Lanes(lambda name: Publisher(self.context, name, self.names.find))

    @staticmethod
    def read_key(raw: bytes) -> bytes:
        """Returns a key as the model has it."""
        return raw

    @staticmethod
    def read_value(raw: bytes) -> bytes:
        """Returns an element as the model has it."""
        return raw

    @staticmethod
    def operation_of(hidden: dict[str, tuple[str, ...]]) -> str:
        """Returns by which request a commit was made."""
        return hidden.get("operation", ("",))[0]


class Commit:
    """The proposal of a plain commit; `expected` is what some keys must hold."""

    incarnation = None

    def __init__(
        self,
        name: str,
        puts: dict[bytes, bytes | None],
        expected: dict[bytes, bytes | Anything | None],
    ) -> None:
        self._operations = [
            Operation(key, value, expected.get(key, ANY)) for key, value in puts.items()
        ]
        self.keys = tuple(puts)
        self._name = name

    def plan(self, head: Head) -> Sequence[CommitPlan]:
        return [CommitPlan(self._operations, self._name, hidden=hidden_of(self._name))]


def hidden_of(name: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return (("operation", (name,)),)


def set_up(server: Server) -> tuple[InstanceId, Description]:
    """Three branches that have parted; one has merged another, which has changed that key again."""
    ports = Ports(server.clock, server.random, server.waiting)
    context = create_repository(server.store, ports, "default")
    names = ReferenceIndex(context)
    publishers = {name: Publisher(context, name) for name in BRANCHES}

    def put(branch: RefName, name: str, **values: str) -> None:
        keys = {bytes(table_key([key])): value for key, value in values.items()}
        puts: dict[bytes, bytes | None] = {k: element(k, value) for k, value in keys.items()}
        publishers[branch].publish([Commit(name, puts, {})])

    put(MAIN, "setup1", a="A", b="A")
    head = ObjId(names.get(MAIN).row.pointer)
    names.create_many(
        [NewReferenceRow(name, "BRANCH", head) for name in (SIDE, THIRD)], Initiator("setup")
    )
    put(SIDE, "setup2", a="B")
    put(THIRD, "setup3", c="A")
    source = context.views.load(ObjId(names.get(SIDE).row.pointer))
    merge = MergeProposal(context, source, "setup4", Choices(), hidden=hidden_of("setup4"))
    publishers[THIRD].publish([merge])
    put(SIDE, "setup5", a="C", b="B")
    return context.instance, context.description


def model_choices(choices: Choices) -> model.Choices:
    keys = {
        key: model.Choice(
            one.behaviour.value,
            one.expected_target if one.has_expected_target else msgspec.UNSET,
            one.resolved if one.has_resolved else msgspec.UNSET,
        )
        for key, one in choices.keys.items()
    }
    return model.Choices(choices.default.value, keys)


def commit_outcome(
    name: str,
    content: Content,
    puts: dict[bytes, bytes | None],
    expected: dict[bytes, bytes | Anything | None],
) -> Outcome:
    """What a commit with expectations must give; a removal expects that the key exists."""
    conflicts = []
    for key, value in puts.items():
        wanted = expected.get(key, ANY)
        if isinstance(wanted, Anything):
            if value is None and key not in content:
                conflicts.append(Conflict(key))
        elif wanted != content.get(key):
            conflicts.append(Conflict(key))
    if conflicts:
        return Outcome(conflicts=tuple(conflicts))
    return Outcome((Planned(puts, applied(content, puts), name),))


def draw_element(random: Random, key: bytes) -> bytes | None:
    return None if random.random() < 0.2 else element(key, random.choice(VALUES))


def draw_default(random: Random) -> Choices:
    return Choices(random.choices(list(Behaviour), weights=[12, 4, 1, 3], k=1)[0])


def draw_choice(random: Random, key: bytes, target: bytes | None) -> KeyChoice:
    """Draws a choice for one key; what the target is expected to hold is mostly what it does."""
    kind = random.random()
    if kind < 0.4:
        return KeyChoice(random.choice(list(Behaviour)))
    expected = target if random.random() < 0.7 else draw_element(random, key)
    if kind < 0.7:
        return KeyChoice(expected_target=expected, has_expected_target=True)
    return KeyChoice(
        expected_target=expected,
        has_expected_target=True,
        resolved=draw_element(random, key),
        has_resolved=True,
    )


class KernelDraws(Draws):
    """Draws requests and prepares their proposals, as a service would outside of the lane."""

    @property
    def _app(self) -> App:
        app: App = self.server.app
        return app

    def view(self, branch: RefName) -> CommitView:
        """Reads where a branch is, as the resolution of a name does."""
        return self._app.context.views.load(ObjId(self._app.names.get(branch).row.pointer))

    def line(self, branch: RefName) -> list[CommitView]:
        """Returns the last few commits of a branch, oldest first."""
        head = self.view(branch)
        return list(islice(iterate_log(self._app.context.views, head.obj_id), 4))[::-1]

    def choices(self, branch: RefName) -> Choices:
        """Mostly plain; now and then a behaviour for all keys, or a choice for one."""
        choices = draw_default(self.random)
        if self.random.random() < 0.65:
            return choices
        key = self.random.choice(KEYS)
        index = self.view(branch).tables
        (target,) = find_many(self._app.context.nodes, index, [key])
        one = draw_choice(self.random, key, target)
        return msgspec.structs.replace(choices, keys={key: one})

    def commit(self, branch: RefName) -> Request:
        """Puts or removes one or two keys, now and then on condition of what is there."""
        random, name = self.random, self.name()
        puts: dict[bytes, bytes | None] = {}
        expected: dict[bytes, bytes | Anything | None] = {}
        for key in random.sample(KEYS, random.choice((1, 1, 2))):
            puts[key] = draw_element(random, key)
            if puts[key] is not None and random.random() < 0.2:
                expected[key] = draw_element(random, key)

        def outcomes(plain: Plain, head: str) -> list[Outcome]:
            return [commit_outcome(name, plain.content(head), puts, expected)]

        return Request(name, "commit", branch, Commit(name, puts, expected), outcomes)

    def merge(self, branch: RefName, source: RefName | None = None) -> Request:
        """Merges a branch as it is now; squashed or replayed."""
        random, name = self.random, self.name()
        replay = random.random() < 0.35
        choices = self.choices(branch)
        view = self.view(source or self.other(branch))
        if random.random() < 0.1 and view.sequence > 1:
            # A commit that was the head of the branch before.
            view = self._app.context.views.load(view.parent)

        def outcomes(plain: Plain, head: str) -> list[Outcome]:
            wanted = model_choices(choices)
            found = model.merge(plain, head, view.obj_id.hex(), wanted, replay=replay)
            return list(found.values())

        context, hidden = self._app.context, hidden_of(name)
        proposal = MergeProposal(context, view, name, choices, replay=replay, hidden=hidden)
        request = Request(name, "replay" if replay else "merge", branch, proposal, outcomes)
        request.source = view.obj_id.hex()
        return request

    def pick(self, branch: RefName, *, transplant: bool) -> Request:
        """A transplant of commits that follow each other, or a pick of any, in any order."""
        random, context, name = self.random, self._app.context, self.name()
        squash = random.random() < 0.5
        choices = draw_default(random)
        if transplant:
            line = self.line(self.other(branch))
            start = random.randrange(len(line))
            line = line[start : start + 2]
        else:
            others = [one for one in BRANCHES if one != branch]
            found = {view.obj_id: view for one in others for view in self.line(one)}
            count = min(random.choice((1, 2, 3)), len(found))
            line = random.sample(list(found.values()), count)
        ids = [view.obj_id.hex() for view in line]

        def outcomes(plain: Plain, head: str) -> list[Outcome]:
            return [model.pick(plain, head, ids, model_choices(choices), squash=squash)]

        hidden = hidden_of(name)
        carried = merging.replayed(context, line, hidden=lambda _: hidden)
        if squash:
            carried = [merging.squashed(context, line, name, (), hidden)]
        kind = f"{'transplant' if transplant else 'pick'}{' squashed' if squash else ''}"
        return Request(name, kind, branch, CarryProposal(carried, choices, None), outcomes)

    def revert(self, branch: RefName) -> Request:
        """Undoes one of the last commits of the branch."""
        context, name = self._app.context, self.name()
        view = self.random.choice(self.line(branch))
        choices = draw_default(self.random)

        def outcomes(plain: Plain, head: str) -> list[Outcome]:
            if not plain.is_on_line(head, view.obj_id.hex()):
                return [Outcome(invalid="not there")]
            carried = [model.reverted(plain, plain.commits[view.obj_id.hex()])]
            return [model.carry(plain.content(head), carried, model_choices(choices))]

        carried = [merging.reverted(context, view, name, hidden=hidden_of(name))]
        proposal = CarryProposal(carried, choices, None, [view])
        return Request(name, "revert", branch, proposal, outcomes)

    def claimed(self, branch: RefName) -> Request:
        """A request with an idempotency key, which others send too."""
        request = self.merge(branch) if self.random.random() < 0.5 else self.commit(branch)
        context = self._app.context
        made: Any = claim(context, "client", branch, b"same", branch, self._app.names.find)
        operation = made.operation
        request.operation = operation if isinstance(operation, str) else operation.hex()
        request.claimed = ClaimedProposal(context, request.proposal, made)
        return request

    def any(self, branch: RefName) -> Request:
        """Draws a request of any kind."""
        kinds: list[Callable[[], Request]] = [
            lambda: self.commit(branch),
            lambda: self.merge(branch),
            lambda: self.pick(branch, transplant=True),
            lambda: self.pick(branch, transplant=False),
            lambda: self.revert(branch),
            lambda: self.claimed(branch),
        ]
        return self.random.choices(kinds, weights=(5, 8, 1.5, 2, 1.5, 2), k=1)[0]()

    def move(self, hows: Sequence[str]) -> tuple[DrawnMove, Callable[[], Moved]]:
        """Moves a branch to another one, onto another one, or a few commits back."""
        random, app = self.random, self._app
        branch, how = self.branch(), random.choice(hows)
        line = self.line(self.other(branch) if random.random() < 0.8 else branch)
        view = line[-1] if random.random() < 0.8 else line[0]
        choices = draw_default(random)
        request = DrawnMove(self.name(), how, branch, view.obj_id.hex())
        expected = self.view(branch).obj_id if how == "assign" else None
        request.model = move_model(request, choices, None if expected is None else expected.hex())

        def make() -> Moved:
            if expected is not None:
                row = app.names.assign(branch, expected, view.obj_id, Initiator(request.name))
                return Moved(True, row.pointer.hex())
            more = {"choices": choices} if how == "rebase" else {}
            done = getattr(app.heads, how)(branch, Source(view), Initiator(request.name), **more)
            return Moved(done.moved, done.row.pointer.hex())

        return request, make


def move_model(
    request: DrawnMove, choices: Choices, expected: str | None
) -> Callable[[Plain, str], Outcome | None]:
    """Returns what a move must make on top of its source; None if it has nothing to do."""

    def outcome(plain: Plain, head: str) -> Outcome | None:
        source = request.source
        if request.how == "rebase":
            rebased = model.rebase(plain, head, source, model_choices(choices))
            return rebased.outcome if rebased.moved else None
        if request.how == "fast_forward":
            moves = model.fast_forward(plain, head, source)
            return Outcome(invalid="behind") if moves is None else Outcome() if moves else None
        if request.how == "assign":
            return Outcome(invalid="head") if expected != head else Outcome()
        return None if head == source else Outcome()

    return outcome
