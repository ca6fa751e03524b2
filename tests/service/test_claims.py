"""Requests with an idempotency key take effect once and are answered alike."""

from __future__ import annotations

from typing import Any

import pytest

from lochan.access.policy import Call
from lochan.base.errors import Invalid, KeysConflict, ReferenceNotFound
from lochan.base.limits.requests import IDEMPOTENCY_KEY_CHARACTERS_MAX
from lochan.base.names import RefName
from lochan.kernel.references import ReferenceIndex
from lochan.model.commits import CommitMeta, Committed, Delete, Put
from lochan.model.references import Reference
from lochan.model.requests import (
    MergeRequest,
    MoveRequest,
    NewReference,
    RebaseRequest,
    TransplantRequest,
)
from lochan.model.specs import parse_spec
from tests.service.bench import ME, Bench, names, new, writes

ONCE = Call(principal="me", idempotency_key="k", digest=b"request")


@pytest.fixture
def bench() -> Bench:
    one = Bench()
    one.fill("ns.a", "ns.b")
    one.change("ns.a", "second")
    return one


def send(bench: Bench, *does, call: Call = ONCE, branch: str = "main") -> Committed:
    return bench.run(bench.commits.commit(call, branch, None, CommitMeta(message="once"), does))


def test_the_same_request_takes_effect_once_and_is_answered_alike(bench):
    first = send(bench, new("ns.c"))
    bench.change("ns.c", "elsewhere")
    assert send(bench, new("ns.c")) == first
    assert send(bench.again(), new("ns.c")) == first
    assert bench.messages().count("once") == 1


def test_an_answer_tells_the_same_new_contents_again(bench):
    content, _ = bench.contents.get(ME, parse_spec("main"), ("ns", "a"))
    does = [
        Delete(key=("ns", "a")),
        Put(key=("ns", "renamed"), content=content),
        Delete(key=("ns", "b")),
        new("ns.b", "made anew"),
        new("ns.c"),
    ]
    first = send(bench, *does)
    assert [one.key for one in first.added] == [("ns", "b"), ("ns", "c")]
    assert send(bench, *does) == first


def test_the_same_request_is_found_after_the_branch_was_assigned_elsewhere(bench):
    old = bench.head()
    first = send(bench, new("ns.c"))
    bench.references.assign(ME, "main", parse_spec(first.hash), parse_spec(old))
    assert send(bench.again(), new("ns.c")) == first
    assert bench.messages().count("once") == 0


def test_the_same_key_with_another_request_is_refused(bench):
    send(bench, new("ns.c"))
    other = Call(principal="me", idempotency_key="k", digest=b"other")
    with pytest.raises(Invalid, match="another request"):
        send(bench, new("ns.d"), call=other)
    bench.branch("side")
    with pytest.raises(Invalid, match="another request"):
        send(bench, new("ns.c"), branch="side")
    somebody = Call(principal="somebody else", idempotency_key="k", digest=b"other")
    assert send(bench, new("ns.d"), call=somebody).added


def test_a_request_that_was_not_done_is_refused_after_its_branch_was_made_again(bench):
    bench.branch("side")
    with pytest.raises(KeysConflict):
        send(bench, new("ns.a"), branch="side")
    bench.references.delete(ME, "side", None)
    bench.branch("side")
    bench.remove("ns.a", branch="side")
    with pytest.raises(ReferenceNotFound, match="was deleted"):
        send(bench, new("ns.a"), branch="side")
    assert "ns.a" not in bench.state("side")


def test_a_refused_request_may_be_sent_again(bench):
    with pytest.raises(KeysConflict):
        send(bench, new("ns.a"))
    bench.remove("ns.a")
    assert send(bench, new("ns.a")).added


@pytest.mark.parametrize("key", ["", "x" * (IDEMPOTENCY_KEY_CHARACTERS_MAX + 1), "a\nb"])
def test_a_key_is_printable_and_not_too_long(bench, key):
    with pytest.raises(Invalid, match="idempotency key"):
        send(bench, new("ns.c"), call=Call(idempotency_key=key))


def test_a_merge_and_a_transplant_are_done_once(bench):
    bench.branch("side")
    bench.change("ns.a", "one", branch="side")
    last = bench.change("ns.b", "two", branch="side").hash
    ask = MergeRequest(branch="main", expected=None, source=parse_spec("side"), squash=False)
    first = bench.run(bench.merges.merge(ONCE, ask))
    second = bench.again().run(bench.again().merges.merge(ONCE, ask))
    assert second.applied
    assert second.hash == first.hash == bench.head()
    bench.branch("two", "main~2")
    carry = TransplantRequest(
        branch="two", expected=None, source="side", hashes=(parse_spec(last),)
    )
    again = Call(principal="me", idempotency_key="other", digest=b"other")
    one = bench.run(bench.merges.transplant(again, carry))
    assert bench.run(bench.merges.transplant(again, carry)).hash == one.hash == bench.head("two")


def test_a_dry_run_claims_nothing(bench):
    bench.branch("side")
    bench.change("ns.a", "one", branch="side")
    other, counts = bench.counted()
    ask = MergeRequest(branch="main", expected=None, source=parse_spec("side"), dry_run=True)
    other.run(other.merges.merge(ONCE, ask))
    assert writes(counts) == {}


def test_a_request_to_a_half_made_branch_finishes_it(bench, monkeypatch):
    """The maker died after the name was listed; whoever comes next goes on."""
    monkeypatch.setattr(ReferenceIndex, "_finish_create", lambda *_: None)
    with pytest.raises(AttributeError):
        bench.branch("half")
    monkeypatch.undo()
    assert bench.repository.context.references.fetch(RefName("half")) is None
    assert send(bench.again(), new("ns.c"), branch="half").hash == bench.head("half")


