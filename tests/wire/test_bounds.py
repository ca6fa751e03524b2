"""What no client could read again or reach again is refused, with the name of the field."""

from __future__ import annotations

import json

import msgspec
import pytest

from lochan.access.policy import Call
from lochan.base.errors import Corrupt, Invalid
from lochan.base.ids import EMPTY_ID, ContentId
from lochan.base.limits.contents import TIME_US_MAX, TIME_US_MIN
from lochan.base.names import RefName
from lochan.codec.objects import build_value, encode_object
from lochan.kernel.provenance import UNNAMED
from lochan.kernel.references import NewReferenceRow
from lochan.model.commits import CommitMeta, Delete, Put
from lochan.model.contents import IcebergTable
from lochan.model.requests import NewReference
from lochan.model.specs import parse_spec
from lochan.wire.openapi import build_document
from tests.wire.harness import Wire, put, table

VIEW = {"type": "ICEBERG_VIEW", "metadataLocation": "s3://v", "versionId": 1, "schemaId": 2}

FIELDS = [
    (table, "snapshotId", 64),
    (table, "schemaId", 32),
    (table, "specId", 32),
    (table, "sortOrderId", 32),
    (lambda **more: {**VIEW, **more}, "versionId", 64),
    (lambda **more: {**VIEW, **more}, "schemaId", 32),
]


@pytest.fixture
def wire():
    return Wire()


def sent(wire, version, content):
    """Commits a content whose JSON is written as it stands."""
    operation = json.dumps(put("t")).replace(json.dumps(table()), content)
    body = f'{{"commitMeta": {{"message": "m"}}, "operations": [{operation}]}}'.encode()
    if version == "v1":
        return wire.v1("POST", f"/trees/branch/main/commit?expectedHash={wire.head()}", body)
    return wire.v2("POST", f"/trees/main@{wire.head()}/history/commit", body)


@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize(("make", "field", "bits"), FIELDS)
def test_a_number_that_no_client_can_read_is_refused_by_name(wire, version, make, field, bits):
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    wrong = [str(low - 1), str(high + 1), str(2**64), str(10**400), str(-(10**400))]
    wrong += ["1.0", "1.5", "1e3", "1e400", "true", '"1"', "null", "[]", "-0.0"]
    for text in wrong:
        content = json.dumps(make(**{field: "HERE"})).replace('"HERE"', text)
        answer = sent(wire, version, content)
        assert answer.code == (400, "BAD_REQUEST"), (field, text)
        # What no float can hold is refused before its field is known.
        assert field in answer.message or text == "1e400", (field, text)
    for value in (low, high):
        answer = sent(wire, version, json.dumps(make(**{field: value})))
        assert answer.status == 200, (field, value)
        found = wire.v2("GET", "/trees/main/contents/t").json["content"][field]
        assert found == value
        wire.commit("main", {"type": "DELETE", "key": {"elements": ["t"]}})


def test_numbers_are_bounded_without_a_server_as_well(wire):
    for changed in ({"snapshot_id": 2**63}, {"schema_id": 2**31}, {"spec_id": True}):
        plain = IcebergTable(
            metadata_location="s3://t", snapshot_id=1, schema_id=1, spec_id=1, sort_order_id=1
        )
        content = msgspec.structs.replace(plain, **changed)
        with pytest.raises(Invalid, match="Id is a whole number"):
            wire.repository.commits.commit(
                Call(), "main", None, CommitMeta(message=""), [Put(key=("t",), content=content)]
            )


def test_the_document_shows_the_bounds():
    fields = build_document()["components"]["schemas"]["IcebergTable"]["properties"]
    assert fields["snapshotId"]["format"] == "int64"
    assert fields["snapshotId"]["maximum"] == 2**63 - 1
    assert fields["schemaId"]["format"] == "int32"
    assert fields["schemaId"]["minimum"] == -(2**31)


@pytest.mark.parametrize("name", ["max-records", "scan-commits"])
@pytest.mark.parametrize("text", ["2147483648", "9" * 20, "9" * 5_000, "1.0", "-1", "%C2%B2"])
def test_counts_have_32_bits(wire, name, text):
    target = "/trees/main/history" if name == "max-records" else "/trees/main/recent-changes"
    answer = wire.v2("GET", f"{target}?{name}={text}")
    assert answer.code == (400, "BAD_REQUEST")
    assert name in answer.message


