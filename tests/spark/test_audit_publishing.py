"""Publishing without Spark: what was judged is what gets published, and nothing else can be."""

from __future__ import annotations

import time

import httpx
import pytest

from lochan import Client
from lochan.base.errors import (
    AuditFailed,
    Conflict,
    KeysConflict,
    LochanError,
    Unknown,
)
from lochan.base.limits.audits import AUDIT_ATTEMPTS_MAX
from lochan.model.commits import CommitMeta, Put
from lochan.model.contents import IcebergTable, with_id
from lochan.spark.audit.publisher import PUBLISH_MODES, Publisher, PublishPlan
from lochan.spark.audit.verdicts import Ledger, Result, Verdict, build_verdict
from lochan.spark.checks import NotNull, Unchecked, declare
from tests.client.serving import serving

CHECK = NotNull("orders", ("id",))
DECLARED = declare([CHECK])


def table(version: int) -> IcebergTable:
    return IcebergTable(
        metadata_location=f"s3://lake/{version}",
        snapshot_id=version,
        schema_id=0,
        spec_id=0,
        sort_order_id=0,
    )


def result(commit: str, status="passed", check=CHECK) -> Result:
    return Result(
        check=check.label(),
        kind=check.kind,
        tables=check.tables(),
        status=status,
        commit=commit,
    )


def passing(candidate) -> Verdict:
    return build_verdict(candidate.commit, candidate.target, DECLARED, [result(candidate.commit)])


class World:
    """A target with one table, an audit's branch, and everything that may happen beside."""

    def __init__(self, client: Client, mode: str) -> None:
        self.client = client
        self.put("main", "orders", 1)
        base = client.references.create("audit", "main").hash
        self.ledger = Ledger(DECLARED, base)
        expires = time.time_ns() // 1_000 + 3_600_000_000
        meta = CommitMeta(message="the whole run", properties=(("lochan.job", ("daily",)),))
        self.place = PublishPlan("audit", "main", mode, expires, meta)  # type: ignore[arg-type]
        self.publisher = Publisher(client, self.ledger, self.place)

    def put(self, branch: str, name: str, version: int, client: Client | None = None) -> str:
        client = client or self.client
        found, _ = client.contents.get_many(branch, [(name,)])
        content = with_id(table(version), found[0][1].id or "") if found else table(version)
        put = Put(key=(name,), content=content)
        return client.commits.commit(branch, f"{name} {version}", [put]).hash

    def write(self, name: str = "orders", version: int = 2) -> str:
        before = self.ledger.head
        self.ledger.wrote(before, self.put("audit", name, version))
        return self.ledger.head

    def head(self, name: str = "main") -> str:
        return self.client.references.get(name).hash

    def location(self, name: str, spec: str = "main") -> str:
        content, _ = self.client.contents.get(spec, (name,))
        assert isinstance(content, IcebergTable)
        return content.metadata_location


@pytest.fixture(params=PUBLISH_MODES)
def world(request):
    with serving("memory:") as url, Client(url) as client:
        yield World(client, request.param)


def test_a_candidate_that_passed_becomes_the_head_of_its_target(world):
    head = world.write()
    done = world.publisher.publish(passing)
    assert done.is_new
    assert world.head() == done.commit
    assert world.location("orders") == "s3://lake/2"
    if world.place.mode == "fast-forward":
        assert done.commit == head
    assert world.publisher.tidy() == ""
    assert [one.name for one in world.client.references.iterate()] == ["main"]


def test_a_merge_is_one_commit_that_says_which_job_made_it(world):
    world.write("orders", 2)
    world.write("lines", 1)
    world.publisher.publish(passing)
    messages = [one.meta.message for one in world.client.history.iterate("main")]
    if world.place.mode == "merge":
        assert messages == ["the whole run", "orders 1"]
        (top,) = world.client.history.log("main", 1).items
        assert ("lochan.job", ("daily",)) in top.meta.properties
    else:
        assert messages == ["lines 1", "orders 2", "orders 1"]


def test_when_the_target_moves_before_the_checks_they_see_both_changes(world):
    world.write()
    theirs = world.put("main", "customers", 1)
    seen = []

    def judge(candidate):
        assert candidate.target == theirs
        seen.append({one.key[0] for one in world.client.contents.iterate(candidate.commit)})
        return passing(candidate)

    done = world.publisher.publish(judge)
    assert seen == [{"customers", "orders"}]
    assert (world.location("orders"), world.location("customers")) == ("s3://lake/2", "s3://lake/1")
    assert world.head() == done.commit


def test_when_the_target_moves_between_check_and_publish_everything_is_checked_again(world):
    world.write()
    judged = []

    def judge(candidate):
        judged.append(candidate)
        if len(judged) == 1:
            world.put("main", "customers", 1)
        return passing(candidate)

    done = world.publisher.publish(judge)
    assert (done.commit, len(judged)) == (world.head(), 2)
    assert judged[0].commit != judged[1].commit == world.head()


