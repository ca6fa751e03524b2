"""Requests with a key that are sent again, whatever became of their source and target since.

One rule for all kinds of write: a request that was done is answered as it was answered then; one
that was not done is refused as not found if the incarnation that it claimed is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest

from lochan.access.policy import Action, Call, OpenPolicy, Resource
from lochan.base.errors import Denied, KeyReused, NotFound, ReferenceNotFound, Unknown
from lochan.kv.store import Kind, partition
from lochan.model.contents import Namespace
from lochan.model.references import Annotation
from lochan.model.requests import (
    NewReference,
)
from lochan.model.results import Merged
from lochan.model.specs import parse_spec
from lochan.persist.references import References
from lochan.service.claims import Claims
from lochan.service.repository import Repository
from tests.service.bench import ME, Bench, new, writes
from tests.service.resent_writes import (
    WRITES,
    Hashes,
    Write,
    assign,
    cherry_pick,
    commit,
    create_namespace,
    delete,
    fix,
    force,
    force_anywhere,
    merge,
    merge_of_nothing,
    rebase,
    revert,
    source_is_deleted,
    source_is_made_again,
    source_is_moved,
    target_is_committed_to,
    target_is_deleted,
    target_is_made_again,
    target_is_moved,
    target_is_moved_and_deleted,
    target_is_moved_often,
    tombstone_is_gone,
    transplant,
)

KEYED = Call("me", "key", b"one request")
OTHER = Call("me", "key", b"another request")


@pytest.fixture
def bench() -> Bench:
    """`target` and `side` have parted; `target` has a namespace of its own that is empty."""
    one = Bench()
    one.fill("ns.a", "ns.b", "ns.c")
    one.branch("target")
    one.branch("side")
    one.change("ns.a", "side 1", branch="side", message="side 1")
    one.change("ns.b", "side 2", branch="side", message="side 2")
    one.run(one.repository.namespaces.create(ME, "target", None, Namespace(elements=("empty",))))
    one.change("ns.c", "target", branch="target", message="target")
    return one


ON_SOURCE = [source_is_deleted, source_is_moved, source_is_made_again]
ON_TARGET = [
    target_is_moved,
    target_is_moved_often,
    target_is_committed_to,
    target_is_deleted,
    target_is_made_again,
    target_is_moved_and_deleted,
    tombstone_is_gone,
]
SINCE: list[Callable[[Bench], None]] = [*ON_SOURCE, *ON_TARGET]


def named(one: Any) -> str:
    return str(one.__name__)


def everything(bench: Bench) -> Mapping[str, Any]:
    """What the references are and were, but for what only repeats an answer."""
    heads = {one.name: one.hash for one in bench.references.list(ME).items}
    logs = {}
    for name in ("main", "side", "target"):
        logs[name] = bench.references.log(ME, name, 1_000).items
    return {"heads": heads, "logs": logs}


@pytest.mark.parametrize("since", SINCE, ids=named)
@pytest.mark.parametrize("write", WRITES, ids=named)
def test_a_request_that_was_done_is_answered_as_it_was_then(
    bench: Bench, write: Write, since: Callable[[Bench], None]
):
    fix(bench)
    first = write(bench, KEYED)
    if write is delete and since in ON_TARGET:
        bench.branch("target")
    since(bench)
    before = everything(bench)
    assert write(bench, KEYED) == first
    assert write(bench.again(), KEYED) == first
    assert everything(bench) == before


@pytest.mark.parametrize("write", WRITES, ids=named)
def test_the_same_key_with_another_request_is_refused(bench: Bench, write: Write):
    fix(bench)
    write(bench, KEYED)
    with pytest.raises(KeyReused):
        write(bench, OTHER)
    if write is not delete:
        target_is_deleted(bench)
    with pytest.raises(KeyReused):
        write(bench, OTHER)


class _Lost(Exception):
    """The server died between its claim and its work."""


def claim_and_die(bench: Bench, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """A first try that claims its key and then does nothing."""

    def die(*_: Any, **__: Any) -> Any:
        raise _Lost

    with monkeypatch.context() as patch:
        patch.setattr("lochan.kernel.references.ReferenceIndex.move", die)
        patch.setattr(Bench, "run", die)
        with pytest.raises(_Lost):
            write(bench, KEYED)
    context = bench.repository.context
    place = partition(context.instance, Kind.CLAIMS)
    assert len(context.store.scan(place, b"", None, 10).entries) == 1


@pytest.mark.parametrize("since", [target_is_deleted, target_is_made_again], ids=named)
@pytest.mark.parametrize("write", WRITES, ids=named)
def test_a_request_that_was_not_done_is_refused_when_its_target_is_gone(
    bench: Bench, write: Write, since: Callable[[Bench], None], monkeypatch: pytest.MonkeyPatch
):
    fix(bench)
    claim_and_die(bench, write, monkeypatch)
    since(bench)
    before = everything(bench)
    for _ in range(2):
        with pytest.raises(ReferenceNotFound):
            write(bench.again(), KEYED)
    assert everything(bench) == before


@pytest.mark.parametrize("write", WRITES, ids=named)
def test_a_request_that_was_not_done_is_done_by_the_next_try(
    bench: Bench, write: Write, monkeypatch: pytest.MonkeyPatch
):
    fix(bench)
    claim_and_die(bench, write, monkeypatch)
    first = write(bench.again(), KEYED)
    assert write(bench, KEYED) == first


@pytest.mark.parametrize("write", [merge, transplant], ids=named)
def test_a_request_that_was_not_done_is_refused_when_its_source_is_gone(
    bench: Bench, write: Write, monkeypatch: pytest.MonkeyPatch
):
    fix(bench)
    claim_and_die(bench, write, monkeypatch)
    source_is_deleted(bench)
    with pytest.raises(NotFound):
        write(bench, KEYED)
    bench.branch("side", "@" + Hashes.side[-1])
    assert write(bench, KEYED).applied


@pytest.mark.parametrize("write", WRITES, ids=named)
def test_a_try_that_was_overtaken_by_its_own_repetition_is_answered_alike(
    bench: Bench, write: Write, monkeypatch: pytest.MonkeyPatch
):
    """It has found no claim; then another server does the request, and the source is deleted."""
    fix(bench)
    rival = bench.again()
    answers: list[Any] = []
    right = Claims._find_claim
    tries: list[None] = []

    def find(self: Any, target: Any, request: Any) -> Any:
        found = right(self, target, request)
        if not tries:
            tries.append(None)
            answers.append(write(rival, KEYED))
            bench.references.delete(ME, "side", None)
        return found

    monkeypatch.setattr(Claims, "_find_claim", find)
    assert write(bench, KEYED) == answers[0]


@pytest.mark.parametrize("write", [force, assign, delete, rebase], ids=named)
def test_a_try_whose_reply_is_lost_tells_of_the_move_that_another_try_has_made(
    bench: Bench, write: Write, monkeypatch: pytest.MonkeyPatch
):
    """Both tries carry one operation id, and the head has moved between them."""
    fix(bench)
    Hashes.target = bench.change("ns.c", "again", branch="target").hash
    rival = bench.again()
    right = References.update
    answers: list[Any] = []

    def update(self: References, row: Any, expected: Any) -> Any:
        if not answers and row.name == "target":
            answers.append(None)
            # Lost and without effect; then the branch goes away and comes back elsewhere.
            rival.commit(new("ns.more"), branch="target")
            rival.references.assign(ME, "target", None, parse_spec("@" + Hashes.target))
            answers[0] = write(rival, KEYED)
            raise Unknown("lost")
        return right(self, row, expected)

    monkeypatch.setattr(References, "update", update)
    assert write(bench, KEYED) == answers[0]


@pytest.mark.parametrize("write", [force_anywhere], ids=named)
def test_a_forced_move_tells_from_where_another_try_has_moved_the_branch(
    bench: Bench, write: Write, monkeypatch: pytest.MonkeyPatch
):
    fix(bench)
    rival = bench.again()
    right = References.update
    answers: list[Any] = []

    def update(self: References, row: Any, expected: Any) -> Any:
        if not answers and row.name == "target":
            answers.append(None)
            rival.commit(new("ns.more"), branch="target")
            answers[0] = write(rival, KEYED)
            raise Unknown("lost")
        return right(self, row, expected)

    monkeypatch.setattr(References, "update", update)
    assert write(bench, KEYED) == answers[0]
    assert answers[0].effective_target != Hashes.target


def test_a_keyed_commit_writes_no_more_than_its_claim_and_itself(bench):
    fix(bench)
    other, counts = bench.counted()
    commit(other, KEYED)
    assert writes(counts) == {"set_if": 1, "apply": 1}
    other, counts = bench.counted()
    commit(other, KEYED)
    assert writes(counts) == {}


def test_that_nothing_was_to_do_stays_the_answer_when_there_would_be_something(bench):
    fix(bench)
    first: Merged = merge_of_nothing(bench, KEYED)
    assert (first.applied, first.hash) == (False, Hashes.target)
    bench.fill("ns.later")
    assert merge_of_nothing(bench.again(), KEYED) == first
    assert bench.head("target") == Hashes.target
    kinds = [move.kind for move in bench.references.log(ME, "target").items]
    assert kinds == ["commit", "commit", "create"]


class Rules(OpenPolicy):
    """A policy that records what it decides on, and denies some actions."""

    def __init__(self) -> None:
        self.decided: list[tuple[Action, str | None]] = []
        self.denied: set[tuple[Action, str | None]] = set()

    def decide(self, call: Call, action: Action, resource: Resource) -> None:
        self.decided.append((action, resource.reference))
        if (action, resource.reference) in self.denied:
            raise Denied(f"{call.principal} may not {action.value}")


COMMITTED = (Action.COMMIT, "target")
MERGED = (Action.MERGE, "target")
ASSIGNED = (Action.ASSIGN_REFERENCE, "target")
READ_SIDE = (Action.READ_CONTENT, "side")
READ_HASH = (Action.READ_CONTENT, None)


def create(bench: Bench, call: Call) -> Any:
    new = NewReference(kind="BRANCH", name="x", source=parse_spec("side"))
    return bench.run(bench.references.create(call, new))


@pytest.mark.parametrize(
    ("write", "decisions"),
    [
        (commit, [COMMITTED]),
        (merge, [MERGED, READ_SIDE]),
        (transplant, [MERGED, READ_SIDE, READ_SIDE]),
        (cherry_pick, [MERGED, READ_HASH, READ_HASH]),
        (revert, [COMMITTED, (Action.READ_CONTENT, "target")]),
        (rebase, [ASSIGNED, READ_SIDE]),
        (force, [ASSIGNED, READ_SIDE]),
        (assign, [ASSIGNED, READ_SIDE]),
        (create, [(Action.CREATE_REFERENCE, "x"), READ_SIDE]),
        (delete, [(Action.DELETE_REFERENCE, "target")]),
        (create_namespace, [COMMITTED]),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_an_answer_from_a_claim_needs_the_same_decisions_again(bench, write, decisions):
    fix(bench)
    write(bench, KEYED)
    rules = Rules()
    guarded = bench.again()
    guarded.repository = Repository(guarded.repository.context, policy=rules)
    guarded.references = guarded.repository.references
    guarded.commits = guarded.repository.commits
    guarded.merges = guarded.repository.merges
    write(guarded, KEYED)
    assert rules.decided == decisions
    for denied in decisions:
        rules.denied = {denied}
        with pytest.raises(Denied):
            write(guarded, KEYED)


def test_a_reference_that_was_made_is_answered_with_all_it_had(bench):
    """Time to live is sent as a span, so a repetition says another moment; it is not meant."""
    for number, (kind, name) in enumerate((("BRANCH", "x"), ("TAG", "y"))):
        call = Call("me", f"key {number}", b"one")
        soon = bench.clock.now_us() + 1_000_000 if kind == "BRANCH" else None
        said = None if kind == "BRANCH" else Annotation(message="release")
        wanted = NewReference(
            kind=kind, name=name, source=parse_spec("side"), expires_us=soon, annotation=said
        )
        first = bench.run(bench.references.create(call, wanted))
        bench.clock.advance_us(500_000)
        source_is_made_again(bench)
        later = msgspec.structs.replace(wanted, expires_us=None if soon is None else soon + 7)
        assert bench.run(bench.again().references.create(call, later)) == first
        bench.references.delete(ME, name, None)
        assert bench.run(bench.again().references.create(call, later)) == first
        bench.branch(name, "main")
        assert bench.run(bench.again().references.create(call, later)) == first
        assert bench.references.get(ME, name).hash == bench.head()


def test_a_creation_that_was_overtaken_twice_makes_nothing(bench):
    """The first try has claimed; a second one makes the branch, and it is deleted again."""
    rival = bench.again()
    wanted = NewReference(kind="BRANCH", name="x", source=parse_spec("side"))
    prepared = bench.references.create(KEYED, wanted)
    first = rival.run(rival.references.create(KEYED, wanted))
    rival.references.delete(ME, "x", None)
    assert bench.run(prepared) == first
    with pytest.raises(ReferenceNotFound):
        bench.references.get(ME, "x")
