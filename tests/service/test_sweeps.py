"""What has served its time goes: expired branches, tombstones, claims; and nothing else."""

from __future__ import annotations

import msgspec
import pytest

from lochan.access.policy import Call
from lochan.base.errors import ReferenceNotFound, Unavailable
from lochan.base.limits.maintenance import EXPIRY_GRACE_S
from lochan.base.limits.storage import GRACE_S
from lochan.base.names import RefName
from lochan.codec.forms import add_checksum
from lochan.kernel.references import ReferenceIndex
from lochan.kernel.repository import Ports
from lochan.kv.observe import ObservedStore
from lochan.kv.store import Kind, partition
from lochan.model.requests import NewReference
from lochan.model.specs import parse_spec
from lochan.service.repositories import Repositories
from lochan.service.repository import Repository
from lochan.service.sweeps import SweepFailure, sweep_of_claims, sweep_of_references
from lochan.stores.memory.store import MemoryStore
from lochan.testing.call_counts import CallCounts
from lochan.testing.ports import ManualClock, RecordedWaiting, SeededRandom
from tests.service.bench import ME, Bench, names, new

SECOND_US = 1_000_000
DAY_US = GRACE_S * SECOND_US


@pytest.fixture
def bench() -> Bench:
    one = Bench()
    one.fill("ns.a")
    return one


def make(bench: Bench, name: str, expires_us: int | None = None, source: str = "main") -> None:
    wanted = NewReference(
        kind="BRANCH", name=name, source=parse_spec(source), expires_us=expires_us
    )
    bench.run(bench.references.create(ME, wanted))


def make_in(repository: Repository, name: str, expires_us: int | None = None) -> None:
    wanted = NewReference(
        kind="BRANCH", name=name, source=parse_spec("main"), expires_us=expires_us
    )
    asked = repository.references.create(Call(), wanted)
    (settled,) = repository.publisher(asked.branch).publish([asked.proposal])
    asked.finish(settled)


def test_expired_branches_are_swept_a_minute_after_their_time(bench):
    now = bench.clock.now_us()
    make(bench, "soon", now + 10 * SECOND_US)
    make(bench, "later", now + 1_000 * SECOND_US)
    make(bench, "ever")
    assert bench.references.get(ME, "soon").expires_us == now + 10 * SECOND_US
    bench.clock.advance_us((10 + EXPIRY_GRACE_S) * SECOND_US - 1)
    assert bench.repository.sweep().expired == 0
    bench.clock.advance_us(1)
    assert bench.repository.sweep().expired == 1
    assert names(bench.references.list(ME).items) == ["ever", "later", "main"]
    assert bench.repository.sweep().expired == 0


def at_each_deletion(monkeypatch, meanwhile) -> None:
    """Does something between the look at an expired branch and the swap that deletes it."""
    right = ReferenceIndex.delete_expired

    def delete_expired(self, seen, before_us):
        meanwhile(seen.name)
        return right(self, seen, before_us)

    monkeypatch.setattr(ReferenceIndex, "delete_expired", delete_expired)


def test_a_branch_that_was_made_again_without_expiry_is_not_swept(bench, monkeypatch):
    """It was deleted by name and hash: one made again at the same hash died."""
    make(bench, "b", bench.clock.now_us() + SECOND_US)
    bench.clock.advance_us(100 * SECOND_US)
    rival = bench.again()

    def made_again(name: str) -> None:
        rival.references.delete(ME, name, None)
        make(rival, name)

    at_each_deletion(monkeypatch, made_again)
    assert bench.repository.sweep().expired == 0
    assert bench.references.get(ME, "b").expires_us is None


def test_a_branch_that_was_made_again_with_a_later_expiry_is_not_swept(bench, monkeypatch):
    make(bench, "b", bench.clock.now_us() + SECOND_US)
    bench.clock.advance_us(100 * SECOND_US)
    later = bench.clock.now_us() + 1_000 * SECOND_US
    rival = bench.again()

    def made_again(name: str) -> None:
        rival.references.delete(ME, name, None)
        rival.clock.advance_us(100 * SECOND_US)
        make(rival, name, later)

    at_each_deletion(monkeypatch, made_again)
    assert bench.repository.sweep().expired == 0
    assert bench.references.get(ME, "b").expires_us == later


