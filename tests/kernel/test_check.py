"""The check of a repository finds what is planted, reports nothing else, changes nothing."""

from __future__ import annotations

import msgspec
import pytest

from lochan.base.ids import EMPTY_ID, ObjId
from lochan.base.keys import Universe
from lochan.base.names import REFS_NAME, RefName
from lochan.codec.commits import encode_commit, is_commit
from lochan.codec.forms import encode_row
from lochan.index.boundary import BoundaryRule
from lochan.index.build import build_tree
from lochan.index.layers import SHAPES
from lochan.kernel import check_findings as findings_module
from lochan.kernel.check import Report, Severity, check_repository
from lochan.kernel.head_moves import HeadMoves, Source
from lochan.kernel.merge import MergeProposal
from lochan.kernel.merge_choices import Choices
from lochan.kernel.provenance import UNNAMED, Initiator
from lochan.kernel.publish import Publisher
from lochan.kernel.references import ReferenceIndex
from lochan.kv.store import Kind, partition
from lochan.model.references import Annotation
from lochan.stores.memory.store import MemoryStore
from lochan.testing.faults import FaultyStore
from lochan.testing.sim import NO_FAULTS, crash_sweep
from tests.kernel.reading import any_of, body_of
from tests.kernel.workbench import (
    Bench,
    OnCalls,
    Wants,
    branch,
    element,
    plan,
    put,
    table,
    tag,
    wants,
)
from tests.sim.kernel_scenarios import (
    CHECKS,
    NAMES,
    commits,
    creates,
    deletes,
    fresh,
    in_turn,
    merges,
    scenario,
)
from tests.sim.test_kernel_moves import MAIN as SIM_MAIN
from tests.sim.test_kernel_moves import SIDE as SIM_SIDE
from tests.sim.test_kernel_moves import moves

SIDE, GONE, V1 = RefName("side"), RefName("gone"), RefName("v1")


def grown() -> Bench:
    """Branches with trees and merges, a tag, a tombstone, moves."""
    bench = Bench()
    bench.commit(*[wants(number) for number in range(30)])
    many = Wants(plan([put(table(n), element(n)) for n in range(1_000, 2_500)], "many"))
    bench.commit(many)
    bench.names.create_many([branch(SIDE, bench.head().obj_id), branch(GONE)], Initiator("me"))
    Publisher(bench.context, SIDE).publish([wants(5_000), wants(5_001)])
    bench.commit(wants(31), wants(32))
    bench.commit(Wants(plan([put(table(3), None)], "remove")))
    merge = MergeProposal(bench.context, bench.head(SIDE), "merge", Choices())
    bench.publisher.publish([merge])
    Publisher(bench.context, SIDE).publish([wants(5_002)])
    HeadMoves(bench.context, bench.names).rebase(
        SIDE, Source(bench.head(), "main"), Initiator("me")
    )
    Publisher(bench.context, SIDE).publish([wants(5_003)])
    bench.names.delete(GONE, EMPTY_ID, Initiator("me"))
    tag(bench, V1, bench.head().obj_id, "me", Annotation("first"))
    return bench


@pytest.fixture(scope="module")
def sound() -> Bench:
    return grown()


@pytest.fixture
def bench() -> Bench:
    """One that may be damaged."""
    return grown()


def objects(bench: Bench) -> dict[ObjId, tuple[bytes, bytes]]:
    """All stored objects: where and what."""
    found = {}
    base = partition(bench.context.instance, Kind.OBJECTS)
    for place in list(any_of(bench.store)._tables):
        if place.startswith(base):
            for entry in bench.store.scan(place, b"", None, 10_000).entries:
                found[ObjId(entry.key)] = (place, entry.value)
    return found


def whats(report: Report, severity: Severity = Severity.DAMAGE) -> list[str]:
    return [f"{one.where}: {one.what}" for one in report.findings if one.severity is severity]


def plant(bench: Bench, obj_id: ObjId, **changes: object) -> None:
    """Stores a commit with another body under its id; the checksum fits."""
    body = body_of(bench.context.views.load(obj_id))
    raw = encode_commit(msgspec.structs.replace(body, **changes))
    place = partition(bench.context.instance, Kind.OBJECTS, obj_id[:2])
    bench.store.put_many([(place, obj_id, raw)])


def test_nothing_is_found_in_a_sound_repository_and_all_of_it_is_read(sound):
    progress = []
    report = check_repository(sound.context, progress.append)
    assert report.findings == ()
    assert not report.damaged
    stored = [raw for _, raw in objects(sound).values() if is_commit(raw)]
    assert report.progress.commits == len(stored)
    assert report.progress.references == 5
    assert report.progress.elements >= 1_500
    assert progress[-1].references == 5


