"""The report of an audit: what was written, checked and published, or why it was not.

`to_json` has a shape that only grows (`format` counts its versions; docs/spark.md lists the
fields); `to_html` is one page that needs nothing else.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

import msgspec

from lochan.base.errors import Invalid
from lochan.model.contents import Content, IcebergTable, type_of
from lochan.model.results import DiffEntry
from lochan.spark.audit.verdicts import Result

FORMAT: Final = 1

Outcome = Literal["running", "published", "unchanged", "refused", "conflict", "failed", "unknown"]

MEANINGS: Final[dict[Outcome, str]] = {
    "running": "not finished, or killed: look at the target's log",
    "published": "every check passed and the target has the data",
    "unchanged": "the target had everything already; nothing was published",
    "refused": "not every check passed; nothing is published",
    "conflict": "the target has changed too much meanwhile; nothing is published",
    "failed": "an error came before the checks were over; nothing is published",
    "unknown": "the reply to publishing was lost; look at the target's log",
}


class Commits(msgspec.Struct, frozen=True):
    """The hashes of an audit, '' where there is none."""

    base: str = ""
    """What the target was when the audit began."""
    audited: str = ""
    """What the checks were last run on."""
    target: str = ""
    """What the target was then."""
    published: str = ""
    """What the target became."""


class WrittenTable(msgspec.Struct, frozen=True):
    """One write."""

    table: str
    mode: str
    rows: int
    files: int
    bytes: int
    commit: str
    was_done_before: bool


class Waiver(msgspec.Struct, frozen=True):
    """A table for which no check was wanted."""

    table: str
    why: str


class Step(msgspec.Struct, frozen=True):
    """One step of an audit: when it began and how long it took."""

    name: str
    detail: str
    start_s: float
    seconds: float
    status: Literal["done", "failed"]


class Change(msgspec.Struct, frozen=True):
    """A key that differs between the target and what was audited."""

    key: tuple[str, ...]
    type: str
    change: Literal["added", "changed", "removed"]
    before: str
    after: str


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All data of the report of one audit."""

    format: int = FORMAT
    outcome: Outcome
    reason: str = ""
    job: str
    target: str
    branch: str
    publish: str
    begun: str
    seconds: float
    attempts: int = 0
    commits: Commits
    checks: tuple[Result, ...] = ()
    unchecked: tuple[Waiver, ...] = ()
    tables: tuple[WrittenTable, ...] = ()
    steps: tuple[Step, ...] = ()
    changes: tuple[Change, ...] = ()
    changes_total: int = 0

    @property
    def is_published(self) -> bool:
        """Whether this audit moved its target."""
        return self.outcome == "published"

    def to_json(self) -> str:
        """Returns the report for programs."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode()

    def to_html(self) -> str:
        """Returns the report for people, as one page."""
        from lochan.spark.audit.page import page

        return page(self)

    def write(self, path: str | Path) -> Path:
        """Writes the report as `.html` or `.json`, by its suffix; makes missing directories."""
        place = check_path(path)
        text = self.to_json() if place.suffix == ".json" else self.to_html()
        place.parent.mkdir(parents=True, exist_ok=True)
        # Readers never see half a report, and a failed run leaves the last whole one.
        beside = place.with_name(f".{place.name}.part")
        beside.write_text(text, "utf-8")
        beside.replace(place)
        return place


def check_path(path: str | Path) -> Path:
    """Returns the path of a report; Invalid unless it ends with .html or .json."""
    if not isinstance(path, (str, Path)):
        raise Invalid(f"a report has the path of a file, not a {type(path).__name__}")
    place = Path(path)
    if place.suffix not in {".html", ".json"}:
        raise Invalid(f"a report is .html or .json; {place.name!r} is neither")
    return place


def build_change(entry: DiffEntry) -> Change:
    """Returns a line of a diff."""
    there = entry.left if entry.right is None else entry.right
    what: Literal["added", "changed", "removed"]
    what = "added" if entry.left is None else "removed" if entry.right is None else "changed"
    kind = "" if there is None else type_of(there)
    return Change(entry.key, kind, what, _state(entry.left), _state(entry.right))


def _state(content: Content | None) -> str:
    """Returns the state of a content in words: the snapshot of a table, else the type."""
    if content is None:
        return ""
    if isinstance(content, IcebergTable):
        return f"snapshot {content.snapshot_id}"
    return type_of(content).replace("_", " ").lower()
