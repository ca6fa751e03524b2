"""Which decisions each use case needs, and that nothing is done without them.

A case names the decisions of one use case in order: the action, the reference, and whether the
reference was resolved to an incarnation and a commit by then; and what it leaves out instead of
being refused. A use case without a case fails.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lochan.access.policy import Action, Call, OpenPolicy, Resource
from lochan.base.errors import Denied, Invalid
from lochan.base.ids import EMPTY_ID
from lochan.base.names import RefName
from lochan.kernel.repository import Ports
from lochan.model.commits import CommitMeta, Put
from lochan.model.contents import Namespace
from lochan.model.events import REFERENCE_CREATED, EventReference, ReferenceCreated
from lochan.model.requests import (
    MergeRequest,
    MoveRequest,
    NewReference,
    RebaseRequest,
    RevertRequest,
    TransplantRequest,
)
from lochan.model.specs import ReferenceSpec, parse_spec
from lochan.service.event_streams import EventRights
from lochan.service.pages import Selection
from lochan.service.pending_writes import PendingWrite
from lochan.service.repositories import Repositories
from lochan.service.repository import Repository
from lochan.stores.memory.store import MemoryStore
from lochan.testing.ports import ManualClock, RecordedWaiting, SeededRandom
from tests.service.bench import ME, WRITES, Bench, forked, key, new, pages, use_cases
from tests.service.file_bench import file_support
from tests.service.file_cases import FILE_CASES, LAKE, Case, Decision, begin_upload

MAIN, SIDE = parse_spec("main"), parse_spec("side")
KEYED = Call("me", "key", b"one request")


class Recorder(OpenPolicy):
    """A policy that records its decisions, and denies what `denies` says."""

    def __init__(self) -> None:
        self.resources: list[tuple[Action, Resource]] = []
        self.optional: list[tuple[Action, Resource]] = []
        self.denies: Callable[[Action, Resource], bool] = lambda action, resource: False

    def decide(self, call: Call, action: Action, resource: Resource) -> None:
        assert call.principal == "me"
        self.resources.append((action, resource))
        if self.denies(action, resource):
            raise Denied("no")

    def allows(self, call: Call, action: Action, resource: Resource) -> bool:
        assert call.principal == "me"
        self.optional.append((action, resource))
        return not self.denies(action, resource)

    @property
    def decisions(self) -> list[Decision]:
        return [_decision(*one) for one in self.resources]


def _decision(action: Action, resource: Resource) -> Decision:
    return (action, resource.reference, resource.commit is not None)


A = Action
VIEW_MAIN = (A.VIEW_REFERENCE, "main", True)
READ_MAIN = (A.READ_CONTENT, "main", True)
READ_SIDE = (A.READ_CONTENT, "side", True)
READ_HASH = (A.READ_CONTENT, None, True)
ENTRIES_MAIN = (A.READ_ENTRIES, "main", True)
LOG_MAIN = (A.READ_LOG, "main", True)
VIEW_SIDE = (A.VIEW_REFERENCE, "side", True)
EVERYTHING = [
    (A.READ_LOG, None, False),
    (A.READ_ENTRIES, None, False),
    (A.READ_CONTENT, None, False),
]
COMMIT = (A.COMMIT, "main", True)
COMMIT_BY_NAME = (A.COMMIT, "main", False)
MERGE = (A.MERGE, "main", True)
MERGE_BY_NAME = (A.MERGE, "main", False)
ASSIGN = [(A.ASSIGN_REFERENCE, "side", False), READ_MAIN, (A.ASSIGN_REFERENCE, "side", True)]
MERGED = [MERGE_BY_NAME, READ_SIDE, MERGE]
NAMESPACE = [READ_MAIN, ENTRIES_MAIN, COMMIT]

META = CommitMeta(message="m")

CREATED = ReferenceCreated(
    id="1",
    type=REFERENCE_CREATED,
    time_us=0,
    sent_by="here",
    initiator="me",
    roles=(),
    repository="repo",
    reference=EventReference("main", "refs/heads/main", "BRANCH", 1),
    version=1,
    operation="",
    hash_after=EMPTY_ID.hex(),
)
NO_EVENTS = EventRights(reads_log=False, names=None, contents=None, views_all=False)


def merge(one: Repository, call: Call, **more: Any) -> Any:
    request = MergeRequest(branch="main", expected=None, source=SIDE, **more)
    return one.merges.merge(call, request)


def picked(one: Repository, source: str = "") -> TransplantRequest:
    log = one.history.log(ME, SIDE, 2).items
    line = tuple(ReferenceSpec(None, entry.meta.hash) for entry in reversed(log))
    return TransplantRequest(branch="main", expected=None, source=source, hashes=line)


def reverted(one: Repository) -> RevertRequest:
    (last,) = one.history.log(ME, MAIN, 1).items
    spec = ReferenceSpec(None, last.meta.hash)
    return RevertRequest(branch="main", expected=None, hashes=(spec,))


CASES = {
    "references.get": Case(
        lambda one, call: one.references.get(call, "main", fetch_all=True), [VIEW_MAIN], [LOG_MAIN]
    ),
    "references.list": Case(
        lambda one, call: one.references.list(call), [], [VIEW_MAIN, VIEW_SIDE]
    ),
    "references.create": Case(
        lambda one, call: one.references.create(call, NewReference(name="x", source=SIDE)),
        [(A.CREATE_REFERENCE, "x", False), READ_SIDE],
    ),
    "references.create_many": Case(
        lambda one, call: one.references.create_many(
            call, [NewReference(name="x", source=SIDE), NewReference(name="y", source=MAIN)]
        ),
        [
            (A.CREATE_REFERENCE, "x", False),
            (A.CREATE_REFERENCE, "y", False),
            READ_SIDE,
            READ_MAIN,
        ],
    ),
    "references.assign": Case(
        lambda one, call: one.references.assign(call, "side", None, MAIN), ASSIGN
    ),
    "references.delete": Case(
        lambda one, call: one.references.delete(call, "side", None),
        [(A.DELETE_REFERENCE, "side", False), (A.DELETE_REFERENCE, "side", True)],
    ),
    "references.recent_changes": Case(
        lambda one, call: one.references.recent_changes(call, "main"), [VIEW_MAIN]
    ),
    "references.log": Case(
        lambda one, call: one.references.log(call, "main"), [(A.READ_LOG, "main", False)]
    ),
    "contents.entries": Case(lambda one, call: one.contents.entries(call, MAIN), [ENTRIES_MAIN]),
    "contents.entry_pages": Case(
        lambda one, call: list(one.contents.entry_pages(call, MAIN, Selection(), 1)),
        [ENTRIES_MAIN],
    ),
    "contents.get": Case(lambda one, call: one.contents.get(call, MAIN, key("ns.a")), [READ_MAIN]),
    "contents.get_many": Case(
        lambda one, call: one.contents.get_many(call, MAIN, [key("ns.a"), key("ns.b")]),
        [READ_MAIN],
    ),
    "jobs.find": Case(
        lambda one, call: one.jobs.find(call, MAIN, key("ns.a"), ["job"]), [READ_MAIN]
    ),
    "jobs.list": Case(lambda one, call: one.jobs.list(call, MAIN, key("ns.a")), [READ_MAIN]),
    "history.log": Case(
        lambda one, call: one.history.log(call, MAIN, limit_hash=parse_spec("~1")),
        [(A.READ_LOG, "main", True), (A.READ_LOG, "main", True)],
    ),
    "history.diff": Case(
        lambda one, call: one.history.diff(call, MAIN, SIDE),
        [ENTRIES_MAIN, (A.READ_ENTRIES, "side", True), READ_MAIN, READ_SIDE],
    ),
    "history.between": Case(
        lambda one, call: one.history.between(call, MAIN, SIDE),
        [(A.READ_LOG, "main", True), (A.READ_LOG, "side", True)],
    ),
    "commits.commit": Case(
        lambda one, call: one.commits.commit(call, "main", None, META, [new("ns.x")]), [COMMIT]
    ),
    "merges.merge": Case(merge, MERGED),
    "merges.transplant": Case(
        lambda one, call: one.merges.transplant(call, picked(one, "side")),
        [MERGE_BY_NAME, READ_SIDE, READ_SIDE, READ_SIDE, MERGE],
    ),
    "merges.cherry_pick": Case(
        lambda one, call: one.merges.cherry_pick(call, picked(one)),
        [MERGE_BY_NAME, READ_HASH, READ_HASH, MERGE],
    ),
    "merges.revert": Case(
        lambda one, call: one.merges.revert(call, reverted(one)),
        [COMMIT_BY_NAME, READ_MAIN, READ_MAIN, COMMIT],
    ),
    "merges.rebase": Case(
        lambda one, call: one.merges.rebase(call, RebaseRequest(branch="side", onto=MAIN)), ASSIGN
    ),
    "merges.fast_forward": Case(
        lambda one, call: one.merges.fast_forward(call, MoveRequest(branch="main", source=SIDE)),
        [(A.ASSIGN_REFERENCE, "main", False), READ_SIDE, (A.ASSIGN_REFERENCE, "main", True)],
    ),
    "merges.force": Case(
        lambda one, call: one.merges.force(call, MoveRequest(branch="side", source=MAIN)), ASSIGN
    ),
    "namespaces.get": Case(
        lambda one, call: one.namespaces.get(call, MAIN, ("ns",)), [READ_MAIN, ENTRIES_MAIN]
    ),
    "namespaces.list": Case(
        lambda one, call: one.namespaces.list(call, MAIN), [ENTRIES_MAIN, READ_MAIN]
    ),
    "namespaces.create": Case(
        lambda one, call: one.namespaces.create(call, "main", None, Namespace(elements=("n",))),
        NAMESPACE,
    ),
    "namespaces.delete": Case(
        lambda one, call: one.namespaces.delete(call, "main", None, ("empty",)), NAMESPACE
    ),
    "namespaces.update": Case(
        lambda one, call: one.namespaces.update(call, "main", None, ("ns",), {"a": "b"}, set()),
        NAMESPACE,
    ),
    "settings.get": Case(
        lambda one, call: one.settings.get(call, ["GARBAGE_COLLECTOR"]),
        [(A.READ_SETTINGS, None, False)],
    ),
    "settings.update": Case(
        lambda one, call: one.settings.update(call, {"type": "GARBAGE_COLLECTOR"}),
        [(A.WRITE_SETTINGS, None, False)],
    ),
    "settings.change": Case(
        lambda one, call: one.settings.change(
            call, "METADATA", lambda _: {"type": "METADATA", "values": {}}
        ),
        [(A.WRITE_SETTINGS, None, False)],
    ),
    "settings.remove": Case(
        lambda one, call: one.settings.remove(call, "METADATA"), [(A.WRITE_SETTINGS, None, False)]
    ),
    # For decisions on the call; nothing of it is shown.
    "settings.find": Case(lambda one, call: one.settings.find(call, "METADATA"), []),
    "metadata.get": Case(
        lambda one, call: one.metadata.get(call), [(A.READ_SETTINGS, None, False)]
    ),
    "metadata.update": Case(
        lambda one, call: one.metadata.update(call, {}), [(A.WRITE_SETTINGS, None, False)]
    ),
    "protection.get": Case(
        lambda one, call: one.protection.get(call), [(A.READ_SETTINGS, None, False)]
    ),
    "protection.replace": Case(
        lambda one, call: one.protection.replace(call, []), [(A.WRITE_SETTINGS, None, False)]
    ),
    # Refuses, or leaves the decision to the write that follows.
    "protection.check_write": Case(lambda one, call: one.protection.check_write(call, "main"), []),
    "commit_log.get": Case(lambda one, call: one.commit_log.get(call, MAIN), [LOG_MAIN]),
    "commit_log.page": Case(
        lambda one, call: one.commit_log.page(call, MAIN, 5, stop_at=SIDE),
        [LOG_MAIN, (A.READ_LOG, "side", True)],
    ),
    "commit_log.find_id": Case(
        lambda one, call: one.commit_log.find_id(call, EMPTY_ID.hex()[:10]),
        [],
        [(A.READ_LOG, None, False)],
    ),
    "commit_log.merge_base": Case(
        lambda one, call: one.commit_log.merge_base(call, MAIN, SIDE),
        [LOG_MAIN, (A.READ_LOG, "side", True)],
    ),
    **FILE_CASES,
    "event_streams.scope": Case(
        lambda one, call: one.event_streams.scope(call, "main", resumes=False), [LOG_MAIN]
    ),
    "event_streams.position_at": Case(
        lambda one, call: one.event_streams.position_at(call, RefName("main"), 0), [LOG_MAIN]
    ),
    "event_streams.reads_log": Case(
        lambda one, call: one.event_streams.reads_log(call, RefName("main")),
        [],
        [(A.READ_LOG, "main", False)],
    ),
    "event_streams.reads_every_log": Case(
        lambda one, call: one.event_streams.reads_every_log(call), [], [(A.READ_LOG, None, False)]
    ),
    "event_streams.rights": Case(
        lambda one, call: one.event_streams.rights(call, RefName("main")),
        [],
        [(A.READ_LOG, "main", False), (A.VIEW_REFERENCE, None, False)],
    ),
    # It judges by rights that it is given.
    "event_streams.shown": Case(
        lambda one, call: one.event_streams.shown(call, NO_EVENTS, CREATED), [], []
    ),
    "objects.get": Case(
        lambda one, call: one.objects.get(call, []),
        [(A.EXCHANGE_OBJECTS, None, False)],
        EVERYTHING,
    ),
    "objects.put": Case(
        lambda one, call: one.objects.put(call, []), [(A.EXCHANGE_OBJECTS, None, False)], []
    ),
}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """Main has `ns` and an empty namespace; side has everything of main, and two commits more.

    Both have a small and a large file.
    """
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake/x").write_bytes(b"x")
    LAKE.url = f"file://{tmp_path}/lake/"
    LAKE.support = file_support(tmp_path)[0]
    one = forked(LAKE.support)
    begin_upload(one.repository)
    one.repository.metadata.update(ME, {"a": "b"})
    one.put("f/a", b"a")
    one.put("f/b", b"b" * 20_000)
    one.commit_files()
    one.commit(Put(key=("empty",), content=Namespace(elements=("empty",))))
    one.merges.rebase(ME, RebaseRequest(branch="side", onto=MAIN))
    return one


def guarded(bench: Bench) -> tuple[Bench, Recorder, Any]:
    """Another server on the same store, with a policy that records, and its calls to the store."""
    server, counts = bench.counted()
    recorder = Recorder()
    server.repository = Repository(server.repository.context, policy=recorder, files=LAKE.support)
    return server, recorder, counts


def incarnation(server: Bench, name: str) -> int:
    found = server.repository.context.references.fetch(RefName(name))
    assert found is not None
    return found.row.incarnation


def do(server: Bench, case: Case, call: Call = ME) -> Any:
    prepared = case.run(server.repository, call)
    return server.run(prepared) if isinstance(prepared, PendingWrite) else prepared


def test_every_use_case_has_a_case(bench):
    assert set(CASES) == set(use_cases(bench.repository))


@pytest.mark.parametrize("name", CASES)
def test_a_use_case_is_decided_on_what_it_resolves_sources_included(bench, name):
    server, recorder, _ = guarded(bench)
    case = CASES[name]
    incarnations = {name: incarnation(server, name) for name in ("main", "side")}
    do(server, case)
    decisions = recorder.decisions
    if name.startswith("merges."):
        # Some requests are built from a log, which is decided on, too.
        decisions = [one for one in decisions if one[0] is not A.READ_LOG]
    assert decisions == case.decisions
    if case.optional is not None:
        assert [_decision(*one) for one in recorder.optional] == case.optional
    for _, resource in recorder.resources:
        assert resource.repository == "repo"
        if resource.commit is not None and resource.reference is not None:
            assert resource.incarnation == incarnations[resource.reference]


@pytest.mark.parametrize("call", [ME, KEYED], ids=["plain", "keyed"])
@pytest.mark.parametrize("name", CASES)
def test_each_denied_decision_refuses_the_whole_and_writes_nothing(bench, name, call):
    case = CASES[name]
    for denied in dict.fromkeys(case.decisions):
        server, recorder, counts = guarded(bench)
        recorder.denies = partial(_is, denied)
        counts.reset()
        with pytest.raises(Denied):
            do(server, case, call)
        assert not set(counts.calls) & set(WRITES), denied


def _is(denied: Decision, action: Action, resource: Resource) -> bool:
    return _decision(action, resource) == denied


def test_references_that_one_may_not_view_are_left_out_of_listings(bench):
    server, recorder, _ = guarded(bench)
    bench.branch("other")
    recorder.denies = lambda action, resource: resource.reference in ("side", "main")
    references = server.repository.references
    assert [one.name for one in references.list(ME).items] == ["other"]
    found = pages(lambda token: references.list(ME, 1, token))
    assert [one.name for one in found] == ["other"]
    # Its distance from a default branch that one may not view is not computed.
    (other,) = references.list(ME, fetch_all=True).items
    assert other.metadata is not None
    assert (other.metadata.ahead, other.metadata.common_ancestor) == (None, None)


def recreated(bench: Bench, name: str = "side") -> None:
    """Deletes a branch and creates it again, from main."""
    bench.references.delete(ME, name, None)
    bench.branch(name, "main")


@pytest.mark.parametrize(
    "write",
    [
        lambda one, call: one.commits.commit(call, "side", None, META, [new("ns.x")]),
        lambda one, call: one.merges.merge(
            call, MergeRequest(branch="side", expected=None, source=MAIN)
        ),
    ],
    ids=["commit", "merge"],
)
def test_a_branch_that_is_created_again_is_not_written_under_an_earlier_decision(bench, write):
    bench.fill("ns.main")
    server, recorder, _ = guarded(bench)
    allowed = incarnation(server, "side")
    recorder.denies = lambda action, one: (
        one.incarnation not in (None, allowed) and (one.reference == "side")
    )
    prepared = write(server.repository, ME)
    recreated(bench)
    head = bench.head("side")
    with pytest.raises(Denied):
        server.run(prepared)
    assert bench.head("side") == head


@pytest.mark.parametrize(
    "name", ["references.assign", "references.delete", "merges.rebase", "merges.force"]
)
def test_a_branch_that_is_created_again_is_not_moved_under_an_earlier_decision(bench, name):
    """It is created again right after the decision by name."""
    server, recorder, _ = guarded(bench)
    allowed = incarnation(server, "side")
    heads: list[str] = []

    def denies(action: Action, resource: Resource) -> bool:
        if not heads:
            recreated(bench)
            bench.fill("ns.own", branch="side")
            heads.append(bench.head("side"))
        return resource.reference == "side" and resource.incarnation not in (None, allowed)

    recorder.denies = denies
    with pytest.raises(Denied):
        do(server, CASES[name])
    assert bench.head("side") == heads[0]


def test_a_page_goes_on_in_the_same_incarnation_only(bench):
    first = bench.contents.entries(ME, SIDE, 1)
    log = bench.history.log(ME, SIDE, 1)
    diff = bench.history.diff(ME, MAIN, SIDE, 1)
    recreated(bench)
    with pytest.raises(Invalid, match="another reference"):
        bench.contents.entries(ME, SIDE, 1, first.token)
    with pytest.raises(Invalid, match="another reference"):
        bench.history.log(ME, SIDE, 1, log.token)
    with pytest.raises(Invalid, match="another reference"):
        bench.history.diff(ME, MAIN, SIDE, 1, diff.token)


def test_reads_of_a_batch_are_decided_on_the_rows_that_they_read(bench):
    server, recorder, _ = guarded(bench)
    before = bench.references.get(ME, "side")
    seen = incarnation(server, "side")
    with server.repository.reading(["main", "side"]):
        recreated(bench)
        _, reference = server.repository.contents.get_many(ME, SIDE, [key("ns.d")])
    assert reference.hash == before.hash
    assert [one.incarnation for _, one in recorder.resources] == [seen]


def test_repositories_are_created_and_listed_by_decision():
    clock = ManualClock()
    recorder = Recorder()
    ports = Ports(clock, SeededRandom(1), RecordedWaiting(clock))
    repositories = Repositories(MemoryStore(), ports, policy=recorder)
    repositories.create(ME, "one")
    repositories.names(ME)
    assert [(action, one.repository) for action, one in recorder.resources] == [
        (A.CREATE_REPOSITORY, "one"),
        (A.LIST_REPOSITORIES, ""),
    ]
