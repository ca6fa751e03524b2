"""How many branches a repository may have, and how long a new one may live."""

from __future__ import annotations

import pytest

from lochan.base.errors import AlreadyExists, Denied, Invalid
from lochan.base.ids import ObjId
from lochan.base.names import REFS_NAME
from lochan.index.source import CachedNodes
from lochan.kernel.name_index import BranchCount
from lochan.kernel.publish import head_at
from lochan.kernel.repository import Ports
from lochan.model.references import Reference
from lochan.model.requests import NewReference
from lochan.model.specs import parse_spec
from lochan.persist.cache import Caches
from lochan.service.quotas import ReferenceQuota
from lochan.service.repositories import Repositories
from lochan.service.repository import Repository
from lochan.stores.memory.store import MemoryStore
from lochan.testing.ports import ManualClock, RecordedWaiting, SeededRandom
from tests.service.bench import ME, Bench, writes

MAIN = parse_spec("main")
HOUR_US = 3_600_000_000


def limited(bench: Bench, quota: ReferenceQuota) -> Bench:
    server = bench.again(seed=7)
    server.repository = Repository(server.repository.context, quota=quota)
    server.references = server.repository.references
    return server


def branch(name: str, expires_us: int | None = None) -> NewReference:
    return NewReference(name=name, source=MAIN, expires_us=expires_us)


def create(server: Bench, *new: NewReference) -> tuple[Reference, ...]:
    return server.run(server.references.create_many(ME, new))


@pytest.fixture
def bench() -> Bench:
    one = Bench()
    one.fill("ns.a")
    return one


def test_a_repository_has_at_most_so_many_branches(bench):
    server = limited(bench, ReferenceQuota(branches_max=3))
    create(server, branch("one"), branch("two"))
    with pytest.raises(Denied, match="may have 3 branches"):
        create(server, branch("three"))
    server.references.delete(ME, "one", None)
    create(server, branch("three"))
    assert [one.name for one in bench.references.list(ME).items] == ["main", "three", "two"]


def test_many_at_once_are_created_together_or_not_at_all(bench):
    server = limited(bench, ReferenceQuota(branches_max=3))
    with pytest.raises(Denied):
        create(server, *[branch(f"b{number}") for number in range(3)])
    assert [one.name for one in bench.references.list(ME).items] == ["main"]


def test_tags_are_no_branches(bench):
    server = limited(bench, ReferenceQuota(branches_max=2))
    tags = [NewReference(name=f"v{number}", kind="TAG", source=MAIN) for number in range(5)]
    create(server, *tags)
    create(server, branch("one"), *[NewReference(name="v9", kind="TAG", source=MAIN)])
    with pytest.raises(Denied):
        create(server, branch("two"))
    create(server, NewReference(name="v10", kind="TAG", source=MAIN))


def test_proposals_of_one_chain_count_each_other(bench):
    server = limited(bench, ReferenceQuota(branches_max=3))
    asked = [server.references.create(ME, branch(f"b{number}")) for number in range(4)]
    answers = server.run_together(*asked)
    assert [isinstance(one, Denied) for one in answers] == [False, False, True, True]
    # What was refused, or was planned and lost, is not counted.
    server.references.delete(ME, "b0", None)
    create(server, branch("again"))


def test_servers_count_what_the_others_did(bench):
    servers = [limited(bench, ReferenceQuota(branches_max=3)) for _ in range(3)]
    create(servers[0], branch("one"))
    create(servers[1], branch("two"))
    for server in servers:
        with pytest.raises(Denied):
            create(server, branch("three"))
    bench.references.delete(ME, "two", None)
    create(servers[2], branch("three"))
    with pytest.raises(Denied):
        create(servers[0], branch("four"))


def test_a_branch_that_was_refused_wrote_nothing(bench):
    counted, counts = bench.counted()
    server = counted
    server.repository = Repository(counted.repository.context, quota=ReferenceQuota(1))
    counts.reset()
    with pytest.raises(Denied):
        server.run(server.repository.references.create(ME, branch("one")))
    assert writes(counts) == {}


def test_a_name_that_is_taken_does_not_count_twice(bench):
    server = limited(bench, ReferenceQuota(branches_max=3))
    create(server, branch("one"))
    with pytest.raises(AlreadyExists):
        create(server, branch("one"))
    create(server, branch("two"))
    # That it is taken is the reason, though there is no room for another.
    with pytest.raises(AlreadyExists):
        create(server, branch("one"))


def test_only_the_first_count_reads_the_whole_index(bench):
    create(bench, *[branch(f"b{number:04}") for number in range(2_000)])
    server, counts = bench.counted()
    context, count = server.repository.context, BranchCount()

    def counted() -> int:
        index = context.references.fetch(REFS_NAME)
        assert index is not None
        head = context.views.load(ObjId(index.row.pointer))
        # Nodes are read from the store each time.
        context.nodes = CachedNodes(context.objects, Caches())
        counts.reset()
        return count.on(head_at(context, REFS_NAME, head))

    assert counted() == 2_001
    reads = counts.calls["get_many"]
    create(bench, branch("more"))
    assert counted() == 2_002
    assert counts.calls["get_many"] < reads / 2
    bench.references.delete(ME, "b1000", None)
    assert counted() == 2_001


@pytest.mark.parametrize("expires_us", [None, 2 * HOUR_US, HOUR_US + 1])
def test_a_branch_lives_no_longer_than_allowed(bench, expires_us):
    server = limited(bench, ReferenceQuota(ttl_us_max=HOUR_US))
    now_us = server.clock.now_us()
    wanted = branch("one", None if expires_us is None else now_us + expires_us)
    with pytest.raises(Invalid, match="at most 3600 seconds"):
        create(server, wanted)
    create(server, branch("one", now_us + HOUR_US))
    create(server, NewReference(name="v1", kind="TAG", source=MAIN))


def test_new_repositories_have_their_default_branch_under_any_quota():
    clock = ManualClock()
    ports = Ports(clock, SeededRandom(1), RecordedWaiting(clock))
    quota = ReferenceQuota(branches_max=1, ttl_us_max=1_000_000)
    repository = Repositories(MemoryStore(), ports, quota=quota).create(ME, "one")
    (main,) = repository.references.list(ME).items
    assert (main.name, main.expires_us) == ("main", None)
    pending = repository.references.create(ME, branch("x", clock.now_us() + 500_000))
    (settled,) = repository.publisher(pending.branch).publish([pending.proposal])
    with pytest.raises(Denied):
        pending.finish(settled)
