"""Writes by callers whose rights come from policies: a team with one prefix, a protected branch."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from lochan.access.policy import Call
from lochan.base.errors import Denied, LochanError, NotFound, ReferenceNotFound, Unauthenticated
from lochan.model.commits import CommitMeta, Delete, Put
from lochan.model.contents import Namespace
from lochan.model.requests import (
    MergeRequest,
    MoveRequest,
    NewReference,
    RebaseRequest,
    RevertRequest,
    TransplantRequest,
)
from lochan.model.specs import ReferenceSpec, parse_spec
from lochan.service.pending_writes import PendingWrite
from tests.service.bench import ME, WRITES, Bench, key, new, space
from tests.service.key_policies import shown
from tests.service.limited import CANARY, READS, allow, caller, counted, deny, enforced

META = CommitMeta(message="m")
MAIN, DEV, SECRET = parse_spec("main"), parse_spec("dev/a"), parse_spec(f"{CANARY}/b")
CHANGES = ("commit", "merge", "write_content", "delete_content")
MOVES = ("create_reference", "assign_reference", "delete_reference")

# A team: reads its tables on main and its own branches, changes them on its own branches.
TEAM = caller(
    allow(*READS, references=("main", "dev/*"), keys=("sales.*",)),
    allow(*CHANGES, references=("dev/*",), keys=("sales.*",)),
    allow(*MOVES, references=("dev/*",)),
)
# Everything is allowed, and main changes by merges only.
MAINTAINER = caller(
    allow("*"), deny("commit", "assign_reference", "delete_reference", references=("main",))
)
READER = caller(allow(*READS))


@pytest.fixture
def world() -> Bench:
    """Main has tables of the team and others; `dev/a` is older; one branch is hidden as a whole."""
    one = Bench()
    one.commit(space("sales"), space(CANARY), new("sales.a"), new(f"{CANARY}.a"), message="first")
    one.branch("dev/a")
    one.branch(f"{CANARY}/b")
    one.change("sales.a", "main")
    return one


def do(server: Bench, prepared: Any) -> Any:
    return server.run(prepared) if isinstance(prepared, PendingWrite) else prepared


def commit(server: Bench, call: Call, branch: str, *operations: Any) -> Any:
    return do(server, server.commits.commit(call, branch, None, META, operations))


def merge(server: Bench, call: Call, source: str, branch: str, **more: Any) -> Any:
    request = MergeRequest(branch=branch, source=parse_spec(source), **more)
    return do(server, server.merges.merge(call, request))


def refused(kind: type[LochanError], act: Any, *arguments: Any, **more: Any) -> str:
    with pytest.raises(kind) as caught:
        act(*arguments, **more)
    assert CANARY not in shown(caught.value)
    return caught.value.message


def test_a_team_works_on_branches_of_its_own(world):
    server = enforced(world)
    do(server, server.references.create(TEAM, NewReference(name="dev/new", source=MAIN)))
    commit(server, TEAM, "dev/new", new("sales.b"))
    (found, _) = server.contents.get(TEAM, parse_spec("dev/new"), key("sales.b"))
    renamed = Put(key=key("sales.c"), content=found)
    commit(server, TEAM, "dev/new", Delete(key=key("sales.b")), renamed)
    assert merge(server, TEAM, "main", "dev/a").applied
    assert merge(server, TEAM, "dev/new", "dev/a").applied
    head = ReferenceSpec(None, world.head("dev/a"))
    undo = RevertRequest(branch="dev/a", hashes=(head,))
    assert do(server, server.merges.revert(TEAM, undo)).applied
    pick = TransplantRequest(branch="dev/a", source="dev/new", hashes=_last(world, "dev/new", 2))
    assert do(server, server.merges.transplant(TEAM, pick)).successful
    server.merges.force(TEAM, MoveRequest(branch="dev/a", source=MAIN))
    server.references.delete(TEAM, "dev/new", None)
    # The namespace that the keys are in is not readable itself.
    assert world.state("dev/a").keys() >= {"sales", "sales.a", CANARY}


def _last(world: Bench, branch: str, count: int) -> tuple[ReferenceSpec, ...]:
    log = world.history.log(ME, parse_spec(branch), count).items
    return tuple(ReferenceSpec(None, one.meta.hash) for one in reversed(log))


def test_a_team_changes_nothing_else(world):
    server, counts = counted(world)
    counts.reset()
    for branch, operation in (
        ("main", new("sales.b")),
        ("dev/a", new("hr.b")),
        ("dev/a", Delete(key=("sales",))),
        ("dev/a", Put(key=("sales",), content=Namespace(elements=("sales",)))),
    ):
        refused(Denied, commit, server, TEAM, branch, operation)
    refused(Denied, merge, server, TEAM, "dev/a", "main")
    refused(Denied, server.references.delete, TEAM, "main", None)
    refused(Denied, server.references.assign, TEAM, "main", None, DEV)
    refused(Denied, server.merges.force, TEAM, MoveRequest(branch="main", source=DEV))
    for name in ("other", "main2", "dev"):
        new_one = NewReference(name=name, source=MAIN)
        refused(Denied, lambda one=new_one: do(server, server.references.create(TEAM, one)))
    assert not set(counts.calls) & set(WRITES)


def test_a_merge_of_what_the_team_may_not_see_is_refused_as_a_whole(world):
    """Beside changes that it may see; in either direction of time, dry or not."""
    world.change(f"{CANARY}.a", CANARY)
    server, counts = counted(world)
    counts.reset()
    for more in ({}, {"dry_run": True}, {"squash": False}, {"conflicts_as_result": True}):
        message = refused(Denied, merge, server, TEAM, "main", "dev/a", **more)
        assert "1" not in message
    force = MoveRequest(branch="dev/a", source=MAIN)
    refused(Denied, server.merges.force, TEAM, force)
    refused(Denied, server.merges.rebase, TEAM, RebaseRequest(branch="dev/a", onto=MAIN))
    refused(Denied, server.references.assign, TEAM, "dev/a", None, MAIN)
    picks = TransplantRequest(branch="dev/a", source="main", hashes=_last(world, "main", 2))
    refused(Denied, lambda: do(server, server.merges.transplant(TEAM, picks)))
    refused(Denied, lambda: do(server, server.merges.cherry_pick(TEAM, picks)))
    assert not set(counts.calls) & set(WRITES)


def test_a_branch_that_may_not_be_viewed_looks_absent_to_every_write(world):
    server = enforced(world)
    for name in (f"{CANARY}/b", f"{CANARY}/absent"):
        spec = parse_spec(name)
        writes: list[Any] = [
            lambda name=name: commit(server, TEAM, name, new("sales.b")),
            lambda name=name: merge(server, TEAM, name, "dev/a"),
            lambda name=name: merge(server, TEAM, "dev/a", name),
            lambda name=name: server.references.delete(TEAM, name, None),
            lambda name=name: server.references.assign(TEAM, name, None, DEV),
            lambda spec=spec: server.references.assign(TEAM, "dev/a", None, spec),
            lambda spec=spec: server.merges.force(TEAM, MoveRequest(branch="dev/a", source=spec)),
            lambda spec=spec: do(
                server, server.references.create(TEAM, NewReference(name="dev/x", source=spec))
            ),
        ]
        for write in writes:
            with pytest.raises(ReferenceNotFound) as caught:
                write()
            assert caught.value.message == f"Named reference '{name}' not found"


def test_a_hidden_tag_looks_absent_to_every_write(world):
    """What it is, is found out before the policy decides on its row."""
    tag = NewReference(name="v1", kind="TAG", source=MAIN)
    do(world, world.references.create(ME, tag))
    server = enforced(world)
    keyed = msgspec.structs.replace(TEAM, idempotency_key="key", digest=b"one")
    for call in (TEAM, keyed):
        for write in (
            lambda call=call: commit(server, call, "v1", new("sales.b")),
            lambda call=call: merge(server, call, "main", "v1"),
            lambda call=call: server.merges.force(call, MoveRequest(branch="v1", source=MAIN)),
            lambda call=call: server.references.assign(call, "v1", None, MAIN, kind="BRANCH"),
        ):
            message = refused(ReferenceNotFound, write)
            assert message == "Named reference 'v1' not found"


def test_a_commit_of_a_hidden_branch_is_no_source_by_its_hash(world):
    world.fill(f"{CANARY}.b", branch=f"{CANARY}/b")
    hidden = world.head(f"{CANARY}/b")
    server = enforced(world)
    for hash_text in (hidden, "ab" * 32):
        spec = ReferenceSpec(None, hash_text)
        one = TransplantRequest(branch="dev/a", source="", hashes=(spec,))
        in_main = TransplantRequest(branch="dev/a", source="main", hashes=(spec,))
        undo = RevertRequest(branch="dev/a", hashes=(spec,))
        for write in (
            lambda one=one: server.merges.cherry_pick(TEAM, one),
            lambda one=in_main: server.merges.cherry_pick(TEAM, one),
            lambda one=one: server.merges.transplant(TEAM, one),
            lambda one=in_main: server.merges.transplant(TEAM, one),
            lambda one=undo: server.merges.revert(TEAM, one),
            lambda spec=spec: server.references.create(
                TEAM, NewReference(name="dev/x", source=spec)
            ),
            lambda spec=spec: server.references.assign(TEAM, "dev/a", None, spec),
        ):
            message = refused(NotFound, lambda write=write: do(server, write()))
            assert hash_text in message


def test_a_protected_branch_changes_by_merges_only(world):
    server = enforced(world)
    commit(server, MAINTAINER, "dev/a", new("sales.b"))
    before = world.head("main")
    refused(Denied, commit, server, MAINTAINER, "main", new("sales.c"))
    refused(Denied, server.references.delete, MAINTAINER, "main", None)
    refused(Denied, server.references.assign, MAINTAINER, "main", None, DEV)
    refused(Denied, server.merges.force, MAINTAINER, MoveRequest(branch="main", source=DEV))
    rebase = RebaseRequest(branch="main", onto=DEV)
    refused(Denied, server.merges.rebase, MAINTAINER, rebase)
    undo = RevertRequest(branch="main", hashes=(ReferenceSpec(None, before),))
    refused(Denied, lambda: do(server, server.merges.revert(MAINTAINER, undo)))
    space_of = Namespace(elements=("more",))
    refused(
        Denied,
        lambda: do(server, server.repository.namespaces.create(MAINTAINER, "main", None, space_of)),
    )
    assert world.head("main") == before
    assert merge(server, MAINTAINER, "dev/a", "main").applied


def test_a_reader_writes_nothing_and_a_stranger_sees_nothing(world):
    server, counts = counted(world)
    counts.reset()
    stranger = caller(allow("*", repositories=("other",)))
    for call, kind in ((READER, Denied), (stranger, NotFound), (Call(), Unauthenticated)):
        refused(kind, commit, server, call, "main", new("sales.b"))
        refused(kind, merge, server, call, "dev/a", "main")
        refused(kind, server.references.delete, call, "dev/a", None)
        refused(kind, server.references.assign, call, "dev/a", None, MAIN)
        refused(kind, server.merges.force, call, MoveRequest(branch="dev/a", source=MAIN))
        refused(
            kind,
            lambda call=call: do(
                server, server.references.create(call, NewReference(name="x", source=MAIN))
            ),
        )
        refused(kind, server.repository.settings.update, call, {"type": "GARBAGE_COLLECTOR"})
    assert not set(counts.calls) & set(WRITES)


def test_a_namespace_with_hidden_keys_is_not_deleted_and_the_reason_is_not_given(world):
    """The team sees the namespace, and an empty one at that."""
    both = caller(
        allow(*READS, *CHANGES, references=("dev/*",), keys=("sales", "sales.seen")),
    )
    server = enforced(world)
    namespaces = server.repository.namespaces
    refused(Denied, lambda: do(server, namespaces.delete(both, "dev/a", None, ("sales",))))
    refused(Denied, commit, server, both, "dev/a", Delete(key=("sales",)))
