"""Requests on three branches and how servers drive them: lanes, chains, one statement for several.

A schedule decides which requests are made as well as how they interleave: every actor draws its own
from the seed of the run and its name. A trace line carries the seed, so it repeats them too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import msgspec

from lochan.base.errors import LochanError
from lochan.base.names import RefName, ref_name
from lochan.kernel.lane import Lane
from lochan.kernel.publish import Proposal, Publisher, Settled
from lochan.kernel.publish_many import BranchBatch, publish_many
from lochan.testing.models.history import History as Plain
from lochan.testing.models.merges import Outcome
from lochan.testing.sim import Server

MAIN, SIDE, THIRD = BRANCHES = [ref_name(name) for name in ("main", "side", "third")]

Act = Callable[[Server], None]

Model = Callable[[Plain, str], list[Outcome]]
"""What a request may give on a head: an outcome for each best common ancestor."""


class Request:
    """A request as it was made: a proposal for the lane, and what the model predicts.

    `source` is the commit that a merge merges, in hex. Commits contain the `operation` by which
    they were made. A request with an idempotency key shares its operation with others.
    """

    def __init__(self, name: str, kind: str, branch: RefName, proposal: Any, model: Model) -> None:
        self.name = name
        self.kind = kind
        self.branch = branch
        self.proposal = proposal
        self.model = model
        self.source = ""
        self.operation = name
        self.finish: Callable[[Settled], Any] | None = None
        self.claimed: Any = None

    def __repr__(self) -> str:
        return f"{self.name}:{self.kind}>{self.branch}"


class DrawnMove:
    """The move of a branch as it was requested.

    The model returns what is made on top of the source, refused or not; None if there is nothing
    to do.
    """

    def __init__(self, name: str, how: str, branch: RefName, source: str) -> None:
        self.name = name
        self.how = how
        self.branch = branch
        self.source = source
        self.model: Callable[[Plain, str], Outcome | None] = lambda *_: None

    def __repr__(self) -> str:
        return f"{self.name}:{self.how}>{self.branch}"


class Moved(msgspec.Struct, frozen=True):
    """What was answered to a move: whether the branch moved, and where it is."""

    moved: bool
    head: str


class Lanes:
    """The lanes and publishers of one server."""

    def __init__(self, open_publisher: Callable[[RefName], Publisher]) -> None:
        self.open_publisher = open_publisher
        self.lanes: dict[RefName, Lane[list[Any]]] = {name: Lane() for name in BRANCHES}
        self.publishers = {name: open_publisher(name) for name in BRANCHES}

    def drive(self) -> bool:
        """Publishes what waits, several branches by one statement; False if nothing may be."""
        taken = [(name, lane.take()) for name, lane in self.lanes.items() if lane.may_take]
        answers: list[Any] = [None] * len(taken)
        if len(taken) > 1:
            answers = list(
                publish_many(
                    [
                        BranchBatch(self.publishers[name], [one[0] for one in batch])
                        for name, batch in taken
                    ]
                )
            )
        for (name, batch), answer in zip(taken, answers, strict=True):
            self._settle(name, self._alone(name, batch) if answer is None else answer)
        return bool(taken)

    def _alone(self, name: RefName, batch: Sequence[list[Any]]) -> list[Settled] | LochanError:
        def join() -> list[Proposal]:
            return [waiter[0] for waiter in self.lanes[name].take_more()]

        try:
            return self.publishers[name].publish([one[0] for one in batch], join)
        except LochanError as error:
            return error

    def _settle(self, name: RefName, answers: list[Settled] | LochanError) -> None:
        waiters = self.lanes[name].settle()
        if isinstance(answers, LochanError):
            answers = [answers] * len(waiters)
        for waiter, answer in zip(waiters, answers, strict=True):
            waiter[1] = answer


def offer(server: Server, requests: Sequence[Request]) -> list[Settled]:
    """Waits in the lanes of the requests' branches, and drives them as the servers' drivers do."""
    server.pause("offer")
    lanes: Lanes = server.app.lanes
    waiters: list[list[Any]] = []
    for request in requests:
        waiters.append([request.claimed or request.proposal, None])
        lanes.lanes[request.branch].offer(waiters[-1])

    def is_answered() -> bool:
        return all(waiter[1] is not None for waiter in waiters)

    def may_go_on() -> bool:
        return is_answered() or any(lane.may_take for lane in lanes.lanes.values())

    while not is_answered():
        if not lanes.drive():
            server.wait_until(may_go_on)
    return [waiter[1] for waiter in waiters]


def publishes(server: Server, requests: Sequence[Request]) -> list[Settled] | None:
    return server.attempt("chain", offer, server, list(requests))


def preview(server: Server, requests: Sequence[Request]) -> list[Settled]:
    """Runs requests dry while others publish; nothing may be written."""
    server.pause("preview")
    (request,) = requests
    lanes: Lanes = server.app.lanes
    return lanes.publishers[request.branch].preview([request.claimed or request.proposal])


class Draws:
    """Random of one actor, decided by the seed of the run, and names for what it asks for."""

    def __init__(self, server: Server, label: str) -> None:
        self.server = server
        self._label = f"{server.name}.{label}."
        self._count = 0
        self.random = Random(f"{server.world.seed} {self._label}")

    def name(self) -> str:
        self._count += 1
        return f"{self._label}{self._count}"

    def branch(self) -> RefName:
        return self.random.choice(BRANCHES)

    def other(self, branch: RefName) -> RefName:
        return self.random.choice([name for name in BRANCHES if name != branch])

    def commit(self, branch: RefName) -> Request:
        raise NotImplementedError

    def merge(self, branch: RefName, source: RefName | None = None) -> Request:
        raise NotImplementedError

    def any(self, branch: RefName) -> Request:
        """Draws a request of any kind."""
        raise NotImplementedError

    def move(self, hows: Sequence[str]) -> tuple[DrawnMove, Callable[[], Moved]]:
        """Draws a move, and returns how it is made."""
        raise NotImplementedError


Open = Callable[[Server, str], Draws]


def acts(open_draws: Open, label: str, rounds: int, once: Callable[[Draws], object]) -> Act:
    """An actor that does something again and again; an error in between ends one round."""

    def act(server: Server) -> None:
        draws = open_draws(server, label)
        for _ in range(rounds):
            server.attempt("round", once, draws)

    return act


def mixed(draws: Draws) -> None:
    """A chain of one to four proposals of any kind; now and then a dry run before."""
    branch = draws.branch()
    if draws.random.random() < 0.1:
        draws.server.attempt("preview", preview, draws.server, [draws.any(branch)])
    count = draws.random.choice((1, 2, 3, 4))
    publishes(draws.server, [draws.any(branch) for _ in range(count)])


def merged_again(draws: Draws) -> None:
    """One source merged several times in one chain, while it changes between."""
    target = draws.branch()
    source = draws.other(target)
    requests: list[Request] = []
    for _ in range(draws.random.choice((1, 2))):
        requests.append(draws.merge(target, source))
        if draws.random.random() < 0.8:
            publishes(draws.server, [draws.commit(source)])
    requests.append(draws.merge(target, source))
    publishes(draws.server, requests)


def together(draws: Draws) -> None:
    """Chains on several branches by one statement; the branches often merge each other."""
    random = draws.random
    branches = random.sample(BRANCHES, random.choice((2, 2, 3)))
    requests = []
    for branch in branches:
        others = [name for name in branches if name != branch]
        for _ in range(random.choice((1, 2))):
            if random.random() < 0.6:
                requests.append(draws.merge(branch, random.choice(others)))
            else:
                requests.append(draws.any(branch))
    publishes(draws.server, requests)


def one_each(draws: Draws) -> None:
    """A commit on each branch: a branch is published with others only by one who knows its row."""
    publishes(draws.server, [draws.commit(branch) for branch in BRANCHES])


def moved(*hows: str) -> Callable[[Draws], object]:
    """Moves a branch in one of these ways."""

    def move(draws: Draws) -> object:
        request, make = draws.move(hows)

        def begin(_: DrawnMove) -> Moved:
            draws.server.pause("move")
            return make()

        return draws.server.attempt("move", begin, request)

    return move


def in_turn(*several: Act) -> Act:
    def act(server: Server) -> None:
        for one in several:
            one(server)

    return act
