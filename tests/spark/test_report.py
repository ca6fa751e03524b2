"""The report: a stable shape for programs, and a page in which no text becomes markup."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any

import msgspec
import pytest

from lochan.base.errors import AuditFailed, Conflict, Invalid, Unavailable, Unknown
from lochan.base.limits.audits import REPORT_TEXT_CHARACTERS_MAX
from lochan.model.commits import CommitMeta
from lochan.spark.audit.charts import Bar, Span, bars, plain, tally, timeline
from lochan.spark.audit.findings import redacted
from lochan.spark.audit.publisher import PublishPlan
from lochan.spark.audit.report import MEANINGS, Change, Commits, Report, Step, Waiver, WrittenTable
from lochan.spark.audit.run_record import RunRecord
from lochan.spark.audit.verdicts import Result
from lochan.spark.checks import NotNull, Unchecked, declare
from tests.architecture.tree import ROOT

HOSTILE = "</title></style><script>alert(1)</script>\"' onload=x <img src=x>\x1b[31m\x00&amp;"


def sample(text: str = "shop.orders", **more) -> Report:
    result = Result(
        check=f"not_null {text}",
        kind="not_null",
        tables=(text,),
        status="failed",
        commit="c" * 64,
        how="observed",
        observed=f"3 of 9 rows {text}",
        expected=f"a value in {text}",
        detail=text,
        seconds=0.25,
    )
    fields: dict[str, Any] = {
        "outcome": "refused",
        "reason": f"AuditFailed: {text}",
        "job": text,
        "target": text,
        "branch": text,
        "publish": "merge",
        "begun": "2026-10-15T08:00:00.000+00:00",
        "seconds": 2.5,
        "attempts": 1,
        "commits": Commits("a" * 64, "c" * 64, "a" * 64, ""),
        "checks": (result, msgspec.structs.replace(result, status="passed", check="other")),
        "unchecked": (Waiver(text, text),),
        "tables": (WrittenTable(text, "append", 9, 1, 4_096, "c" * 64, False),),
        "steps": (Step("write", text, 0.1, 1.0, "done"), Step("check", "", 1.1, 1.4, "failed")),
        "changes": (Change((text, "x"), "ICEBERG_TABLE", "changed", "snapshot 1", "snapshot 2"),),
        "changes_total": 3,
    }
    return Report(**(fields | more))


class PageText(HTMLParser):
    """Reads a page as a browser does: which elements and attributes there are."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data):
        self.text += data


def test_json_has_the_fields_that_the_docs_list_and_no_other():
    fields = json.loads(sample().to_json())
    text = (ROOT / "docs/spark.md").read_text("utf-8")
    part = text.partition("\n### The report as JSON\n")[2].partition("\n## ")[0]
    listed = re.findall(r"^\| `(\w+)` \|", part, re.MULTILINE)
    assert listed == list(fields)
    assert set(re.findall(r"`(\w+)`:\s", part)) >= set(MEANINGS)
    for name in ("commits", "checks", "unchecked", "tables", "steps", "changes"):
        row = next(line for line in part.splitlines() if line.startswith(f"| `{name}` |"))
        one = fields[name] if isinstance(fields[name], dict) else fields[name][0]
        assert re.findall(r"`(\w+)`", row)[1:] == list(one), name


def test_json_and_back_is_the_same_report():
    report = sample()
    assert msgspec.json.decode(report.to_json(), type=Report) == report


def test_the_page_tells_what_was_checked_written_and_published():
    report = sample()
    seen = PageText(report.to_html())
    for fields in (
        "refused",
        MEANINGS["refused"],
        "not_null shop.orders",
        "3 of 9 rows",
        "a value in shop.orders",
        "declared unchecked",
        "What would have been published",
        "snapshot 2",
        "and 2 more",
        "c" * 64,
    ):
        assert fields in seen.text, fields
    assert seen.tags.count("svg") == 3
    published = PageText(sample(outcome="published", reason="").to_html())
    assert "What was published" in published.text