def test_a_missing_object_is_found_whichever_it_is(sound):
    missed = []
    for obj_id, (place, raw) in objects(sound).items():
        sound.store.delete(place, obj_id)
        report = check_repository(sound.context)
        sound.store.put_many([(place, obj_id, raw)])
        if not report.damaged:
            missed.append(obj_id)
    assert not missed, f"{len(missed)} missing objects were not noticed"
    assert not check_repository(sound.context).damaged


def test_a_flipped_byte_is_found_in_whichever_object(sound):
    for number, (obj_id, (place, raw)) in enumerate(objects(sound).items()):
        at = number * 7_919 % len(raw)
        flipped = raw[:at] + bytes((raw[at] ^ 0x10,)) + raw[at + 1 :]
        sound.store.put_many([(place, obj_id, flipped)])
        report = check_repository(sound.context)
        sound.store.put_many([(place, obj_id, raw)])
        assert report.damaged, f"byte {at} of {obj_id.hex()}"


def test_what_lies_below_a_broken_commit_is_checked_all_the_same(bench):
    line = bench.log()
    for view in (line[-3], line[2]):
        place = partition(bench.context.instance, Kind.OBJECTS, view.obj_id[:2])
        bench.store.delete(place, view.obj_id)
    found = whats(check_repository(bench.context))
    for view in (line[-3], line[2]):
        assert any(one.startswith(f"commit {view.obj_id.hex()} ") for one in found)
        assert any("is missing" in one and view.obj_id.hex() in one for one in found)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"sequence": 99}, "its sequence is 99"),
        ({"generation": 99}, "its generation is 99"),
        ({"merges": 9}, "counts the merges"),
        ({"created_us": 1}, "older than its parent"),
        ({"root": b"r" * 32}, "its root"),
        ({"tail": ()}, "its tail"),
        ({"jump": b"j" * 32}, "its jump"),
        ({"own": ()}, "a key that is not its own"),
        ({"own": (bytes(table(1)), bytes(table(29)))}, "does not hold what its operations"),
        ({"own": (bytes(table(29)), bytes(table(29)))}, "not in order"),
    ],
)
def test_a_commit_that_stands_wrong_in_history_is_found(bench, changes, problem):
    view = bench.log()[29]
    plant(bench, view.obj_id, **changes)
    found = whats(check_repository(bench.again().context))
    assert any(view.obj_id.hex() in one and problem in one for one in found), found


def test_a_tree_that_its_content_does_not_build_is_found(bench):
    head = bench.head()
    other = BoundaryRule(b"another seed....")
    nodes = []
    items = [(bytes(table(n)), element(n)) for n in range(3_000)]
    root = build_tree(other, SHAPES[Universe.TABLES].width, iter(items), nodes.append)
    bench.context.objects.store_many([(node.obj_id, node.raw) for node in nodes])
    indexes = tuple(
        msgspec.structs.replace(one, root=root) if one.universe == Universe.TABLES else one
        for one in head.body.indexes
    )
    plant(bench, head.obj_id, indexes=indexes)
    found = whats(check_repository(bench.context))
    assert any("does not end where the tree of its content would" in one for one in found)
    assert any("that is not its own" in one for one in found)


def set_row(bench: Bench, reference: RefName, **changes: object) -> None:
    row = msgspec.structs.replace(bench.row(reference), **changes)
    place = partition(bench.context.instance, Kind.REFERENCES)
    bench.store.put_many([(place, reference.encode(), encode_row(row))])


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"pointer": b"p" * 32}, "leads nowhere"),
        ({"pointer": b"p"}, "does not have the length of an id"),
        ({"pointer": EMPTY_ID}, "does not descend from"),
        ({"name": "other"}, "names another"),
        ({"kind": "WHAT"}, "unknown kind"),
        ({"kind": "TAG"}, "do not agree"),
        ({"created_us": 5}, "do not agree"),
        ({"moves": ()}, "no moves"),
        ({"deleted": True}, "whether it is deleted"),
        ({"version": 0}, "out of order"),
        ({"incarnation": 99}, "of a later incarnation"),
        ({"incarnation": 0}, "in an earlier incarnation"),
        ({"previous": ((b"q" * 32, 1),)}, "leads nowhere"),
        ({"previous": tuple((EMPTY_ID, 1) for _ in range(21))}, "too many moves"),
    ],
)
def test_a_row_that_is_not_what_was_written_is_found(bench, changes, problem):
    set_row(bench, SIDE, **changes)
    found = whats(check_repository(bench.context))
    assert any("'side'" in one and problem in one for one in found), found


