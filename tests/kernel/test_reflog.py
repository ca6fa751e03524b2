"""The ref-log: every move of every incarnation and every commit, newest first, in pages."""

from __future__ import annotations

from random import Random

import pytest

from lochan.base.errors import Invalid, NotFound
from lochan.base.ids import EMPTY_ID, ObjId
from lochan.base.names import RefName
from lochan.kernel import moves, references
from lochan.kernel.provenance import UNNAMED, Initiator, Provenance, read_provenance
from lochan.kernel.publish import Publisher
from lochan.kernel.reflog import RefLog
from lochan.testing.sim import NO_FAULTS, Violation, crash_sweep
from tests.kernel.reading import published
from tests.kernel.workbench import Bench, Wants, branch, element, plan, put, table, wants
from tests.sim.kernel_scenarios import (
    CHECKS,
    MAIN,
    NAMES,
    assigns,
    commits,
    creates,
    deletes,
    fresh,
    in_turn,
    recovered,
    scenario,
)

NAME = RefName("work")


def read(context, name, limit=1_000):
    log, found, token = RefLog(context), [], None
    while True:
        page = log.page(name, limit, token)
        assert len(page.items) <= limit
        found += page.items
        if page.token is None:
            return found
        assert page.items, "a page that goes on is not empty"
        token = page.token


def shown(move):
    return (move.kind, bytes.fromhex(move.old or ""), bytes.fromhex(move.new))


class Script:
    """A name with a plain list of what happened to it."""

    def __init__(self, seed: int) -> None:
        self.bench = Bench(seed=seed)
        self.pick = Random(seed)
        self.bench.commit(*[wants(number) for number in range(5)])
        self.targets = [EMPTY_ID, *(view.obj_id for view in self.bench.log())]
        self.expected: list[tuple[str, bytes, bytes]] = []
        self.live = False
        self.count = 0

    def pointer(self) -> ObjId:
        return ObjId(self.bench.row(NAME).pointer)

    def step(self) -> None:
        self.bench.clock.advance_us(1_000)
        if not self.live:
            target = self.pick.choice(self.targets)
            self.bench.names.create_many([branch(NAME, target)], Initiator("w"))
            self.expected.append(("create", b"", target))
            self.live = True
            return
        before = self.pointer()
        chosen = self.pick.random()
        if chosen < 0.1:
            self.bench.names.delete(NAME, before, Initiator("w"))
            self.expected.append(("delete", before, before))
            self.live = False
        elif chosen < 0.5:
            target = self.pick.choice(self.targets)
            self.bench.names.assign(NAME, before, target, Initiator("w"))
            self.expected.append(("assign", before, target))
        else:
            self.commit(before, self.pick.randint(1, 3))

    def commit(self, before: ObjId, count: int) -> None:
        proposals = []
        for _ in range(count):
            self.count += 1
            proposals.append(wants(100 + self.count, f"c{self.count}"))
        for settled in Publisher(self.bench.context, NAME).publish(proposals):
            self.expected.append(("commit", before, published(settled).head.obj_id))
            before = published(settled).head.obj_id


@pytest.mark.parametrize("seed", range(12))
def test_it_is_the_list_of_what_happened_in_pages_of_any_size(seed):
    script = Script(seed)
    for _ in range(80):
        script.step()
    for limit in (1, 2, 7, 1_000):
        found = read(script.bench.context, NAME, limit)
        assert [shown(one) for one in found] == script.expected[::-1]
        assert len({(one.incarnation, one.version) for one in found if one.version}) == sum(
            kind != "commit" for kind, _, _ in script.expected
        )


