"""Changes that are made again from what is stored have the events that were reported live."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from lochan.base.errors import Corrupt
from lochan.base.ids import ObjId
from lochan.codec.cursors import ReplayPosition
from lochan.embedded import Embedded
from lochan.events.replay import (
    after_incarnation,
    before_all,
    is_behind,
    position_of,
)
from lochan.kernel.context import RepositoryContext
from lochan.model.commits import Delete, Put
from lochan.model.events import Event
from lochan.model.references import Annotation
from tests.events.collector import Collector, collected
from tests.events.replayed import (
    all_names,
    changes,
    context_of,
    delivered,
    events_of,
    ids_by_name,
    row_of,
)
from tests.service.bench import table


def check_replay(context: RepositoryContext, live: Sequence[Event], also: Sequence[str]) -> None:
    """The same events in the same order, from the beginning and from every position between."""
    wanted = ids_by_name(live)
    for name in all_names(context, also):
        whole = changes(context, name)
        assert [one.id for one in events_of(whole)] == wanted.get(name, []), name
        for number, one in enumerate(whole, 1):
            rest = changes(context, name, one.after)
            assert [each.after for each in rest] == [each.after for each in whole[number:]]
        assert ids_by_name(events_of(whole)) == ({name: wanted[name]} if whole else {})


def put(name: str) -> Put:
    return Put(key=(name,), content=table(name))


def make_history(repository: Embedded) -> None:
    """Some of everything, with more moves than a row keeps, and names that are used again."""
    repository.commits.commit("main", "a", [put("a"), put("b")])
    repository.references.create("side")
    for number in range(4):
        repository.commits.commit("side", f"s{number}", [put(f"s{number}")])
    repository.merges.merge("main", "side", squash=False)
    repository.references.create("other")
    hashes = [str(one.meta.hash) for one in repository.history.log("side", 3).items]
    repository.merges.transplant("other", "side", hashes[::-1], default="FORCE")
    repository.commits.commit("other", "x", [Delete(key=("a",))])
    repository.files.put("side", "f", b"1")
    repository.files.commit("side", "file")
    for _ in range(12):
        repository.references.assign("side", "main")
        repository.commits.commit("side", "more", [put("more")])
        repository.merges.force("side", "other")
    repository.merges.rebase("other", "main", default="FORCE")
    repository.merges.revert("other", [repository.references.get("other").hash])
    repository.references.delete("side")
    note = Annotation("a note")
    repository.references.create("side", "main", kind="TAG", annotation=note)
    repository.references.delete("side")
    repository.references.create("side")
    repository.commits.commit("side", "last", [put("last")])
    repository.references.delete("other")


def test_what_is_made_again_are_the_events_that_were_reported():
    collector = Collector()
    with collected(collector) as repository:
        make_history(repository)
        context = context_of(repository)
        delivered(repository)
        check_replay(context, collector.events, ["main"])
        assert len(collector.events) > 100


def test_a_name_without_a_row_is_read_from_the_log():
    collector = Collector()
    with collected(collector) as repository:
        make_history(repository)
        context = context_of(repository)
        found = context.references.fetch("other")
        # As the sweep of tombstones does a day later.
        assert found is not None
        context.moves.copy(found.row, found.row.moves)
        context.references.remove(found)
        delivered(repository)
        assert context.references.fetch("other") is None
        check_replay(context, collector.events, ["main", "other"])


def test_positions_of_rows():
    with collected(Collector()) as repository:
        context = context_of(repository)
        row = row_of(context, "main")
        assert not is_behind(position_of(row), row)
        assert is_behind(before_all(), row)
        assert not is_behind(after_incarnation(row.incarnation), row)
        assert changes(context, "main", position_of(row)) == []
        repository.commits.commit("main", "a", [put("a")])
        assert is_behind(position_of(row), row_of(context, "main"))


def test_a_position_that_history_does_not_have_is_corrupt():
    with collected(Collector()) as repository:
        repository.references.create("side")
        repository.commits.commit("side", "a", [put("a")])
        repository.commits.commit("main", "b", [put("b")])
        context = context_of(repository)
        right = position_of(row_of(context, "main"))
        side = ObjId(row_of(context, "side").pointer)
        with pytest.raises(Corrupt):
            changes(context, "main", ReplayPosition(right.incarnation, right.version, side))


def test_a_missing_move_is_corrupt():
    with collected(Collector()) as repository:
        make_history(repository)
        context = context_of(repository)
        store, (entry, *_) = (
            context.store,
            context.store.scan(context.moves._place, b"", None, 3).entries[1:],
        )
        store.delete(context.moves._place, entry.key)
        with pytest.raises(Corrupt):
            changes(context, "side")


def test_long_lines_are_read_in_runs(monkeypatch):
    monkeypatch.setattr("lochan.events.replay.REPLAY_COMMITS_READ", 3)
    collector = Collector()
    with collected(collector) as repository:
        make_history(repository)
        delivered(repository)
        check_replay(context_of(repository), collector.events, ["main"])
