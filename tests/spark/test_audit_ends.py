"""How audits end, without Spark: the report and the error agree with the state of the target.

What is published here was put on the audit's branch by the client and adopted.
"""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from lochan import Client
from lochan.base.errors import (
    AuditFailed,
    Conflict,
    Invalid,
    LochanError,
    NotABranch,
    ReferenceNotFound,
    TooLarge,
    Unknown,
)
from lochan.base.limits.audits import AUDIT_JOB_CHARACTERS_MAX
from lochan.model.commits import Put
from lochan.spark.audit.audit import Audit
from lochan.spark.audit.publisher import PUBLISH_MODES
from lochan.spark.audit.report_files import ReportFiles
from lochan.spark.audit.run_record import RunRecord
from lochan.spark.checks import Unchecked
from tests.client.serving import serving
from tests.spark.test_audit import nothing, refused
from tests.spark.test_audit_publishing import table
from tests.spark.test_report import HOSTILE, sample

ORDERS = Unchecked("orders", why="for this test")


class World:
    """A repository with one table, and audits of it that need no Spark."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.put("main", "customers")

    def put(self, branch: str, name: str = "orders") -> str:
        put = Put(key=(name,), content=table(1))
        return self.client.commits.commit(branch, name, [put]).hash

    def audit(self, target: str = "main", client: Client | None = None, **more: Any) -> Audit:
        lake: Any = SimpleNamespace(
            client=client or self.client, author="ada", application={"application-type": "tests"}
        )
        return Audit(lake, target, **({"checks": ORDERS} | more))

    def head(self, name: str = "main") -> str:
        return self.client.references.get(name).hash

    def branches(self) -> list[str]:
        return sorted(one.name or "" for one in self.client.references.iterate())


@pytest.fixture
def world():
    with serving("memory:") as url, Client(url) as client:
        yield World(client)


def fill(world: World, audit: Audit) -> None:
    world.put(audit.branch)
    audit.adopt()


def block_path(path) -> None:
    """Puts a directory where a report should go."""
    path.unlink()
    path.mkdir()


def outcome(path) -> str:
    return str(json.loads(path.read_text("utf-8"))["outcome"])


def test_a_report_that_cannot_be_written_after_publishing_says_that_it_is_published(
    world, tmp_path
):
    lost, kept = tmp_path / "lost.json", tmp_path / "kept.json"
    audit = world.audit(report=[lost, kept])

    def act(audit: Audit) -> None:
        fill(world, audit)
        block_path(lost)

    refused(audit, act, r"'main' is published.*lost\.json", Invalid)
    assert world.head() == audit.report.commits.published
    assert outcome(kept) == "published"
    assert world.branches() == ["main"]


def test_a_report_that_cannot_be_written_does_not_hide_why_the_block_failed(world, tmp_path):
    lost, kept = tmp_path / "lost.json", tmp_path / "kept.json"
    audit = world.audit(report=[lost, kept])
    failure = ZeroDivisionError("theirs")

    def act(audit: Audit) -> None:
        block_path(lost)
        raise failure

    refused(audit, act, "theirs", ZeroDivisionError)
    assert "lost.json" in failure.__notes__[0]
    assert outcome(kept) == "failed"


def test_a_report_that_cannot_be_written_is_refused_before_anything_is_made(world, tmp_path):
    lost, kept = tmp_path / "lost.json", tmp_path / "kept.json"
    lost.mkdir()
    refused(world.audit(report=[kept, lost]), nothing, r"lost\.json", Invalid)
    assert outcome(kept) == "failed"
    assert world.branches() == ["main"]


def test_a_report_that_cannot_be_written_does_not_hide_why_the_checks_failed(world, tmp_path):
    lost = tmp_path / "lost.json"
    audit = world.audit(checks=(), report=lost)

    def act(audit: Audit) -> None:
        fill(world, audit)
        block_path(lost)

    refused(audit, act, "has no check")
    assert audit.report.outcome == "refused"


class Looks(httpx.BaseTransport):
    """A transport that calls a function before every deletion of a branch."""

    def __init__(self, look) -> None:
        self._through = httpx.HTTPTransport()
        self._look = look

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if request.method == "DELETE":
            self._look()
        return self._through.handle_request(request)

    def close(self) -> None:
        self._through.close()


@pytest.mark.parametrize("publish", PUBLISH_MODES)
def test_the_report_says_published_before_anything_else_is_done(world, publish, tmp_path):
    seen = []
    path = tmp_path / "a.json"
    wire = Looks(lambda: seen.append(outcome(path)))
    with (
        Client(world.client.url, transport=wire) as client,
        world.audit(client=client, report=path, publish=publish) as audit,
    ):
        fill(world, audit)
    # A merge has a branch beside that of the audit.
    assert seen == ["published"] * (2 if publish == "merge" else 1)


def test_who_is_interrupted_right_after_the_target_moved_is_not_told_that_nothing_is_published(
    world, monkeypatch
):
    def interrupted(recording: RunRecord, outcome: str) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(RunRecord, "end", interrupted)
    audit = world.audit()
    refused(audit, lambda audit: fill(world, audit), error=KeyboardInterrupt)
    assert world.head() == audit.report.commits.published
    assert audit.report.outcome == "unknown"


@pytest.mark.parametrize("error", [Unknown("a write of theirs"), Conflict("a write of theirs")])
def test_an_error_of_the_block_is_not_told_as_one_of_publishing(world, error):
    audit = world.audit()
    with pytest.raises(type(error)), audit:
        raise error
    assert audit.report.outcome == "failed"


class Cuts(httpx.BaseTransport):
    """A transport that loses the reply to a request, and, if it `stays` cut, all later ones."""

    def __init__(self, path: str, *, stays: bool = False) -> None:
        self._through = httpx.HTTPTransport()
        self._path = path
        self._stays = stays
        self._is_cut = False

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if self._is_cut and self._stays:
            raise httpx.ConnectError("down", request=request)
        if not request.url.path.endswith(self._path):
            return self._through.handle_request(request)
        self._through.handle_request(request).close()
        self._is_cut = True
        raise httpx.ReadError("cut", request=request)

    def close(self) -> None:
        self._through.close()


@pytest.mark.parametrize("publish", PUBLISH_MODES)
def test_a_lost_reply_that_cannot_be_looked_up_stays_unknown(world, publish, tmp_path):
    wire = Cuts("fast-forward", stays=True)
    with Client(world.client.url, transport=wire, attempts_max=1) as client:
        audit = world.audit(client=client, publish=publish, report=tmp_path / "a.json")
        with pytest.raises(Unknown), audit:
            fill(world, audit)
    assert world.head() == audit.report.commits.audited
    assert outcome(tmp_path / "a.json") == "unknown"


def test_a_lost_reply_before_the_target_is_told_to_move_is_no_unknown_publication(world):
    with Client(world.client.url, transport=Cuts("merge"), attempts_max=1) as client:
        audit = world.audit(client=client, publish="merge")
        with pytest.raises(Unknown), audit:
            fill(world, audit)
    assert audit.report.outcome == "failed"


def test_an_audit_that_could_not_begin_is_not_entered_again(world):
    audit = world.audit("nowhere")
    with pytest.raises(ReferenceNotFound):
        audit.__enter__()
    world.client.references.create("nowhere")
    with pytest.raises(AuditFailed, match="used once"):
        audit.__enter__()
    assert audit.report.outcome == "failed"
    assert world.branches() == ["main", "nowhere"]


def test_a_target_that_is_no_branch_is_refused_before_anything_is_made(world):
    world.client.references.create("v1", kind="TAG")
    with pytest.raises(NotABranch, match="v1 is a tag"), world.audit("v1"):
        pass
    assert world.branches() == ["main", "v1"]


def test_where_no_check_ran_no_commit_is_told_as_checked(world):
    audit = world.audit()
    with pytest.raises(ZeroDivisionError), audit:
        raise ZeroDivisionError
    commits = audit.report.commits
    assert (commits.base, commits.audited, commits.target) == (world.head(), "", "")


@pytest.mark.parametrize("publish", PUBLISH_MODES)
def test_what_is_written_while_the_checks_run_on_leaving_is_refused(world, publish):
    """In the block's place of progress, as a second thread or a check of one's own would."""
    refusals: list[AuditFailed] = []

    def meddle(name: str, detail: str) -> None:
        if name == "check":
            world.put(audit.branch, "customers-2")
            try:
                audit.adopt()
            except AuditFailed as refusal:
                refusals.append(refusal)

    more = Unchecked("customers-2", why="for this test")
    audit = world.audit(checks=[ORDERS, more], publish=publish, progress=meddle)
    before = world.head()
    with pytest.raises(AuditFailed, match="changed from outside"), audit:
        fill(world, audit)
    assert "has ended" in refusals[0].message
    assert world.head() == before
    assert audit.branch in world.branches()


@pytest.mark.parametrize("publish", PUBLISH_MODES)
def test_what_is_written_while_an_early_look_runs_takes_its_verdict_away(world, publish):
    def meddle(name: str, detail: str) -> None:
        if name == "check" and not refusals:
            refusals.append(name)
            world.put(audit.branch, "customers-2")
            audit.adopt()

    refusals: list[str] = []
    more = Unchecked("customers-2", why="for this test")
    audit = world.audit(checks=[ORDERS, more], publish=publish, progress=meddle)
    with audit:
        fill(world, audit)
        with pytest.raises(AuditFailed, match="while the checks ran"):
            audit.check()
        assert audit.verdict is None
    found = {one.key[0] for one in world.client.contents.iterate("main")}
    assert found == {"customers", "customers-2", "orders"}


@pytest.mark.parametrize("publish", PUBLISH_MODES)
def test_a_branch_that_somebody_else_moved_meanwhile_is_not_deleted(world, publish):
    def meddle(name: str, detail: str) -> None:
        if name == "tidy":
            world.put(audit.branch, "late")

    audit = world.audit(publish=publish, progress=meddle)
    with audit:
        fill(world, audit)
    assert audit.report.outcome == "published"
    assert "is left until its time" in audit.report.reason
    assert world.branches() == sorted([audit.branch, "main"])


def test_a_branch_with_a_fixed_name_is_published_after_an_earlier_refusal(world):
    for checks in ((), ORDERS):
        audit = world.audit(checks=checks, branch="mine", publish="merge")
        try:
            with audit:
                fill(world, audit)
        except AuditFailed:
            world.client.references.delete("mine")
    assert audit.report.outcome == "published"


@pytest.mark.parametrize(
    ("job", "error"),
    [
        ("d7#2", Invalid),
        ("", Invalid),
        (" d7", Invalid),
        ("d" * (AUDIT_JOB_CHARACTERS_MAX + 1), TooLarge),
    ],
)
def test_a_name_of_a_job_that_no_second_write_could_have_is_refused_at_once(world, job, error):
    with pytest.raises(error, match="job"):
        world.audit(job=job)


def test_an_error_of_the_block_is_told_without_secrets(world, tmp_path):
    path = tmp_path / "a.json"
    with pytest.raises(LochanError), world.audit(report=path):
        raise Unknown("s3://key:geheim@bucket/a?sig=xyz, fs.s3a.secret.key=hunter2")
    text = path.read_text("utf-8")
    assert not any(one in text for one in ("geheim", "xyz", "hunter2"))


@pytest.mark.parametrize("name", ["a.json", "a.html"])
def test_a_run_that_finds_all_done_keeps_the_report_that_says_published(tmp_path, name):
    path = tmp_path / name
    for text in ("main", HOSTILE):
        published = sample(text, outcome="published")
        published.write(path)
        before = path.read_bytes()
        files = ReportFiles([path], target=text, job=text)
        assert files.begin(sample(text, outcome="running")) == ""
        assert files.store(sample(text, outcome="unchanged")) == ""
        assert path.read_bytes() == before
        assert files.store(sample(text, outcome="failed")) == ""
        assert path.read_bytes() != before


@pytest.mark.parametrize("name", ["a.json", "a.html"])
def test_a_report_of_anything_else_is_replaced_from_the_beginning(tmp_path, name):
    path = tmp_path / name
    for other, job in (
        (sample("d7", outcome="refused"), "d7"),
        (sample("d7", outcome="published"), "d8"),
        (sample("", outcome="published"), ""),
    ):
        other.write(path)
        before = path.read_bytes()
        assert ReportFiles([path], target=job, job=job).begin(sample(outcome="running")) == ""
        assert path.read_bytes() != before
    path.write_bytes(b"\xff no report")
    assert ReportFiles([path], target="a", job="b").begin(sample()) == ""
    assert b"refused" in path.read_bytes()


def test_a_text_that_no_file_can_hold_is_written_all_the_same(world, tmp_path):
    path = tmp_path / "a.json"
    with pytest.raises(ValueError, match="name"), world.audit(report=[path]):
        raise ValueError("a name \udcff of old")
    assert outcome(path) == "failed"