def test_a_page_goes_on_where_it_was_though_the_name_moved_and_died():
    script = Script(3)
    script.step()
    for number in range(40):
        target = script.targets[number % len(script.targets)]
        script.expected.append(("assign", script.pointer(), target))
        script.bench.names.assign(NAME, script.pointer(), target, Initiator("w"))
    expected = script.expected[::-1]
    log = RefLog(script.bench.context)
    first = log.page(NAME, 5)
    for number in range(20):
        target = script.targets[number % len(script.targets)]
        script.bench.names.assign(NAME, script.pointer(), target, Initiator("later"))
    script.bench.names.delete(NAME, script.pointer(), Initiator("later"))
    rest, token = [], first.token
    while token is not None:
        page = log.page(NAME, 6, token)
        rest, token = [*rest, *page.items], page.token
    assert [shown(one) for one in (*first.items, *rest)] == expected


def test_it_says_what_commits_say_of_themselves():
    bench = Bench()
    provenance = Provenance("merge", "side", "ab" * 32, Initiator("somebody", ("a", "b")), "id")
    assert read_provenance(provenance.headers()) == provenance
    bench.publisher.publish([wants(1)])
    made = plan([put(table(2), element(2))], "m")
    bench.publisher.publish([Wants(type(made)(made.operations, "m", hidden=provenance.headers()))])
    entry = read(bench.context, RefName("main"))[0]
    assert (entry.kind, entry.source, entry.base) == ("merge", "side", "ab" * 32)
    assert (entry.who, entry.roles, entry.operation) == ("somebody", ("a", "b"), "id")
    assert entry.when_us == bench.clock.now_us()


def test_nothing_is_known_of_a_name_that_never_was():
    bench = Bench()
    with pytest.raises(NotFound):
        RefLog(bench.context).page(NAME, 10)
    with pytest.raises(Invalid):
        RefLog(bench.context).page(NAME, 0)


def test_a_token_fits_its_own_name_only():
    bench = Bench()
    bench.commit(wants(1), wants(2))
    token = RefLog(bench.context).page(RefName("main"), 1).token
    assert token is not None
    bench.names.create_many([branch("other")], UNNAMED)
    with pytest.raises(Invalid):
        RefLog(bench.context).page(RefName("other"), 1, token)


def log_is_complete(world, history):
    """Everything acknowledged is in the log of its name."""
    context = fresh(world)
    recovered(world)
    for event in history.acknowledged("create", "delete", "assign"):
        rows = event.result if isinstance(event.result, list) else [event.result]
        for row in rows:
            known = {one.operation for one in read(context, RefName(row.name), 3)}
            assert row.operation.hex() in known, f"{event.operation} is missing from the ref-log"
    made = {one.operation for one in read(context, MAIN, 3)}
    for event in history.acknowledged("commit"):
        assert event.arguments[1][0].operation in made, "a commit is missing from the ref-log"


def many_assigns(server):
    """More than a row holds, so that some have to leave it."""
    for _ in range(5):
        assigns(MAIN)(server)


ACTS = {
    "incarnations": in_turn(creates(NAMES[2]), deletes(NAMES[2]), creates(NAMES[2])),
    "assign and commit": in_turn(commits("a", 1), assigns(MAIN), commits("b", 1)),
    "many moves": many_assigns,
}


@pytest.mark.parametrize("name", ACTS)
def test_no_acknowledged_move_is_missing_wherever_the_server_died(name, monkeypatch):
    # A row holds few moves, so that a few of them show what many would.
    monkeypatch.setattr(moves, "MOVES_MAX", 3)
    monkeypatch.setattr(references, "MOVES_MAX", 3)
    report = crash_sweep(
        scenario(
            name,
            {"s1": [ACTS[name]]},
            faults=NO_FAULTS,
            checks={**CHECKS, "ref-log": log_is_complete},
        ),
        {"create": creates(NAMES[2]), "assign": assigns(MAIN), "commit": commits("after", 1)},
    )
    print(report.line())
    assert report.reached > 50


def test_a_move_that_is_not_copied_before_it_leaves_the_row_is_missed(monkeypatch):
    """The sweep above can fail."""
    monkeypatch.setattr(moves.MoveLog, "copy", lambda *_: None)
    with pytest.raises(Violation):
        test_no_acknowledged_move_is_missing_wherever_the_server_died("many moves", monkeypatch)
