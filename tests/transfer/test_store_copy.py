"""A copy of a store has every row of it, or is no store yet."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from lochan.access.records import ACCESS_PARTITION, SETUP_KEY
from lochan.assembly import open_store
from lochan.base.errors import AlreadyExists, Conflict, Corrupt, Invalid, NotFound, TooLarge
from lochan.base.ids import ROOT_INSTANCE, InstanceId
from lochan.kernel.check_store import CheckOptions, check_store
from lochan.kernel.repository import create_repository, delete_repository
from lochan.kv.format import FORMAT_KEY, FORMAT_PARTITION, check_format, find_copy_mark
from lochan.kv.store import Adds, Entry, Kind, Partition, Store, partition
from lochan.kv.walk import find_walk
from lochan.stores.memory.store import MemoryStore
from lochan.testing.faults import Fault, FaultKind, FaultyStore, PlannedCall, SimulatedCrash
from lochan.transfer import store_copy
from lochan.transfer.places import POSITION_KEY
from lochan.transfer.sources import StoreSource
from lochan.transfer.store_copy import StoreCopy
from tests.kernel.workbench import wants
from tests.profile import counted
from tests.service.access_bench import ADMIN, AccessBench
from tests.staging.workbench import SIDE
from tests.stores.repository_suite import SomeFaults
from tests.transfer.workbench import SOURCE, add_users, contents, copy, fill, kinds, new_ports

PAGE_ROWS, PAGES_UNSAVED = 4, 2
LOCAL = ("memory", "rocksdb", "sqlite")


@pytest.fixture
def source() -> MemoryStore:
    store = MemoryStore()
    fill(store, commits=40)
    return store


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of a few rows, so that a kill may come at many places."""
    monkeypatch.setattr(store_copy, "COPY_PAGE_ROWS_FIRST", PAGE_ROWS)
    monkeypatch.setattr(store_copy, "COPY_PAGE_ROWS_MAX", PAGE_ROWS)
    monkeypatch.setattr(store_copy, "COPY_PAGES_UNSAVED_MAX", PAGES_UNSAVED)


def opened(scheme: str, folder: Path) -> Store:
    urls = {
        "memory": "memory:",
        "rocksdb": f"rocksdb:{folder / 'rocksdb'}",
        "sqlite": f"sqlite:{folder / 'store.db'}",
    }
    return open_store(urls[scheme], any_format=True)


def damaged_findings(store: Store) -> int:
    report = check_store(store, new_ports(), CheckOptions(history=True))
    return len(report.findings)


@pytest.mark.parametrize(("left", "right"), list(itertools.product(LOCAL, LOCAL)))
def test_a_copy_has_every_row_of_the_source(left: str, right: str, tmp_path: Path) -> None:
    for name in ("left", "right"):
        (tmp_path / name).mkdir()
    source, target = opened(left, tmp_path / "left"), opened(right, tmp_path / "right")
    bench = fill(source, commits=40)
    report = copy(source, target)
    assert contents(target) == contents(source)
    assert kinds(contents(target)) == {*Kind}
    check_format(target)
    assert (report.repositories, report.rounds, report.resumed) == (2, 1, False)
    assert report.has_users
    assert report.objects > 30
    copied = bench.again(target)
    assert copied.row().pointer == bench.row().pointer
    copied.commit(wants(99))
    assert damaged_findings(target) == damaged_findings(source) == 0
    source.close()
    target.close()


def test_secrets_are_copied_as_they_are_sealed_and_work_with_the_same_keys() -> None:
    source, target = MemoryStore(), MemoryStore()
    check_format(source)
    _, secret = add_users(source)
    copy(source, target)
    rows = contents(target)[ACCESS_PARTITION]
    assert rows == contents(source)[ACCESS_PARTITION]
    assert all(secret.encode() not in value for value in rows.values())
    copied = AccessBench(target, seed=5)
    (key,) = copied.access.list_access_keys(ADMIN, "ada").items
    assert copied.access.login(ADMIN, key.id, secret).secret


