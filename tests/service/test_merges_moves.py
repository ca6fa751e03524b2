"""Rebases, fast-forwards and force; dry runs of everything, as users see them."""

from __future__ import annotations

from typing import Any

import pytest

from lochan.base.errors import HeadConflict, Invalid, KeysConflict
from lochan.base.ids import EMPTY_ID
from lochan.model.contents import Content
from lochan.model.requests import (
    KeyResolution,
    MergeRequest,
    MoveRequest,
    RebaseRequest,
    RevertRequest,
    TransplantRequest,
)
from lochan.model.results import Merged
from lochan.model.specs import parse_spec
from tests.service.bench import (
    ME,
    Bench,
    changed_request,
    conflicts,
    details,
    forked,
    key,
    new,
    space,
    where,
    writes,
)

EMPTY = EMPTY_ID.hex()
A = key("ns.a")


@pytest.fixture
def bench() -> Bench:
    return forked()


def content(bench: Bench, name: str, spec: str = "main") -> Content:
    return bench.contents.get(ME, parse_spec(spec), key(name))[0]


def hashes(bench: Bench, spec: str = "side") -> list[str]:
    """Those of the two commits of side, oldest first."""
    return [entry.meta.hash or "" for entry in bench.history.log(ME, parse_spec(spec), 2).items][
        ::-1
    ]


def rebase(bench: Bench, **more: Any) -> Merged:
    ask = RebaseRequest(branch="side", onto=parse_spec("main"))
    return bench.merges.rebase(ME, changed_request(ask, **more))


def test_a_rebase_makes_a_branchs_own_commits_on_another_head(bench):
    bench.change("ns.b", "main")
    old = bench.head("side")
    done = rebase(bench, expected=old)
    assert (done.applied, len(done.commits)) == (True, 2)
    assert done.hash == bench.head("side")
    assert bench.messages("side")[:2] == ["side 2", "side 1"]
    assert bench.log("side")[2].meta.hash == bench.head()
    assert bench.state("side")["ns.b"] == "main"
    assert bench.references.log(ME, "side", 3).items[0].kind == "rebase"
    assert not rebase(bench).applied
    with pytest.raises(HeadConflict):
        rebase(bench, expected=old)


def test_a_rebase_tells_conflicts_and_obeys_choices(bench):
    bench.change("ns.a", "main")
    with pytest.raises(KeysConflict) as caught:
        rebase(bench)
    assert conflicts(caught.value) == [("VALUE_DIFFERS", "ns.a")]
    assert where(details(caught.value)[0].target) == "main"
    rebase(bench, keys={A: KeyResolution(behaviour="FORCE")})
    assert bench.state("side")["ns.a"] == "side"
    wish = KeyResolution(expected_target=content(bench, "ns.a"), resolved=content(bench, "ns.a"))
    with pytest.raises(Invalid, match="merge instead"):
        rebase(bench, keys={A: wish})


def test_a_rebase_keeps_the_rules_of_namespaces(bench):
    bench.commit(space("deep"))
    bench.merge("main", "side")
    bench.commit(new("deep.t"), branch="side")
    bench.remove("deep")
    before = bench.head("side")
    with pytest.raises(KeysConflict) as caught:
        rebase(bench)
    assert conflicts(caught.value) == [("NAMESPACE_ABSENT", "deep")]
    assert bench.head("side") == before


def test_a_rebase_agrees_on_a_namespace_that_both_made(bench):
    bench.commit(space("both", side="side"), new("both.s"), branch="side")
    bench.commit(space("both", side="main"), new("both.m"))
    rebase(bench)
    assert {"both", "both.s", "both.m"} <= set(bench.state("side"))
    assert content(bench, "both", "side") == content(bench, "both")


def test_a_fast_forward_loses_nothing_or_is_refused(bench):
    done = bench.merges.fast_forward(ME, MoveRequest(branch="main", source=parse_spec("side")))
    assert (done.applied, done.hash) == (True, bench.head("side"))
    assert bench.head() == bench.head("side")
    assert not bench.merges.fast_forward(
        ME, MoveRequest(branch="main", source=parse_spec("side"))
    ).applied
    bench.change("ns.b", "main")
    bench.change("ns.b", "side", branch="side")
    with pytest.raises(HeadConflict, match="merge or rebase"):
        bench.merges.fast_forward(ME, MoveRequest(branch="main", source=parse_spec("side")))


def test_force_loses_the_targets_commits_but_not_from_the_ref_log(bench):
    lost = bench.change("ns.b", "main").hash
    done = bench.merges.force(
        ME, MoveRequest(branch="main", source=parse_spec("side"), expected=parse_spec(lost))
    )
    assert (done.applied, done.effective_target) == (True, lost)
    assert bench.head() == bench.head("side")
    assert bench.references.log(ME, "main", 1).items[0].old == lost
    with pytest.raises(HeadConflict):
        bench.merges.force(
            ME, MoveRequest(branch="main", source=parse_spec("side~1"), expected=parse_spec(lost))
        )


def test_a_dry_run_answers_and_writes_nothing(bench):
    bench.change("ns.b", "main")
    other, counts = bench.counted()
    line = tuple(hashes(bench))
    main = bench.head()
    carry = TransplantRequest(
        branch="main",
        expected=None,
        source="side",
        hashes=tuple(map(parse_spec, line)),
        dry_run=True,
    )
    asked = [
        other.merges.merge(
            ME,
            MergeRequest(
                branch="main", expected=None, source=parse_spec("side"), dry_run=True, squash=squash
            ),
        )
        for squash in (True, False)
    ]
    asked += [other.merges.transplant(ME, carry), other.merges.cherry_pick(ME, carry)]
    asked.append(
        other.merges.revert(
            ME,
            RevertRequest(branch="main", expected=None, hashes=(parse_spec(main),), dry_run=True),
        )
    )
    told = [other.run(one) for one in asked]
    told.append(
        other.merges.rebase(ME, RebaseRequest(branch="side", onto=parse_spec("main"), dry_run=True))
    )
    told.append(
        other.merges.force(ME, MoveRequest(branch="main", source=parse_spec("side"), dry_run=True))
    )
    told.append(
        other.merges.fast_forward(
            ME, MoveRequest(branch="main", source=parse_spec("main~1"), dry_run=True)
        )
    )
    assert {(one.applied, one.successful, one.hash) for one in told} == {(False, True, None)}
    assert [".".join(one.key) for one in told[0].keys] == ["ns.a", "ns.c", "ns.d"]
    assert writes(counts) == {}
    assert bench.head() == main
    bench.change("ns.a", "main")
    with pytest.raises(KeysConflict):
        other.merge("side", dry_run=True)
    assert writes(counts) == {}


def test_a_dry_run_is_planned_on_the_head_of_the_moment(bench):
    asked = bench.merges.merge(
        ME, MergeRequest(branch="main", expected=None, source=parse_spec("side"), dry_run=True)
    )
    assert bench.run(asked).successful
    bench.again().change("ns.a", "main")
    with pytest.raises(KeysConflict):
        bench.run(asked)
