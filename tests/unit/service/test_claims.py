"""Requests with an idempotency key take effect once and are answered alike."""

from __future__ import annotations

import pytest

from lochan.base.errors import Invalid, KeysConflict, ReferenceNotFound
from lochan.base.limits import IDEMPOTENCY_KEY_CHARACTERS_MAX
from lochan.base.names import RefName
from lochan.kernel.references import Names
from lochan.model.commits import CommitMeta, Committed, Delete, Put
from lochan.service.calls import Call
from lochan.service.merges import MergeAsk, TransplantAsk
from tests.unit.service.desk import ME, Desk, new, writes

ONCE = Call(who="me", idempotency_key="k", digest=b"request")


@pytest.fixture
def desk() -> Desk:
    one = Desk()
    one.fill("ns.a", "ns.b")
    return one


def send(desk: Desk, *does, call: Call = ONCE, branch: str = "main") -> Committed:
    return desk.run(desk.commits.commit(call, branch, None, CommitMeta(message="once"), does))


def test_the_same_request_takes_effect_once_and_is_answered_alike(desk):
    first = send(desk, new("ns.c"))
    desk.change("ns.c", "elsewhere")
    assert send(desk, new("ns.c")) == first
    assert send(desk.again(), new("ns.c")) == first
    assert desk.messages().count("once") == 1


def test_an_answer_tells_the_same_new_contents_again(desk):
    content, _ = desk.contents.get("main", ("ns", "a"))
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
    desk.references.assign(ME, "main", first.hash, old)
    assert send(desk.again(), new("ns.c")) == first
    assert desk.messages().count("once") == 0


def test_the_same_key_with_another_request_is_refused(desk):
    send(desk, new("ns.c"))
    other = Call(who="me", idempotency_key="k", digest=b"other")
    with pytest.raises(Invalid, match="another request"):
        send(desk, new("ns.d"), call=other)
    desk.branch("side")
    with pytest.raises(Invalid, match="another request"):
        send(desk, new("ns.c"), branch="side")
    somebody = Call(who="somebody else", idempotency_key="k", digest=b"other")
    assert send(desk, new("ns.d"), call=somebody).added


def test_a_request_to_a_branch_that_was_made_again_is_refused(desk):
    desk.branch("side")
    first = send(desk, new("ns.c"), branch="side")
    desk.references.delete(ME, "side", first.hash)
    desk.branch("side")
    with pytest.raises(ReferenceNotFound, match="created again"):
        send(desk, new("ns.c"), branch="side")


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
    ask = MergeAsk(branch="main", expected=None, source="side", squash=False)
    first = desk.run(desk.merges.merge(ONCE, ask))
    second = desk.again().run(desk.again().merges.merge(ONCE, ask))
    assert second.applied
    assert second.hash == first.hash == desk.head()
    desk.branch("two", "main~2")
    carry = TransplantAsk(branch="two", expected=None, source="side", hashes=(last,))
    again = Call(who="me", idempotency_key="other", digest=b"other")
    one = desk.run(desk.merges.transplant(again, carry))
    assert desk.run(desk.merges.transplant(again, carry)).hash == one.hash == desk.head("two")


def test_a_dry_run_claims_nothing(desk):
    desk.branch("side")
    desk.change("ns.a", "one", branch="side")
    other, counts = desk.counted()
    ask = MergeAsk(branch="main", expected=None, source="side", dry_run=True)
    other.run(other.merges.merge(ONCE, ask))
    assert writes(counts) == {}


def test_a_request_to_a_half_made_branch_finishes_it(desk, monkeypatch):
    """The maker died after the name was listed; whoever comes next goes on."""
    monkeypatch.setattr(Names, "_finish_create", lambda *_: None)
    with pytest.raises(AttributeError):
        desk.branch("half")
    monkeypatch.undo()
    assert desk.repository.parts.references.fetch(RefName("half")) is None
    assert send(desk.again(), new("ns.c"), branch="half").hash == desk.head("half")
