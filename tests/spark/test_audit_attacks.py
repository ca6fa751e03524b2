"""An attacker who tries to get a state that was not checked into the history of a target.

Whatever the attacker does in a block, beside it and in its checks, every commit that is new on the
target's line of first parents, and so in its log and its change feed, must keep the declared
checks. The first attacker chooses at random and needs no Spark: a table is a number there, and bad
numbers are those from 1,000 on. The second one has a script and real tables.
"""

from __future__ import annotations

from itertools import count
from random import Random
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from lochan import Client
from lochan.base.errors import AlreadyExists, AuditFailed, Conflict, LochanError, NotFound, Unknown
from lochan.base.limits.audits import AUDIT_COMMITS_MAX
from lochan.model.commits import CommitMeta, Delete, Put
from lochan.model.contents import IcebergTable, with_id
from lochan.spark.audit.audit import Audit
from lochan.spark.audit.publisher import PUBLISH_MODES, Publisher
from lochan.spark.checks import Custom, InRange, Query, RowCount, Unchecked, Unique
from lochan.spark.write.table_write import JOB, Written
from tests.client.serving import serving
from tests.profile import counted
from tests.spark.test_audit import refused
from tests.spark.test_audit_publishing import table

BAD = 1_000
ORDERS = ("orders",)
EVIL = ("evil",)


class Cuts(httpx.BaseTransport):
    """A wire that loses some replies to the request that moves the target, done or not."""

    def __init__(self, chance: Random) -> None:
        self._through = httpx.HTTPTransport()
        self._chance = chance

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if not request.url.path.endswith("fast-forward") or self._chance.random() < 0.4:
            return self._through.handle_request(request)
        if self._chance.random() < 0.6:
            self._through.handle_request(request).close()
        raise httpx.ReadError("cut", request=request)

    def close(self) -> None:
        self._through.close()


class Version(DataFrame):
    """What is a frame for an audit, and a number for its lake."""

    def __new__(cls, number: int) -> Version:
        return object.__new__(cls)

    def __init__(self, number: int) -> None:
        self.number = number