def test_a_target_that_never_rests_is_a_conflict_after_so_many_attempts(world):
    world.write()
    judged = []

    def judge(candidate):
        judged.append(candidate)
        world.put("main", "customers", len(judged))
        return passing(candidate)

    with pytest.raises(Conflict, match="has moved"):
        world.publisher.publish(judge)
    assert len(judged) == AUDIT_ATTEMPTS_MAX
    assert world.location("orders") == "s3://lake/1"


def test_a_target_that_changed_the_same_table_is_a_conflict_and_keeps_its_own(world):
    world.write()
    theirs = world.put("main", "orders", 7)
    with pytest.raises(KeysConflict, match="run the job again"):
        world.publisher.publish(passing)
    assert world.head() == theirs
    assert world.location("orders", "audit") == "s3://lake/2"


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_target_that_was_moved_back_does_not_get_back_what_was_taken_away(elsewhere):
    with serving("memory:") as url, Client(url) as client:
        for mode in PUBLISH_MODES:
            client.references.assign("main", client.config().empty_hash)
            first = World(client, mode)
            good = first.head()
            bad = first.put("main", "poison", 1)
            client.references.delete("audit")
            client.references.create("audit", "main")
            ledger = Ledger(DECLARED, bad)
            ledger.wrote(bad, first.put("audit", "orders", 2))
            client.references.assign("main", f"main@{good}")
            if elsewhere:
                first.put("main", "customers", 1)
            with pytest.raises(Conflict, match="no longer has the commit"):
                Publisher(client, ledger, first.place).publish(passing)
            assert {one.key[0] for one in client.contents.iterate("main")} <= {
                "orders",
                "customers",
            }
            for one in list(client.references.iterate(prefix="audit")):
                client.references.delete(one.name or "")


def test_a_failed_check_publishes_nothing(world):
    world.write()
    before = world.head()

    def judge(candidate):
        results = [result(candidate.commit, "failed")]
        return build_verdict(candidate.commit, candidate.target, DECLARED, results)

    with pytest.raises(AuditFailed, match="1 of 1 checks did not pass"):
        world.publisher.publish(judge)
    assert world.head() == before


@pytest.mark.parametrize("status", ["failed", "error", "missing"])
def test_a_forged_verdict_is_refused(world, status):
    world.write()
    before = world.head()
    for forged in (
        lambda one: Verdict(one.commit, one.target, (result(one.commit, status),)),
        lambda one: Verdict(one.commit, one.target, ()),
        lambda one: Verdict(one.commit, one.target, (result(one.target),)),
        lambda one: Verdict(one.commit, before, (result(one.commit),) * 2),
        lambda one: Verdict(before, one.target, (result(before),)),
        lambda one: Verdict(one.commit, one.commit, (result(one.commit),)),
        lambda one: Verdict(
            one.commit, one.target, (result(one.commit, check=NotNull("x", ("y",))),)
        ),
    ):
        with pytest.raises(AuditFailed):
            world.publisher.publish(forged)
        assert world.head() == before


def test_a_commit_cannot_be_swung_to_without_a_verdict(world):
    world.write()
    before = world.head()
    candidate = world.publisher.candidate()
    with pytest.raises(AuditFailed, match="nothing was checked"):
        world.publisher.move_target(candidate)
    assert world.head() == before


def test_a_write_after_the_checks_takes_the_verdict_away(world):
    world.write()
    before = world.head()
    candidate = world.publisher.candidate()
    world.ledger.judged(passing(candidate), candidate.head)
    world.write("orders", 3)
    with pytest.raises(AuditFailed, match="nothing was checked since the last write"):
        world.publisher.move_target(candidate)
    assert world.head() == before


def test_what_somebody_else_puts_on_the_branch_before_the_checks_is_refused(world):
    world.write()
    before = world.head()
    world.put("audit", "orders", 66)
    with pytest.raises(AuditFailed, match="changed from outside"):
        world.publisher.publish(passing)
    assert world.head() == before


def test_what_somebody_else_puts_on_the_branch_after_the_checks_is_refused(world):
    world.write()
    before = world.head()

    def judge(candidate):
        world.put("audit", "orders", 66)
        return passing(candidate)

    with pytest.raises(AuditFailed, match="changed from outside"):
        world.publisher.publish(judge)
    assert world.head() == before


def test_what_somebody_else_slips_under_a_write_of_ours_is_refused(world):
    world.write()
    foreign = world.put("audit", "orders", 66)
    ours = world.put("audit", "orders", 67)
    with pytest.raises(AuditFailed, match="changed from outside"):
        world.ledger.wrote(foreign, ours)


def test_an_audit_that_is_over_can_neither_write_nor_publish(world):
    head = world.write()
    world.ledger.close()
    with pytest.raises(AuditFailed, match="over"):
        world.publisher.publish(passing)
    with pytest.raises(AuditFailed, match="over"):
        world.ledger.wrote(head, head)
    with pytest.raises(AuditFailed, match="over"):
        world.ledger.check_table("orders")


