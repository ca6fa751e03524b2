"""What a check finds and counts: findings in a bounded list, rows read by kind.

The words of `kind`, `problem` and `severity` are stable: programs read them from `lochan check
--json`. They are only ever added to.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final, TypeVar, TypeVarTuple

import msgspec

from lochan.base.errors import Corrupt, LochanError, NewerFormat
from lochan.base.limits.maintenance import CHECK_FINDINGS_MAX

_Given = TypeVarTuple("_Given")
_Got = TypeVar("_Got")


class Severity(Enum):
    """How bad a finding is."""

    DAMAGE = "damage"
    """Stored bytes are wrong or missing."""

    NEWER_FORMAT = "newer_format"
    """A newer Lochan wrote it; nothing is damaged, and this Lochan cannot judge it."""

    UNFINISHED = "unfinished"
    """An operation of several steps stopped half way; the next use of the name finishes it."""


class Problem(Enum):
    """In which way a row is not as it should be."""

    MISSING = "missing"
    CORRUPT = "corrupt"
    INCONSISTENT = "inconsistent"
    """Its bytes are as they were written, and do not fit other rows."""

    NEWER_FORMAT = "newer_format"
    UNFINISHED = "unfinished"


class RowKind(Enum):
    """What kind of row a finding is about."""

    FORMAT = "storage format"
    REPOSITORY = "repository"
    DESCRIPTION = "description"
    SETTINGS = "settings"
    REFERENCE = "reference"
    NAMES = "index of names"
    MOVE = "move"
    TAG = "tag"
    COMMIT = "commit"
    NODE = "index node"
    ELEMENT = "index element"
    CONTENT = "content"
    CLAIM = "claim"
    TOKEN = "staging token"  # noqa: S105 - a kind of row
    OBJECT = "unreferenced object"
    ACCESS = "access"


_MEANINGS: Final = {
    RowKind.FORMAT: "no Lochan opens this store",
    RowKind.REPOSITORY: "this repository is not found by its name, or not opened",
    RowKind.DESCRIPTION: "this repository cannot be opened",
    RowKind.SETTINGS: "settings that tools keep here cannot be read; branches and data can",
    RowKind.REFERENCE: "this branch or tag cannot be read or written; others can",
    RowKind.NAMES: "references cannot be listed, created or deleted; those that exist can be read",
    RowKind.MOVE: "the ref-log of this name cannot be read in full; its branch can",
    RowKind.TAG: "this annotated tag, and tags on it, cannot be read",
    RowKind.COMMIT: "logs, merges and reads that reach this commit fail",
    RowKind.NODE: "the keys below this node cannot be read at any commit that shares it",
    RowKind.ELEMENT: "this key cannot be read at any commit that shares it",
    RowKind.CONTENT: "this content cannot be read at any commit that holds it",
    RowKind.TOKEN: "records of files that were staged with it are never swept; files can be read",
    RowKind.CLAIM: "a request that is sent again with this idempotency key fails",
    RowKind.OBJECT: "nothing reads it today; a write of the same bytes would keep the damaged ones",
    RowKind.ACCESS: "callers whose rights or credentials depend on this row are refused",
}
_NO_DAMAGE: Final = {
    Problem.NEWER_FORMAT: (
        Severity.NEWER_FORMAT,
        "nothing is damaged: upgrade Lochan to read it",
    ),
    Problem.UNFINISHED: (
        Severity.UNFINISHED,
        "nothing is lost: the next use of the name finishes it",
    ),
}


class Finding(msgspec.Struct, frozen=True, rename="camel"):
    """One row that is not as it should be.

    `row` is its key or id, `referred_by` the row that leads to it, `what` the problem in words and
    `meaning` what it means for users of the repository.
    """

    severity: Severity
    problem: Problem
    kind: RowKind
    row: str
    what: str
    meaning: str
    referred_by: str = ""
    repository: str = ""

    @property
    def where(self) -> str:
        """Kind, key and referrer in one phrase."""
        return f"{self.kind.value} {self.row}" + (
            f" (referred to by {self.referred_by})" if self.referred_by else ""
        )


class Progress(msgspec.Struct, frozen=True):
    """How many rows of each kind were read; `elements` are keys in indexes."""

    repositories: int = 0
    references: int = 0
    moves: int = 0
    tags: int = 0
    commits: int = 0
    nodes: int = 0
    elements: int = 0
    contents: int = 0
    settings: int = 0
    claims: int = 0
    objects: int = 0
    access: int = 0


class Unjudged(msgspec.Struct, frozen=True):
    """Rows of a kind of which a check cannot find out whether all exist; None: not counted."""

    kind: str
    rows: int | None
    why: str
    repository: str = ""


class Report(msgspec.Struct, frozen=True):
    """What a check read and found; `untold` counts findings beyond the limit."""

    findings: tuple[Finding, ...]
    untold: int
    progress: Progress
    unjudged: tuple[Unjudged, ...] = ()

    @property
    def damaged(self) -> bool:
        """Whether anything is wrong that the next use will not repair."""
        return self.untold > 0 or self._any(Severity.DAMAGE)

    @property
    def newer(self) -> bool:
        """Whether there are rows that only a newer Lochan can judge."""
        return self._any(Severity.NEWER_FORMAT)

    def _any(self, severity: Severity) -> bool:
        return any(one.severity is severity for one in self.findings)


ReportProgress = Callable[[Progress], None]


class Findings:
    """Collects findings, each row once for each problem, and counts; its memory is bounded."""

    def __init__(self, report: ReportProgress | None = None) -> None:
        self._report = report
        self._found: dict[tuple[str, str, str], Finding] = {}
        self.untold = 0
        self.repository = ""
        self.counts: dict[str, int] = dict.fromkeys(Progress.__struct_fields__, 0)

    def add(
        self,
        kind: RowKind,
        row: str,
        problem: Problem,
        what: str,
        referred_by: str = "",
    ) -> None:
        """Adds one finding; beyond the limit it is only counted."""
        severity, meaning = _NO_DAMAGE.get(problem, (Severity.DAMAGE, _MEANINGS[kind]))
        # An object is one row, whether it was met as a node or as what a commit needs.
        key = (self.repository, row, what)
        if key in self._found:
            return
        if len(self._found) >= CHECK_FINDINGS_MAX:
            self.untold += 1
            return
        self._found[key] = Finding(
            severity, problem, kind, row, what, meaning, referred_by, self.repository
        )

    def add_error(
        self,
        kind: RowKind,
        row: str,
        error: LochanError,
        referred_by: str = "",
        *,
        below: RowKind = RowKind.NODE,
    ) -> None:
        """Adds what reading a row raised.

        An error that names another object is about that one, which is of the kind `below`.
        """
        problem = Problem.CORRUPT
        if isinstance(error, NewerFormat):
            problem = Problem.NEWER_FORMAT
        elif isinstance(error, Corrupt) and error.obj_id is not None:
            problem = Problem.MISSING if error.missing else Problem.CORRUPT
            named = error.obj_id.hex()
            if named != row:
                row, referred_by = named, f"{kind.value} {row}"
                kind = below
        self.add(kind, row, problem, error.message, referred_by)

    def attempt(
        self,
        kind: RowKind,
        row: str,
        act: Callable[[*_Given], _Got],
        *given: *_Given,
        referred_by: str = "",
        below: RowKind = RowKind.NODE,
    ) -> _Got | None:
        """Does something that reads; what cannot be read is a finding, as `add_error` adds it."""
        try:
            return act(*given)
        except (Corrupt, NewerFormat) as error:
            self.add_error(kind, row, error, referred_by, below=below)
            return None

    def count(self, kind: str, number: int = 1) -> None:
        """Counts rows that were read."""
        self.counts[kind] += number

    def report_progress(self) -> None:
        """Reports how far the check is."""
        if self._report is not None:
            self._report(self.progress())

    def progress(self) -> Progress:
        """Returns the counts."""
        return Progress(**self.counts)

    def report(self, unjudged: tuple[Unjudged, ...]) -> Report:
        """Returns everything."""
        return Report(tuple(self._found.values()), self.untold, self.progress(), unjudged)