def again(name: str) -> Call:
    return Call(principal="me", idempotency_key=name, digest=name.encode())


def make(bench: Bench, call: Call, *wanted: str, **more: Any) -> tuple[Reference, ...]:
    rows = [
        NewReference(kind="BRANCH", name=name, source=parse_spec("main"), **more) for name in wanted
    ]
    return bench.run(bench.references.create_many(call, rows))


def test_references_are_made_once_and_answered_alike(bench):
    first = make(bench, again("make"), "b", "c")
    bench.references.assign(ME, "b", None, parse_spec("main~1"))
    assert make(bench.again(), again("make"), "b", "c") == first
    bench.references.delete(ME, "b", None)
    assert make(bench.again(), again("make"), "b", "c") == first
    assert names(bench.references.list(ME).items) == ["c", "main"]


def test_what_was_made_is_told_again_though_it_could_not_be_made_now(bench):
    bench.branch("source")
    soon = bench.clock.now_us() + 1
    new = NewReference(kind="BRANCH", name="b", source=parse_spec("source"), expires_us=soon)
    first = bench.run(bench.references.create(again("make"), new))
    bench.references.delete(ME, "source", None)
    bench.clock.advance_us(1_000)
    assert bench.run(bench.references.create(again("make"), new)) == first


def test_a_half_made_reference_is_finished_by_the_same_request(bench, monkeypatch):
    monkeypatch.setattr(ReferenceIndex, "_finish_create", lambda *_: None)
    with pytest.raises(AttributeError):
        make(bench, again("make"), "b", "c")
    monkeypatch.undo()
    (b, c) = make(bench.again(), again("make"), "b", "c")
    assert [b, c] == [bench.references.get(ME, "b"), bench.references.get(ME, "c")]


def test_a_reference_is_deleted_once_though_it_was_made_again(bench):
    bench.branch("b")
    first = bench.references.delete(again("delete"), "b", parse_spec(bench.head("b")))
    assert bench.again().references.delete(again("delete"), "b", parse_spec(first.hash)) == first
    bench.branch("b")
    told = bench.again().references.delete(again("delete"), "b", parse_spec(first.hash))
    assert (told.name, told.hash) == ("b", first.hash)
    assert bench.head("b") == bench.head()


@pytest.mark.parametrize("moves", [1, 40])
def test_a_branch_is_assigned_once_and_answered_alike(bench, moves):
    bench.branch("b")
    first = bench.references.assign(again("assign"), "b", None, parse_spec("main~1"))
    for number in range(moves):
        bench.references.assign(ME, "b", None, parse_spec("main~1" if number % 2 else "main"))
    present = bench.head("b")
    assert (
        bench.again().references.assign(again("assign"), "b", None, parse_spec("main~1")) == first
    )
    bench.references.delete(ME, "b", None)
    told = bench.again().references.assign(again("assign"), "b", None, parse_spec("main~1"))
    assert told.hash == first.hash
    bench.branch("b")
    told = bench.again().references.assign(again("assign"), "b", None, parse_spec("main~1"))
    assert told.hash == first.hash
    assert bench.head("b") == bench.head()
    assert present in (bench.head(), first.hash)


def test_moves_of_heads_are_made_once_and_answered_alike(bench):
    bench.branch("side")
    bench.change("ns.a", "side", branch="side")
    bench.change("ns.b", "main")
    rebase = RebaseRequest(branch="side", onto=parse_spec("main"))
    first = bench.merges.rebase(again("rebase"), rebase)
    bench.change("ns.b", "side", branch="side")
    bench.change("ns.a", "main")
    present = bench.head("side")
    told = bench.again().merges.rebase(again("rebase"), rebase)
    assert (told.applied, told.hash) == (True, first.hash)
    assert told.effective_target == first.effective_target
    assert bench.head("side") == present
    for kind in ("force", "fast_forward"):
        bench.branch(kind, "main~1")
        ask = MoveRequest(branch=kind, source=parse_spec("main"))
        done = getattr(bench.merges, kind)(again(kind), ask)
        bench.references.assign(ME, kind, None, parse_spec("main~1"))
        told = getattr(bench.again().merges, kind)(again(kind), ask)
        assert (told.applied, told.hash) == (True, done.hash)
        assert bench.head(kind) != done.hash


def test_who_loses_a_race_against_its_own_repetition_hears_the_same(bench, monkeypatch):
    """The first try claims, a second one is done, then the first one goes on."""
    bench.branch("b")
    rival = bench.again()
    right = ReferenceIndex.move
    answers = []

    def move(self, name, decide, who, **more):
        if not answers:
            answers.append(None)
            answers[0] = rival.references.delete(again("delete"), "b", None)
        return right(self, name, decide, who, **more)

    monkeypatch.setattr(ReferenceIndex, "move", move)
    assert bench.references.delete(again("delete"), "b", None) == answers[0]


def test_a_key_of_a_move_is_for_one_request_only(bench):
    make(bench, again("make"), "b")
    other = Call(principal="me", idempotency_key="make", digest=b"other")
    with pytest.raises(Invalid, match="another request"):
        make(bench, other, "c")
    with pytest.raises(Invalid, match="another request"):
        bench.references.assign(other, "b", None, parse_spec("main~1"))
    with pytest.raises(Invalid, match="another request"):
        send(bench, new("ns.c"), call=other)