@pytest.mark.parametrize("outcome", MEANINGS)
def test_every_outcome_has_a_page(outcome):
    empty = sample(outcome=outcome, checks=(), unchecked=(), tables=(), steps=(), changes=())
    assert MEANINGS[outcome] in PageText(empty.to_html()).text


def test_hostile_names_and_values_stay_text():
    tame, wild = PageText(sample().to_html()), PageText(sample(HOSTILE).to_html())
    assert wild.tags == tame.tags
    assert wild.attributes == tame.attributes
    assert "<script>alert(1)</script>" in wild.text
    assert not re.search(r"[\x00-\x08\x0b-\x1f]", sample(HOSTILE).to_html())


def test_the_page_loads_and_runs_nothing_and_knows_light_and_dark():
    page = sample().to_html()
    assert "default-src 'none'" in page
    assert not re.search(r"(?:src|href)=|url\(|@import|<script", page)
    assert "prefers-color-scheme:dark" in page


def test_reports_are_written_whole_as_their_names_end(tmp_path):
    place = tmp_path / "deep" / "report.html"
    sample().write(place)
    sample(outcome="published").write(place)
    assert "published" in place.read_text("utf-8")
    sample().write(str(tmp_path / "report.json"))
    assert json.loads((tmp_path / "report.json").read_text())["outcome"] == "refused"
    assert sorted(one.name for one in place.parent.iterdir()) == ["report.html"]
    with pytest.raises(Invalid, match="neither"):
        sample().write(tmp_path / "report.txt")


def test_bars_are_as_long_as_their_values():
    drawn = bars("rows", [Bar("a", 100, "100 rows"), Bar("b", 50, "50"), Bar("c", 0, "none")])
    widths = [float(one) for one in re.findall(r'<rect class="plain".*?width="([\d.]+)"', drawn)]
    assert widths[0] == 2 * widths[1] > widths[2] == 0
    assert 'aria-label="rows"' in drawn
    assert bars("nothing", []).count("<rect") == 0


def test_a_tally_shows_only_what_there_is():
    drawn = tally("checks", [("passed", 3), ("failed", 1), ("error", 0)])
    assert drawn.count('class="passed"') == 2
    assert 'class="error"' not in drawn
    assert "3 passed" in drawn


def test_a_timeline_puts_each_span_where_it_belongs():
    drawn = timeline("steps", [Span("a", 0, 1), Span("b", 1, 3, "failed")])
    rects = re.findall(r'<rect class="(\w+)" x="([\d.]+)".*?width="([\d.]+)"', drawn)
    (first, x1, w1), (second, x2, w2) = rects
    assert (first, second) == ("plain", "failed")
    assert float(x2) == pytest.approx(float(x1) + float(w1), abs=0.2)
    assert float(w2) == pytest.approx(3 * float(w1), abs=0.5)


def test_control_characters_are_spelled_out():
    assert plain("a\x1b[0m\u202eb") == "a\\x1b[0m\\u202eb"
    assert plain("<é>") == "&lt;é&gt;"


PLACE = PublishPlan("audit/x", "main", "merge", 1, CommitMeta(message="m"))
DECLARED = declare([NotNull("a", ("b",)), Unchecked("log", why="for people")])


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (AuditFailed("a check"), "refused"),
        (Conflict("moved"), "failed"),
        (Unknown("lost"), "failed"),
        (Unavailable("down"), "failed"),
        (KeyError("x"), "failed"),
        (KeyboardInterrupt(), "failed"),
    ],
)
def test_an_error_is_told_with_what_it_means_for_the_target(error, outcome):
    recording = RunRecord(PLACE, DECLARED, "daily", None)
    recording.fail(error)
    assert recording.report().outcome == outcome
    assert recording.report().reason.startswith(type(error).__name__)