def test_an_unfinished_copy_is_no_store(source: MemoryStore, small_pages: None) -> None:
    target = killed_copy(source, 40)
    with pytest.raises(Invalid, match="run `lochan store copy` with the same two addresses"):
        check_format(target)
    with pytest.raises(Invalid, match="unfinished copy"):
        damaged_findings(target)
    with pytest.raises(AlreadyExists, match="unfinished copy of another store"):
        StoreCopy(StoreSource(source), target, new_ports(), b"t" * 16).run()
    with pytest.raises(Invalid, match="unfinished copy"):
        copy(target, MemoryStore())
    assert copy(source, target).resumed
    check_format(target)


class CrashAt:
    """A plan that kills the process at one call, before or after it."""

    def __init__(self, ordinal: int, *, after: bool = False) -> None:
        self.ordinal = ordinal
        self.kind = FaultKind.CRASH_AFTER if after else FaultKind.CRASH_BEFORE
        self.happened = False

    def decide(self, call: PlannedCall) -> Fault:
        if call.ordinal != self.ordinal:
            return Fault(FaultKind.OK)
        self.happened = True
        return Fault(self.kind)


def killed_copy(source: Store, at: int, target: MemoryStore | None = None) -> MemoryStore:
    """Copies, and is killed at a call of the target; returns the target."""
    target = target or MemoryStore()
    plan = CrashAt(at, after=at % 2 == 1)
    try:
        copy(source, FaultyStore(target, plan), seed=at)
    except SimulatedCrash:
        assert plan.happened
    return target


def calls_of_a_copy(source: Store) -> int:
    counting = FaultyStore(MemoryStore(), CrashAt(-1))
    copy(source, counting)
    return counting._calls


def is_finished(target: Store) -> bool:
    """Whether a run was killed behind its last step."""
    found = target.get(FORMAT_PARTITION, FORMAT_KEY)
    return found is not None and find_copy_mark(found) is None


def test_a_copy_that_was_killed_anywhere_is_continued(
    source: MemoryStore, small_pages: None, record_property
) -> None:
    wanted = contents(source)
    calls = calls_of_a_copy(source)
    for at in range(1, calls + 1, counted(7, 1)):
        target = killed_copy(source, at)
        if not is_finished(target):
            copy(source, target)
        assert contents(target) == wanted, at
    record_property("counted", f"copies of stores: killed at {calls} places")
    assert calls > 150


