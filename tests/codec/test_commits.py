"""Commits: what their id covers, what their checksum finds, and where their jumps lead."""

from __future__ import annotations

from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lochan.base.errors import Corrupt, TooLarge
from lochan.base.ids import EMPTY_ID, ObjId
from lochan.base.limits.commits import COMMIT_BYTES_MAX
from lochan.codec.commits import (
    CommitObject,
    UniverseIndex,
    commit_id,
    decode_commit,
    digest_operations,
    encode_commit,
    jump_sequence,
)
from lochan.testing.strategies import object_ids, texts

COMMIT = CommitObject(
    1,
    (bytes(range(32)),),
    "message",
    (("author", ("a",)),),
    (("operation", ("0",)),),
    bytes(32),
    1_700_000_000_000_000,
    2,
    2,
    0,
    bytes(range(32)),
    (bytes(range(32)),),
    EMPTY_ID,
    (b"ta",),
    (UniverseIndex(0x74, b"embedded", None), UniverseIndex(0x66, b"", bytes(32))),
)

COVERED: dict[str, list[object]] = {
    "parents": [(), (bytes(32),), (bytes(range(32)), bytes(32)), (bytes(32), bytes(range(32)))],
    "message": ["", "Message", "message "],
    "headers": [
        (),
        (("author", ()),),
        (("author", ("a", "a")),),
        (("author", ("b",)),),
        (("autho", ("ra",)),),
        (("operation", ("0",)),),
    ],
    "hidden": [(), (("operation", ("1",)),), (("operation", ("0",)), ("x", ())), COMMIT.headers],
    "operations": [b"\x01" * 32],
}
BESIDE: dict[str, list[object]] = {
    "created_us": [0, COMMIT.created_us + 1],
    "unchanged_root": [bytes(32)],
    "sequence": [3],
    "generation": [3],
    "merges": [1],
    "root": [b"", bytes(32)],
    "tail": [(), (bytes(32),)],
    "jump": [bytes(32)],
    "own": [None, (), (b"tb",)],
    "indexes": [(), (UniverseIndex(0x74, b"other", None),), COMMIT.indexes[::-1]],
}

headers = st.lists(st.tuples(texts, st.lists(texts, max_size=2).map(tuple)), max_size=3).map(tuple)
sizes = st.integers(0, 2**62)
indexes = st.builds(
    UniverseIndex, st.sampled_from([0x74, 0x66]), st.binary(max_size=40), st.none() | object_ids
)
commits = st.builds(
    CommitObject,
    st.just(1),
    st.lists(object_ids, max_size=3).map(tuple),
    texts,
    headers,
    headers,
    object_ids,
    sizes,
    sizes,
    sizes,
    sizes,
    st.just(b"") | object_ids,
    st.lists(object_ids, max_size=20).map(tuple),
    object_ids,
    st.none() | st.lists(st.binary(max_size=9), max_size=5).map(tuple),
    st.lists(indexes, max_size=2).map(tuple),
)


def changed(field: str, value: object) -> CommitObject:
    return msgspec.structs.replace(COMMIT, **{field: value})


def test_every_field_is_either_covered_or_beside():
    assert {"version", *COVERED, *BESIDE} == set(CommitObject.__struct_fields__)


def test_each_of_what_the_author_did_changes_the_id_and_no_two_share_one():
    variants = [COMMIT] + [changed(field, one) for field, all_ in COVERED.items() for one in all_]
    assert len({commit_id(one) for one in variants}) == len(variants)


@pytest.mark.parametrize("field", BESIDE)
def test_what_lies_beside_does_not_change_the_id_but_the_body(field):
    for value in BESIDE[field]:
        other = changed(field, value)
        assert commit_id(other) == commit_id(COMMIT)
        assert encode_commit(other) != encode_commit(COMMIT)
        assert decode_commit(commit_id(COMMIT), encode_commit(other)) == other


