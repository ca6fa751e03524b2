"""An expected hash, also with steps, shows nothing of commits that the caller may not see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lochan.access.policy import Call
from lochan.base.errors import HeadConflict, LochanError, ReferenceNotFound
from lochan.model.commits import CommitMeta
from lochan.model.requests import MergeRequest, MoveRequest, RebaseRequest, RevertRequest
from lochan.model.specs import ReferenceSpec, parse_spec
from lochan.service.pending_writes import PendingWrite
from tests.service.bench import ME, Bench, new
from tests.service.limited import EVERYTHING, allow, caller, counted, enforced

UNKNOWN = "0" * 63 + "1"
MAIN, DEV = parse_spec("main"), parse_spec("dev")
META = CommitMeta(message="m")

WRITES: dict[str, Callable[[Bench, Call, ReferenceSpec], Any]] = {
    "commit": lambda one, call, at: one.commits.commit(call, "dev", at, META, [new("ns.new")]),
    "merge": lambda one, call, at: one.merges.merge(
        call, MergeRequest(branch="dev", source=MAIN, expected=at)
    ),
    "merge as result": lambda one, call, at: one.merges.merge(
        call, MergeRequest(branch="dev", source=MAIN, expected=at, conflicts_as_result=True)
    ),
    "revert": lambda one, call, at: one.merges.revert(
        call, RevertRequest(branch="dev", hashes=(parse_spec("@" + head(one, "dev")),), expected=at)
    ),
    "fast-forward": lambda one, call, at: one.merges.fast_forward(
        call, MoveRequest(branch="dev", source=MAIN, expected=at)
    ),
    "force": lambda one, call, at: one.merges.force(
        call, MoveRequest(branch="dev", source=MAIN, expected=at)
    ),
    "rebase": lambda one, call, at: one.merges.rebase(
        call, RebaseRequest(branch="dev", onto=MAIN, expected=at)
    ),
    "assign": lambda one, call, at: one.references.assign(call, "dev", at, MAIN),
    "delete": lambda one, call, at: one.references.delete(call, "dev", at),
}
# Everything in two branches, nothing in others.
ANN = caller(allow("read", "write", references=("main", "dev")))


@pytest.fixture
def world() -> Bench:
    one = Bench()
    one.fill("ns.a")
    one.branch("dev")
    one.branch("hidden")
    for branch in ("main", "dev", "hidden", "hidden"):
        one.change("ns.a", branch, branch=branch)
    one.run(one.merges.merge(ME, MergeRequest(branch="hidden", source=DEV, default="FORCE")))
    return one


def head(one: Bench, name: str) -> str:
    return one.references.get(EVERYTHING, name).hash


def outcome(server: Bench, name: str, call: Call, at: str) -> str:
    """What a caller gets for an expected hash."""
    try:
        made = WRITES[name](server, call, parse_spec(f"@{at}"))
        made = server.run(made) if isinstance(made, PendingWrite) else made
    except LochanError as error:
        return f"{type(error).__name__} {error.message} {vars(error)!r}"
    return repr(made)


@pytest.mark.parametrize(
    "steps", ["", "~1", "~2", "^1", "^2", "^9", "~99", "*2100-01-01T00:00:00Z"]
)
@pytest.mark.parametrize("name", WRITES)
def test_a_hidden_commit_is_expected_like_an_unknown_one(world, name, steps):
    server = enforced(world)
    secret = head(server, "hidden")
    hidden = outcome(server, name, ANN, secret + steps)
    assert hidden.startswith("ReferenceNotFound"), hidden
    assert hidden.replace(secret, UNKNOWN) == outcome(server, name, ANN, UNKNOWN + steps)


@pytest.mark.parametrize("name", WRITES)
def test_steps_in_the_history_of_a_branch_mean_the_same_to_all(name):
    for steps in ("~1", "^1", "~2"):
        found = []
        for call in (ANN, caller(allow("*"))):
            one = Bench(seed=5)
            one.fill("ns.a")
            one.branch("dev")
            one.change("ns.a", "dev", branch="dev")
            server = enforced(one)
            found.append(outcome(server, name, call, head(server, "dev") + steps))
        assert found[0] == found[1]


def test_a_conflict_with_the_head_still_names_it(world):
    server = enforced(world)
    older = str(server.history.log(ANN, DEV).items[1].meta.hash)
    for name in ("assign", "delete", "force"):
        assert "HeadConflict" in outcome(server, name, ANN, older)
    with pytest.raises(HeadConflict):
        server.references.assign(EVERYTHING, "dev", parse_spec(f"@{head(server, 'hidden')}"), MAIN)
    with pytest.raises(ReferenceNotFound):
        server.references.assign(ANN, "dev", parse_spec(f"@{UNKNOWN}"), MAIN)


@pytest.mark.parametrize("name", WRITES)
def test_an_ordinary_request_reads_no_more_than_one_with_all_rights(name):
    calls = []
    for call in (ANN, caller(allow("*"))):
        one = Bench(seed=5)
        one.fill("ns.a")
        one.branch("dev")
        one.change("ns.a", "dev", branch="dev")
        server, counts = counted(one)
        at = head(server, "dev")
        counts.reset()
        outcome(server, name, call, at)
        calls.append(dict(counts.calls))
    assert calls[0] == calls[1]