def test_a_sweep_goes_on_when_others_delete_or_commit_to_a_branch_meanwhile(bench, monkeypatch):
    soon = bench.clock.now_us() + SECOND_US
    for name in ("a", "b", "c"):
        make(bench, name, soon)
    bench.clock.advance_us(100 * SECOND_US)
    rival = bench.again()

    def meanwhile(name: str) -> None:
        if name == "a":
            rival.references.delete(ME, "a", None)
        if name == "b":
            rival.fill("ns.more", branch="b")

    at_each_deletion(monkeypatch, meanwhile)
    # The one that was committed to has expired like the others.
    assert bench.repository.sweep().expired == 2
    assert names(bench.references.list(ME).items) == ["main"]


def test_two_sweepers_delete_a_branch_once(bench, monkeypatch):
    make(bench, "b", bench.clock.now_us() + SECOND_US)
    bench.clock.advance_us(100 * SECOND_US)
    rival = bench.again()
    rival.clock.advance_us(200 * SECOND_US)
    found = []

    def meanwhile(_: str) -> None:
        if not found:
            found.append(None)
            found[0] = rival.repository.sweep().expired

    at_each_deletion(monkeypatch, meanwhile)
    assert (bench.repository.sweep().expired, found) == (0, [1])
    kinds = [move.kind for move in bench.references.log(ME, "b").items]
    assert kinds.count("delete") == 1


def test_the_default_branch_is_not_swept(bench, monkeypatch):
    make(bench, "b", bench.clock.now_us() + SECOND_US)
    bench.clock.advance_us(100 * SECOND_US)
    changed = msgspec.structs.replace(bench.repository.context.description, default_branch="b")
    monkeypatch.setattr(bench.repository.context, "description", changed)
    assert bench.repository.sweep().expired == 0


class Many:
    """Several repositories on one store."""

    def __init__(self, count: int, open_max: int = 64) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore()
        self.counts = CallCounts()
        ports = Ports(self.clock, SeededRandom(1), RecordedWaiting(self.clock))
        observed = ObservedStore(self.store, self.counts, self.clock)
        self.repositories = Repositories(observed, ports, open_max=open_max)
        self.names = [f"r{number:04}" for number in range(count)]
        for name in self.names:
            self.repositories.create(Call(), name)
        self.failures: list[SweepFailure] = []
        self.references = sweep_of_references(self.repositories, self.failures.append)
        self.claims = sweep_of_claims(self.repositories, self.failures.append)

    def open(self) -> set[str]:
        return {*self.repositories._young, *self.repositories._old}

    def branches(self, name: str) -> list[str | None]:
        listed = self.repositories.look_into(name).references.list(ME)
        return [one.name for one in listed.items]


def test_a_sweep_neither_opens_nor_evicts_repositories():
    many = Many(40, open_max=4)
    soon = many.clock.now_us() + SECOND_US
    for name in many.names:
        make_in(many.repositories.look_into(name), "short", soon)
    busy = [many.repositories.open(name) for name in ("r0003", "r0007")]
    before = many.open()
    generations = (dict(many.repositories._young), dict(many.repositories._old))
    many.clock.advance_us(100 * SECOND_US)
    while many.references.turn():
        pass
    while many.claims.turn():
        pass
    assert all(many.branches(name) == ["main"] for name in many.names)
    assert many.open() == before
    assert (many.repositories._young, many.repositories._old) == generations
    assert [many.repositories.open(one.name) for one in busy] == busy


def test_an_open_repository_is_swept_as_it_is_open():
    many = Many(1)
    used = many.repositories.open("r0000")
    assert many.repositories.look_into("r0000") is used


NEWER = add_checksum(msgspec.msgpack.encode([2, "what a newer Lochan wrote"]))


