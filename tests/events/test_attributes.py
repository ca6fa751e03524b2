"""What raises what, and every attribute of every type, through the embedded library."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from lochan.base.errors import LochanError
from lochan.base.ids import EMPTY_ID
from lochan.embedded import Embedded
from lochan.model import events
from lochan.model.commits import CommitMeta, Delete, Operation, Put, RecordJob, Unchanged
from lochan.model.contents import IcebergTable
from lochan.model.events import CHANGE_TYPES, Event
from lochan.model.references import Annotation
from lochan.model.requests import NewReference
from lochan.model.specs import ReferenceSpec
from lochan.testing.ports import ManualClock
from tests.events.collector import Collector, collected
from tests.service.bench import table

EMPTY = EMPTY_ID.hex()

Act = Callable[[Embedded], Any]
Expected = list[tuple[str, dict[str, Any]]]


def put(name: str, location: str = "") -> Put:
    return Put(key=(name,), content=table(location or name))


def prepare(repository: Embedded) -> None:
    """`main` with a, b; `side` with c and a file besides; the tag `t`."""
    repository.commits.commit("main", "first", [put("a"), put("b")])
    repository.references.create("side")
    repository.commits.commit("side", "c", [put("c")])
    repository.files.put("side", "d/f", b"bytes", content_type="x/y")
    repository.files.commit("side", "file")
    repository.references.create("t", kind="TAG")


def head(repository: Embedded, name: str) -> str:
    return repository.references.get(name).hash


def content_of(repository: Embedded, name: str) -> IcebergTable:
    found = repository.contents.get("main", (name,))
    return next(one for one in found if isinstance(one, IcebergTable))


def later(repository: Embedded, collector: Collector) -> None:
    """Subscribes a collector that gets what follows."""
    assert repository._events is not None
    repository._events.hub.subscribe(collector)


def plain(event: Event) -> dict[str, Any]:
    return {name: getattr(event, name) for name in event.__struct_fields__}


def committed(repository: Embedded) -> Expected:
    before = head(repository, "main")
    meta = CommitMeta(message="do", authors=("A",), properties=(("p", ("q",)),))
    operations: list[Operation] = [put("new"), Delete(key=("a",)), Unchanged(key=("b",))]
    made = repository.commits.commit("main", meta, operations).hash
    listed = ((("DELETE", ("a",))), ("PUT", ("new",)))
    stored = content_of(repository, "new")
    at = {"hash": made, "content_type": "ICEBERG_TABLE"}
    return [
        (
            "COMMIT",
            {
                "hash_before": before,
                "hash_after": made,
                "operations": tuple(events.OperationSummary(*one) for one in listed),
                "operations_left_out": 0,
                "meta": repository.history.log("main", 1).items[0].meta,
            },
        ),
        ("CONTENT_REMOVED", {**at, "key": ("a",)}),
        ("CONTENT_STORED", {**at, "key": ("new",), "content": stored}),
    ]


def committed_files(repository: Embedded) -> Expected:
    before = head(repository, "side")
    repository.files.put("side", "d/g", b"12")
    repository.files.delete("side", "d/f")
    made = repository.files.commit("side", "files", [put("z")]).hash
    info = repository.files.stat("side", "d/g")
    summaries = [("DELETE", (), "d/f"), ("PUT", (), "d/g"), ("PUT", ("z",), "")]
    return [
        (
            "COMMIT",
            {
                "hash_before": before,
                "hash_after": made,
                "operations": tuple(events.OperationSummary(*one) for one in summaries),
            },
        ),
        ("FILE_REMOVED", {"hash": made, "path": "d/f"}),
        ("FILE_STORED", {"hash": made, "path": "d/g", "file": info}),
        ("CONTENT_STORED", {"hash": made, "key": ("z",)}),
    ]


def merged(repository: Embedded, *, squash: bool = True) -> Expected:
    base, source = head(repository, "main"), head(repository, "side")
    repository.commits.commit("main", "own", [put("own")])
    before = head(repository, "main")
    made = repository.merges.merge("main", "side", squash=squash).hash
    return [
        ("COMMIT", {}),
        ("CONTENT_STORED", {"key": ("own",)}),
        (
            "MERGE",
            {
                "source": "side",
                "source_hash": source,
                "hash_before": before,
                "hash_after": made,
                "common_ancestor": base,
                "cause": "merge",
            },
        ),
        ("FILE_STORED", {"hash": made, "path": "d/f"}),
        ("CONTENT_STORED", {"hash": made, "key": ("c",)}),
    ]


def replayed(repository: Embedded) -> Expected:
    # What the source put and removed again is no net change.
    repository.commits.commit("side", "and", [put("passing")])
    repository.commits.commit("side", "back", [Delete(key=("passing",))])
    done = merged(repository, squash=False)
    side = [("COMMIT", {}), ("CONTENT_STORED", {}), ("COMMIT", {}), ("CONTENT_REMOVED", {})]
    return [*side, *done]


def forwarded(repository: Embedded) -> Expected:
    before, source = head(repository, "main"), head(repository, "side")
    repository.merges.fast_forward("main", "side")
    fields = {"source": "side", "source_hash": source, "common_ancestor": before}
    heads = {"hash_before": before, "hash_after": source, "cause": "fast-forward"}
    return [
        ("MERGE", {**fields, **heads}),
        ("FILE_STORED", {"hash": source, "path": "d/f"}),
        ("CONTENT_STORED", {"hash": source, "key": ("c",)}),
    ]


def forced(repository: Embedded) -> Expected:
    base = head(repository, "main")
    repository.merges.force("side", "main")
    return [
        ("MERGE", {"source": "main", "common_ancestor": base, "cause": "force"}),
        ("FILE_REMOVED", {"hash": base, "path": "d/f"}),
        ("CONTENT_REMOVED", {"hash": base, "key": ("c",)}),
    ]


def transplanted(repository: Embedded) -> Expected:
    before = head(repository, "main")
    log = repository.history.log("side", 2).items
    hashes = [str(entry.meta.hash) for entry in reversed(log)]
    made = repository.merges.transplant("main", "side", hashes).hash
    heads = {"hash_before": before, "hash_after": made}
    return [
        ("TRANSPLANT", {**heads, "source": "side", "commit_count": 2, "cause": "transplant"}),
        ("FILE_STORED", {"hash": made}),
        ("CONTENT_STORED", {"hash": made}),
    ]


def picked(repository: Embedded) -> Expected:
    commit = str(repository.history.log("side", 2).items[1].meta.hash)
    made = repository.merges.cherry_pick("main", [commit], source="side").hash
    return [
        ("TRANSPLANT", {"source": "side", "commit_count": 1, "cause": "cherry-pick"}),
        ("CONTENT_STORED", {"hash": made, "key": ("c",)}),
    ]


def reverted(repository: Embedded) -> Expected:
    before = head(repository, "side")
    made = repository.merges.revert("side", [before]).hash
    return [
        ("COMMIT", {"hash_before": before, "hash_after": made}),
        ("FILE_REMOVED", {"hash": made, "path": "d/f"}),
    ]


def updated(cause: str, act: Callable[[Embedded], Any]) -> Callable[[Embedded], Expected]:
    def run(repository: Embedded) -> Expected:
        before = head(repository, "side")
        act(repository)
        after = head(repository, "side")
        fields = {"hash_before": before, "hash_after": after, "cause": cause}
        return [("REFERENCE_UPDATED", fields)]

    return run


def rebased(repository: Embedded) -> Expected:
    repository.commits.commit("main", "own", [put("own")])
    (moved,) = updated("rebase", lambda one: one.merges.rebase("side", "main"))(repository)
    return [("COMMIT", {}), ("CONTENT_STORED", {}), moved]


def created(repository: Embedded) -> Expected:
    new = [NewReference(name=f"n{n}", source=ReferenceSpec("side")) for n in range(3)]
    repository.references.create_many(new)
    at = {"hash_after": head(repository, "side")}
    return [("REFERENCE_CREATED", at)] * 3


def annotated(repository: Embedded) -> Expected:
    note = Annotation("a release")
    repository.references.create("v1", "side", kind="TAG", annotation=note)
    return [("REFERENCE_CREATED", {"hash_after": head(repository, "side")})]


def tag_moved(repository: Embedded) -> Expected:
    before, after = head(repository, "t"), head(repository, "side")
    repository.references.assign("t", "side", expected=before)
    return [("REFERENCE_UPDATED", {"hash_before": before, "hash_after": after, "cause": "assign"})]


def deleted(repository: Embedded) -> Expected:
    before = head(repository, "side")
    repository.references.delete("side")
    return [("REFERENCE_DELETED", {"hash_before": before})]


def renamed(repository: Embedded) -> Expected:
    content = content_of(repository, "a")
    operations: list[Operation] = [Delete(key=("a",)), Put(key=("moved",), content=content)]
    repository.commits.commit("main", "rename", operations)
    return [
        ("COMMIT", {}),
        ("CONTENT_REMOVED", {"key": ("a",), "content_id": content.id}),
        ("CONTENT_STORED", {"key": ("moved",), "content": content}),
    ]


def with_a_job(repository: Embedded) -> Expected:
    record = RecordJob(key=("n",), job="j")
    repository.commits.commit("main", "job", [put("n"), record])
    one = (events.OperationSummary("PUT", ("n",)),)
    return [("COMMIT", {"operations": one}), ("CONTENT_STORED", {"key": ("n",)})]


def put_again(repository: Embedded) -> Expected:
    content = content_of(repository, "a")
    repository.commits.commit("main", "the same", [Put(key=("a",), content=content)])
    return [("COMMIT", {"operations": (events.OperationSummary("PUT", ("a",)),)})]


def hard_reset(repository: Embedded) -> None:
    repository.files.hard_reset("side", "main")


RAISED: dict[str, Callable[[Embedded], Expected]] = {
    "commit": committed,
    "commit of files": committed_files,
    "commit with a job": with_a_job,
    "commit that changes nothing": put_again,
    "revert": reverted,
    "merge": merged,
    "merge by replay": replayed,
    "fast-forward": forwarded,
    "force": forced,
    "transplant": transplanted,
    "cherry-pick": picked,
    "assign": updated("assign", lambda one: one.references.assign("side", "main")),
    "assign of a tag": tag_moved,
    "reset": updated("reset", hard_reset),
    "rebase": rebased,
    "create in bulk": created,
    "annotated tag": annotated,
    "delete": deleted,
    "rename": renamed,
}


@pytest.mark.parametrize("name", RAISED)
def test_every_change_raises_its_events_with_every_attribute(name):
    collector = Collector()
    with collected(collector, who="someone") as repository:
        prepare(repository)
        collector_after = Collector()
        later(repository, collector_after)
        expected = RAISED[name](repository)
    assert collector_after.types == [type_name for type_name, _ in expected]
    for event, (_, fields) in zip(collector_after.events, expected, strict=True):
        found = plain(event)
        assert {key: found[key] for key in fields} == fields
        check_common(event)


def check_common(event: Event) -> None:
    assert uuid.UUID(event.id).version == 5
    assert (event.initiator, event.repository, event.roles) == ("someone", "default", ())
    assert event.sent_by
    assert event.time_us > 1_600_000_000_000_000
    assert len(event.operation) == 32
    reference = event.reference
    folder = "tags" if reference.kind == "TAG" else "heads"
    assert reference.full_name == f"/refs/{folder}/{reference.name}"
    assert reference.incarnation > 0
    msgspec.json.encode(event)


def test_the_table_has_every_type():
    collector = Collector()
    for act in RAISED.values():
        with collected(collector) as repository:
            prepare(repository)
            act(repository)
    assert set(collector.types) == CHANGE_TYPES
    ids = [event.id for event in collector.events]
    assert len(set(ids)) == len(ids)


def refused(act: Act) -> Act:
    def run(repository: Embedded) -> None:
        with pytest.raises(LochanError):
            act(repository)

    return run


NOTHING: dict[str, Act] = {
    "conflict": refused(
        lambda one: one.commits.commit("main", "x", [put("new"), Unchanged(key=("a",)), put("a")])
    ),
    "absent branch": refused(lambda one: one.commits.commit("none", "x", [put("x")])),
    "taken name": refused(lambda one: one.references.create("side")),
    "default branch": refused(lambda one: one.references.delete("main")),
    "dry run of a merge": lambda one: one.merges.merge("main", "side", dry_run=True),
    "dry run of a fast-forward": lambda one: one.merges.fast_forward("main", "side", dry_run=True),
    "dry run of a rebase": lambda one: one.merges.rebase("side", "main", dry_run=True),
    "merge of nothing": lambda one: one.merges.merge("side", "main"),
    "fast-forward to itself": lambda one: one.merges.fast_forward("side", "main"),
    "force to itself": lambda one: one.merges.force("main", "main"),
    "assign to where it is": lambda one: one.references.assign("t", "main"),
    "reset to where it is": lambda one: one.files.hard_reset("main", "main"),
    "staged write": lambda one: one.files.put("side", "d/h", b"staged"),
    "reset of staged files": lambda one: one.files.reset("side"),
    "nothing staged": refused(lambda one: one.files.commit("side", "none")),
    "reads": lambda one: (one.history.log("main"), one.references.list(), one.check()),
    "sweep": lambda one: one.sweep(),
}


@pytest.mark.parametrize("name", NOTHING)
def test_what_changes_nothing_raises_nothing(name):
    collector = Collector()
    with collected(collector) as repository:
        prepare(repository)
        after = Collector()
        later(repository, after)
        NOTHING[name](repository)
    assert after.events == []


def test_the_default_branch_and_its_repository_are_reported_once():
    collector = Collector()
    with collected(collector):
        pass
    (event,) = collector.events
    assert isinstance(event, events.ReferenceCreated)
    assert (event.reference.name, event.hash_after) == ("main", EMPTY)


def test_an_expired_branch_is_deleted_by_the_system():
    collector = Collector()
    with collected(collector) as repository:
        context = repository._repository.context
        now_us = context.clock.now_us()
        repository.references.create("old", expires_us=now_us + 60_000_000)
        context.clock = ManualClock(now_us + 3_600_000_000)
        repository.sweep()
    assert collector.types == ["REFERENCE_CREATED", "REFERENCE_CREATED", "REFERENCE_DELETED"]
    assert collector.events[-1].initiator == "system:sweep"
