"""Names whose history goes on after known positions are found, with counted reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from lochan.base.errors import Corrupt
from lochan.base.ids import EMPTY_ID, ObjId
from lochan.base.names import RefName
from lochan.codec.cursors import IndexPlace, ReplayPosition
from lochan.events.detector import ChangeDetector
from lochan.events.replay import after_incarnation, position_of, replay
from lochan.kernel.provenance import Initiator
from lochan.kernel.publish import Publisher
from lochan.kernel.references import NewReferenceRow
from lochan.kernel.settled import SettledMove
from tests.kernel.workbench import MAIN, Bench, counted, wants

WHO = Initiator("ada")
BRANCHES = 10_000


class Known:
    """Positions in memory."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.detector = ChangeDetector(bench.context)
        self.place = self.detector.place()
        self.positions: dict[RefName, ReplayPosition] = {}
        self.asked = 0
        start: bytes | None = b""
        while start is not None:
            page = bench.context.references.scan(start, 1_000)
            for found in page.rows:
                self.positions[RefName(found.row.name)] = position_of(found.row)
            start = page.next_start

    def of(self, names: Sequence[RefName]) -> Mapping[RefName, ReplayPosition]:
        self.asked += 1
        assert len(names) <= 1_000
        return {name: self.positions[name] for name in names if name in self.positions}

    def changed(self) -> list[RefName]:
        unknown = after_incarnation(self.place.sequence)
        now = self.detector.place()
        return list(self.detector.changed_since(self.place, now, self.of, unknown))


def create(bench: Bench, *names: str) -> None:
    head = ObjId(bench.row().pointer)
    new = [NewReferenceRow(RefName(name), "BRANCH", head) for name in names]
    bench.names.create_many(new, WHO)


def delete(bench: Bench, name: str) -> None:
    row = bench.names.get(RefName(name)).row
    bench.names.delete(RefName(name), ObjId(row.pointer), WHO)


def test_a_commit_a_move_a_creation_and_a_deletion_are_found():
    bench = Bench()
    bench.commit(wants(1))
    create(bench, "quiet", "moved", "gone")
    known = Known(bench)
    assert known.changed() == []
    bench.commit(wants(2))
    moved = bench.names.get(RefName("moved")).row
    bench.names.assign(RefName("moved"), ObjId(moved.pointer), EMPTY_ID, WHO)
    create(bench, "new")
    delete(bench, "gone")
    assert sorted(known.changed()) == ["gone", "main", "moved", "new"]


def test_a_name_that_was_created_deleted_and_swept_is_found():
    bench = Bench()
    known = Known(bench)
    create(bench, "short")
    delete(bench, "short")
    found = bench.context.references.fetch(RefName("short"))
    assert found is not None
    bench.context.moves.copy(found.row, found.row.moves)
    bench.context.references.remove(found)
    assert known.changed() == ["short"]
    after = after_incarnation(known.place.sequence)
    again = [one.change.settled for one in replay(bench.context, RefName("short"), after, None)]
    kinds = [one.move.kind for one in again if isinstance(one, SettledMove)]
    assert kinds == ["create", "delete"]


def test_a_creation_that_is_half_done_is_found_by_the_index():
    bench = Bench()
    known = Known(bench)
    add = bench.names.prepare_create([NewReferenceRow(RefName("half"), "BRANCH", EMPTY_ID)], WHO)
    bench.names.publisher.publish([add])
    assert known.changed() == ["half"]


def test_a_large_commit_of_the_index_does_not_list_its_names():
    bench = Bench()
    known = Known(bench)
    names = [f"b{number:05}" for number in range(1_500)]
    create(bench, *names)
    body = bench.names.index().body
    assert body is not None
    assert body.own is None
    assert sorted(known.detector.touched(known.place, known.detector.place())) == names


def test_a_place_that_the_index_does_not_have_is_corrupt():
    bench = Bench()
    create(bench, "one")
    create(bench, "two")
    detector = ChangeDetector(bench.context)
    now = detector.place()
    with pytest.raises(Corrupt):
        detector.touched(IndexPlace(now.sequence - 1, b"x" * 32), now)


def test_one_changed_branch_of_10_000_is_found_with_counted_reads():
    """About 2 x n/1,000 reads: a scan of rows and a lookup of positions for each 1,000."""
    bench = Bench()
    bench.commit(wants(1))
    create(bench, *[f"b{number:05}" for number in range(BRANCHES)])
    known = Known(bench)
    Publisher(bench.context, RefName("b04711")).publish([wants(2)])
    store, counts = counted(bench.store)
    other = bench.again(store)
    detector = ChangeDetector(other.context)
    counts.reset()
    known.asked = 0
    now = detector.place()
    unknown = after_incarnation(known.place.sequence)
    assert list(detector.changed_since(known.place, now, known.of, unknown)) == ["b04711"]
    pages = -(-(BRANCHES + 2) // 1_000)
    # The row of the index, and its commit.
    assert counts.calls == {"scan": pages, "get": 1, "get_many": 1}
    assert known.asked == pages
    name = RefName("b04711")
    row = other.names.get(name).row
    assert len(list(replay(other.context, name, known.positions[name], row))) == 1
    assert counts.calls["get"] + counts.calls["get_many"] <= 5


def test_nothing_is_read_of_the_index_if_it_is_unchanged():
    bench = Bench()
    create(bench, "side")
    known = Known(bench)
    store, counts = counted(bench.store)
    detector = ChangeDetector(bench.again(store).context)
    counts.reset()
    assert detector.touched(known.place, known.place) == []
    assert not counts.calls
    assert MAIN in known.positions
