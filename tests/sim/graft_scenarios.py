"""Long work that is prepared outside the lane, beside everything else that moves a branch.

A *wide* request changes so many keys that nothing of it stays embedded, so its trees are built
outside the lane and what the head changed meanwhile is put into them. The limits are small here:
two differences are too many for the lane, and a commit of two changes is built before. Small
commits change and remove some of the wide keys, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lochan.access.policy import Call
from lochan.base.ids import InstanceId
from lochan.base.keys import table_key
from lochan.base.names import RefName
from lochan.codec.rows import Description
from lochan.kernel.plan import Anything
from lochan.kernel.preparation import GraftLimits, Preparation, publish_prepared
from lochan.kernel.publish import Proposal, Publisher, Settled
from lochan.kernel.repository import Ports, open_repository
from lochan.model.commits import CommitMeta, Delete, Operation, Put
from lochan.model.specs import parse_spec
from lochan.service.repository import Repository
from lochan.testing.invariants import content_of
from lochan.testing.models.history import History as Plain
from lochan.testing.models.merges import Outcome
from lochan.testing.sim import Scenario, Server
from tests.sim import mixed_catalog, mixed_kernel
from tests.sim.mixed_catalog import CatalogDraws
from tests.sim.mixed_kernel import Commit, KernelDraws, commit_outcome, element
from tests.sim.mixed_requests import (
    MAIN,
    SIDE,
    Act,
    Draws,
    Request,
    acts,
    moved,
    offer,
    publishes,
)
from tests.sim.mixed_scenarios import DEADLY, scenario

LIMITS = GraftLimits(changes_min=2, differences_max=2, rounds_max=3, plans_max=2, offers_max=3)

WIDE = [f"w{number:03}" for number in range(120)]
"""Names of so many tables that their elements alone are more than a commit embeds."""

FREE = [f"x{number}" for number in range(4)]
"""Names of tables that only small commits change; a graft has to carry these over."""

Setup = Callable[[Server], tuple[InstanceId, Description]]


def offer_prepared(server: Server, requests: list[Request]) -> list[Settled]:
    """Drives one request as a server drives long work."""
    server.pause("prepare")
    (request,) = requests
    app = server.app
    publisher = app.lanes.open_publisher(request.branch)
    preparation = Preparation(publisher, request.claimed or request.proposal, LIMITS)

    def offered(proposal: Proposal) -> Settled:
        queued = Request(request.name, request.kind, request.branch, proposal, request.model)
        (settled,) = offer(server, [queued])
        return settled

    return [publish_prepared(preparation, offered)]


def prepared(server: Server, request: Request) -> None:
    server.attempt("chain", offer_prepared, server, [request])


class WideKernelDraws(KernelDraws):
    """Commits and merges of very many keys, on the kernel's own proposals."""

    def commit(self, branch: RefName) -> Request:
        """A small commit: on keys of its own, on one of the wide keys, or on any."""
        kind = self.random.random()
        if kind < 0.3:
            return super().commit(branch)
        names = FREE if kind < 0.8 else WIDE[:3]
        keys = [bytes(table_key([name])) for name in self.random.sample(names, 2)]
        held = self.contents(branch)
        return self._put(
            branch,
            {key: None if key in held else element(key, self.random.choice("AB")) for key in keys},
        )

    def contents(self, branch: RefName) -> Mapping[bytes, bytes]:
        """Returns what a branch holds now."""
        return content_of(self._app.context, self.view(branch))

    def wide(self, branch: RefName) -> Request:
        """Puts very many keys, and removes or expects some."""
        value = self.random.choice(mixed_kernel.VALUES)
        keys = [bytes(table_key([name])) for name in WIDE]
        puts: dict[bytes, bytes | None] = {key: element(key, value) for key in keys}
        expected: dict[bytes, bytes | Anything | None] = {}
        for key in self.random.sample(mixed_kernel.KEYS, 1):
            puts[key] = mixed_kernel.draw_element(self.random, key)
            if puts[key] is not None and self.random.random() < 0.5:
                expected[key] = mixed_kernel.draw_element(self.random, key)
        return self._put(branch, puts, expected)

    def _put(
        self,
        branch: RefName,
        puts: dict[bytes, bytes | None],
        expected: dict[bytes, bytes | Anything | None] | None = None,
    ) -> Request:
        name, wanted = self.name(), expected or {}

        def outcomes(plain: Plain, head: str) -> list[Outcome]:
            return [commit_outcome(name, plain.content(head), puts, wanted)]

        return Request(name, "commit", branch, Commit(name, puts, wanted), outcomes)