class Attacker:
    """One repository with a target of its own, and everything that may be tried on it."""

    names = count()

    def __init__(self, client: Client, seed: int) -> None:
        self.chance = Random(seed)
        self.client = client
        self.target = f"main-{next(self.names)}"
        self.versions = count(1)
        client.references.create(self.target, client.config().empty_hash)
        if self.chance.random() < 0.8:
            self.put(self.target, self.good())
        self.begin = self.head(self.target)
        self.block: Audit | None = None
        self.refused = 0

    def good(self) -> int:
        return next(self.versions)

    def bad(self) -> int:
        return BAD + next(self.versions)

    def head(self, name: str) -> str:
        return self.client.references.get(name).hash

    def put(self, branch: str, version: int, key: Any = ORDERS, job: str = "") -> str:
        found, _ = self.client.contents.get_many(branch, [key])
        content = with_id(table(version), found[0][1].id or "") if found else table(version)
        properties = ((JOB, (job,)),) if job else ()
        meta = CommitMeta(message=f"{key[0]} {version}", properties=properties)
        return self.client.commits.commit(branch, meta, [Put(key=key, content=content)]).hash

    # What the lake of this audit does.

    def write(
        self, frame: Version, name: str, branch: str, mode: str, job: str, **_: Any
    ) -> Written:
        for entry in self.client.history.iterate(branch):
            if (JOB, (job,)) in entry.meta.properties:
                done = entry.meta.hash or ""
                return Written(name, done, 1, 1, 1, 1, was_done_before=True)
        return Written(name, self.put(branch, frame.number, job=job), 1, 1, 1, 1)

    def version_at(self, commit: str) -> int | None:
        found, _ = self.client.contents.get_many(commit, [ORDERS])
        if not found:
            return None
        assert isinstance(found[0][1], IcebergTable)
        return int(found[0][1].snapshot_id)

    def look(self, frame: tuple[str, str]) -> bool:
        """The check; sometimes it does what no check should."""
        _, commit = frame
        if self.chance.random() < 0.25:
            self.attempt(self.chance.choice([self.move_target, self.slip_in, self.adopt]))
        version = self.version_at(commit)
        return version is not None and version < BAD

    # What is tried.

    def attempt(self, act: Any) -> None:
        try:
            act()
        except (AuditFailed, Conflict, NotFound, AlreadyExists, Unknown):
            self.refused += 1

    @property
    def audit(self) -> Audit:
        assert self.block is not None
        return self.block

    def adopt(self) -> None:
        self.audit.adopt()

    def move_target(self) -> None:
        self.put(self.target, self.good(), ("customers",))

    def write_good(self) -> None:
        self.audit.write(Version(self.good()), "orders")

    def write_bad_and_repair(self) -> None:
        self.audit.write(Version(self.bad()), "orders")
        self.audit.write(Version(self.good()), "orders")

    def slip_in(self) -> None:
        branch = self.chance.choice(
            [one.name or "" for one in self.client.references.iterate(prefix=self.audit.branch)]
        )
        self.put(branch, self.bad())
        if self.chance.random() < 0.7:
            self.put(branch, self.good())

    def adopt_a_repaired_one(self) -> None:
        self.slip_in()
        self.put(self.audit.branch, self.good())
        self.adopt()

    def adopt_what_nobody_declared(self) -> None:
        self.put(self.audit.branch, 1, EVIL)
        self.client.commits.commit(self.audit.branch, "away", [Delete(key=EVIL)])
        self.adopt()

    def look_early(self) -> None:
        self.audit.check()

    def publish_the_last_only(self) -> None:
        """Has the last commit checked, and asks the publisher itself to move the target."""
        self.audit.check()
        publisher = self.audit._inside()
        publisher.move_target(publisher.candidate())

    def adopt_another_line(self) -> None:
        """Puts the target behind the second parent of a line of its own."""
        references, side = self.client.references, f"side-{next(self.names)}"
        references.create(side, self.client.config().empty_hash)
        self.put(side, self.bad(), ("elsewhere",))
        self.put(side, self.good(), ("elsewhere",))
        self.client.merges.merge(side, self.target)
        references.assign(self.audit.branch, side)
        self.adopt()

    def begin_the_branch_again(self) -> None:
        references, branch = self.client.references, self.audit.branch
        tag = f"tag-{next(self.names)}"
        references.create(tag, branch, kind="TAG")
        references.delete(branch)
        references.create(branch, self.chance.choice([tag, self.target]))
        if self.chance.random() < 0.5:
            self.put(branch, self.bad())
        self.put(branch, self.good())
        self.adopt()

    def run(self, mode: Any, job: str | None) -> None:
        checks = [Custom("orders", self.look, name="good"), Unchecked("customers", why="theirs")]
        wire = Cuts(self.chance) if self.chance.random() < 0.3 else None
        with Client(self.client.url, transport=wire, attempts_max=1) as client:
            lake: Any = SimpleNamespace(
                client=client,
                write=self.write,
                read=lambda name, ref: (name, ref),
                author="eve",
                application={},
            )
            self.block = Audit(lake, self.target, checks=checks, publish=mode, job=job)
            tricks = [
                self.write_good,
                self.write_bad_and_repair,
                self.adopt_a_repaired_one,
                self.adopt_what_nobody_declared,
                self.look_early,
                self.publish_the_last_only,
                self.adopt_another_line,
                self.begin_the_branch_again,
                self.move_target,
                self.slip_in,
            ]
            with self.block:
                for trick in self.chance.choices(tricks, k=self.chance.randint(1, 4)):
                    self.attempt(trick)

    def unchecked(self) -> list[str]:
        """Returns what is in the target's history and keeps no check."""
        found = []
        for entry in self.client.history.iterate(self.target, fetch_all=True):
            commit = entry.meta.hash or ""
            if commit == self.begin:
                break
            keys = {one.key for one in self.client.contents.iterate(commit)}
            version = self.version_at(commit)
            if (version is not None and version >= BAD) or EVIL in keys or ("elsewhere",) in keys:
                found.append(f"{commit}: {version}, {sorted(keys)}")
            for one in entry.operations or ():
                if isinstance(one, Put) and isinstance(one.content, IcebergTable):
                    if one.content.snapshot_id >= BAD or one.key == EVIL:
                        found.append(f"{commit} puts {one.content.snapshot_id} at {one.key}")
        return found


