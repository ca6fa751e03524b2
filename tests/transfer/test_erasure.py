"""A repository is erased as a whole, and only the one that was meant."""

from __future__ import annotations

import pytest

from lochan.access.policy import Call
from lochan.base.errors import Conflict, NotFound
from lochan.base.ids import InstanceId, ObjId
from lochan.kernel.check_store import CheckOptions, check_store
from lochan.kernel.repository import (
    DELETED_PLACE,
    REPOSITORIES_PLACE,
    create_repository,
    read_instance,
)
from lochan.kv.store import Store
from lochan.kv.walk import WalkPage, find_walk
from lochan.model.stores import EraseStep
from lochan.service.repositories import Repositories
from lochan.stores.memory.store import MemoryStore
from lochan.testing.faults import FaultyStore, SimulatedCrash
from lochan.testing.ports import ManualClock
from lochan.transfer import erasure
from lochan.transfer.erasure import erase_some, erase_token, list_deleted, plan_erasure
from lochan.transfer.retried import Retried
from lochan.transfer.sources import StoreSource
from tests.profile import counted
from tests.transfer.test_store_copy import CrashAt, WithoutWalk
from tests.transfer.workbench import contents, fill, new_ports

GRACE_S = 60


class Eraser:
    """One server that erases; its clock stands."""

    def __init__(self, store: Store, seed: int = 5) -> None:
        self.store = store
        self.ports = new_ports(seed)
        assert isinstance(self.ports.clock, ManualClock)
        self.clock = self.ports.clock
        self.repositories = Repositories(store, self.ports)

    def delete(self, name: str) -> None:
        self.repositories.delete(Call(repository=name), name)

    def step(self, name: str, token: str, grace_s: int = 0, position: str = "") -> EraseStep:
        return erase_some(
            self.store,
            self.ports.clock,
            Retried(self.ports),
            name,
            token,
            self.delete,
            position=position,
            grace_s=grace_s,
        )

    def erase(self, name: str, token: str) -> list[int]:
        """Erases; returns how many partitions each step has dropped."""
        step = EraseStep(name, token)
        dropped = []
        while not step.done:
            step = self.step(name, token, position=step.position)
            dropped.append(step.partitions)
        return dropped


def instance_of(store: Store, name: str) -> InstanceId:
    listed = store.get(REPOSITORIES_PLACE, name.encode())
    assert listed is not None
    return read_instance(listed)


def rows_of_instance(store: MemoryStore, instance: bytes) -> int:
    return sum(len(t.rows) for place, t in store._tables.items() if place.startswith(instance))


def token_of(store: Store, name: str) -> str:
    return plan_erasure(StoreSource(store), name).token


def filled() -> MemoryStore:
    store = MemoryStore()
    fill(store, commits=20)
    return store


def test_a_plan_erases_nothing():
    store = filled()
    before = contents(store)
    plan = plan_erasure(StoreSource(store), "repo")
    assert (plan.partitions, plan.done) == (0, False)
    assert contents(store) == before


@pytest.mark.parametrize("wrap", [lambda store: store, WithoutWalk], ids=["walk", "no walk"])
def test_an_erased_repository_leaves_no_row_and_the_others_lose_none(wrap):
    store = filled()
    instance = instance_of(store, "repo")
    others = {
        place: rows
        for place, rows in contents(store).items()
        if not place.startswith((instance, bytes(16)))
    }
    assert rows_of_instance(store, instance) > 40
    assert sum(Eraser(wrap(store)).erase("repo", token_of(store, "repo"))) > 20
    assert rows_of_instance(store, instance) == 0
    left = contents(store)
    assert {place: left[place] for place in others} == others
    assert not any(instance in rows for rows in left.values())
    assert not check_store(store, new_ports(), CheckOptions(history=True)).findings


def test_only_the_repository_of_the_token_is_erased():
    store = filled()
    token = token_of(store, "repo")
    for wrong in ("", "0" * 16, token_of(store, "other")):
        with pytest.raises(Conflict, match="the token is not that of the repository 'repo'"):
            Eraser(store).step("repo", wrong)
    Eraser(store).delete("repo")
    create_repository(store, new_ports(50), "repo")
    with pytest.raises(Conflict, match="the token is not that"):
        Eraser(store).step("repo", "0" * 16)
    # The old one is erased, and the new one of the same name stays.
    Eraser(store).erase("repo", token)
    assert token_of(store, "repo") != token
    assert instance_of(store, "repo")


def test_a_repository_that_was_deleted_before_is_erased():
    store = filled()
    (gone,) = list_deleted(StoreSource(store))
    assert gone.name == "gone"
    assert rows_of_instance(store, gone.instance)
    assert sum(Eraser(store).erase("gone", token_of(store, "gone")))
    assert rows_of_instance(store, gone.instance) == 0
    assert list_deleted(StoreSource(store)) == []
    with pytest.raises(NotFound, match="none of that name was deleted"):
        plan_erasure(StoreSource(store), "gone")


def test_an_erasure_that_has_ended_may_be_sent_again():
    store = filled()
    token = token_of(store, "repo")
    Eraser(store).erase("repo", token)
    assert Eraser(store).step("repo", token).done


