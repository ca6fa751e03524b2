"""Requests for commits: both spellings, unknown types, and precise refusals."""

from __future__ import annotations

import json

import pytest

from lochan.base.errors import Invalid
from lochan.model.commits import CommitMeta, Delete, Operation, Put, Unchanged
from lochan.model.contents import IcebergTable, OtherContent
from lochan.wire.codec import encode
from lochan.wire.commits import commit_to_send, read_commit

TABLE = {
    "type": "ICEBERG_TABLE",
    "metadataLocation": "m",
    "snapshotId": 1,
    "schemaId": 2,
    "specId": 3,
    "sortOrderId": 4,
}


def body(meta=None, *operations):
    commit_meta = {"message": "m", **(meta or {})}
    return json.dumps({"commitMeta": commit_meta, "operations": list(operations)}).encode()


def put(content, **more):
    return {"type": "PUT", "key": {"elements": ["a"]}, "content": content, **more}


def test_the_single_values_of_version_1_become_lists():
    meta, _ = read_commit(
        body({"author": "Ada", "signedOffBy": "Bob", "properties": {"k": "v"}}, put(TABLE))
    )
    assert meta == CommitMeta(
        message="m", authors=("Ada",), signed_off_by=("Bob",), properties=(("k", ("v",)),)
    )


def test_the_lists_of_version_2_win_over_single_values():
    meta, _ = read_commit(body({"author": "Ada", "authors": ["Bob", "Cleo"]}))
    assert meta.authors == ("Bob", "Cleo")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("committer", "me"),
        ("commitTime", "2023-01-01T00:00:00Z"),
        ("hash", "ab" * 32),
        ("parentCommitHashes", ["ab" * 32]),
    ],
)
def test_fields_that_only_the_server_sets_are_refused(field, value):
    with pytest.raises(Invalid, match="set by the server"):
        read_commit(body({field: value}))


def test_nulls_and_empty_lists_are_ignored():
    meta, _ = read_commit(
        body({"committer": None, "commitTime": None, "hash": None, "parentCommitHashes": []})
    )
    assert meta == CommitMeta(message="m")


def test_a_content_of_an_unknown_type_is_kept_unchanged():
    _, (one,) = read_commit(body({}, put({"type": "WONDER", "id": "7", "deep": {"x": [1, None]}})))
    assert one == Put(key=("a",), content=OtherContent("WONDER", "7", {"deep": {"x": [1, None]}}))


def test_known_types_beside_unknown_ones_keep_their_shape():
    _, (one, two) = read_commit(
        body({}, put(TABLE, expectedContent=TABLE), put({"type": "WONDER"}))
    )
    assert isinstance(one, Put)
    assert isinstance(one.content, IcebergTable)
    assert isinstance(one.expected, IcebergTable)
    assert isinstance(two, Put)
    assert isinstance(two.content, OtherContent)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"[]", "not as expected"),
        (b"\xff", "not JSON"),
        (b'{"commitMeta":{"message":"m"},"operations":[{"type":"ERASE"}]}', "not as expected"),
        (body({}, put({"type": "ICEBERG_TABLE"})), r"operations\[0\].content: .*metadataLocation"),
        (body({}, put({"id": "7"})), r"operations\[0\].content: a content says its `type`"),
        (body({}, put(7)), r"operations\[0\].content: a content is an object"),
        (body({}, put(TABLE, expectedContent=[])), r"operations\[0\].expectedContent"),
        (body({"authorTime": "yesterday"}), "not as expected"),
        (b'{"commitMeta":{"message":"m"},"operations":' + b"[" * 100_000, "."),
    ],
)
def test_an_error_names_precisely_what_is_wrong(raw, message):
    with pytest.raises(Invalid, match=message):
        read_commit(raw)


def test_what_a_client_writes_is_read_back():
    meta = CommitMeta(
        message="m",
        authors=("a", "b"),
        signed_off_by=("c",),
        author_time_us=1_700_000_000_123_456,
        properties=(("k", ("v", "w")),),
    )
    table = IcebergTable(
        id="7", metadata_location="m", snapshot_id=1, schema_id=2, spec_id=3, sort_order_id=4
    )
    operations: list[Operation] = [
        Put(key=("a",), content=table, expected=table),
        Put(key=("b",), content=OtherContent("WONDER", None, {"x": 1})),
        Delete(key=("c",)),
        Unchanged(key=("d", "e")),
    ]
    assert read_commit(encode(commit_to_send(meta, operations))) == (meta, operations)


@pytest.mark.parametrize("unknown", [False, True])
def test_a_long_body_is_read_as_a_short_one(unknown):
    """It is decoded in pieces."""
    few = [
        put(TABLE, expectedContent=TABLE),
        {"type": "DELETE", "key": {"elements": ["c", "d"]}},
        {"type": "UNCHANGED", "key": {"elements": ["e,[]{}"]}},
        {"type": "RECORD_JOB", "key": {"elements": ["a"]}, "job": "j", "facts": {"k": '"]'}},
    ]
    if unknown:
        few.append(put({"type": "WONDER", "deep": [{"x": "]"}]}))
    meta, operations = read_commit(body({"author": "Ada"}, *few))
    assert read_commit(body({"author": "Ada"}, *few * 1_000)) == (meta, operations * 1_000)


def test_an_error_in_a_long_body_names_its_place():
    raw = body({}, *[put(TABLE)] * 5_000, put({"type": "ICEBERG_TABLE"}))
    with pytest.raises(Invalid, match=r"operations\[5000\].content: .*metadataLocation"):
        read_commit(raw)
    with pytest.raises(Invalid, match="not JSON"):
        read_commit(raw[:-3])
