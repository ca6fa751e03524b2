"""Requests with keys are sent again by two servers while their source and target go and come back.

Each request takes effect at most once, and all its successful answers are equal in every field: the
merge that was answered with a hash, a common ancestor and keys is answered with the same ones after
its source was deleted, and after its target was moved, deleted or made again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from lochan.access.policy import Call
from lochan.base.errors import ReferenceNotFound
from lochan.base.ids import InstanceId
from lochan.codec.rows import Description
from lochan.kernel import claims as claims_of_keys
from lochan.kernel import moves as kernel_moves
from lochan.kernel.references import ReferenceIndex
from lochan.model.commits import CommitMeta, Put
from lochan.model.requests import (
    MergeRequest,
    MoveRequest,
    NewReference,
    RevertRequest,
    TransplantRequest,
)
from lochan.model.results import Merged
from lochan.model.specs import parse_spec
from lochan.service import claims as service_claims
from lochan.service.claims import Claims
from lochan.service.commits import CommitWrites
from lochan.service.merges import Merges
from lochan.service.repository import Repository
from lochan.testing.sim import Faults, History, Scenario, Server, World, explore
from tests.profile import counted
from tests.sim.catalog_checks import MISHAPS, fresh, messages_of, moves_of, named
from tests.sim.catalog_scenarios import Act, drive, in_turn, scenario, set_up, table
from tests.sim.kernel_scenarios import parts_of
from tests.sim.mutants import find_violation

SCHEDULES = counted(150, 3_000)
MUTANT_SCHEDULES = 2_000

Ask = Callable[[Server, Call], Any]

FIXED: dict[str, str] = {}
"""Hashes that the requests name: what a client sends again never changes."""


def with_a_target(server: Server) -> tuple[InstanceId, Description]:
    """The usual repository, and a branch `target` with a commit of its own."""
    prepared = set_up(server)
    repository = Repository(parts_of(server, prepared))
    new = NewReference(kind="BRANCH", name="target", source=parse_spec("main"))
    made = repository.references.create(Call(), new)
    (settled,) = repository.publisher(made.branch).publish([made.proposal])
    made.finish(settled)
    does = [Put(key=("ns", "own"), content=table("own"))]
    asked = repository.commits.commit(Call(), "target", None, CommitMeta(message="own"), does)
    (settled,) = repository.publisher(asked.branch).publish([asked.proposal])
    FIXED["own"] = asked.finish(settled).hash
    FIXED["main"] = repository.references.get(Call(), "main").hash
    FIXED["side"] = repository.references.get(Call(), "side").hash
    FIXED["side0"] = repository.history.log(Call(), parse_spec("side"), 2).items[1].meta.hash or ""
    return prepared


def commit(server: Server, call: Call) -> Any:
    does = [Put(key=("ns", "new"), content=table("new"))]
    meta = CommitMeta(message=call.principal)
    return drive(server, lambda one: one.commits.commit(call, "target", None, meta, does))


def merge(server: Server, call: Call) -> Any:
    meta = CommitMeta(message=call.principal)
    ask = MergeRequest(branch="target", expected=None, source=parse_spec("side"), meta=meta)
    return drive(server, lambda one: one.merges.merge(call, ask))


def transplant(server: Server, call: Call) -> Any:
    ask = TransplantRequest(
        branch="target",
        expected=None,
        source="side",
        hashes=(parse_spec(FIXED["side0"]),),
        meta=CommitMeta(message=call.principal),
    )
    return drive(server, lambda one: one.merges.transplant(call, ask))


def revert(server: Server, call: Call) -> Any:
    meta = CommitMeta(message=call.principal)
    ask = RevertRequest(
        branch="target", expected=None, hashes=(parse_spec(FIXED["own"]),), meta=meta
    )
    return drive(server, lambda one: one.merges.revert(call, ask))


def assign(server: Server, call: Call) -> Any:
    references = server.app.repository.references
    return references.assign(call, "target", None, parse_spec("side"))


def force(server: Server, call: Call) -> Any:
    return server.app.repository.merges.force(
        call, MoveRequest(branch="target", source=parse_spec("side"))
    )


def sends(name: str, ask: Ask, times: int = 1) -> Act:
    """Sends one request again and again; the name is the key, the sender and the message."""

    def send(server: Server, name: str) -> Any:
        return ask(server, Call(principal=name, idempotency_key=name, digest=name.encode()))

    def act(server: Server) -> None:
        for _ in range(times):
            server.attempt("sent again", send, server, name)

    return act


def _moved(name: str, branch: str, target: str) -> Act:
    def move(server: Server, who: str) -> Any:
        references = server.app.repository.references
        return references.assign(Call(principal=who), branch, None, parse_spec(f"@{FIXED[target]}"))

    return lambda server: server.attempt("moved", move, server, name)


def _deleted(name: str, branch: str) -> Act:
    def delete(server: Server, who: str) -> Any:
        return server.app.repository.references.delete(Call(principal=who), branch, None)

    return lambda server: server.attempt("deleted", delete, server, name)


def _made(name: str, branch: str, target: str) -> Act:
    def make(server: Server, who: str) -> Any:
        new = NewReference(kind="BRANCH", name=branch, source=parse_spec(f"@{FIXED[target]}"))
        return drive(server, lambda one: one.references.create(Call(principal=who), new))

    return lambda server: server.attempt("made", make, server, name)


def answers_are_equal(world: World, history: History) -> None:
    """All successful answers to one request are the same, in every field."""
    for name in {named(event) for event in history.of("sent again")}:
        answers = [e.result for e in history.acknowledged("sent again") if named(e) == name]
        assert all(one == answers[0] for one in answers), f"{name} was answered in two ways"


def effects_are_single(world: World, history: History) -> None:
    """A request has made one commit or one move, in all incarnations of its target, or none."""
    repository = fresh(world)
    messages = messages_of(repository.context, "target")
    moves = [move for move in moves_of(repository, "target") if move.kind in ("assign", "force")]
    for name in {named(event) for event in history.of("sent again")}:
        count = messages.count(name) + sum(move.who == name for move in moves)
        assert count <= 1, f"{name} took effect {count} times"
        answers = [e.result for e in history.acknowledged("sent again") if named(e) == name]
        if answers:
            applied = answers[0].applied if isinstance(answers[0], Merged) else True
            assert count == int(applied), f"{name} was answered as {applied} and done {count} times"


def repetitions_are_not_refused(world: World, history: History) -> None:
    """A request that is sent again after it was answered with success is never refused."""
    done = history.acknowledged("sent again")
    for event in history.of("sent again"):
        if any(named(one) == named(event) and one.before(event) for one in done):
            assert event.acknowledged or event.outcome in MISHAPS, f"{event} though it was done"


CHECKS = {
    "answers": answers_are_equal,
    "effects": effects_are_single,
    "repetitions": repetitions_are_not_refused,
}


def resending(name: str, servers: dict[str, list[Any]], **more: Any) -> Scenario:
    more.setdefault("faults", Faults(lost_reply=0.12, late=0.08, not_applied=0.04, most=2))
    return replace(scenario(name, servers, checks=CHECKS, **more), setup=with_a_target)


SCENARIOS = {
    one.name: one
    for one in (
        resending(
            "merges and transplants sent again while their source goes",
            {
                "s1": [in_turn(sends("merge", merge, 2), sends("transplant", transplant))],
                "s2": [in_turn(sends("transplant", transplant, 2), sends("merge", merge))],
                "s3": [in_turn(_moved("a", "side", "side0"), _deleted("b", "side"))],
            },
        ),
        resending(
            "commits and reverts sent again while their target is moved",
            {
                "s1": [in_turn(sends("revert", revert, 2), sends("commit", commit))],
                "s2": [in_turn(sends("commit", commit, 2), sends("revert", revert))],
                "s3": [in_turn(_moved("a", "target", "main"), _moved("b", "target", "own"))],
            },
        ),
        resending(
            "writes sent again while their target goes and is made again",
            {
                "s1": [in_turn(sends("merge", merge, 2), sends("assign", assign))],
                "s2": [in_turn(sends("assign", assign, 2), sends("merge", merge))],
                "s3": [in_turn(_deleted("a", "target"), _made("b", "target", "own"))],
            },
        ),
        resending(
            "merges with nothing to do sent again while others make something to do",
            {
                "s1": [in_turn(sends("merge", merge), sends("force", force))],
                "s2": [in_turn(sends("force", force), sends("merge", merge))],
                "s3": [in_turn(_moved("a", "target", "side"), _moved("b", "target", "own"))],
            },
        ),
    )
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_request_sent_again_has_one_effect_and_one_answer(name, record_property):
    report = explore(SCENARIOS[name], schedules=SCHEDULES)
    record_property("counted", report.line())
    assert report.distinct >= SCHEDULES * 0.8
    assert report.lost_replies >= SCHEDULES / 20


def claims_are_looked_up_after_resolving(patch: pytest.MonkeyPatch) -> None:
    """As it was: what a request names is resolved first, and a refusal is final."""

    patch.setattr(Claims, "_attempt", lambda self, find, answer, work: work())


def answers_are_computed_on_the_present_head(patch: pytest.MonkeyPatch) -> None:
    right = Merges._earlier

    def earlier(self, target, request, done, proposal):
        try:
            row = self._resolver._row(target.name)
        except ReferenceNotFound:
            return right(self, target, request, done, proposal)
        done = msgspec.structs.replace(done, target=self._resolver.head(row))
        return right(self, target, request, done, proposal)

    patch.setattr(Merges, "_earlier", earlier)


def commits_are_answered_with_the_present_head(patch: pytest.MonkeyPatch) -> None:
    right = CommitWrites.earlier

    def earlier(self, target, done):
        answer = right(self, target, done)
        found = self._claims._names.find(target.name)
        if found is None:
            return answer
        return msgspec.structs.replace(answer, hash=found.row.pointer.hex())

    patch.setattr(CommitWrites, "earlier", earlier)


def deleted_targets_are_not_searched(patch: pytest.MonkeyPatch) -> None:
    right = kernel_moves.moves_since

    def moves_since(log, name, incarnation, version, row):
        if row is None or row.incarnation != incarnation:
            return []
        return right(log, name, incarnation, version, row)

    patch.setattr(claims_of_keys, "moves_since", moves_since)


def that_nothing_was_to_do_is_not_noted(patch: pytest.MonkeyPatch) -> None:
    def finish_claimed(self, target, write, claim, claimed, earlier, settled):
        if claimed.done is not None:
            return earlier(claimed.done)
        return service_claims._finish(write, settled)

    patch.setattr(Claims, "_finish_claimed", finish_claimed)


def any_incarnation_is_meant(patch: pytest.MonkeyPatch) -> None:
    """A request that claimed a branch is done on the one that was made again since."""
    right = ReferenceIndex.move

    def move(self, name, decide, who, *, dry_run=False, once=None):
        found = self.find(name)
        if once is not None and found is not None:
            once = msgspec.structs.replace(once, incarnation=found.row.incarnation)
        return right(self, name, decide, who, dry_run=dry_run, once=once)

    patch.setattr(ReferenceIndex, "move", move)


SOURCE, MOVED, AGAIN, NOTHING = SCENARIOS

MUTANTS: dict[Callable[[pytest.MonkeyPatch], None], str] = {
    claims_are_looked_up_after_resolving: SOURCE,
    answers_are_computed_on_the_present_head: MOVED,
    commits_are_answered_with_the_present_head: MOVED,
    deleted_targets_are_not_searched: AGAIN,
    any_incarnation_is_meant: AGAIN,
    that_nothing_was_to_do_is_not_noted: NOTHING,
}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_the_explorer_finds(mutant, monkeypatch, record_property):
    mutant(monkeypatch)
    found = find_violation([SCENARIOS[MUTANTS[mutant]]], MUTANT_SCHEDULES)
    record_property(
        "counted", f"mutant {mutant.__name__}: schedule {found.seed} of {found.scenario}"
    )
