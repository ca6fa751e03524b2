"""What docs/spark.md shows works, and what it lists is what there is."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from lochan.base.limits import audits
from lochan.spark.audit.check_files import parse_checks
from lochan.spark.audit.publisher import PUBLISH_MODES as WAYS
from lochan.spark.audit.report import MEANINGS
from lochan.spark.checks import FROM_FILES
from lochan.spark.history.kinds import COLUMNS
from lochan.spark.history.options import KIND_OPTIONS
from lochan.spark.session import RUNTIME_SETTINGS
from lochan.spark.write.table_write import MODES
from tests.architecture.tree import ROOT

PAGE = (ROOT / "docs/spark.md").read_text("utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def table(head: str) -> dict[str, list[str]]:
    """The rows of a table, by their first cell: the words in backquotes of the second."""
    part = PAGE.partition(f"\n| {head} |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \|", part, re.MULTILINE)
    return {name: re.findall(r"`(\w+)`", cell) for name, cell in rows}


def test_every_example_runs_one_after_the_other(spark, server, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert len(EXAMPLES) == 10
    shared: dict[str, Any] = {}
    for example in EXAMPLES:
        text = example.replace("http://127.0.0.1:19120", server)
        text = text.replace("/data/lake", str(tmp_path / "lake"))
        text = text.replace("checkpoints/feed", str(tmp_path / "checkpoints"))
        exec(compile(text, "docs/spark.md", "exec"), shared)
    shared["lake"].close()
    shown = capsys.readouterr().out
    assert "|  1|     ada|  12.5|" in shown
    assert "| eve|NULL|" in shown
    assert "\npublished\n" in shown
    assert "shop.orders on etl was changed by commit " in shown
    assert (tmp_path / "audit.html").is_file()
    assert spark.sql("SELECT 1").count() == 1


def test_every_setting_of_a_session_that_a_lake_changes_is_listed_with_its_value():
    part = PAGE.partition("\n| setting |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `([\w.]+)` \| `([\w-]+)` \| \S", part, re.MULTILINE)
    assert dict(rows) == dict(RUNTIME_SETTINGS)


def test_every_kind_of_check_is_listed_with_its_fields():
    fields = {
        name: [one.name for one in msgspec.structs.fields(kind) if one.name != "name"]
        for name, kind in FROM_FILES.items()
    }
    assert table("kind") == fields


def test_every_kind_of_history_is_listed_with_its_columns_and_options():
    columns = {name: {one for one, _ in fields} for name, fields in COLUMNS.items()}
    assert {name: set(names) - {"metadata"} for name, names in table("frame").items()} == columns
    options = {name: set(names) for name, names in KIND_OPTIONS.items()}
    assert {name: set(names) for name, names in table("kind of read").items()} == options


def test_the_file_of_checks_that_is_shown_can_be_read():
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    assert [one.kind for one in parse_checks(text.encode(), "checks.toml")] == ["not_null", "query"]


def test_modes_ways_kinds_and_outcomes_are_all_named():
    assert set(table("mode")) == set(MODES)
    assert all(f'"{one}"' in PAGE or f'="{one}"' in PAGE for one in WAYS)
    assert set(re.findall(r"lake\.(\w+)\(", PAGE)) >= set(KIND_OPTIONS)
    assert [one for one in MEANINGS if f"`{one}`:" not in PAGE] == []


def test_the_numbers_are_those_of_the_code():
    prose = re.sub(r"\s+", " ", PAGE)
    assert f"(at most {audits.AUDIT_COMMITS_MAX})" in prose
    assert f"after {audits.AUDIT_ATTEMPTS_MAX} times" in prose
    assert f"{audits.REPORT_CHANGES_MAX:,} are listed" in prose
    assert audits.AUDIT_TTL_S == 24 * 3_600
    assert "ends by itself after a day" in prose
