"""Requests with an idempotency key take effect once and are answered alike."""

from __future__ import annotations

from typing import Any

import pytest

from lochan.base.errors import Invalid, KeysConflict, ReferenceNotFound
from lochan.base.limits import IDEMPOTENCY_KEY_CHARACTERS_MAX
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
from lochan.service.calls import Call
from tests.service.bench import ME, Bench, names, new, writes

ONCE = Call(principal="me", idempotency_key="k", digest=b"request")


@pytest.fixture
def desk() -> Bench:
    one = Bench()
    one.fill("ns.a", "ns.b")
    one.change("ns.a", "second")
    return one


def send(desk: Bench, *does, call: Call = ONCE, branch: str = "main") -> Committed:
    return desk.run(desk.commits.commit(call, branch, None, CommitMeta(message="once"), does))


def test_the_same_request_takes_effect_once_and_is_answered_alike(desk):
    first = send(desk, new("ns.c"))
    desk.change("ns.c", "elsewhere")
    assert send(desk, new("ns.c")) == first
    assert send(desk.again(), new("ns.c")) == first
    assert desk.messages().count("once") == 1


def test_an_answer_tells_the_same_new_contents_again(desk):
    content, _ = desk.contents.get(ME, parse_spec("main"), ("ns", "a"))
    does = [
        Delete(key=("ns", "a")),
        Put(key=("ns", "renamed"), content=content),
        Delete(key=("ns", "b")),
        new("ns.b", "made anew"),
        new("ns.c"),
    ]
    first = send(desk, *does)
    assert [one.key for one in first.added] == [("ns", "b"), ("ns", "c")]
    assert send(desk, *does) == first


def test_the_same_request_is_found_after_the_branch_was_assigned_elsewhere(desk):
    old = desk.head()
    first = send(desk, new("ns.c"))
    desk.references.assign(ME, "main", parse_spec(first.hash), parse_spec(old))
    assert send(desk.again(), new("ns.c")) == first
    assert desk.messages().count("once") == 0


def test_the_same_key_with_another_request_is_refused(desk):
    send(desk, new("ns.c"))
    other = Call(principal="me", idempotency_key="k", digest=b"other")
    with pytest.raises(Invalid, match="another request"):
        send(desk, new("ns.d"), call=other)
    desk.branch("side")
    with pytest.raises(Invalid, match="another request"):
        send(desk, new("ns.c"), branch="side")
    somebody = Call(principal="somebody else", idempotency_key="k", digest=b"other")
    assert send(desk, new("ns.d"), call=somebody).added


def test_a_request_that_was_not_done_is_refused_after_its_branch_was_made_again(desk):
    desk.branch("side")
    with pytest.raises(KeysConflict):
        send(desk, new("ns.a"), branch="side")
    desk.references.delete(ME, "side", None)
    desk.branch("side")
    desk.remove("ns.a", branch="side")
    with pytest.raises(ReferenceNotFound, match="was deleted"):
        send(desk, new("ns.a"), branch="side")
    assert "ns.a" not in desk.state("side")


def test_a_refused_request_may_be_sent_again(desk):
    with pytest.raises(KeysConflict):
        send(desk, new("ns.a"))
    desk.remove("ns.a")
    assert send(desk, new("ns.a")).added


@pytest.mark.parametrize("key", ["", "x" * (IDEMPOTENCY_KEY_CHARACTERS_MAX + 1), "a\nb"])
def test_a_key_is_printable_and_not_too_long(desk, key):
    with pytest.raises(Invalid, match="idempotency key"):
        send(desk, new("ns.c"), call=Call(idempotency_key=key))


def test_a_merge_and_a_transplant_are_done_once(desk):
    desk.branch("side")
    desk.change("ns.a", "one", branch="side")
    last = desk.change("ns.b", "two", branch="side").hash
    ask = MergeRequest(branch="main", expected=None, source=parse_spec("side"), squash=False)
    first = desk.run(desk.merges.merge(ONCE, ask))
    second = desk.again().run(desk.again().merges.merge(ONCE, ask))
    assert second.applied
    assert second.hash == first.hash == desk.head()
    desk.branch("two", "main~2")
    carry = TransplantRequest(
        branch="two", expected=None, source="side", hashes=(parse_spec(last),)
    )
    again = Call(principal="me", idempotency_key="other", digest=b"other")
    one = desk.run(desk.merges.transplant(again, carry))
    assert desk.run(desk.merges.transplant(again, carry)).hash == one.hash == desk.head("two")


def test_a_dry_run_claims_nothing(desk):
    desk.branch("side")
    desk.change("ns.a", "one", branch="side")
    other, counts = desk.counted()
    ask = MergeRequest(branch="main", expected=None, source=parse_spec("side"), dry_run=True)
    other.run(other.merges.merge(ONCE, ask))
    assert writes(counts) == {}


def test_a_request_to_a_half_made_branch_finishes_it(desk, monkeypatch):
    """The maker died after the name was listed; whoever comes next goes on."""
    monkeypatch.setattr(ReferenceIndex, "_finish_create", lambda *_: None)
    with pytest.raises(AttributeError):
        desk.branch("half")
    monkeypatch.undo()
    assert desk.repository.context.references.fetch(RefName("half")) is None
    assert send(desk.again(), new("ns.c"), branch="half").hash == desk.head("half")


