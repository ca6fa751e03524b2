"""Rights over keys in commits and namespaces, and in requests that are sent again."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from lochan.access.policy import Action, Call
from lochan.base.errors import ContentNotFound, Denied, KeysConflict, LochanError
from lochan.model.commits import Delete, Put, RecordJob, Unchanged
from lochan.model.contents import Namespace
from lochan.service.repository import Repository
from tests.service.bench import ME, Bench, conflicts, key, new, table
from tests.service.key_policies import CANARY, KeyPolicy, limited, shown, written
from tests.service.rights_world import (
    CALLS,
    CHANGED,
    DELETE,
    KEYED,
    MAIN,
    MERGES,
    MOVES,
    READ,
    REMOVED,
    WHOLE,
    WRITE,
    commit,
    do,
    parted,
    refused,
    renamed,
)


@pytest.fixture
def bench() -> Bench:
    return parted()


@CALLS
@pytest.mark.parametrize(
    "missing", [(WRITE, "main", "ns.new"), (DELETE, "main", "ns.b"), (READ, "main", "ns.t1")]
)
def test_each_key_of_a_commit_needs_its_right(bench, missing, call):
    many = [new(f"ns.n{number}") for number in range(30)]
    relied = Unchanged(key=key("ns.t1"))
    write = commit(*many, new("ns.new"), Delete(key=key("ns.b")), relied)
    server, policy, counts = limited(bench, missing)
    # A key that may not be read looks absent.
    refused(server, write, call, ContentNotFound if missing[0] is READ else Denied)
    assert not written(counts)
    assert policy.audited == [(missing[0], "main")]
    others = [(WRITE, "main", "ns.b"), (DELETE, "main", "ns.new"), (WRITE, "main", "ns.t1")]
    server, _, _ = limited(bench, *others)
    do(server, write, call)


@pytest.mark.parametrize("missing", [(DELETE, "main", "ns.b"), (WRITE, "main", "ns.renamed")])
def test_a_rename_needs_rights_over_both_keys(bench, missing):
    server, _, counts = limited(bench, missing)
    refused(server, renamed(bench, "ns.b", "ns.renamed"))
    assert not written(counts)
    server, _, _ = limited(bench, (WRITE, "main", "ns.b"), (DELETE, "main", "ns.renamed"))
    do(server, renamed(bench, "ns.b", "ns.renamed"))


def test_the_record_of_a_job_belongs_to_what_is_put(bench):
    put = bench.changed("ns.b", "new")
    server, _, _ = limited(bench, (WRITE, "main", "ns.b"))
    refused(server, commit(put, RecordJob(key=key("ns.b"), job="nightly")))


@pytest.mark.parametrize(
    "operation",
    [
        lambda: new("ns.b"),
        lambda: Put(key=key("ns.b"), content=table("x", "0" * 8 + "-0000-4000-8000-" + "0" * 12)),
        lambda: Put(key=key("ns.b"), content=Namespace(elements=key("ns.b"))),
    ],
)
@pytest.mark.parametrize("expected", [None, "none"])
def test_a_refusal_shows_nothing_of_a_key_that_may_be_written_and_not_read(
    bench, operation, expected
):
    """Whatever prevents it: that the key is taken, by which content, of which type."""
    write = commit(operation(), expected=expected)
    with pytest.raises(LochanError) as caught:
        do(bench, write)
    content, _ = bench.contents.get(ME, MAIN, key("ns.b"))
    server, _, _ = limited(bench, (READ, "main", "ns.b"))
    error = refused(server, write)
    assert "ns.b" not in shown(error)
    assert content.id not in shown(error)
    assert not isinstance(caught.value, Denied)


def test_a_key_that_may_be_written_and_not_read_is_written(bench):
    server, _, _ = limited(bench, (READ, "main", "ns"))
    made = do(server, commit(new("ns.new")))
    assert [one.key for one in made.added] == [key("ns.new")]


def test_a_parent_that_may_not_be_read_looks_absent_if_it_is_no_namespace(bench):
    server, _, _ = limited(bench, (READ, "main", "ns.b"))
    # What is below a key that may not be read may be readable.
    server.repository = Repository(server.repository.context, policy=_Exactly("ns.b"))
    with pytest.raises(KeysConflict) as caught:
        do(server, commit(new("ns.b.below")))
    assert conflicts(caught.value) == [("NAMESPACE_ABSENT", "ns.b")]
    with pytest.raises(KeysConflict) as caught:
        do(bench, commit(new("ns.b.below")))
    assert conflicts(caught.value) == [("NOT_A_NAMESPACE", "ns.b")]


class _Exactly(KeyPolicy):
    """Denies the reading of one key, and not of what is below it."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def key_right(self, call: Call, action: Action, repository: str, reference: Any) -> Any:
        return _AllBut(key(self._name)) if action is READ else None