@given(commits)
def test_what_is_encoded_is_decoded(commit):
    raw = encode_commit(commit)
    assert decode_commit(commit_id(commit), raw) == commit
    assert encode_commit(decode_commit(commit_id(commit), raw)) == raw


def test_every_changed_byte_is_corrupt():
    raw, obj_id, random = encode_commit(COMMIT), commit_id(COMMIT), Random(1)
    for at in range(len(raw)):
        flips = {1 << bit for bit in range(8)} | {0xFF, random.randrange(1, 256)}
        for flip in flips:
            bad = raw[:at] + bytes((raw[at] ^ flip,)) + raw[at + 1 :]
            with pytest.raises(Corrupt):
                decode_commit(obj_id, bad)


def test_every_truncation_and_extension_is_corrupt():
    raw, obj_id = encode_commit(COMMIT), commit_id(COMMIT)
    for length in range(len(raw)):
        with pytest.raises(Corrupt):
            decode_commit(obj_id, raw[:length])
        with pytest.raises(Corrupt):
            decode_commit(obj_id, raw[length + 1 :])
    for more in (b"\0", b"\0\0\0\0", raw, raw[-4:]):
        with pytest.raises(Corrupt):
            decode_commit(obj_id, raw + more)


@pytest.mark.parametrize("body", [b"", b"\xc0", b"\x90", b"\x91\x02", b"\xff", b"\xdc\x00\x10\x01"])
def test_a_right_checksum_does_not_make_a_commit(body):
    from zlib import crc32

    with pytest.raises(Corrupt, match="not a stored commit"):
        decode_commit(EMPTY_ID, body + crc32(body).to_bytes(4, "big"))


def test_a_whole_commit_under_another_id_is_corrupt():
    other = changed("message", "other")
    with pytest.raises(Corrupt, match="does not hash to its id"):
        decode_commit(commit_id(COMMIT), encode_commit(other))


def test_a_commit_over_the_limit_is_refused():
    least = len(encode_commit(changed("own", (bytes(70_000),)))) - 4 - 70_000
    fits = changed("own", (bytes(COMMIT_BYTES_MAX - least),))
    assert len(encode_commit(fits)) == COMMIT_BYTES_MAX + 4
    with pytest.raises(TooLarge, match=str(COMMIT_BYTES_MAX)):
        encode_commit(changed("own", (bytes(COMMIT_BYTES_MAX - least + 1),)))


def test_jumps_follow_the_rule_of_skew_binary_numbers():
    """Myers: two jumps of one length before the parent make one that spans both and itself."""
    jumps = [0]
    for sequence in range(1, 100_001):
        parent = sequence - 1
        once = jumps[parent]
        twice = jumps[once]
        jumps.append(twice if parent - once == once - twice and once != twice else parent)
    assert jumps[1:] == [jump_sequence(sequence) for sequence in range(1, 100_001)]


operations = st.dictionaries(st.binary(max_size=5), st.none() | st.binary(max_size=5), max_size=4)


@given(operations, operations)
def test_different_operations_have_different_digests(left, right):
    same = digest_operations(sorted(left.items())) == digest_operations(sorted(right.items()))
    assert same == (left == right)


def test_bytes_do_not_move_between_neighbours():
    """What would agree if keys and elements were merely joined."""
    variants: list[list[tuple[bytes, bytes | None]]] = [
        [(b"ab", b"c")],
        [(b"a", b"bc")],
        [(b"a", b"b"), (b"c", b"")],
        [(b"abc", b"")],
        [(b"abc", None)],
        [(b"a", None), (b"bc", None)],
        [(b"ab", b""), (b"c", None)],
        [],
        [(b"", b"")],
        [(b"", None)],
        [(b"ab", b"\xc4\x01c")],
        [(b"a", b"b\x92\xc4\x01c\xc0")],
    ]
    assert len({digest_operations(one) for one in variants}) == len(variants)


def test_an_id_is_32_bytes():
    assert len(commit_id(COMMIT)) == 32
    assert isinstance(ObjId(commit_id(COMMIT)), bytes)