def test_nothing_written_is_judged_all_the_same_and_publishes_nothing(world):
    judged = []

    def judge(candidate):
        judged.append(candidate)
        return passing(candidate)

    done = world.publisher.publish(judge)
    assert (done.is_new, len(judged)) == (False, 1)
    assert world.publisher.publish(judge, is_repeated=True).is_new is False
    assert len(judged) == 1


def test_what_somebody_else_put_on_the_branch_is_not_even_checked(world):
    world.write()
    world.put("audit", "orders", 66)
    judged = []
    with pytest.raises(AuditFailed, match="changed from outside"):
        world.publisher.publish(judged.append)
    assert judged == []


def test_a_verdict_that_does_not_hold_is_never_kept(world):
    head = world.write()
    for forged in (
        Verdict(head, world.ledger.base, ()),
        Verdict(head, world.ledger.base, (result(head, "failed"),)),
    ):
        with pytest.raises(AuditFailed):
            world.ledger.judged(forged, head)
        assert world.ledger.verdict is None


def test_without_any_check_a_verdict_is_still_about_one_commit():
    waived = declare([Unchecked("orders", why="for this test")])
    ledger = Ledger(waived, "a" * 64)
    ledger.judged(build_verdict("b" * 64, "a" * 64, waived, []), "a" * 64)
    assert ledger.permit("b" * 64, "a" * 64).commit == "b" * 64
    for commit, target in (("c" * 64, "a" * 64), ("b" * 64, "c" * 64)):
        with pytest.raises(AuditFailed):
            ledger.permit(commit, target)


def test_a_target_that_is_moved_back_after_the_checks_stays_back(world):
    world.write()
    empty = world.client.config().empty_hash

    def judge(candidate):
        world.client.references.assign("main", empty)
        return passing(candidate)

    with pytest.raises(LochanError):
        world.publisher.publish(judge)
    assert world.head() == empty


def test_a_write_while_the_checks_run_is_never_left_out_and_deleted(world):
    world.write("orders", 2)
    before = world.head()

    def judge(candidate):
        world.write("orders", 3)
        return passing(candidate)

    with pytest.raises(AuditFailed, match="while the checks ran"):
        world.publisher.publish(judge)
    assert world.head() == before
    assert world.location("orders", "audit") == "s3://lake/3"


def test_after_the_block_nothing_is_taken_note_of(world):
    head = world.write()
    world.ledger.seal()
    for act in (
        lambda: world.ledger.wrote(head, head),
        lambda: world.ledger.adopted(head),
        lambda: world.ledger.check_table("orders"),
    ):
        with pytest.raises(AuditFailed, match="has ended"):
            act()
    assert world.publisher.publish(passing).is_new


def test_a_write_after_an_early_look_is_part_of_what_is_published(world):
    world.write("orders", 2)
    candidate = world.publisher.candidate()
    world.ledger.judged(passing(candidate), candidate.head)
    world.write("orders", 3)
    world.publisher.publish(passing)
    assert world.location("orders") == "s3://lake/3"


class Meddles(httpx.BaseTransport):
    """A transport that adds a commit to the target right before a fast-forward."""

    def __init__(self, meddle) -> None:
        self._through = httpx.HTTPTransport()
        self._meddle = meddle

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("fast-forward"):
            self._meddle()
        return self._through.handle_request(request)

    def close(self) -> None:
        self._through.close()


def test_what_comes_at_the_very_last_moment_is_not_published(world):
    world.write()
    made = []

    def judge(candidate):
        made.append(candidate.branch)
        return passing(candidate)

    wire = Meddles(lambda: world.put(made[0], "orders", 66))
    with Client(world.client.url, transport=wire) as client:
        done = Publisher(client, world.ledger, world.place).publish(judge)
    (branch,) = made
    assert world.location("orders", branch) == "s3://lake/66"
    assert world.location("orders") == "s3://lake/2"
    assert world.head() == done.commit


class Cuts(httpx.BaseTransport):
    """A wire that loses every reply to a fast-forward, before or after the server has got it."""

    def __init__(self, *, before: bool) -> None:
        self._through = httpx.HTTPTransport()
        self._before = before

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if not request.url.path.endswith("fast-forward"):
            return self._through.handle_request(request)
        if not self._before:
            self._through.handle_request(request).close()
        raise httpx.ReadError("cut", request=request)

    def close(self) -> None:
        self._through.close()


@pytest.mark.parametrize("before", [False, True])
def test_a_lost_reply_to_the_swing_is_looked_up_and_never_guessed(world, before):
    world.write()
    wire = Cuts(before=before)
    with Client(world.client.url, transport=wire, attempts_max=1) as client:
        publisher = Publisher(client, world.ledger, world.place)
        if before:
            with pytest.raises(Unknown):
                publisher.publish(passing)
            assert world.location("orders") == "s3://lake/1"
        else:
            done = publisher.publish(passing)
            assert world.head() == done.commit