class _AllBut(msgspec.Struct, frozen=True):
    elements: tuple[str, ...]

    def covers(self, raw: bytes) -> bool:
        return raw != b"t" + "\1".join(self.elements).encode()


def test_a_namespace_that_has_only_hidden_keys_left_is_not_said_to_contain_any(bench):
    bench.fill(f"box.{CANARY}")
    write = commit(Delete(key=key("box")))
    with pytest.raises(KeysConflict, match="not empty"):
        do(bench, write)
    server, _, _ = limited(bench, (READ, "main", f"box.{CANARY}"))
    refused(server, write)
    bench.fill("box.seen")
    with pytest.raises(KeysConflict, match="not empty"):
        do(server, write)
    # A key that the same commit puts there is no secret.
    server, _, _ = limited(bench, (READ, "main", f"box.{CANARY}"), (READ, "main", "box.seen"))
    with pytest.raises(KeysConflict, match="not empty"):
        do(server, commit(Delete(key=key("box")), new("box.own")))


MADE = Namespace(elements=("made",))


@CALLS
@pytest.mark.parametrize(
    ("missing", "write"),
    [
        (WRITE, lambda one, call: one.namespaces.create(call, "main", None, MADE)),
        (DELETE, lambda one, call: one.namespaces.delete(call, "main", None, ("empty",))),
        (WRITE, lambda one, call: one.namespaces.update(call, "main", None, ("ns",), {}, {"a"})),
    ],
    ids=["create", "delete", "update"],
)
def test_namespaces_need_rights_over_their_keys(bench, missing, write, call):
    bench.commit(Put(key=("empty",), content=Namespace(elements=("empty",))))
    names = ("made", "empty", "ns")
    server, _, counts = limited(bench, *[(missing, "main", name) for name in names])
    refused(server, write, call)
    assert not written(counts)
    other = DELETE if missing is WRITE else WRITE
    server, _, _ = limited(bench, *[(other, "main", name) for name in names])
    do(server, write, call)


# Requests that are sent again. A dry run leaves no record.

RECORDED = [name for name in {**MERGES, **MOVES} if "dry" not in name]


@pytest.mark.parametrize("name", [*RECORDED, "create", "commit", "rename"])
def test_a_request_is_answered_from_its_record_only_with_the_rights_over_its_keys(bench, name):
    writes = {**MERGES, **WHOLE, "commit": commit(new("ns.new"))}
    writes["rename"] = renamed(bench, "ns.b", "ns.new")
    write = writes[name]
    first = do(bench.again(), write, KEYED)
    assert do(bench.again(), write, KEYED) == first
    missing = (WRITE, "main", CHANGED if name in {**MERGES, **MOVES} else "ns.new")
    if name == "create":
        missing = (READ, "side", "ns.t9")
    server, _, _ = limited(bench, missing)
    refused(server, write, KEYED)
    if name in MERGES:
        server, _, _ = limited(bench, (READ, "side", REMOVED))
        refused(server, write, KEYED)
    if name == "rename":
        server, _, _ = limited(bench, (DELETE, "main", "ns.b"))
        refused(server, write, KEYED)
