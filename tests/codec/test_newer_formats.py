"""What a newer Lochan wrote is a newer format; what was changed is corrupt, its version too."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType

import msgspec
import pytest

import lochan.codec.commits
import lochan.codec.objects
import lochan.codec.rows
import lochan.persist.claims
from lochan.base.errors import Corrupt, NewerFormat
from lochan.base.ids import EMPTY_ID, ContentId, ObjId
from lochan.codec.commits import (
    CommitLine,
    CommitObject,
    TagObject,
    UniverseIndex,
    commit_id,
    decode_commit,
    decode_line,
    decode_tag,
    encode_commit,
    encode_tag,
    is_commit,
    is_tag,
)
from lochan.codec.elements import FILE_REMOVE, TABLE_REMOVE, decode_file, decode_table, pack_table
from lochan.codec.forms import add_checksum, encode_row, leading_numbers
from lochan.codec.objects import (
    FileObject,
    NodeObject,
    ValueObject,
    build_value,
    check_object_id,
    decode_object,
    encode_object,
    object_id,
)
from lochan.codec.rows import (
    DELETED_FORM,
    DESCRIPTION_FORM,
    MOVE_FORM,
    REFERENCE_FORM,
    REPOSITORY_FORM,
    SETTINGS_FORM,
    TOKEN_FORM,
    DeletedRow,
    Description,
    Move,
    MoveRow,
    ReferenceElement,
    ReferenceRow,
    RepositoryRow,
    SettingsRow,
    StagingTokenRow,
    decode_reference_element,
    encode_reference_element,
)
from lochan.kernel.views import view_of
from lochan.persist.claims import CLAIM_FORM, Claim

ID = bytes(range(32))
COMMIT = CommitObject(1, (EMPTY_ID,), "m", (), (), ID, 1, 1, 1, 0, b"", (), EMPTY_ID, (), (), None)
MOVE = Move(2, ID, ID, "assign", "me", 1, bytes(16))

Decode = Callable[[bytes], object]

OBJECTS: dict[type[object], tuple[bytes, Decode]] = {
    ValueObject: (
        encode_object(build_value(ContentId("id"), 1, b"x")),
        lambda raw: decode_object(ValueObject, raw),
    ),
    NodeObject: (
        encode_object(NodeObject(1, 0, 1, 3, b"t", (b"a",), 1, b"v")),
        lambda raw: decode_object(NodeObject, raw),
    ),
    FileObject: (
        encode_object(FileObject(1, b"x")),
        lambda raw: decode_object(FileObject, raw),
    ),
    TagObject: (encode_tag(TagObject(1, ID, "m", (), b""))[1], decode_tag),
}
ROWS: dict[type[object], tuple[bytes, Decode]] = {
    ReferenceRow: (
        encode_row(ReferenceRow(1, "main", "BRANCH", ID, 1, 1, bytes(16), 5, moves=(MOVE,))),
        REFERENCE_FORM.decode,
    ),
    Description: (
        encode_row(Description(1, "r", "main", 5, bytes(16), ID)),
        DESCRIPTION_FORM.decode,
    ),
    MoveRow: (
        encode_row(MoveRow(1, "main", 3, MOVE)),
        MOVE_FORM.decode,
    ),
    RepositoryRow: (
        encode_row(RepositoryRow(1, "r", bytes(16))),
        REPOSITORY_FORM.decode,
    ),
    DeletedRow: (
        encode_row(DeletedRow(1, "r", bytes(16), 5)),
        DELETED_FORM.decode,
    ),
    SettingsRow: (
        encode_row(SettingsRow(1, bytes(16))),
        SETTINGS_FORM.decode,
    ),
    StagingTokenRow: (
        encode_row(StagingTokenRow(1, bytes(16), "main", 1, 5)),
        TOKEN_FORM.decode,
    ),
    Claim: (
        add_checksum(
            msgspec.msgpack.encode(
                Claim(1, bytes(32), b"d", "commit", "main", "", 1, 1, 1, bytes(16), 5)
            )
        ),
        CLAIM_FORM.decode,
    ),
}
# Parts of other forms, whose version covers them.
PARTS = {CommitLine, Move, ReferenceElement, UniverseIndex}


def of_version(raw: bytes, at: int, version: int) -> bytes:
    """Returns an array with another number at a place, and a field more at the end."""
    fields = msgspec.msgpack.decode(raw)
    fields[at] = version
    return msgspec.msgpack.encode([*fields, "a field of the future"])


def structs_of(module: ModuleType) -> set[type[object]]:
    return {
        one
        for _, one in inspect.getmembers(module, inspect.isclass)
        if issubclass(one, msgspec.Struct)
        and one.__module__ == module.__name__
        and one.__struct_config__.array_like
    }


def test_every_stored_form_is_here():
    codec = (lochan.codec.commits, lochan.codec.objects, lochan.codec.rows, lochan.persist.claims)
    stored = {one for module in codec for one in structs_of(module)}
    assert stored == {CommitObject, *OBJECTS, *ROWS, *PARTS}
    for one in stored - PARTS:
        fields = one.__annotations__
        assert "Literal[1]" in (fields.get("version"), fields.get("format")), one.__name__


@pytest.mark.parametrize("kind", OBJECTS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("version", [2, 127, 128, 70_000])
def test_an_object_of_a_later_version_is_of_a_newer_format(kind, version):
    raw, decode = OBJECTS[kind]
    with pytest.raises(NewerFormat, match=f"format {version}.*upgrade Lochan"):
        decode(of_version(raw, 1, version))


@pytest.mark.parametrize("kind", OBJECTS, ids=lambda kind: kind.__name__)
def test_a_flipped_version_of_an_object_is_corrupt_before_it_is_newer(kind):
    raw, _ = OBJECTS[kind]
    assert raw[2] == 1
    with pytest.raises(Corrupt):
        check_object_id(object_id(raw), raw[:2] + b"\x03" + raw[3:])


@pytest.mark.parametrize("kind", ROWS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("version", [2, 127, 128, 70_000])
def test_a_row_of_a_later_format_is_of_a_newer_format(kind, version):
    raw, decode = ROWS[kind]
    with pytest.raises(NewerFormat, match=f"format {version}.*upgrade Lochan"):
        decode(add_checksum(of_version(raw[:-4], 0, version)))


@pytest.mark.parametrize("kind", ROWS, ids=lambda kind: kind.__name__)
def test_every_flipped_bit_of_a_row_is_corrupt_and_never_a_newer_format(kind):
    raw, decode = ROWS[kind]
    for at in range(len(raw)):
        for bit in range(8):
            with pytest.raises(Corrupt):
                decode(raw[:at] + bytes((raw[at] ^ 1 << bit,)) + raw[at + 1 :])


def test_a_commit_of_a_later_version_is_of_a_newer_format_and_still_a_commit():
    raw = add_checksum(of_version(encode_commit(COMMIT)[:-4], 1, 2))
    assert is_commit(raw)
    with pytest.raises(NewerFormat, match=r"format 2.*upgrade Lochan"):
        decode_commit(commit_id(COMMIT), raw)


def test_every_flipped_bit_of_a_commit_is_corrupt_and_never_a_newer_format():
    raw, obj_id = encode_commit(COMMIT), commit_id(COMMIT)
    for at in range(len(raw)):
        for bit in range(8):
            with pytest.raises(Corrupt):
                decode_commit(obj_id, raw[:at] + bytes((raw[at] ^ 1 << bit,)) + raw[at + 1 :])


def test_a_tag_of_a_later_version_is_still_a_tag():
    raw, _ = OBJECTS[TagObject]
    assert is_tag(of_version(raw, 1, 2))


@pytest.mark.parametrize(
    "index",
    [UniverseIndex(0x74, b"", None, (ID,)), UniverseIndex(0x75, b"", None)],
    ids=["a layer", "a universe"],
)
def test_an_index_that_is_not_known_is_of_a_newer_format_and_not_left_out(index):
    body = msgspec.structs.replace(COMMIT, indexes=(index,))
    with pytest.raises(NewerFormat, match="upgrade Lochan"):
        view_of(commit_id(body), body)


def test_flags_that_are_not_known_are_of_a_newer_format():
    table = pack_table(1, ObjId(ID), bytes(16))
    for flag in (0x04, 0x80):
        with pytest.raises(NewerFormat):
            decode_table(bytes((flag,)) + table[1:])
        with pytest.raises(NewerFormat):
            decode_file(bytes((flag,)) + b"\x90")
        listed = encode_reference_element(ReferenceElement("TAG", ID, 1, 1, b"", "me"))
        with pytest.raises(NewerFormat):
            decode_reference_element(bytes((flag,)) + listed[1:])


def test_a_removal_is_no_put_and_no_newer_format():
    for decode, raw in ((decode_table, TABLE_REMOVE), (decode_file, FILE_REMOVE)):
        with pytest.raises(Corrupt):
            decode(raw)


@pytest.mark.parametrize("raw", [b"", b"\x92", b"\x92\x01", b"\xdc\x00", b"\xc0", b"\x92\xcd\x01"])
def test_bytes_without_leading_numbers_have_none(raw):
    assert leading_numbers(raw, 2) is None


@pytest.mark.parametrize("version", [2, 127, 128, 70_000])
def test_a_search_refuses_a_commit_of_a_later_version(version):
    raw, obj_id = encode_commit(COMMIT), commit_id(COMMIT)
    assert decode_line(obj_id, raw).sequence == COMMIT.sequence
    with pytest.raises(NewerFormat):
        decode_line(obj_id, add_checksum(of_version(raw[:-4], 1, version)))
