"""Verdicts, without which nothing is published, and the ledger that keeps them.

A verdict states that on exactly this commit, compared with exactly this state of the target, every
declared check has run and passed. It is built by `build_verdict`, which refuses a check that
failed, broke, is missing or was made on another commit. Each commit that is to be published needs
one of its own. The ledger knows which commits the audit made itself; a write after the checks takes
all verdicts away, and a head that the ledger does not know was written by another client. Pure:
nothing here reads or writes anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Literal

import msgspec

from lochan.base.errors import AuditFailed
from lochan.spark.checks import Declared

Status = Literal["passed", "failed", "error", "missing"]
How = Literal["observed", "query", "schema", ""]


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one check on one commit."""

    check: str
    kind: str
    tables: tuple[str, ...]
    status: Status
    commit: str
    how: How = ""
    observed: str = ""
    expected: str = ""
    detail: str = ""
    seconds: float = 0.0


class Verdict(msgspec.Struct, frozen=True):
    """The permission to publish a commit on a target whose head is `target`."""

    commit: str
    target: str
    results: tuple[Result, ...]


def complaints(commit: str, declared: Declared, results: Sequence[Result]) -> list[str]:
    """Returns a sentence for every reason not to publish."""
    found = []
    labels = set(declared.labels())
    seen: set[str] = set()
    for result in results:
        if result.check not in labels:
            found.append(f"{result.check}: was never declared")
        elif result.check in seen:
            found.append(f"{result.check}: has two results")
        elif result.commit != commit:
            found.append(f"{result.check}: was made on another commit")
        elif result.status != "passed":
            found.append(f"{result.check}: {_failure_text(result)}")
        seen.add(result.check)
    found += [f"{label}: has no result" for label in declared.labels() if label not in seen]
    return found


def build_verdict(
    commit: str, target: str, declared: Declared, results: Sequence[Result]
) -> Verdict:
    """Returns the verdict on a commit; AuditFailed with all complaints if there are any."""
    found = complaints(commit, declared, results)
    if found:
        count = len(declared.checks)
        raise AuditFailed(
            f"{len(found)} of {count} checks did not pass, nothing is published: {'; '.join(found)}"
        )
    return Verdict(commit, target, tuple(results))


def check_verdict(verdict: Verdict, declared: Declared, commit: str, target: str) -> None:
    """Raises AuditFailed unless the verdict is about this commit, this target and all checks."""
    if verdict.commit != commit:
        raise AuditFailed("the verdict is about another commit than the one to be published")
    if verdict.target != target:
        raise AuditFailed("the verdict was made against another state of the target")
    found = complaints(commit, declared, verdict.results)
    if found:
        raise AuditFailed(f"the verdict does not hold: {'; '.join(found)}")


class Ledger:
    """The commits that an audit has put on its branch, and the verdicts on them."""

    def __init__(self, declared: Declared, base: str) -> None:
        self.declared = declared
        self.base = base
        self.head = base
        # The latest one on the present head, None while there is none.
        self.verdict: Verdict | None = None
        self._passed: dict[str, Verdict] = {}
        self._is_sealed = False
        self._is_closed = False
        self._lock = Lock()

    def check_table(self, table: str) -> None:
        """Refuses to write a table that has no check."""
        self.check_writing()
        if table not in self.declared.covered():
            raise AuditFailed(
                f"{table} has no check; declare one, or Unchecked({table!r}, why) to state that "
                "none is wanted"
            )

    def check_open(self) -> None:
        """Refuses any use after the audit has ended."""
        if self._is_closed:
            raise AuditFailed("this audit is over; open another one")

    def check_writing(self) -> None:
        """Refuses writes after the block, while its last state is checked and published."""
        self.check_open()
        if self._is_sealed:
            raise AuditFailed("the block of this audit has ended; nothing can be added any more")

    def wrote(self, parent: str, commit: str) -> None:
        """Notes a commit of this audit; refuses one whose parent is of another client."""
        with self._lock:
            self.check_writing()
            self._forget()
            if parent != self.head:
                raise AuditFailed(
                    f"the branch of this audit was changed from outside: {parent[:12]} is not ours"
                )
            self.head = commit

    def adopted(self, head: str) -> None:
        """Notes the head that the block has put on the branch by other means."""
        with self._lock:
            self.check_writing()
            self._forget()
            self.head = head

    def seal(self) -> None:
        """Ends the writing: all acknowledged writes are in the head, and no other is taken."""
        with self._lock:
            self.check_open()
            self._is_sealed = True

    def moved(self, base: str, head: str) -> None:
        """Notes that the branch was rebased on a newer target; all verdicts are gone."""
        with self._lock:
            self.check_open()
            self._forget()
            self.base, self.head = base, head

    def check_head(self, found: str) -> None:
        """Refuses a branch whose head is not the last commit of this audit."""
        if found != self.head:
            self._forget()
            raise AuditFailed(
                f"the branch of this audit was changed from outside: it is at {found[:12]}, "
                f"we left it at {self.head[:12]}"
            )

    def judged(self, verdict: Verdict, head: str) -> None:
        """Keeps the verdict on a commit that was made from `head`, until the next write."""
        check_verdict(verdict, self.declared, verdict.commit, verdict.target)
        with self._lock:
            self.check_open()
            if head != self.head:
                raise AuditFailed("something was written while the checks ran; check it again")
            self.verdict = verdict
            self._passed[verdict.commit] = verdict

    def permit(self, commit: str, target: str) -> Verdict:
        """Returns the verdict that lets a commit be published; AuditFailed if there is none."""
        self.check_open()
        if self.verdict is None:
            raise AuditFailed("nothing was checked since the last write")
        verdict = self._passed.get(commit)
        if verdict is None:
            raise AuditFailed(f"the commit {commit[:12]} was not checked and is not published")
        check_verdict(verdict, self.declared, commit, target)
        return verdict

    def close(self) -> None:
        """Ends the audit; nothing can be written or published after this."""
        self._forget()
        self._is_closed = True

    def _forget(self) -> None:
        """Takes all verdicts away."""
        self.verdict = None
        self._passed = {}


def _failure_text(result: Result) -> str:
    if result.status == "failed":
        text = f"{result.observed}, expected {result.expected}" if result.expected else "failed"
    elif result.status == "missing":
        text = "did not run"
    else:
        text = "could not run"
    return f"{text} ({result.detail})" if result.detail else text