def test_an_error_while_the_target_is_told_to_move_leaves_it_unknown():
    recording = RunRecord(PLACE, DECLARED, "daily", None)
    recording.fail(KeyboardInterrupt(), "unknown")
    assert recording.report().outcome == "unknown"


def test_a_killed_run_is_not_told_as_one_that_did_well_or_published_nothing():
    page = sample(outcome="running", reason="").to_html()
    assert 'class="badge good"' not in page
    assert "nothing is published" not in page
    assert "look at the target's log" in PageText(page).text
    assert 'class="badge good"' in sample(outcome="published").to_html()


SECRETS = [
    "https://ada:geheim@host/lake",
    "https://ada:ge/h@eim@host/lake",
    "postgresql://geheim@host/db",
    "https://host/key?X-Amz-Credential=a&X-Amz-Signature=geheim",
    "abfss://c@account/x?sv=1&sig=geheim",
    "jdbc:postgresql://host/db?user=ada&password=geheim",
    "jdbc:sqlserver://host;user=ada;password=geheim;encrypt=true",
    "jdbc:oracle:thin:ada/geheim@host:1521:db",
    "password=geheim",
    "Password : geheim",
    "{'s3.secret-access-key': 'geheim und mehr geheim'}",
    '{"client_secret":"ge\\"heim geheim"}',
    "fs.s3a.access.key=geheim",
    "fs.azure.account.key.one.dfs.core.windows.net: geheim==",
    "AccountKey=geheim==;EndpointSuffix=x",
    "Authorization: Bearer geheim.geheim",
    "token => geheim",
    "api_key=geheim,and=geheim",
]


@pytest.mark.parametrize("text", SECRETS)
def test_no_secret_of_an_error_reaches_the_report(text):
    recording = RunRecord(PLACE, DECLARED, "daily", None)
    recording.fail(OSError(f"cannot open {text} today"))
    assert "geheim" not in recording.report().to_json()
    assert "today" in recording.report().reason
    recording.set_reason(f"audit/x is left until its time: {text}")
    assert "geheim" not in recording.report().to_json()


@pytest.mark.parametrize(
    "text",
    [
        "KeyError: 'orders'",
        "s3://bucket/lake/orders/a@b.parquet is no file",
        "2 of 10 rows break it, wanted net at least 0 (key 5)",
        "[UNRESOLVED_COLUMN] a column `net` cannot be resolved? Did you mean `gross`?",
    ],
)
def test_what_is_no_secret_stays_as_it_was(text):
    recording = RunRecord(PLACE, DECLARED, "daily", None)
    recording.set_reason(text)
    assert recording.report().reason == text


def test_looking_for_secrets_in_a_huge_text_ends_soon():
    for text in ("://a:", "password", "x-key", "a.b-", "'secret': '"):
        assert len(redacted(text * 100_000)) <= REPORT_TEXT_CHARACTERS_MAX


def test_what_is_published_stays_published_whatever_comes_after():
    recording = RunRecord(PLACE, DECLARED, "daily", None)
    recording.end("published")
    recording.fail(KeyboardInterrupt())
    assert recording.report().outcome == "published"


def test_steps_are_timed_told_and_marked_when_they_fail():
    fields = []
    recording = RunRecord(PLACE, DECLARED, "daily", lambda *one: fields.append(one))
    with recording.step("write", "shop.orders"):
        pass
    with pytest.raises(KeyError), recording.step("check"):
        raise KeyError
    steps = recording.report().steps
    assert [(one.name, one.status) for one in steps] == [("write", "done"), ("check", "failed")]
    assert fields == [("write", "shop.orders"), ("check", "")]
    assert all(one.seconds >= 0 and one.start_s >= 0 for one in steps)


def test_long_texts_are_cut():
    recording = RunRecord(PLACE, DECLARED, "daily", None)
    recording.fail(AuditFailed("x" * 10_000))
    assert len(recording.report().reason) == REPORT_TEXT_CHARACTERS_MAX
    assert recording.report().unchecked == (Waiver("log", "for people"),)