def damage(many: Many, name: str, kind: Kind, key: bytes, value: bytes = b"not a row") -> None:
    instance = many.repositories.look_into(name).context.instance
    many.store.put_many([(partition(instance, kind), key, value)])


@pytest.mark.parametrize("name", ["r0000", "r0002"])
def test_an_unreadable_repository_is_reported_once_and_the_others_are_swept(name):
    many = Many(4)
    soon = many.clock.now_us() + SECOND_US
    for one in many.names:
        make_in(many.repositories.look_into(one), "short", soon)
    damage(many, name, Kind.META, b"description")
    many.repositories._young.clear()
    many.repositories._old.clear()
    many.clock.advance_us(100 * SECOND_US)
    for _ in range(3):
        while many.references.turn():
            pass
    assert many.failures == [SweepFailure("references", name, "repository", b"", "corrupt")]
    for one in many.names:
        if one != name:
            assert many.branches(one) == ["main"]


@pytest.mark.parametrize(("value", "error"), [(b"not a row", "corrupt"), (NEWER, "newer_format")])
def test_an_unreadable_row_is_reported_once_and_the_others_are_swept(value, error):
    many = Many(2)
    soon = many.clock.now_us() + SECOND_US
    for one in many.names:
        for branch in ("a", "b", "c"):
            make_in(many.repositories.look_into(one), branch, soon)
    damage(many, "r0000", Kind.REFERENCES, b"b", value)
    damage(many, "r0001", Kind.CLAIMS, b"x" * 32, value)
    many.clock.advance_us(100 * SECOND_US)
    for _ in range(3):
        while many.references.turn() or many.claims.turn():
            pass
    assert many.failures == [
        SweepFailure("references", "r0000", "reference", b"b", error),
        SweepFailure("claims", "r0001", "claim", b"x" * 32, error),
    ]
    context = many.repositories.look_into("r0000").context
    for gone in ("a", "c"):
        found = context.references.fetch(RefName(gone))
        assert found is not None
        assert found.row.deleted
    assert many.branches("r0001") == ["main"]


def test_a_store_that_is_away_ends_the_turn_and_the_next_one_goes_on_there(monkeypatch):
    many = Many(6)
    right = Repository.sweep_references
    away = {"r0003"}
    swept = []

    def sweep_references(self, start, limit):
        if self.name in away:
            raise Unavailable("away")
        swept.append(self.name)
        return right(self, start, limit)

    monkeypatch.setattr(Repository, "sweep_references", sweep_references)
    assert many.references.turn() is False
    assert swept == many.names[:3]
    away.clear()
    assert many.references.turn() is False
    assert swept == many.names
    assert [(one.what, one.error) for one in many.failures] == [("store", "unavailable")]


def test_a_turn_is_bounded_and_the_next_one_goes_on():
    many = Many(3)
    soon = many.clock.now_us() + SECOND_US
    for one in many.names:
        for number in range(30):
            make_in(many.repositories.look_into(one), f"b{number:02}", soon)
    many.clock.advance_us(100 * SECOND_US)
    turns = left = 0
    before = 93
    while True:
        more = many.references.turn(10)
        turns += 1
        left = sum(len(many.branches(name)) for name in many.names)
        assert before - left <= 10
        before = left
        if not more:
            break
    assert left == 3
    assert turns >= 9


def keyed(number: int) -> Call:
    return Call("me", f"key {number}", b"%d" % number)


def test_tombstones_and_claims_go_after_a_day(bench):
    make(bench, "b")
    bench.references.delete(keyed(1), "b", None)
    bench.clock.advance_us(DAY_US + 1)
    swept = bench.repository.sweep()
    assert swept.removed == 2
    context = bench.repository.context
    assert context.references.fetch(RefName("b")) is None
    assert not context.store.scan(partition(context.instance, Kind.CLAIMS), b"", None, 10).entries
    with pytest.raises(ReferenceNotFound):
        bench.references.delete(keyed(1), "b", None)
    bench.commit(new("ns.b"), call=keyed(1))