EARLY, LATE = "0001-01-01T00:00:00+00:01", "9999-12-31T23:59:59-00:01"


@pytest.mark.parametrize("moment", [EARLY, LATE])
def test_a_time_that_cannot_be_shown_is_refused_and_the_log_stays_readable(wire, moment):
    body = {"commitMeta": {"message": "m", "authorTime": moment}, "operations": [put("t")]}
    answer = wire.v2("POST", f"/trees/main@{wire.head()}/history/commit", body)
    assert answer.code == (400, "BAD_REQUEST")
    assert "authorTime" in answer.message
    assert wire.v2("GET", "/trees/main/history").status == 200


@pytest.mark.parametrize("when", [{"expiresAt": LATE}, {"ttl": "P999999W"}])
def test_an_expiry_that_cannot_be_shown_is_refused_and_references_stay_readable(wire, when):
    source = {"type": "BRANCH", "name": "main", "hash": wire.head(), **when}
    answer = wire.v2("POST", "/trees?name=dev&type=BRANCH", source)
    assert answer.code == (400, "BAD_REQUEST")
    assert "expiresAt" in answer.message
    many = {"references": [{"name": "dev", "source": "main", **when}]}
    assert wire.v2("POST", "/trees/many", many).code == (400, "BAD_REQUEST")
    assert wire.v2("GET", "/trees").status == 200


def test_a_time_of_an_earlier_version_that_cannot_be_shown_hides_nothing(wire):
    row = NewReferenceRow(RefName("odd"), "BRANCH", EMPTY_ID, TIME_US_MAX + 1)
    wire.repository.references._names.create_many([row], who=UNNAMED)
    found = {each["name"]: each for each in wire.v2("GET", "/trees").json["references"]}
    assert found["odd"]["expiresAt"].startswith("9999-12-31")
    new = NewReference(
        kind="BRANCH", name="dev", source=parse_spec("main"), expires_us=TIME_US_MAX + 1
    )
    with pytest.raises(Invalid, match="expiresAt"):
        wire.repository.references.create(Call(), new)
    commit = wire.repository.commits.commit
    for time_us in (TIME_US_MIN - 1, TIME_US_MAX + 1):
        meta = CommitMeta(message="", author_time_us=time_us)
        with pytest.raises(Invalid, match="authorTime"):
            commit(Call(), "main", None, meta, [Delete(key=("t",))])


@pytest.mark.parametrize("name", ["a/./b", "a/b/./c", "a/..", "a/../b", "a/.", "a//b", "a/", "./a"])
def test_a_name_that_no_address_can_hold_is_refused(wire, name):
    source = {"type": "BRANCH", "name": "main", "hash": wire.head()}
    quoted = name.replace("/", "%2F")
    for answer in (
        wire.v2("POST", f"/trees?name={quoted}&type=BRANCH", source),
        wire.v2("POST", "/trees/many", {"references": [{"name": name, "source": "main"}]}),
        wire.v1("POST", "/trees/tree?sourceRefName=main", {**source, "name": name}),
        wire.v2("POST", "/repositories", {"name": name}),
        wire.v2("POST", "/repositories", {"name": "other", "defaultBranch": name}),
    ):
        assert answer.code == (400, "BAD_REQUEST")
        assert "name" in answer.message
    new = NewReference(kind="BRANCH", name=name, source=parse_spec("main"))
    with pytest.raises(Invalid, match="name"):
        wire.repository.references.create(Call(), new)


def test_a_name_of_an_earlier_version_stays_listed_and_can_be_deleted(wire):
    row = NewReferenceRow(RefName("a/./b"), "BRANCH", EMPTY_ID)
    references = wire.repository.references
    references._names.create_many([row], who=UNNAMED)
    listed = [each["name"] for each in wire.v2("GET", "/trees").json["references"]]
    assert listed == ["a/./b", "main"]
    assert references.get(Call(), "a/./b").hash == EMPTY_ID.hex()
    references.delete(Call(), "a/./b", parse_spec(EMPTY_ID.hex()))
    assert [each.name for each in references.list(Call()).items] == ["main"]