@pytest.mark.slow
def test_a_flipped_byte_of_a_row_is_found(bench):
    place = partition(bench.context.instance, Kind.REFERENCES)
    raw = bench.store.get(place, SIDE.encode()).value
    for at in range(len(raw)):
        flipped = raw[:at] + bytes((raw[at] ^ 1,)) + raw[at + 1 :]
        bench.store.put_many([(place, SIDE.encode(), flipped)])
        assert check_repository(bench.context).damaged, f"byte {at}"


def test_rows_and_index_are_held_against_each_other(bench):
    place = partition(bench.context.instance, Kind.REFERENCES)
    stray = msgspec.structs.replace(bench.row(SIDE), name="stray")
    bench.store.put_many([(place, b"stray", encode_row(stray))])
    bench.store.delete(place, V1.encode())
    report = check_repository(bench.context)
    assert any("'stray'" in one and "does not list" in one for one in whats(report))
    unfinished = whats(report, Severity.UNFINISHED)
    assert ["'v1'" in one and "no row yet" in one for one in unfinished] == [True]


def test_an_index_of_names_that_cannot_be_read_is_told_once(bench):
    place = partition(bench.context.instance, Kind.REFERENCES)
    bench.store.delete(place, REFS_NAME.encode())
    found = whats(check_repository(bench.context))
    assert found == ["index of names int/refs: the index of names has lost its row"]


def test_a_damaged_move_in_the_log_is_found(bench):
    place = partition(bench.context.instance, Kind.LOG)
    bench.context.moves.copy(bench.row(SIDE), bench.row(SIDE).moves)
    entry = bench.store.scan(place, b"", None, 1).entries[0]
    bench.store.put_many([(place, entry.key, b"\x91\xc1")])
    assert any(
        "move 'side'" in one and "checksum" in one for one in whats(check_repository(bench.context))
    )


def test_half_done_steps_are_no_damage(monkeypatch, bench):
    with monkeypatch.context() as patch:
        patch.setattr(ReferenceIndex, "_finish_delete", lambda *_: None)
        bench.names.delete(SIDE, ObjId(bench.row(SIDE).pointer), UNNAMED)
    report = check_repository(bench.context)
    assert not report.damaged
    assert "half done" in whats(report, Severity.UNFINISHED)[0]
    assert bench.row(SIDE).deleted, "a check repairs nothing"


def test_a_check_writes_nothing(bench):
    writes = []

    def note(call):
        if call.operation not in ("get", "get_many", "scan"):
            writes.append(call.operation)

    set_row(bench, SIDE, pointer=b"p" * 32)
    other = bench.again(FaultyStore(bench.store, OnCalls(note)))
    assert check_repository(other.context).damaged
    assert writes == []


def test_findings_are_bounded(bench, monkeypatch):
    monkeypatch.setattr(findings_module, "CHECK_FINDINGS_MAX", 2)
    for number, view in enumerate(bench.log()[5:10]):
        plant(bench, view.obj_id, root=bytes((number,)) * 32)
    report = check_repository(bench.again().context)
    assert len(report.findings) == 2
    assert report.untold >= 3
    assert report.damaged


def test_what_changes_while_it_is_read_is_not_taken_for_damage(bench):
    busy = []

    def interfere(call):
        if call.operation == "scan" and not busy:
            busy.append(call)
            other = Bench(bench.store, seed=9, fresh=False)
            other.names.create_many([branch("late")], UNNAMED)
            other.names.delete(SIDE, ObjId(other.row(SIDE).pointer), UNNAMED)
        if call.operation == "get_many" and len(busy) == 1:
            busy.append(call)
            other = Bench(bench.store, seed=8, fresh=False)
            other.names.create_many([branch("later")], UNNAMED)

    other = bench.again(FaultyStore(bench.store, OnCalls(interfere)))
    assert check_repository(other.context).findings == ()
    assert len(busy) == 2


def nothing_is_damaged(world, history):
    assert not check_repository(fresh(world)).damaged


def test_a_crash_at_any_call_leaves_nothing_that_counts_as_damage():
    acts = in_turn(
        creates(NAMES[2]),
        deletes(NAMES[2]),
        commits("c", 1),
        merges,
        moves("rebase", SIM_SIDE, SIM_MAIN),
    )
    report = crash_sweep(
        scenario(
            "everything",
            {"s1": [acts]},
            faults=NO_FAULTS,
            checks={**CHECKS, "check": nothing_is_damaged},
        ),
        {"create": creates(NAMES[2]), "nothing": lambda server: None},
    )
    print(report.line())
    assert report.reached > 50


def test_memory_store_is_what_these_tests_reach_into(sound):
    assert isinstance(sound.store, MemoryStore)
    assert len(objects(sound)) > 50
