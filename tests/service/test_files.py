"""Files of a branch: written as streams, read with ranges, copied, changed and deleted."""

from __future__ import annotations

import os
from hashlib import md5, sha256
from pathlib import Path
from typing import Any

import pytest

from lochan.access.policy import Call
from lochan.base.errors import (
    ConditionFailed,
    Corrupt,
    Invalid,
    InvalidKey,
    KeyReused,
    NotABranch,
    PathNotFound,
    RangeNotSatisfiable,
    ReferenceNotFound,
    TooLarge,
    Unknown,
)
from lochan.base.limits.files import FILE_IN_STORE_BYTES_MAX, FILES_DELETED_MAX
from lochan.kv.store import Kind, partition
from lochan.model.files import ByteRange, FileProperties, WriteCondition, metadata_of, pieces_of
from lochan.model.requests import NewReference
from lochan.model.specs import parse_spec
from lochan.testing.faults import FaultKind, FaultyStore, PlannedCall
from tests.kernel.workbench import OnCalls
from tests.service.bench import ME, Bench, writes
from tests.service.file_bench import ClientWritable, file_bench, stored_blocks

MAIN = parse_spec("main")
SMALL, LARGE = b"few bytes", os.urandom(3 * FILE_IN_STORE_BYTES_MAX)
KEYED = Call("me", "key", b"one request")
SIZES = (0, 1, FILE_IN_STORE_BYTES_MAX, FILE_IN_STORE_BYTES_MAX + 1, 300_000)


@pytest.fixture
def world(tmp_path: Path) -> tuple[Bench, ClientWritable]:
    return file_bench(tmp_path)


@pytest.fixture
def bench(world: tuple[Bench, ClientWritable]) -> Bench:
    return world[0]


@pytest.mark.parametrize("size", SIZES)
def test_a_file_is_read_as_it_was_written(world, size):
    bench, place = world
    data = os.urandom(size)
    info = bench.put("a/b", data, properties=FileProperties(content_type="x/y"))
    assert (info.size, info.sha256) == (size, sha256(data).hexdigest())
    assert info.etag == md5(data, usedforsecurity=False).hexdigest()
    assert info.content_type == "x/y"
    assert bench.files.stat(ME, MAIN, "a/b") == info
    assert bench.read("a/b") == data
    assert stored_blocks(place) == (size > FILE_IN_STORE_BYTES_MAX)
    assert bench.again().read("a/b") == data


def test_a_small_file_is_stored_by_the_write_of_its_record(bench):
    bench.put("a", SMALL)
    other, counts = bench.counted()
    other.read("a")
    before = dict(counts.calls)
    other.put("b", b"other bytes")
    assert writes(counts) == {"apply": 1}
    # The row once more, after the write (the first time it was in memory), and the rules about
    # protected branches, which are kept for a second.
    assert counts.calls["get"] == before["get"] + 2
    assert bench.again().read("b") == b"other bytes"


@pytest.mark.parametrize("data", [SMALL, LARGE], ids=["small", "large"])
def test_ranges_are_exactly_their_bytes(bench, data):
    bench.put("a", data)
    for wanted, part in [
        (ByteRange(start=1, end=4), data[1:4]),
        (ByteRange(start=3), data[3:]),
        (ByteRange(last=2), data[-2:]),
        (ByteRange(last=10 * len(data)), data),
        (ByteRange(start=2, end=10 * len(data)), data[2:]),
    ]:
        with bench.files.open(ME, MAIN, "a", wanted) as stream:
            assert (stream.read(), stream.end - stream.start) == (part, len(part))
    with pytest.raises(RangeNotSatisfiable) as refused:
        bench.files.open(ME, MAIN, "a", ByteRange(start=len(data)))
    assert refused.value.size == len(data)


def test_an_upload_that_is_not_finished_stores_nothing(world):
    bench, place = world
    for data in (SMALL, LARGE):
        with bench.repository.uploads.begin(ME, "main", "a") as upload:
            upload.write(data)
        with pytest.raises(Invalid, match="has ended"):
            upload.finish()
    with pytest.raises(PathNotFound):
        bench.files.stat(ME, MAIN, "a")
    assert stored_blocks(place) == 0