WORDS = ["many", "tree", "trees", "history", "entries", "contents", "diff", "branch", "tag"]
WORDS += ["config", "reflog", "history/commit", "x/contents/t", "x/diff/main", "tree/x/log"]
WORDS += ["a/.b", "a./b", "a.b", "a-", "a_", "api/v2/trees", "r/default", "x.lock"]


@pytest.mark.parametrize("name", WORDS)
def test_a_name_like_a_word_of_an_address_is_reached_by_every_operation(wire, name):
    wire.commit("main", put("t"))
    head = wire.branch(name)
    quoted = name.replace("/", "%2F")
    for target in ("", "/entries", "/history", "/contents/t", "/reflog", "/recent-changes"):
        assert wire.v2("GET", f"/trees/{quoted}{target}").status == 200, target
    assert wire.v2("GET", f"/trees/{quoted}/diff/{quoted}").status == 200
    assert wire.v2("GET", f"/trees/main/diff/{name}@{head}").status == 200
    for target in (f"/trees/tree/{quoted}", f"/trees/tree/{quoted}/log", f"/namespaces/{quoted}"):
        assert wire.v1("GET", target).status == 200, target
    assert wire.v1("GET", f"/diffs/main...{quoted}").status == 200
    body = {"commitMeta": {"message": "m"}, "operations": [put("u")]}
    committed = wire.v2("POST", f"/trees/{name}@{head}/history/commit", body)
    assert committed.json["targetBranch"]["name"] == name
    head = wire.head(name)
    assert wire.v1("DELETE", f"/trees/branch/{quoted}?expectedHash={head}").status == 204


def test_an_unknown_type_of_repository_config_is_refused(wire):
    for target in ("type=NOPE", "type=GARBAGE_COLLECTOR&type=NOPE", "type="):
        answer = wire.v2("GET", f"/config/repository?{target}")
        assert answer.code == (400, "BAD_REQUEST")
        assert "No repository config type registered for name" in answer.message
    assert wire.v2("GET", "/config/repository?type=GARBAGE_COLLECTOR").json == {"configs": []}


def test_contents_without_keys_are_refused(wire):
    for answer in (
        wire.v2("POST", "/trees/main/contents", {"requestedKeys": []}),
        wire.v2("POST", "/trees/main/contents", {}),
        wire.v1("POST", "/contents?ref=main", {"requestedKeys": []}),
    ):
        assert answer.code == (400, "BAD_REQUEST")
        assert "requestedKeys" in answer.message


@pytest.mark.parametrize("flag", ["isDryRun", "dryRun"])
def test_a_dry_run_with_nothing_to_do_returns_the_head(wire, flag):
    wire.commit("main", put("t"))
    wire.branch("dev")
    head = wire.head()
    merge = {"fromRefName": "dev", "fromHash": wire.head("dev"), flag: True}
    merged = wire.v2("POST", f"/trees/main@{head}/history/merge", merge).json
    assert (merged["resultantTargetHash"], merged["wasApplied"]) == (head, False)
    wire.commit("dev", put("u"))
    merge["fromHash"] = wire.head("dev")
    merged = wire.v2("POST", f"/trees/main@{head}/history/merge", merge).json
    assert (merged["resultantTargetHash"], merged["wasSuccessful"]) == (None, True)
    assert wire.head() == head


def test_a_large_number_of_an_earlier_version_is_still_read(wire):
    data = msgspec.msgpack.encode(table(schemaId=2**31, snapshotId=2**63))
    stored = encode_object(build_value(ContentId("id"), 1, data))
    read = wire.repository.contents._types.decode(stored)
    assert (read.schema_id, read.snapshot_id, read.spec_id) == (2**31, 2**63, 3)
    for damaged in (table(schemaId="x"), table(metadataLocation=7, schemaId=2**31)):
        broken = encode_object(build_value(ContentId("id"), 1, msgspec.msgpack.encode(damaged)))
        with pytest.raises(Corrupt):
            wire.repository.contents._types.decode(broken)