class WideCatalogDraws(CatalogDraws):
    """Commits and merges of very many contents."""

    def commit(self, branch: RefName) -> Request:
        """A small commit: on tables of its own, on one of the wide ones, or on any."""
        kind = self.random.random()
        if kind < 0.3:
            return super().commit(branch)
        name, (expected, contents) = self.name(), self.read(branch)
        operations: list[Operation] = []
        for table in self.random.sample(FREE if kind < 0.8 else WIDE[:3], 2):
            if (table,) in contents:
                operations.append(Delete(key=(table,)))
            else:
                value = self.random.choice(mixed_catalog.VALUES)
                operations.append(Put(key=(table,), content=mixed_catalog.table(value)))
        return self._commit(name, branch, expected, operations)

    def wide(self, branch: RefName) -> Request:
        """Puts very many tables, as of what was read."""
        name = self.name()
        expected, contents = self.read(branch)
        value = self.random.choice(mixed_catalog.VALUES)
        operations: list[Operation] = []
        for table in WIDE:
            held = contents.get((table,))
            content = mixed_catalog.table(value, None if held is None else held.id)
            operations.append(Put(key=(table,), content=content))
        operations += mixed_catalog.draw_operations(
            self.random, {key: one for key, one in contents.items() if key[0] not in WIDE}
        )
        return self._commit(name, branch, expected, operations)

    def _commit(
        self, name: str, branch: RefName, expected: str, operations: list[Operation]
    ) -> Request:
        asked = self._repository.commits.commit(
            Call(principal=name), branch, parse_spec(expected), CommitMeta(message=name), operations
        )

        def outcomes(plain: Plain, head: str) -> list[Outcome]:
            return [mixed_catalog.commit_outcome(plain, head, expected, name, operations)]

        return self._request(name, "commit", asked, outcomes)


def long_work(draws: Any) -> None:
    """A wide commit, a merge of what another branch has, or anything else, prepared."""
    kind = draws.random.random()
    if kind < 0.45:
        prepared(draws.server, draws.wide(MAIN))
    elif kind < 0.85:
        prepared(draws.server, draws.merge(MAIN, SIDE))
    else:
        prepared(draws.server, draws.any(MAIN))


def keyed(draws: Any) -> None:
    """A request with an idempotency key, which another server gets too."""
    prepared(draws.server, draws.claimed(MAIN))


def small(draws: Draws) -> None:
    """One or two small commits on the same branch, as a chain; now and then something else."""
    if draws.random.random() < 0.2:
        publishes(draws.server, [draws.any(MAIN)])
    else:
        count = draws.random.choice((1, 1, 2))
        publishes(draws.server, [draws.commit(MAIN) for _ in range(count)])


def wide_of_kernel(server: Server) -> tuple[InstanceId, Description]:
    """The branches of mixed chains; one of them has very many keys that the others lack."""
    instance, description = mixed_kernel.set_up(server)
    context = open_repository(
        server.store, Ports(server.clock, server.random, server.waiting), "default"
    )
    keys = [bytes(table_key([name])) for name in WIDE]
    Publisher(context, SIDE).publish([Commit("wide", {key: element(key, "A") for key in keys}, {})])
    return instance, description


def wide_of_catalog(server: Server) -> tuple[InstanceId, Description]:
    """The same with contents."""
    instance, description = mixed_catalog.set_up(server)
    ports = Ports(server.clock, server.random, server.waiting)
    repository = Repository(open_repository(server.store, ports, "default"))
    head = repository.references.get(Call(), SIDE).hash
    operations = [Put(key=(name,), content=mixed_catalog.table("A")) for name in WIDE]
    meta = CommitMeta(message="wide")
    asked = repository.commits.commit(
        Call(principal="setup"), SIDE, parse_spec(head), meta, operations
    )
    (settled,) = repository.publisher(SIDE).publish([asked.proposal])
    asked.finish(settled)
    return instance, description


def kernel(label: str, rounds: int, once: Callable[[Draws], object]) -> Act:
    return acts(WideKernelDraws, label, rounds, once)


def catalog(label: str, rounds: int, once: Callable[[Draws], object]) -> Act:
    return acts(WideCatalogDraws, label, rounds, once)


def of_kernel(name: str, servers: dict[str, list[Any]], **more: Any) -> Scenario:
    return scenario(name, servers, setup=wide_of_kernel, **more)


def of_contents(name: str, servers: dict[str, list[Any]], **more: Any) -> Scenario:
    return scenario(name, servers, setup=wide_of_catalog, open=mixed_catalog.App, **more)


BESIDE = "long work beside chains"
BESIDE_OTHERS = "long work beside chains of another server"
BESIDE_MOVES = "long work beside moves"
KEYED = "long work that is sent twice"
DEATHS = "long work on servers that die"
CONTENTS = "long work on contents beside chains"
CONTENTS_TWO = "long work on contents beside another server"

LONG_OF_KERNEL = [
    of_kernel(BESIDE, {"s1": [kernel("l", 2, long_work), kernel("a", 6, small)]}),
    of_kernel(
        BESIDE_OTHERS,
        {"s1": [kernel("l", 2, long_work)], "s2": [kernel("a", 4, small), kernel("b", 3, small)]},
        row_locks=True,
    ),
    of_kernel(
        BESIDE_MOVES,
        {
            "s1": [kernel("l", 2, long_work), kernel("m", 1, moved("force", "rebase"))],
            "s2": [kernel("n", 1, moved("assign", "force")), kernel("a", 3, small)],
        },
    ),
    of_kernel(
        KEYED,
        {"s1": [kernel("k", 2, keyed)], "s2": [kernel("l", 2, keyed), kernel("a", 1, small)]},
    ),
    of_kernel(
        DEATHS,
        {
            "s1": [kernel("l", 2, long_work)],
            "s2": [kernel("a", 4, small)],
        },
        faults=DEADLY,
        restart=lambda server: [kernel("again", 1, long_work)],
    ),
]

LONG_OF_CATALOG = [
    of_contents(CONTENTS, {"s1": [catalog("l", 2, long_work), catalog("a", 5, small)]}),
    of_contents(CONTENTS_TWO, {"s1": [catalog("l", 2, long_work)], "s2": [catalog("a", 4, small)]}),
]

SCENARIOS = [*LONG_OF_KERNEL, *LONG_OF_CATALOG]
