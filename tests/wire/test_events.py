"""The JSON of events: its bytes, read again; unknown types and large events."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from lochan.base.errors import Invalid
from lochan.events.subscribers import EventListener, hand_over
from lochan.model import events
from lochan.model.commits import CommitMeta
from lochan.model.contents import IcebergTable, OtherContent
from lochan.model.events import (
    EVENT_CLASSES,
    EVENT_TYPES,
    Event,
    EventReference,
    OperationSummary,
)
from lochan.model.files import FileInfo
from lochan.wire.events import encode_event, event_in, event_out

A, B, C = "aa" * 32, "bb" * 32, "cc" * 32
TIME_US = 1_700_000_000_123_456

COMMON: dict[str, Any] = {
    "id": "0e8f4d7c-1111-5222-8333-444455556666",
    "time_us": TIME_US,
    "sent_by": "host/7",
    "initiator": "ada",
    "roles": ("etl", "grün"),
    "repository": "default",
    "reference": EventReference("main", "/refs/heads/main", "BRANCH", 3),
    "version": 0,
    "operation": "0f" * 16,
}
AT: dict[str, Any] = {"hash": B, "commit_time_us": TIME_US}
META = CommitMeta(
    message="do",
    authors=("Ada",),
    signed_off_by=("Bob",),
    properties=(("p", ("q",)),),
    committer="ada",
    author_time_us=TIME_US,
    commit_time_us=TIME_US,
    hash=B,
    parents=(A,),
)
TABLE = IcebergTable(
    id="i", metadata_location="s3://x", snapshot_id=1, schema_id=2, spec_id=3, sort_order_id=4
)
FILE = FileInfo(
    path="d/f",
    size=2,
    etag="e",
    modified_us=TIME_US,
    sha256="",
    content_type="x/y",
    metadata=(("k", "v"),),
    address="file:x",
)
SUMMARIES = (OperationSummary("PUT", ("a", "b.c")), OperationSummary("DELETE", path="d/f"))

EVENTS: dict[str, Event] = {
    events.COMMIT: events.CommitMade(
        **COMMON,
        type=events.COMMIT,
        hash_before=A,
        hash_after=B,
        meta=META,
        operations=SUMMARIES,
        operations_left_out=5,
    ),
    events.MERGE: events.MergeMade(
        **COMMON,
        type=events.MERGE,
        source="side",
        source_hash=C,
        hash_before=A,
        hash_after=B,
        common_ancestor=A,
        cause="merge",
    ),
    events.TRANSPLANT: events.TransplantMade(
        **COMMON,
        type=events.TRANSPLANT,
        source="side",
        hash_before=A,
        hash_after=B,
        commit_count=2,
        cause="cherry-pick",
    ),
    events.REFERENCE_CREATED: events.ReferenceCreated(
        **COMMON, type=events.REFERENCE_CREATED, hash_after=B
    ),
    events.REFERENCE_UPDATED: events.ReferenceUpdated(
        **COMMON, type=events.REFERENCE_UPDATED, hash_before=A, hash_after=B, cause="assign"
    ),
    events.REFERENCE_DELETED: events.ReferenceDeleted(
        **COMMON, type=events.REFERENCE_DELETED, hash_before=A
    ),
    events.CONTENT_STORED: events.ContentStored(
        **COMMON,
        **AT,
        type=events.CONTENT_STORED,
        content_type="ICEBERG_TABLE",
        key=("a", "b.c"),
        content=TABLE,
    ),
    events.CONTENT_REMOVED: events.ContentRemoved(
        **COMMON,
        **AT,
        type=events.CONTENT_REMOVED,
        content_type="ICEBERG_TABLE",
        key=("a", "b.c"),
        content_id="i",
    ),
    events.FILE_STORED: events.FileStored(
        **COMMON, **AT, type=events.FILE_STORED, path="d/f", file=FILE
    ),
    events.FILE_REMOVED: events.FileRemoved(**COMMON, **AT, type=events.FILE_REMOVED, path="d/f"),
    events.GAP: events.GapFound(
        **COMMON,
        type=events.GAP,
        cause="history",
        since_us=TIME_US,
        missed=(events.MissedChanges("main", 3, A, 4, B),),
        missed_left_out=2,
    ),
}

HEAD = (
    '{"id":"0e8f4d7c-1111-5222-8333-444455556666","type":"%s",'
    '"time":"2023-11-14T22:13:20.123456Z","sentBy":"host/7","initiator":"ada",'
    '"roles":["etl","grün"],"repository":"default","reference":{"type":"BRANCH","name":"main",'
    '"fullName":"/refs/heads/main","incarnation":3},"version":0,"operation":"' + "0f" * 16 + '",'
)
COMMIT_AT = f'"hash":"{B}","commitTime":"2023-11-14T22:13:20.123456Z",'
CONTENT_AT = COMMIT_AT + '"contentType":"ICEBERG_TABLE","key":{"elements":["a","b.c"]},'
HEADS = f'"hashBefore":"{A}","hashAfter":"{B}",'

GOLDEN = {
    events.COMMIT: HEADS
    + f'"meta":{{"hash":"{B}","committer":"ada","authors":["Ada"],"allSignedOffBy":["Bob"],'
    '"message":"do","commitTime":"2023-11-14T22:13:20.123456Z",'
    '"authorTime":"2023-11-14T22:13:20.123456Z","allProperties":{"p":["q"]},'
    f'"parentCommitHashes":["{A}"]}},"operations":[{{"type":"PUT","key":'
    '{"elements":["a","b.c"]}},{"type":"DELETE","path":"d/f"}],"operationsLeftOut":5}',
    events.MERGE: f'"source":"side","sourceHash":"{C}",{HEADS}"commonAncestor":"{A}",'
    '"cause":"merge"}',
    events.TRANSPLANT: f'"source":"side",{HEADS}"commitCount":2,"cause":"cherry-pick"}}',
    events.REFERENCE_CREATED: f'"hashAfter":"{B}"}}',
    events.REFERENCE_UPDATED: HEADS + '"cause":"assign"}',
    events.REFERENCE_DELETED: f'"hashBefore":"{A}"}}',
    events.CONTENT_STORED: CONTENT_AT
    + '"content":{"type":"ICEBERG_TABLE","id":"i","metadataLocation":"s3://x","snapshotId":1,'
    '"schemaId":2,"specId":3,"sortOrderId":4}}',
    events.CONTENT_REMOVED: CONTENT_AT + '"contentId":"i"}',
    events.FILE_STORED: COMMIT_AT + '"path":"d/f","file":{"type":"FILE","path":"d/f","size":2,'
    '"etag":"e","modified":"2023-11-14T22:13:20.123456Z","sha256":"","contentType":"x/y",'
    '"metadata":{"k":"v"},"address":"file:x"}}',
    events.FILE_REMOVED: COMMIT_AT + '"path":"d/f"}',
    events.GAP: '"cause":"history","since":"2023-11-14T22:13:20.123456Z","missed":[{"name":"main",'
    f'"incarnationBefore":3,"hashBefore":"{A}","incarnationAfter":4,"hashAfter":"{B}"}}],'
    '"missedLeftOut":2}',
}


@pytest.mark.parametrize("name", sorted(EVENT_TYPES))
def test_the_bytes_of_every_type_are_these(name):
    assert encode_event(EVENTS[name]).decode() == HEAD % name + GOLDEN[name]


@pytest.mark.parametrize("name", sorted(EVENT_TYPES))
def test_an_event_is_read_as_it_was_written(name):
    assert event_in(json.loads(encode_event(EVENTS[name]))) == EVENTS[name]


def test_the_table_has_every_type():
    assert set(EVENTS) == set(GOLDEN) == set(EVENT_CLASSES) == EVENT_TYPES


def test_consumers_accept_unknown_types_and_fields():
    sent = json.loads(encode_event(EVENTS[events.REFERENCE_CREATED]))
    known = event_in({**sent, "later": [1]})
    assert known == EVENTS[events.REFERENCE_CREATED]
    other = event_in({**sent, "type": "STATISTICS_STORED", "later": [1]})
    assert isinstance(other, events.OtherEvent)
    assert (other.type, other.fields) == ("STATISTICS_STORED", {"hashAfter": B, "later": [1]})
    assert event_out(other)["later"] == [1]

    class Listener(EventListener):
        got: events.Event | None = None

        def on_event(self, event: events.Event) -> None:
            self.got = event

    listener = Listener()
    hand_over(listener, other)
    assert listener.got is other


def test_a_content_of_an_unknown_type_is_carried_unchanged():
    content = OtherContent("X", "i", {"deep": {"a": [1]}})
    event = msgspec.structs.replace(
        EVENTS[events.CONTENT_STORED], content_type="X", content=content
    )
    assert event_in(json.loads(encode_event(event))) == event


@pytest.mark.parametrize("sent", [None, [], {}, {"type": "COMMIT"}, {"type": 1, "id": []}])
def test_what_is_no_event_is_refused(sent):
    with pytest.raises(Invalid):
        event_in(sent)


def test_a_large_commit_lists_the_operations_that_fit_and_counts_the_others():
    many = tuple(OperationSummary("PUT", (f"k{n}",)) for n in range(1_000))
    event = msgspec.structs.replace(EVENTS[events.COMMIT], operations=many)
    body = encode_event(event, 10_000)
    assert 9_900 < len(body) <= 10_000
    read = event_in(json.loads(body))
    assert isinstance(read, events.CommitMade)
    assert len(read.operations) + read.operations_left_out == 1_005
    assert read.operations == many[: len(read.operations)]


def test_a_large_event_names_what_was_left_out():
    content = OtherContent("X", "i", {"x": "y" * 100_000})
    event = msgspec.structs.replace(
        EVENTS[events.CONTENT_STORED], content_type="X", content=content
    )
    body = json.loads(encode_event(event, 65_536))
    assert body["leftOut"] == ["content"]
    assert "content" not in body
    assert (body["key"], body["contentType"]) == ({"elements": ["a", "b.c"]}, "X")
    assert isinstance(event_in(body), events.OtherEvent)


def test_a_commit_with_a_huge_message_is_sent_without_its_meta():
    meta = msgspec.structs.replace(META, message="m" * 100_000)
    event = msgspec.structs.replace(EVENTS[events.COMMIT], meta=meta)
    body = json.loads(encode_event(event, 2_000))
    assert body["leftOut"] == ["meta"]
    assert (body["operations"], body["operationsLeftOut"]) == ([], 7)
    assert body["hashAfter"] == B