@pytest.mark.parametrize("data", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize(
    "wrong",
    [
        {"size": 1},
        {"size": 10**6},
        {"sha256": "00" * 32},
        {"md5": "00" * 16},
    ],
    ids=str,
)
def test_wrong_statements_about_the_bytes_store_nothing(world, data, wrong):
    bench, place = world
    with pytest.raises(Invalid):
        bench.put("a", data, properties=FileProperties(**wrong))
    assert bench.tree() == {}
    assert stored_blocks(place) == 0


def test_right_statements_are_accepted_in_any_case(bench):
    digests = sha256(LARGE).hexdigest().upper(), md5(LARGE, usedforsecurity=False).hexdigest()
    stated = FileProperties(size=len(LARGE), sha256=digests[0], md5=digests[1])
    assert bench.put("a", LARGE, properties=stated).size == len(LARGE)


@pytest.mark.parametrize(
    ("properties", "error"),
    [
        (FileProperties(metadata=metadata_of({"k": "v" * 9_000})), TooLarge),
        (FileProperties(content_type="x" * 1_000), TooLarge),
        (FileProperties(size=2**60), TooLarge),
        (FileProperties(metadata=(("b", "1"), ("a", "2"))), Invalid),
        (FileProperties(sha256="no"), Invalid),
        (FileProperties(md5="z" * 32), Invalid),
    ],
)
def test_what_no_file_may_have_is_refused_before_the_first_byte(bench, properties, error):
    with pytest.raises(error):
        bench.repository.uploads.begin(ME, "main", "a", properties)


@pytest.mark.parametrize("path", ["", "a\0b", "x" * 1_025, "\ud800"])
def test_what_is_no_path_is_refused_everywhere(bench, path):
    for call in (
        lambda: bench.put(path),
        lambda: bench.files.stat(ME, MAIN, path),
        lambda: bench.files.delete(ME, "main", path),
    ):
        with pytest.raises(InvalidKey):
            call()


@pytest.mark.parametrize("path", ["../../etc/passwd", "/", "a//b", ".", "é/\n", "%2e%2e", "con\\x"])
def test_any_other_path_is_only_a_name(bench, path):
    bench.put(path, LARGE)
    assert bench.tree() == {path: LARGE}


def test_conditions_hold_or_nothing_is_written(world):
    bench, place = world
    absent = WriteCondition(if_absent=True)
    first = bench.put("a", LARGE, condition=absent)
    with pytest.raises(ConditionFailed):
        bench.put("a", LARGE[1:], condition=absent)
    assert (bench.read("a"), stored_blocks(place)) == (LARGE, 1)
    for wrong in (WriteCondition(if_match="0"), WriteCondition(if_sha256="00" * 32)):
        with pytest.raises(ConditionFailed):
            bench.put("a", SMALL, condition=wrong)
        with pytest.raises(ConditionFailed):
            bench.files.delete(ME, "main", "a", wrong)
    with pytest.raises(ConditionFailed):
        bench.put("b", SMALL, condition=WriteCondition(if_match="*"))
    bench.put("a", SMALL, condition=WriteCondition(if_match=first.etag))
    bench.put("a", b"new", condition=WriteCondition(if_sha256=sha256(SMALL).hexdigest()))
    assert bench.files.delete(ME, "main", "a", WriteCondition(if_match="*"))
    assert bench.tree() == {}


def test_a_copy_has_the_same_bytes_and_stores_none(world):
    bench, place = world
    bench.put("a", LARGE, properties=FileProperties(metadata=(("k", "v"),), content_type="x/y"))
    bench.put("s", SMALL)
    bench.commit_files()
    bench.branch("side")
    made = bench.files.copy(ME, "side", "b", MAIN, "a")
    assert (made.metadata, made.content_type) == ((("k", "v"),), "x/y")
    other = bench.files.copy(ME, "side", "c", MAIN, "s", metadata=(("z", "1"),), content_type="t")
    assert (other.metadata, other.content_type) == ((("z", "1"),), "t")
    assert bench.tree("side") == {"a": LARGE, "b": LARGE, "c": SMALL, "s": SMALL}
    assert stored_blocks(place) == 1
    with pytest.raises(PathNotFound):
        bench.files.copy(ME, "side", "d", MAIN, "missing")
    with pytest.raises(ConditionFailed):
        bench.files.copy(ME, "side", "b", MAIN, "s", condition=WriteCondition(if_absent=True))


def test_metadata_is_replaced_and_the_bytes_stay(bench):
    before = bench.put("a", LARGE)
    after = bench.files.update(ME, "main", "a", metadata=(("k", "v"),))
    assert (after.metadata, after.sha256, after.address) == (
        (("k", "v"),),
        before.sha256,
        before.address,
    )
    assert bench.files.update(ME, "main", "a", content_type="x/y").metadata == (("k", "v"),)
    with pytest.raises(PathNotFound):
        bench.files.update(ME, "main", "b", content_type="x/y")
    with pytest.raises(ConditionFailed):
        bench.files.update(ME, "main", "a", condition=WriteCondition(if_match="0"))


def test_files_are_deleted_one_by_one_or_many_at_once(bench):
    for path in "abcd":
        bench.put(path, path.encode())
    bench.commit_files()
    assert bench.files.delete(ME, "main", "a")
    assert not bench.files.delete(ME, "main", "a")
    bench.files.delete_many(ME, "main", ["b", "missing", "c", "b"])
    assert bench.tree() == {"d": b"d"}
    assert set(bench.tree(bench.head())) == set("abcd")
    with pytest.raises(TooLarge):
        bench.files.delete_many(ME, "main", ["x"] * (FILES_DELETED_MAX + 1))


def test_files_are_staged_on_branches_only(bench):
    bench.put("a", SMALL)
    bench.commit_files()
    bench.run(bench.references.create(ME, NewReference(name="t", kind="TAG", source=MAIN)))
    assert bench.read("a", "t") == SMALL
    with pytest.raises(NotABranch):
        bench.put("b", SMALL, branch="t")
    for branch in ("missing", "int/refs"):
        with pytest.raises(ReferenceNotFound):
            bench.put("b", SMALL, branch=branch)
        with pytest.raises(ReferenceNotFound):
            bench.files.stat(ME, parse_spec(branch), "a")


def test_a_request_that_is_sent_again_is_answered_and_not_done_again(bench):
    absent = WriteCondition(if_absent=True)
    first = bench.put("a", LARGE, call=KEYED, condition=absent)
    bench.put("a", b"later")
    assert bench.put("a", LARGE, call=KEYED, condition=absent) == first
    assert bench.read("a") == b"later"
    with pytest.raises(KeyReused):
        bench.put("a", LARGE, call=Call("me", "key", b"another request"))
    gone = Call("me", "delete", b"a deletion")
    assert bench.files.delete(gone, "main", "a")
    bench.put("a", SMALL)
    assert bench.files.delete(gone, "main", "a")
    assert bench.read("a") == SMALL
    copy = Call("me", "copy", b"a copy")
    made = bench.files.copy(copy, "main", "b", MAIN, "a")
    bench.files.delete_many(ME, "main", ["a", "b"])
    assert bench.files.copy(copy, "main", "b", MAIN, "a") == made
    assert bench.tree() == {}


def test_removals_of_many_and_resets_that_are_sent_again_are_not_done_again(bench):
    bench.put("a", b"old")
    bench.put("b", b"old")
    bench.commit_files()
    many = Call("me", "many", b"a removal of many")
    bench.files.delete_many(many, "main", ["a", "b"])
    bench.put("a", b"new")
    bench.files.delete_many(many, "main", ["a", "b"])
    assert bench.tree() == {"a": b"new"}
    with pytest.raises(KeyReused):
        bench.files.delete_many(Call("me", "many", b"another request"), "main", ["a"])
    reset = bench.repository.resets.reset
    for number, wanted in enumerate(({"path": "a"}, {"prefix": "a"}, {})):
        call = Call("me", f"reset {number}", b"a reset")
        reset(call, "main", **wanted)
        assert bench.read("a") == b"old"
        bench.put("a", b"new")
        reset(call, "main", **wanted)
        assert bench.read("a") == b"new"


def test_a_hard_reset_that_is_sent_again_does_not_move_the_branch_again(bench):
    bench.put("a", b"old")
    first = bench.commit_files().hash
    bench.put("a", b"new")
    second = bench.commit_files().hash
    hard_reset = bench.repository.resets.hard_reset
    call = Call("me", "hard reset", b"a hard reset")
    moved = hard_reset(call, "main", parse_spec(first), parse_spec(second))
    assert moved.hash == first
    bench.put("b", b"later")
    third = bench.commit_files().hash
    assert hard_reset(call, "main", parse_spec(first), parse_spec(second)).hash == first
    assert bench.head() == third
    assert bench.tree() == {"a": b"old", "b": b"later"}


@pytest.mark.parametrize("kind", ["put", "delete"])
def test_a_conditional_write_is_not_refused_for_what_its_earlier_try_has_done(bench, kind):
    """A refusal would state that nothing was written; but the commit has it."""

    def send(server: Bench) -> Any:
        if kind == "put":
            return server.put("a", SMALL, call=KEYED, condition=WriteCondition(if_absent=True))
        return server.files.delete(KEYED, "main", "a", WriteCondition(if_match="*"))

    if kind == "delete":
        bench.put("a", b"before")
        bench.commit_files()
    claims = partition(bench.repository.context.instance, Kind.CLAIMS)
    written: list[bytes] = []

    def choose(call: PlannedCall) -> FaultKind | None:
        if call.operation != "set_if" or call.partition != claims:
            return None
        written.append(b"")
        # The claim is made; its outcome is not recorded.
        return FaultKind.NOT_APPLIED if len(written) > 1 else None

    with pytest.raises(Unknown):
        send(bench.again(FaultyStore(bench.store, OnCalls(choose))))
    bench.commit_files()
    assert bench.tree() == ({"a": SMALL} if kind == "put" else {})
    if kind == "put":
        bench.put("a", b"of another")
    with pytest.raises(Unknown):
        send(bench)


def test_bytes_that_are_lost_are_damage_and_never_an_empty_file(world):
    bench, place = world
    info = bench.put("a", LARGE)
    place.delete(info.address)
    with pytest.raises(Corrupt):
        bench.files.open(ME, MAIN, "a")


def test_a_large_file_needs_a_place():
    bench = Bench()
    bench.put("a", SMALL)
    with pytest.raises(Invalid, match="without a place"):
        bench.put("b", LARGE)
    assert bench.tree() == {"a": SMALL}


def test_a_reserved_address_is_linked_once_to_its_file(world):
    bench, place = world
    addresses = bench.repository.addresses
    reserved = addresses.reserve(ME, "main", "a")
    assert dict(reserved.headers) == {"If-None-Match": "*"}
    made = addresses.link(ME, "main", "a", reserved.token, FileProperties(content_type="x/y"))
    assert (made.size, made.sha256, made.address) == (19, "", reserved.address)
    assert bench.read("a") == place.CLIENT_BYTES
    bench.put("a", SMALL)
    assert addresses.link(ME, "main", "a", reserved.token) == made
    assert bench.read("a") == SMALL
    for branch, path, token in (
        ("main", "b", reserved.token),
        ("main", "a", reserved.token[:-1] + ("A" if reserved.token[-1] != "A" else "B")),
        ("main", "a", "no token"),
        ("main", "a", "é"),
    ):
        with pytest.raises(Invalid):
            addresses.link(ME, branch, path, token)
    bench.branch("side")
    with pytest.raises(Invalid, match="another file"):
        addresses.link(ME, "side", "a", reserved.token)


@pytest.mark.parametrize("condition", [WriteCondition(), WriteCondition(if_absent=True)])
def test_an_address_is_not_linked_to_another_incarnation_of_its_branch(world, condition):
    bench, _ = world
    bench.branch("side")
    reserved = bench.repository.addresses.reserve(ME, "side", "a")
    bench.references.delete(ME, "side", None)
    bench.branch("side")
    # The row of the first incarnation is still in memory.
    with pytest.raises((Invalid, ReferenceNotFound)):
        bench.repository.addresses.link(ME, "side", "a", reserved.token, condition=condition)
    assert bench.tree("side") == {}


def test_an_address_is_linked_in_time_and_after_it_was_written(world):
    bench, place = world
    addresses = bench.repository.addresses
    late = addresses.reserve(ME, "main", "a")
    with pytest.raises(Invalid, match="stated"):
        addresses.link(ME, "main", "a", late.token, FileProperties(size=1))
    bench.clock.advance_us(late.expires_us - bench.clock.now_us())
    with pytest.raises(Invalid, match="expired"):
        addresses.link(ME, "main", "a", late.token)
    place.is_written = False
    unwritten = addresses.reserve(ME, "main", "a")
    with pytest.raises(Invalid, match="nothing was written"):
        addresses.link(ME, "main", "a", unwritten.token)
    assert bench.tree() == {}


def test_a_file_in_a_block_may_have_a_url(bench):
    bench.put("a", LARGE)
    bench.put("s", SMALL)
    assert bench.files.presign(ME, MAIN, "a").startswith("place:")
    with pytest.raises(Invalid):
        bench.files.presign(ME, MAIN, "s")


def test_bodies_of_every_kind_come_in_pieces(tmp_path):
    data = os.urandom(600_000)
    (tmp_path / "x").write_bytes(data)
    with (tmp_path / "x").open("rb") as file:
        for body in (data, bytearray(data), memoryview(data), file, [data[:5], b"", data[5:]]):
            pieces = list(pieces_of(body))
            assert b"".join(pieces) == data
            assert all(0 < len(piece) <= 256 * 1_024 for piece in pieces)
    for wrong in ("text", ["text"], [1]):
        with pytest.raises(Invalid):
            list(pieces_of(wrong))  # type: ignore[arg-type]