def attack(client: Client, seed: int, mode: str) -> tuple[Attacker, int]:
    """Runs a job some times; returns the attacker and how often the target got something."""
    attacker = Attacker(client, seed)
    published = 0
    for _ in range(attacker.chance.randint(1, 3)):
        before = attacker.head(attacker.target)
        try:
            attacker.run(mode, attacker.chance.choice([None, "daily"]))
        except LochanError:
            attacker.refused += 1
        published += attacker.audit.report.is_published and attacker.head(attacker.target) != before
    return attacker, published


@pytest.fixture
def client():
    with serving("memory:") as url, Client(url) as made:
        yield made


@pytest.mark.parametrize("mode", PUBLISH_MODES)
def test_nothing_that_was_not_checked_gets_into_the_history_of_a_target(client, mode):
    published = refused = 0
    for seed in range(counted(40, 1_500)):
        attacker, times = attack(client, seed, mode)
        assert attacker.unchecked() == [], f"seed {seed}"
        published += times
        refused += attacker.refused
    # Neither is everything refused, nor was everything harmless.
    assert published > 5
    assert refused > 40


def test_the_attacker_gets_in_where_only_the_last_commit_is_checked(client, monkeypatch):
    """The canary: publishing as it was when fast-forwards kept states that were never checked."""
    monkeypatch.setattr(Publisher, "_line", lambda publisher, candidate: [candidate])
    seeds = range(60)
    assert any(attack(client, seed, "fast-forward")[0].unchecked() for seed in seeds)
    # One commit of the whole run is safe even then.
    assert not any(attack(client, seed, "merge")[0].unchecked() for seed in seeds[:15])


def test_a_run_of_more_commits_than_are_checked_one_by_one_is_refused(client):
    attacker = Attacker(client, 1)
    lake: Any = SimpleNamespace(
        client=client, read=lambda name, ref: (name, ref), author="eve", application={}
    )
    checks = Custom("orders", lambda frame: True, name="always")
    audit = Audit(lake, attacker.target, checks=checks, publish="fast-forward")

    def act(audit: Audit) -> None:
        for _ in range(AUDIT_COMMITS_MAX + 1):
            attacker.put(audit.branch, attacker.good())
        audit.adopt()

    refused(audit, act, rf"more than {AUDIT_COMMITS_MAX} commits.*merge")
    assert attacker.head(attacker.target) == attacker.begin


# With real tables.

SHOP = "shop.orders"
STATES = (
    Unique(SHOP, ["id"]),
    Query(f"SELECT * FROM {{{SHOP}}} WHERE net < 0", name="no negative price"),
    Unchecked("shop.customers", why="theirs"),
)


def priced(spark, low: float, ids: int = 5):
    return spark.range(ids).select("id", (F.lit(low) + F.col("id")).alias("net"))


def bad_then_good(spark, lake, audit):
    audit.write(priced(spark, -3.0), SHOP)
    audit.write(priced(spark, 1.0), SHOP, mode="overwrite")


def twice_then_once(spark, lake, audit):
    for _ in range(2):
        audit.write(priced(spark, 1.0), SHOP)
    audit.write(priced(spark, 1.0), SHOP, mode="overwrite")


def bad_then_good_while_the_target_moves(spark, lake, audit):
    bad_then_good(spark, lake, audit)
    lake.write(priced(spark, 1.0), "shop.customers", branch="main")


