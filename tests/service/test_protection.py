"""Protected branches are refused to writers, and what a repository is described by is kept."""

from __future__ import annotations

import pytest

from lochan.access.enforcement import EnforcedPolicy
from lochan.access.policy import Call
from lochan.base.errors import ConditionFailed, Denied, Invalid, NotFound, ReferenceNotFound
from lochan.base.limits.files import PROTECTION_STALE_US
from lochan.kernel.repository import Ports
from lochan.model.commits import CommitMeta
from lochan.model.contents import Namespace
from lochan.model.specs import parse_spec
from lochan.service.protection import tag_of
from lochan.service.repositories import Repositories
from lochan.stores.memory.store import MemoryStore
from lochan.testing.ports import ManualClock, RecordedWaiting, SeededRandom
from tests.security.guarded_wire import allow, principal
from tests.service.bench import Bench, new
from tests.service.file_bench import file_bench

ADMIN = Call("ada", rights=principal("ada", [allow("*")]).rights)
NS = Namespace(elements=("ns",))
ELSEWHERE = Call("bob", rights=principal("bob", [allow("read", references=("dev",))]).rights)


@pytest.fixture
def world():
    """Two servers of one store, and their clock."""
    clock, store = ManualClock(), MemoryStore()
    servers = [
        Repositories(
            store, Ports(clock, SeededRandom(at), RecordedWaiting(clock)), policy=EnforcedPolicy()
        )
        for at in (1, 2)
    ]
    servers[0].create(ADMIN, "one")
    return clock, servers[0].open("one"), servers[1].open("one")


def test_a_rule_counts_at_once_here_and_within_a_second_elsewhere(world):
    clock, here, there = world
    for server in (here, there):
        server.protection.check_write(ADMIN, "main")
    here.protection.replace(ADMIN, ["ma*", "rel-?"])
    for branch in ("main", "rel-1"):
        with pytest.raises(Denied, match="protected"):
            here.protection.check_write(ADMIN, branch)
    here.protection.check_write(ADMIN, "dev")
    there.protection.check_write(ADMIN, "main")
    clock.advance_us(PROTECTION_STALE_US)
    with pytest.raises(Denied):
        there.protection.check_write(ADMIN, "main")


def test_files_of_a_protected_branch_are_written_by_no_use_case(tmp_path):
    bench, _ = file_bench(tmp_path)
    me, repository = Call("me"), bench.repository
    bench.put("a", b"1")
    bench.commit_files()
    bench.put("b", b"2")
    repository.protection.replace(me, ["main"])
    writes = [
        lambda: bench.put("a", b"3"),
        lambda: repository.files.delete(me, "main", "a"),
        lambda: repository.files.delete_many(me, "main", ["a"]),
        lambda: repository.files.copy(me, "main", "c", parse_spec("main"), "a"),
        lambda: repository.multiparts.create(me, "main", "d"),
        bench.commit_files,
    ]
    for write in writes:
        with pytest.raises(Denied, match="protected"):
            write()
    assert bench.tree() == {"a": b"1", "b": b"2"}
    repository.protection.replace(me, [])
    bench.commit_files()


def test_tables_of_a_protected_branch_are_changed_by_merges_only():
    bench, me = Bench(), Call("me")
    bench.fill("t")
    bench.branch("dev")
    bench.fill("u", branch="dev")
    protection, before = bench.repository.protection, bench.head()
    protection.replace(me, ["main"])
    writes = [
        lambda: bench.change("t", "elsewhere"),
        lambda: bench.remove("t"),
        lambda: bench.fill("v"),
        lambda: bench.commit_files("main", "m", new("v")),
        lambda: bench.run(bench.repository.namespaces.create(me, "main", None, NS)),
    ]
    for write in writes:
        with pytest.raises(Denied, match="protected"):
            write()
    assert bench.head() == before
    bench.merge("dev")
    assert bench.state() == {"t": "t", "u": "u"}
    protection.replace(me, [])
    bench.fill("v")


def test_a_table_commit_learns_of_a_rule_of_another_server_within_a_second():
    here = Bench()
    there = here.again()
    there.fill("t")
    here.repository.protection.replace(Call("me"), ["main"])
    there.fill("u")
    there.clock.advance_us(PROTECTION_STALE_US)
    with pytest.raises(Denied, match="protected"):
        there.fill("v")


def test_a_refusal_of_one_commit_leaves_the_others_of_its_chain():
    bench, me = Bench(), Call("me")
    bench.repository.protection.replace(me, ["main"])
    bench.branch("dev")
    asked = [
        bench.commits.commit(me, branch, None, CommitMeta(message="m"), [new("t")])
        for branch in ("main", "dev")
    ]
    with pytest.raises(Denied, match="protected"):
        bench.run(asked[0])
    assert bench.run(asked[1]).hash == bench.head("dev")


def test_a_caller_that_may_not_view_a_protected_branch_gets_the_answer_of_an_absent_one(world):
    _, here, _ = world
    here.protection.replace(ADMIN, ["*"])
    with pytest.raises(ReferenceNotFound):
        here.protection.check_write(ELSEWHERE, "main")
    with pytest.raises(Denied, match="protected"):
        here.protection.check_write(ELSEWHERE, "dev")


def test_rules_are_replaced_only_if_they_are_as_expected(world):
    _, here, there = world
    here.protection.replace(ADMIN, ["a"])
    with pytest.raises(ConditionFailed):
        there.protection.replace(ADMIN, ["b"], tag_of([]))
    assert there.protection.get(ADMIN) == ("a",)
    there.protection.replace(ADMIN, ["b"], tag_of(["a"]))
    assert here.protection.get(ADMIN) == ("b",)
    for wrong in ([""], ["x" * 1_001], [str(at) for at in range(100_000)]):
        with pytest.raises(Invalid):
            here.protection.replace(ADMIN, wrong)
    with pytest.raises(Denied):
        here.protection.replace(ELSEWHERE, [])


def test_names_and_values_of_two_writers_are_all_kept(world):
    _, here, there = world
    here.metadata.update(ADMIN, {"a": "1", "b": "1"})
    there.metadata.update(ADMIN, {"b": "2", "c": "2"}, ["a"])
    assert here.metadata.get(ADMIN) == {"b": "2", "c": "2"}
    here.settings.remove(ADMIN, "METADATA")
    assert there.metadata.get(ADMIN) == {}
    with pytest.raises(NotFound):
        here.settings.remove(ADMIN, "METADATA")