def test_a_run_continues_where_the_one_before_was_killed(
    source: MemoryStore, small_pages: None
) -> None:
    target = MemoryStore()
    faulty = FaultyStore(target, CrashAt(calls_of_a_copy(source) * 3 // 4))
    killed = StoreCopy(StoreSource(source), faulty, new_ports(8), SOURCE)
    with pytest.raises(SimulatedCrash):
        killed.run()
    report = copy(source, target)
    assert report.resumed
    assert contents(target) == contents(source)
    total = copy(source, MemoryStore()).objects
    unsaved = PAGE_ROWS * PAGES_UNSAVED
    assert killed._objects > unsaved
    assert total <= killed._objects + report.objects <= total + unsaved


def test_what_changed_between_two_runs_is_in_the_copy(
    source: MemoryStore, small_pages: None
) -> None:
    for at in range(20, 200, counted(31, 7)):
        stage = MemoryStore()
        bench = fill(stage, commits=40)
        target = killed_copy(stage, at)
        bench.commit(wants(500 + at))
        bench.delete("folder/1", SIDE)
        bench.commit_files("later", SIDE)
        create_repository(stage, new_ports(at), "young")
        copy(stage, target)
        assert contents(target) == contents(stage), at


def test_a_repository_that_was_deleted_between_two_runs_is_not_in_the_copy(
    small_pages: None,
) -> None:
    source = MemoryStore()
    fill(source, commits=40)
    late = create_repository(source, new_ports(9), "late")
    target = killed_copy(source, 170)
    assert any(place.startswith(late.instance) for place in target._tables)
    delete_repository(late)
    copy(source, target)
    assert contents(target) == contents(source)
    assert not any(place.startswith(late.instance) for place in target._tables)


def test_passing_failures_of_the_databases_are_passed_over(record_property) -> None:
    happened = 0
    for seed in range(counted(4, 40)):
        source, target = MemoryStore(), MemoryStore()
        fill(source)
        left, right = SomeFaults(seed), SomeFaults(seed + 1_000)
        copy(FaultyStore(source, left), FaultyStore(target, right), seed)
        assert contents(target) == contents(source)
        happened += left.happened + right.happened
    record_property("counted", f"copies of stores: {happened} failures passed over")
    assert happened > 100


class WithoutWalk:
    """A store of a plug-in that cannot read across partitions."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str):
        if name == "walk":
            raise AttributeError(name)
        return getattr(self._store, name)


def test_a_store_that_cannot_walk_is_copied(source: MemoryStore) -> None:
    store = WithoutWalk(source)
    assert find_walk(store) is None
    target = MemoryStore()
    copy(store, target)
    assert contents(target) == contents(source)


def test_rows_of_a_kind_that_this_lochan_does_not_know_are_copied(source: MemoryStore) -> None:
    instance = fill_instance(source)
    odd = [partition(instance, Kind.META, b"x"), Partition(instance + b"\x01new")]
    source.put_many([(place, b"key", b"no checksum") for place in odd])
    target = MemoryStore()
    report = copy(source, target)
    assert contents(target) == contents(source)
    assert report.rounds == 2


def fill_instance(store: Store) -> InstanceId:
    return next(InstanceId(place[:16]) for place in contents(store) if place[:16] != ROOT_INSTANCE)


def objects_of(store: Store) -> Iterator[tuple[Partition, Entry]]:
    for place, rows in contents(store).items():
        if place[16] == Kind.OBJECTS:
            for key in rows:
                found = store.get(place, key)
                assert found is not None
                yield place, found


def test_a_damaged_object_ends_the_copy(source: MemoryStore) -> None:
    place, entry = next(objects_of(source))
    flipped = entry.value[:-1] + bytes((entry.value[-1] ^ 1,))
    source.put_many([(place, entry.key, flipped)])
    target = MemoryStore()
    with pytest.raises(Corrupt):
        copy(source, target)
    with pytest.raises(Invalid, match="unfinished copy"):
        check_format(target)


@pytest.mark.parametrize("kind", [Kind.REFERENCES, Kind.META, Kind.REPOSITORIES, Kind.STAGING])
def test_a_damaged_row_ends_the_copy(source: MemoryStore, kind: Kind) -> None:
    place = next(
        place
        for place, rows in contents(source).items()
        if place[16] == kind
        and (kind != Kind.STAGING or len(place) == 17)
        and rows
        and place != FORMAT_PARTITION
    )
    key, value = next(iter(contents(source)[place].items()))
    source.put_many([(place, key, b"\0" + value)])
    with pytest.raises(Corrupt):
        copy(source, MemoryStore())


def test_a_damaged_key_pack_is_left_out(source: MemoryStore) -> None:
    place = next(place for place in contents(source) if place[16] == Kind.KEY_PACKS)
    source.put_many([(place, b"damaged" * 4, b"nothing")])
    target = MemoryStore()
    copy(source, target)
    wanted = contents(source)
    del wanted[place][b"damaged" * 4]
    assert contents(target) == wanted


def test_an_object_that_is_damaged_in_the_target_is_replaced(
    source: MemoryStore, small_pages: None
) -> None:
    target = killed_copy(source, 170)
    for place, entry in list(objects_of_raw(target))[:3]:
        target.put_many([(place, entry.key, b"damaged")])
    target.delete(FORMAT_PARTITION, POSITION_KEY)
    copy(source, target)
    assert contents(target) == contents(source)


def objects_of_raw(store: MemoryStore) -> Iterator[tuple[Partition, Entry]]:
    for place, table in list(store._tables.items()):
        if place[16] == Kind.OBJECTS:
            yield from ((place, entry) for entry in table.rows.values())


class Forgetful(FaultyStore):
    """A database that acknowledges objects and does not have them."""

    def add_many(self, adds: Adds) -> None:
        super().add_many(Adds(adds.items[1:], adds.half_day))

    def put_many(self, items) -> None:
        super().put_many([item for item in items if item[0][16] != Kind.OBJECTS])


def test_an_object_that_the_target_did_not_keep_ends_the_copy(source: MemoryStore) -> None:
    with pytest.raises(Corrupt, match="does not return what was written"):
        copy(source, Forgetful(MemoryStore(), CrashAt(-1)))


def test_a_store_with_anything_in_it_is_no_target(source: MemoryStore) -> None:
    for prepare in (
        fill,
        add_users,
        lambda store: create_repository(store, new_ports(), "repo"),
    ):
        target = MemoryStore()
        check_format(target)
        prepare(target)
        before = contents(target)
        with pytest.raises(AlreadyExists, match="not empty"):
            copy(source, target)
        assert contents(target) == before
    marked = MemoryStore()
    check_format(marked)
    copy(source, marked)
    with pytest.raises(AlreadyExists, match="not empty"):
        copy(source, marked)


def test_nothing_is_no_source() -> None:
    target = MemoryStore()
    with pytest.raises(NotFound, match="no store to copy"):
        copy(MemoryStore(), target)
    assert contents(target) == {}


def test_a_store_whose_set_up_is_unfinished_is_no_source() -> None:
    source = MemoryStore()
    check_format(source)
    plan = CrashAt(-1)
    faulty = FaultyStore(source, plan)
    bench = AccessBench(faulty)
    while source.get(ACCESS_PARTITION, SETUP_KEY) is None:
        plan.ordinal = faulty._calls + 24
        with suppress(SimulatedCrash):
            bench.access.set_up(ADMIN, "root")
    with pytest.raises(Conflict, match="access is being set up"):
        copy(source, MemoryStore())


def test_a_row_that_the_target_cannot_take_is_reported(
    source: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    import msgspec

    target = MemoryStore()
    small = msgspec.structs.replace(target.capabilities, value_bytes_max=200)
    monkeypatch.setattr(MemoryStore, "capabilities", small)
    with pytest.raises(TooLarge, match="over the target's limit of 200"):
        copy(source, target)


def test_a_run_that_another_one_replaced_writes_nothing_more(
    source: MemoryStore, small_pages: None
) -> None:
    target = MemoryStore()
    taken: list[object] = []

    def take_over(store: MemoryStore) -> None:
        if len(store._tables) > 30 and not taken:
            taken.append(copy(source, target, seed=99))

    with pytest.raises(Conflict, match="another process writes to the target"):
        copy(source, Watched(target, take_over))
    assert taken
    assert contents(target) == contents(source)


class Watched(FaultyStore):
    """Does something before each call."""

    def __init__(self, store: MemoryStore, act: Callable[[MemoryStore], None]) -> None:
        super().__init__(store, self)
        self.watched = store
        self.act = act

    def decide(self, _: PlannedCall) -> Fault:
        self.act(self.watched)
        return Fault(FaultKind.OK)


def test_the_mark_of_a_copy_is_checked_as_the_mark_of_a_format_is(
    source: MemoryStore, small_pages: None
) -> None:
    target = killed_copy(source, 40)
    entry = target.get(FORMAT_PARTITION, FORMAT_KEY)
    assert entry is not None
    flipped = entry.value[:10] + b"0" + entry.value[11:]
    if flipped == entry.value:
        flipped = entry.value[:10] + b"1" + entry.value[11:]
    target.set_if(FORMAT_PARTITION, FORMAT_KEY, flipped, entry.stamp)
    with pytest.raises(Corrupt):
        check_format(target)