def adopted_bad_then_good(spark, lake, audit):
    bad_then_good(spark, lake, audit)
    lake.write(priced(spark, -1.0), SHOP, branch=audit.branch, mode="overwrite")
    with pytest.raises(AuditFailed):
        audit.check()
    lake.write(priced(spark, 2.0), SHOP, branch=audit.branch, mode="overwrite")
    audit.adopt()


TRICKS = (
    bad_then_good_while_the_target_moves,
    adopted_bad_then_good,
    bad_then_good,
    twice_then_once,
)


def states(lake, since: str) -> list[str]:
    """Returns what is wrong at a commit of the target since another, by its rows."""
    found = []
    for entry in lake.client.history.iterate("main", limit_hash=since):
        commit = entry.meta.hash or ""
        if commit == since or not lake.client.contents.get_many(commit, [("shop", "orders")])[0]:
            continue
        rows = lake.catalog.at(commit).load_table(SHOP).scan().to_arrow()
        ids, net = rows["id"].to_pylist(), rows["net"].to_pylist()
        if len(set(ids)) < len(ids) or min(net) < 0:
            found.append(commit)
    return found


@pytest.mark.parametrize("mode", PUBLISH_MODES)
def test_every_commit_that_a_target_gets_keeps_the_checks_by_its_rows(spark, lake, mode):
    lake.write(priced(spark, 1.0), SHOP, branch="main")
    begin = lake.client.references.get("main").hash
    for trick in TRICKS[: counted(1, 4)]:
        before = lake.client.references.get("main").hash
        audit = lake.audited("main", checks=STATES, publish=mode, job=trick.__name__)
        message = "-"
        try:
            with audit:
                trick(spark, lake, audit)
        except AuditFailed as refusal:
            message = refusal.message
        assert audit.report.is_published == (mode == "merge"), (trick.__name__, message)
        if mode == "fast-forward":
            assert 'publish="merge" publishes the result' in message
            assert "no negative price" in message or "unique" in message
        else:
            assert lake.client.references.get("main").hash != before
        assert states(lake, begin) == []
    seen = {row["commit"] for row in lake.changes("main", since=begin).collect()}
    logged = {one.meta.hash for one in lake.client.history.iterate("main", limit_hash=begin)}
    assert seen <= logged


def test_a_run_whose_commits_all_pass_is_published_commit_by_commit(spark, lake):
    frame = priced(spark, 1.0)
    with lake.audited("main", checks=STATES, publish="fast-forward") as audit:
        audit.write(frame, SHOP)
        lake.write(frame, "shop.customers", branch="main")
        audit.write(frame.select((F.col("id") + 10).alias("id"), "net"), SHOP)
    assert audit.report.outcome == "published"
    assert audit.report.attempts == 1
    checked = [one.detail for one in audit.report.steps if one.name == "check"]
    assert checked == ["2 checks, commit 1 of 2", "2 checks, commit 2 of 2"]
    messages = [one.meta.message for one in lake.client.history.iterate("main")]
    assert messages == ["append shop.orders"] * 2 + ["append shop.customers"]
    assert lake.read(SHOP).count() == 10


def test_a_second_write_is_watched_at_its_own_commit(spark, lake):
    """What was seen of each write speaks for the commit of that write, not for the last alone."""
    checks = [InRange(SHOP, "net", min=0), RowCount(SHOP, min=5)]
    with lake.audited("main", checks=checks, publish="fast-forward") as audit:
        for start in (0, 10):
            audit.write(priced(spark, 1.0).select((F.col("id") + start).alias("id"), "net"), SHOP)
    assert [one.how for one in audit.report.checks] == ["observed", "observed"]
    assert audit.report.outcome == "published"
    low = lake.audited(
        "main", checks=[RowCount(SHOP, min=10)], publish="fast-forward", job="too few at first"
    )

    def act(audit: Audit) -> None:
        for start in (20, 30):
            audit.write(priced(spark, 1.0).select((F.col("id") + start).alias("id"), "net"), SHOP)

    refused(low, act, r"commit 1 of 2 .*5 rows, expected at least 10")
    assert lake.read(SHOP).count() == 10