def again(name: str) -> Call:
    return Call(principal="me", idempotency_key=name, digest=name.encode())


def make(desk: Bench, call: Call, *wanted: str, **more: Any) -> tuple[Reference, ...]:
    rows = [
        NewReference(kind="BRANCH", name=name, source=parse_spec("main"), **more) for name in wanted
    ]
    return desk.run(desk.references.create_many(call, rows))


def test_references_are_made_once_and_answered_alike(desk):
    first = make(desk, again("make"), "b", "c")
    desk.references.assign(ME, "b", None, parse_spec("main~1"))
    assert make(desk.again(), again("make"), "b", "c") == first
    desk.references.delete(ME, "b", None)
    assert make(desk.again(), again("make"), "b", "c") == first
    assert names(desk.references.list(ME).items) == ["c", "main"]


def test_what_was_made_is_told_again_though_it_could_not_be_made_now(desk):
    desk.branch("source")
    soon = desk.clock.now_us() + 1
    new = NewReference(kind="BRANCH", name="b", source=parse_spec("source"), expires_us=soon)
    first = desk.run(desk.references.create(again("make"), new))
    desk.references.delete(ME, "source", None)
    desk.clock.advance_us(1_000)
    assert desk.run(desk.references.create(again("make"), new)) == first


def test_a_half_made_reference_is_finished_by_the_same_request(desk, monkeypatch):
    monkeypatch.setattr(ReferenceIndex, "_finish_create", lambda *_: None)
    with pytest.raises(AttributeError):
        make(desk, again("make"), "b", "c")
    monkeypatch.undo()
    (b, c) = make(desk.again(), again("make"), "b", "c")
    assert [b, c] == [desk.references.get(ME, "b"), desk.references.get(ME, "c")]


def test_a_reference_is_deleted_once_though_it_was_made_again(desk):
    desk.branch("b")
    first = desk.references.delete(again("delete"), "b", parse_spec(desk.head("b")))
    assert desk.again().references.delete(again("delete"), "b", parse_spec(first.hash)) == first
    desk.branch("b")
    told = desk.again().references.delete(again("delete"), "b", parse_spec(first.hash))
    assert (told.name, told.hash) == ("b", first.hash)
    assert desk.head("b") == desk.head()


@pytest.mark.parametrize("moves", [1, 40])
def test_a_branch_is_assigned_once_and_answered_alike(desk, moves):
    desk.branch("b")
    first = desk.references.assign(again("assign"), "b", None, parse_spec("main~1"))
    for number in range(moves):
        desk.references.assign(ME, "b", None, parse_spec("main~1" if number % 2 else "main"))
    present = desk.head("b")
    assert desk.again().references.assign(again("assign"), "b", None, parse_spec("main~1")) == first
    desk.references.delete(ME, "b", None)
    told = desk.again().references.assign(again("assign"), "b", None, parse_spec("main~1"))
    assert told.hash == first.hash
    desk.branch("b")
    told = desk.again().references.assign(again("assign"), "b", None, parse_spec("main~1"))
    assert told.hash == first.hash
    assert desk.head("b") == desk.head()
    assert present in (desk.head(), first.hash)


def test_moves_of_heads_are_made_once_and_answered_alike(desk):
    desk.branch("side")
    desk.change("ns.a", "side", branch="side")
    desk.change("ns.b", "main")
    rebase = RebaseRequest(branch="side", onto=parse_spec("main"))
    first = desk.merges.rebase(again("rebase"), rebase)
    desk.change("ns.b", "side", branch="side")
    desk.change("ns.a", "main")
    present = desk.head("side")
    told = desk.again().merges.rebase(again("rebase"), rebase)
    assert (told.applied, told.hash) == (True, first.hash)
    assert told.effective_target == first.effective_target
    assert desk.head("side") == present
    for kind in ("force", "fast_forward"):
        desk.branch(kind, "main~1")
        ask = MoveRequest(branch=kind, source=parse_spec("main"))
        done = getattr(desk.merges, kind)(again(kind), ask)
        desk.references.assign(ME, kind, None, parse_spec("main~1"))
        told = getattr(desk.again().merges, kind)(again(kind), ask)
        assert (told.applied, told.hash) == (True, done.hash)
        assert desk.head(kind) != done.hash


def test_who_loses_a_race_against_its_own_repetition_hears_the_same(desk, monkeypatch):
    """The first try claims, a second one is done, then the first one goes on."""
    desk.branch("b")
    rival = desk.again()
    right = ReferenceIndex.move
    answers = []

    def move(self, name, decide, who, **more):
        if not answers:
            answers.append(None)
            answers[0] = rival.references.delete(again("delete"), "b", None)
        return right(self, name, decide, who, **more)

    monkeypatch.setattr(ReferenceIndex, "move", move)
    assert desk.references.delete(again("delete"), "b", None) == answers[0]


def test_a_key_of_a_move_is_for_one_request_only(desk):
    make(desk, again("make"), "b")
    other = Call(principal="me", idempotency_key="make", digest=b"other")
    with pytest.raises(Invalid, match="another request"):
        make(desk, other, "c")
    with pytest.raises(Invalid, match="another request"):
        desk.references.assign(other, "b", None, parse_spec("main~1"))
    with pytest.raises(Invalid, match="another request"):
        send(desk, new("ns.c"), call=other)