def test_an_erasure_ends_when_no_server_can_write_to_the_repository_any_more():
    store = filled()
    eraser = Eraser(store)
    token = token_of(store, "repo")
    other = Repositories(store, new_ports(9)).open("repo").context
    assert eraser.step("repo", token, GRACE_S).partitions
    step = eraser.step("repo", token, GRACE_S)
    assert (step.done, step.partitions) == (False, 0)
    assert 0 < step.wait_ms <= GRACE_S * 1_000
    # A server that has not noticed the deletion yet stores an object of a commit that will lose.
    other.objects.store_many([(ObjId(b"late".ljust(32, b"x")), b"late")])
    eraser.clock.advance_us(GRACE_S * 1_000_000)
    assert eraser.step("repo", token, GRACE_S).partitions == 1
    assert eraser.step("repo", token, GRACE_S).done
    assert rows_of_instance(store, other.instance) == 0


def test_an_erasure_is_done_in_bounded_steps(monkeypatch):
    monkeypatch.setattr(erasure, "ERASE_PAGES_MAX", 1)
    monkeypatch.setattr(erasure, "COPY_PAGE_ROWS_FIRST", 3)
    store = filled()
    steps = Eraser(store).erase("repo", token_of(store, "repo"))
    assert len(steps) > 5
    assert max(steps[1:]) <= 3
    assert steps[-1] == 0


class EmptyPages(WithoutWalk):
    """A store whose walks pass many rows of others first, as a scan of a whole table does."""

    def __getattr__(self, name: str):
        return self._walk if name == "walk" else super().__getattr__(name)

    def _walk(self, prefix: bytes, cursor: bytes, limit: int) -> WalkPage:
        walk = find_walk(self._store)
        assert walk is not None
        passed, rest = (cursor[0], cursor[1:]) if cursor else (0, b"")
        if passed < 100:
            return WalkPage([], bytes((passed + 1,)) + rest)
        page = walk(prefix, rest, limit)
        further = page.next_cursor
        return WalkPage(page.rows, None if further is None else b"\0" + further)


def test_rows_behind_many_empty_pages_are_erased():
    store = filled()
    instance = instance_of(store, "repo")
    steps = Eraser(EmptyPages(store)).erase("repo", token_of(store, "repo"))
    assert len(steps) > 8
    assert rows_of_instance(store, instance) == 0


def test_an_erasure_that_was_killed_anywhere_is_continued(record_property):
    whole = filled()
    counting = FaultyStore(whole, CrashAt(-1))
    instance, token = instance_of(whole, "repo"), token_of(whole, "repo")
    others = rows_of_instance(whole, instance_of(whole, "other"))
    Eraser(counting).erase("repo", token)
    for at in range(1, counting._calls + 1, counted(5, 1)):
        store = filled()
        with pytest.raises(SimulatedCrash):
            Eraser(FaultyStore(store, CrashAt(at, after=at % 2 == 1))).erase("repo", token)
        found = plan_token(store)
        assert found in (token, None), at
        Eraser(store, seed=at).erase("repo", token)
        assert rows_of_instance(store, instance) == 0, at
        assert store.get(DELETED_PLACE, instance) is None
        assert rows_of_instance(store, instance_of(store, "other")) == others
        assert not check_store(store, new_ports(), CheckOptions()).findings, at
    record_property("counted", f"erasures: killed at {counting._calls} places")


def plan_token(store: Store) -> str | None:
    try:
        return token_of(store, "repo")
    except NotFound:
        return None


def test_a_mark_of_a_deletion_that_did_not_happen_erases_nothing():
    """What a crash leaves between the first and the second step of a deletion."""
    store = filled()
    instance = instance_of(store, "repo")
    rows = rows_of_instance(store, instance)
    for at in range(1, 30):
        faulty = FaultyStore(store, CrashAt(at, after=True))
        with pytest.raises(SimulatedCrash):
            Eraser(faulty).delete("repo")
        if store.get(DELETED_PLACE, instance) is not None:
            break
    assert store.get(DELETED_PLACE, instance) is not None
    assert instance_of(store, "repo") == instance
    assert [row.name for row in list_deleted(StoreSource(store))] == ["gone"]
    with pytest.raises(Conflict):
        Eraser(store).step("repo", erase_token(InstanceId(b"x" * 16)))
    assert rows_of_instance(store, instance) == rows


def test_a_check_names_what_was_deleted_and_not_erased():
    store = filled()
    report = check_store(store, new_ports(), CheckOptions())
    assert report.findings == ()
    (deleted,) = [one for one in report.unjudged if one.kind == "deleted repositories"]
    assert deleted.rows == 1
    assert "lochan store erase" in deleted.why


def test_a_check_takes_a_deletion_that_stopped_half_way_for_what_it_is():
    for at in range(1, 40):
        store = filled()
        instance = instance_of(store, "repo")
        try:
            Eraser(FaultyStore(store, CrashAt(at))).delete("repo")
        except SimulatedCrash:
            report = check_store(store, new_ports(), CheckOptions())
            assert not report.findings, at
            continue
        assert store.get(DELETED_PLACE, instance) is not None
        break
    else:
        pytest.fail("it is never deleted")


def test_a_check_finds_a_damaged_row_of_a_deleted_repository():
    store = filled()
    (gone,) = list_deleted(StoreSource(store))
    store.put_many([(DELETED_PLACE, gone.instance, b"damaged")])
    (finding,) = check_store(store, new_ports(), CheckOptions()).findings
    assert finding.referred_by == "list of deleted repositories"
