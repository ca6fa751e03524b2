"""References by name: create, find, list, assign, delete, and half states made by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import pytest

from lochan.base.errors import (
    AlreadyExists,
    Corrupt,
    Exhausted,
    HeadConflict,
    Invalid,
    LochanError,
    NotFound,
    Unknown,
)
from lochan.base.ids import EMPTY_ID, ObjId
from lochan.base.limits.commits import MOVES_MAX
from lochan.base.names import REFS_NAME, RefName
from lochan.codec.rows import Move, ReferenceRow
from lochan.kernel.moves import moved
from lochan.kernel.name_index import ListedReference
from lochan.kernel.provenance import Initiator
from lochan.kernel.references import NewReferenceRow
from lochan.kv.store import Kind, partition
from lochan.testing.faults import Fault, FaultKind, FaultyStore, PlannedCall
from tests.kernel.workbench import MAIN, Bench, OnCalls, branch, listed, wants

NAME = RefName("topic")
OTHER = RefName("other")
X, Y = ObjId(bytes(31) + b"x"), ObjId(bytes(31) + b"y")


@pytest.fixture
def bench() -> Bench:
    return Bench()


def names_of(rows: Sequence[ListedReference]) -> list[str]:
    return [row.name for row in rows]


def everything(bench: Bench, limit: int = 1_000) -> list[str]:
    return names_of(bench.names.page("", None, limit))


def moves(bench: Bench, name: RefName, incarnation: int) -> list[tuple[int, str, bytes, bytes]]:
    """The ref-log of one incarnation: what is in the log and what is still in the row."""
    log = bench.context.moves.fetch_after(name, incarnation, 0)
    found = bench.context.references.fetch(name)
    here = found.row.moves if found is not None and found.row.incarnation == incarnation else ()
    every = {move.version: move for move in (*log, *here)}
    assert all(every[move.version] == move for move in log), "a move never changes"
    return [(at, every[at].kind, every[at].old, every[at].new) for at in sorted(every)]


def check_rest(bench: Bench) -> None:
    """R1: a live row if and only if the index lists the name, in the same incarnation."""
    page = bench.store.scan(partition(bench.context.instance, Kind.REFERENCES), b"", None, 1_000)
    rows = [bench.row(RefName(entry.key.decode())) for entry in page.entries]
    live = {row.name: row.incarnation for row in rows if not row.deleted and row.name != REFS_NAME}
    assert live == listed(bench.context)


def test_a_created_reference_is_found_and_listed(bench):
    (row,) = bench.names.create_many([branch("topic", X)], Initiator("me"))
    found = bench.names.get(NAME)
    assert found.row == row
    assert (row.pointer, row.kind, row.version, row.deleted) == (X, "BRANCH", 1, False)
    assert everything(bench) == ["main", "topic"]
    assert bench.again().names.get(NAME) == found
    assert moves(bench, NAME, row.incarnation) == [(1, "create", b"", X)]
    check_rest(bench)


def test_what_is_not_there_is_not_found(bench):
    assert bench.names.find(NAME) is None
    for call in (
        lambda: bench.names.get(NAME),
        lambda: bench.names.assign(NAME, X, Y, Initiator("me")),
        lambda: bench.names.delete(NAME, X, Initiator("me")),
    ):
        with pytest.raises(NotFound, match="topic"):
            call()


def test_a_taken_name_is_taken_whatever_its_kind(bench):
    bench.names.create_many([branch("topic", X)], Initiator("me"))
    for kind in ("BRANCH", "TAG"):
        for server in (bench, bench.again()):
            with pytest.raises(AlreadyExists, match="topic"):
                server.names.create_many([NewReferenceRow(NAME, kind, Y)], Initiator("me"))
    assert bench.row(NAME).pointer == X


def test_many_are_created_all_or_none(bench):
    many = [branch(f"b{number:03}", X) for number in range(300)]
    rows = bench.names.create_many(many, Initiator("me"))
    assert names_of(rows) == [new.name for new in many]
    assert len({row.incarnation for row in rows}) == 1
    with pytest.raises(AlreadyExists, match="b007"):
        bench.names.create_many([branch("new1"), branch("b007"), branch("new2")], Initiator("me"))
    assert everything(bench) == [*(new.name for new in many), "main"]
    assert bench.context.references.fetch(RefName("new1")) is None
    check_rest(bench)


def test_one_name_twice_is_refused_and_none_at_all_does_nothing(bench):
    """Found by review: the first of two with one name was silently forgotten."""
    before = bench.row(REFS_NAME)
    with pytest.raises(Invalid):
        bench.names.create_many([branch("topic", X), branch("topic", Y)], Initiator("me"))
    assert bench.names.create_many([], Initiator("me")) == []
    assert bench.row(REFS_NAME) == before


def test_assigning_moves_and_remembers(bench):
    bench.names.create_many([branch("topic", X)], Initiator("me"))
    row = bench.names.assign(NAME, X, Y, Initiator("you"))
    assert (row.pointer, row.version) == (Y, 2)
    assert bench.row(NAME) == row
    assert row.previous[0][0] == X
    assert moves(bench, NAME, row.incarnation)[1:] == [(2, "assign", X, Y)]
    assert (row.moves[-1].who, row.moves[-1].when_us) == ("you", bench.clock.now_us())
    with pytest.raises(HeadConflict, match=Y.hex()):
        bench.names.assign(NAME, X, Y, Initiator("you"))
    assert bench.row(NAME) == row


def test_deleting_needs_the_right_head(bench):
    bench.names.create_many([branch("topic", X)], Initiator("me"))
    with pytest.raises(HeadConflict, match=X.hex()):
        bench.names.delete(NAME, Y, Initiator("me"))
    assert bench.names.get(NAME).row.pointer == X
    row = bench.names.delete(NAME, X, Initiator("me"))
    assert row.deleted
    assert bench.names.find(NAME) is None
    assert everything(bench) == ["main"]
    with pytest.raises(NotFound):
        bench.names.delete(NAME, X, Initiator("me"))
    check_rest(bench)


def test_tombstones_stay_and_incarnations_grow(bench):
    seen = []
    for _ in range(5):
        (row,) = bench.names.create_many([branch("topic", X)], Initiator("me"))
        seen.append(row.incarnation)
        bench.names.delete(NAME, X, Initiator("me"))
        tombstone = bench.row(NAME)
        assert (tombstone.deleted, tombstone.incarnation) == (True, row.incarnation)
        check_rest(bench)
    assert seen == sorted(set(seen))
    for incarnation in seen:
        kinds = [kind for _, kind, _, _ in moves(bench, NAME, incarnation)]
        assert kinds == ["create", "delete"]


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
def test_pages_make_a_whole(bench, limit):
    many = sorted(f"r{number:02}/x" for number in range(20))
    bench.names.create_many([branch(name) for name in many], Initiator("me"))
    found, start = [], ""
    while page := bench.names.page(start, None, limit):
        assert len(page) <= limit
        found += names_of(page)
        start = page[-1].name + "\0"
    assert found == ["main", *many]
    assert names_of(bench.names.page("r05", "r1", 100)) == many[5:10]
    assert names_of(bench.names.page("r05", "r1", 3)) == many[5:8]
    assert bench.names.page("s", None, 10) == []
    assert "int/refs" not in found


def test_a_page_is_short_only_where_there_are_no_more(bench):
    """Found by review: a half-deleted name made a page short, and the listing seemed to end."""
    many = [f"r{number:02}" for number in range(20)]
    rows = bench.names.create_many([branch(name, X) for name in many], Initiator("me"))
    for row in rows[2:9]:
        write_tombstone(bench, row)
    assert names_of(bench.names.page("r", None, 4)) == ["r00", "r01", "r09", "r10"]
    assert names_of(bench.names.page("r", None, 100)) == [*many[:2], *many[9:]]
    check_rest(bench)


def test_expiry_is_kept(bench):
    (row,) = bench.names.create_many([NewReferenceRow(NAME, "TAG", X, 1_234)], Initiator("me"))
    assert row.expires_us == bench.row(NAME).expires_us == 1_234
    assert bench.names.assign(NAME, X, Y, Initiator("me")).expires_us == 1_234


# Half states, made by hand.


def write_tombstone(bench: Bench, row: ReferenceRow) -> None:
    """Step 1 of delete, and no more."""
    move = Move(row.version + 1, row.pointer, row.pointer, "delete", "me", 1, b"by hand")
    found = bench.context.references.fetch(RefName(row.name))
    bench.context.references.update(moved(row, move, deleted=True), found)


def only_listed(bench: Bench) -> int:
    """An index entry without a row."""
    (row,) = bench.names.create_many([branch("topic", X)], Initiator("me"))
    bench.store.delete(partition(bench.context.instance, Kind.REFERENCES), NAME.encode())
    return row.incarnation


def half_deleted(bench: Bench) -> int:
    """A tombstone and an index entry of the same incarnation."""
    (row,) = bench.names.create_many([branch("topic", X)], Initiator("me"))
    write_tombstone(bench, row)
    return row.incarnation


def half_created_again(bench: Bench) -> int:
    """A tombstone of an earlier incarnation and an index entry."""
    bench.names.create_many([branch("topic", Y)], Initiator("me"))
    tombstone = bench.names.delete(NAME, Y, Initiator("me"))
    (row,) = bench.names.create_many([branch("topic", X)], Initiator("me"))
    bench.context.references.update(tombstone, bench.context.references.fetch(NAME))
    return row.incarnation


HALF_STATES = {"only listed": True, "half deleted": False, "half created again": True}
MAKE: dict[str, Callable[[Bench], int]] = {
    "only listed": only_listed,
    "half deleted": half_deleted,
    "half created again": half_created_again,
}


@pytest.mark.parametrize("state", HALF_STATES)
@pytest.mark.parametrize("visitor", ["get", "page", "create same", "delete same", "assign", "none"])
def test_a_half_state_is_finished_by_whoever_comes_next(bench, state, visitor):
    incarnation = MAKE[state](bench)
    alive = HALF_STATES[state]
    names = bench.again().names
    if visitor == "get":
        found = names.find(NAME)
        assert (found is not None) == alive
    elif visitor == "page":
        assert (NAME in names_of(names.page("", None, 10))) == alive
    elif visitor == "create same":
        if alive:
            with pytest.raises(AlreadyExists):
                names.create_many([branch("topic", Y)], Initiator("me"))
        else:
            (row,) = names.create_many([branch("topic", Y)], Initiator("me"))
            assert row.incarnation > incarnation
    elif visitor == "delete same":
        if alive:
            names.delete(NAME, X, Initiator("me"))
        else:
            with pytest.raises(NotFound):
                names.delete(NAME, X, Initiator("me"))
    elif visitor == "assign":
        if alive:
            names.assign(NAME, X, Y, Initiator("me"))
        else:
            with pytest.raises(NotFound):
                names.assign(NAME, X, Y, Initiator("me"))
    if visitor == "none":
        with pytest.raises(AssertionError):
            check_rest(bench)
        return
    check_rest(bench)
    final = bench.row(NAME)
    if visitor in ("get", "page") and alive:
        assert (final.pointer, final.incarnation, final.deleted) == (X, incarnation, False)
    # Asking again changes nothing more.
    refs = bench.row(REFS_NAME)
    names.page("", None, 10)
    names.find(NAME)
    assert (bench.row(NAME), bench.row(REFS_NAME)) == (final, refs)


def test_a_late_finisher_never_brings_a_deleted_reference_back(bench):
    """R3: it read the index before the delete and writes after it, or after the next create."""
    names = bench.names
    only_listed(bench)
    element = names._index.find(NAME)
    assert element is not None
    names.get(NAME)
    names.delete(NAME, X, Initiator("me"))
    names._finish_create(NAME, element)
    assert names.find(NAME) is None
    names._finish_delete(NAME, element.incarnation)
    names.create_many([branch("topic", Y)], Initiator("me"))
    before = bench.row(NAME)
    names._finish_create(NAME, element)
    names._finish_delete(NAME, element.incarnation)
    assert bench.row(NAME) == before == names.get(NAME).row
    check_rest(bench)


def test_a_row_that_is_live_in_two_incarnations_is_corrupt(bench):
    bench.names.create_many([branch("topic", X)], Initiator("me"))
    element = bench.names._index.find(NAME)
    assert element is not None
    later = msgspec.structs.replace(element, incarnation=element.incarnation + 5)
    with pytest.raises(Corrupt, match="two incarnations"):
        bench.names._finish_create(NAME, later)


def test_the_row_keeps_sixteen_moves_and_the_log_those_that_left_it(bench):
    (row,) = bench.names.create_many([branch("topic", X)], Initiator("me"))
    pair = [X, Y]
    for number in range(50):
        row = bench.names.assign(
            NAME, pair[number % 2], pair[1 - number % 2], Initiator(f"{number}")
        )
        assert len(row.moves) == min(number + 2, MOVES_MAX)
    log = bench.context.moves.fetch_after(NAME, row.incarnation, 0)
    assert [move.version for move in log] == list(range(1, 36))
    assert [move.version for move in row.moves] == list(range(36, 52))
    after = bench.context.moves.fetch_after(NAME, row.incarnation, 30)
    assert [move.version for move in after] == list(range(31, 36))


def test_commits_between_moves_leave_gaps_and_no_entries(bench):
    bench.commit(wants(1), wants(2))
    bench.commit(wants(3))
    row = bench.names.assign(MAIN, bench.head().obj_id, EMPTY_ID, Initiator("me"))
    versions = [at for at, _, _, _ in moves(bench, MAIN, row.incarnation)]
    assert versions == [1, 4]


def test_a_damaged_entry_of_the_log_is_corrupt(bench):
    (row,) = bench.names.create_many([branch("topic", X)], Initiator("me"))
    place = partition(bench.context.instance, Kind.LOG)
    bench.context.moves.copy(row, row.moves)
    (entry, *_) = bench.store.scan(place, b"topic", None, 1).entries
    bench.store.put_many([(place, entry.key, b"\xff\xff")])
    with pytest.raises(Corrupt):
        bench.context.moves.fetch_after(NAME, row.incarnation, 0)


# Replies that are lost.

LOST, AWAY = Fault(FaultKind.LOST_REPLY), Fault(FaultKind.NOT_APPLIED)
STEPS: dict[str, Callable[[Bench], object]] = {
    "create": lambda bench: bench.names.create_many([branch("topic", Y)], Initiator("me")),
    "assign": lambda bench: bench.names.assign(OTHER, X, Y, Initiator("me")),
    "delete": lambda bench: bench.names.delete(OTHER, X, Initiator("me")),
}
WRITES = ("apply", "set_if", "put_many")


def prepared() -> Bench:
    """A reference whose row is full of moves, and the tombstone of another.

    Found by the stateful test: a reply lost while moves were copied out of either was reported as
    unknown, though sending again is all it takes.
    """
    bench = Bench()
    bench.names.create_many([branch("other", X), branch("topic", X)], Initiator("me"))
    bench.names.delete(NAME, X, Initiator("me"))
    for _ in range(MOVES_MAX):
        bench.names.assign(OTHER, X, X, Initiator("me"))
    return bench


def outcome_of(bench: Bench, step: str) -> bool:
    """Whether the step has happened, as a fresh server sees it."""
    names = bench.again(seed=99).names
    if step == "create":
        return names.find(NAME) is not None
    found = names.find(OTHER)
    return found is None if step == "delete" else found is not None and found.row.pointer == Y


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("late", [0, 1, 2, 3, 8])
def test_a_reply_lost_at_any_write_is_resolved(step, late):
    fault = Fault(FaultKind.LATE, late) if late else LOST
    cases = 0
    for ordinal in range(40):
        bench = prepared()
        seen: list[str] = []

        def choose(call: PlannedCall, at: int = ordinal, seen: list[str] = seen) -> Fault | None:
            if call.operation not in WRITES:
                return None
            seen.append(call.operation)
            return fault if len(seen) == at + 1 else None

        store = FaultyStore(bench.store, OnCalls(choose))
        STEPS[step](bench.again(store))
        if len(seen) <= ordinal:
            break
        store.settle()
        cases += 1
        assert outcome_of(bench, step)
        check_rest(bench)
        for name in (NAME, OTHER):
            found = bench.context.references.fetch(name)
            if found is not None:
                kinds = [kind for _, kind, _, _ in moves(bench, name, found.row.incarnation)]
                assert kinds[0] == "create"
                assert len(kinds) == found.row.version, "once each, none missing"
    print(f"{step}, {fault.kind.value} {late}: {cases} cases")
    assert cases >= 2


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("first", [LOST, AWAY])
def test_an_error_that_says_without_effect_tells_the_truth(step, first):
    """Found by review: after the first half of a step, or after a lost reply, the store goes away.

    Unavailable was raised then, though the step had taken effect or would be finished by the next.
    """
    cases = 0
    for ordinal in range(60):
        bench = prepared()
        calls: list[str] = []

        def choose(call: PlannedCall, at: int = ordinal, calls: list[str] = calls) -> Fault | None:
            calls.append(call.operation)
            if len(calls) == at + 1 and call.operation in WRITES:
                return first
            return AWAY if len(calls) > at + 1 else None

        gone = bench.again(FaultyStore(bench.store, OnCalls(lambda _: None)))
        gone.context.store._plan = OnCalls(choose)  # type: ignore[attr-defined]
        outcome = "done"
        try:
            STEPS[step](gone)
        except LochanError as error:
            outcome = error.kind
        happened = outcome_of(bench, step)
        check_rest(bench)
        assert outcome in ("unknown", "done" if happened else "unavailable"), (ordinal, calls)
        cases += outcome != "done"
        if len(calls) <= ordinal:
            break
    assert cases >= 2


def test_a_move_that_always_loses_is_given_up_after_a_minute(bench):
    bench.names.create_many([branch("topic", X)], Initiator("me"))
    other = bench.again(seed=5)

    def rival(call: PlannedCall) -> None:
        if call.operation == "set_if":
            other.names.assign(NAME, X, X, Initiator("rival"))

    slow = bench.again(FaultyStore(bench.store, OnCalls(rival)))
    with pytest.raises(Exhausted, match="attempts"):
        slow.names.assign(NAME, X, Y, Initiator("me"))
    assert 60_000 <= slow.clock.monotonic_ns() / 1e6 < 61_000
    assert bench.row(NAME).pointer == X


def test_what_stays_unknown_is_raised_as_unknown(bench):
    bench.names.create_many([branch("topic", X)], Initiator("me"))
    plans = OnCalls(
        lambda call: Fault(FaultKind.LATE, 10**6) if call.operation == "set_if" else None
    )
    store = FaultyStore(bench.store, plans)
    slow = bench.again(store)
    with pytest.raises(Unknown, match="unknown whether the reference was changed"):
        slow.names.assign(NAME, X, Y, Initiator("me"))
    store.settle()
    assert bench.row(NAME).pointer == Y
    assert bench.row(NAME).version == 2
