"""Planted faults that a crowd of clients on files must find.

A fault is found if a promise is broken, or if a request ends with an error that is none of ours:
the crowd raises it, and without a fault it raises none (`test_file_crowd.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lochan.kernel import merge
from lochan.staging import writer
from lochan.staging.committer import SealedRecords
from lochan.staging.reset import Resets
from tests.stateful.test_file_crowd import crowd, threads

ROUNDS = 40
REQUESTS = 500

Patch = Callable[[pytest.MonkeyPatch], None]


def a_write_does_not_read_the_row_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(writer, "_is_staging", lambda *_: True)


def a_merge_does_not_look_at_staged_files(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(merge, "check_planned", lambda *_: None)


def an_older_token_counts(patch: pytest.MonkeyPatch) -> None:
    """Files that were deleted or replaced after a seal come back."""
    pages = SealedRecords.pages

    def oldest(self: SealedRecords) -> Any:
        return pages(SealedRecords(self.records, self.tokens[::-1], self.few))

    patch.setattr(SealedRecords, "pages", oldest)


def a_reset_gives_nothing_up(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Resets, "reset_branch", lambda self, branch: self._rows.forget(branch))


MUTANTS = [
    a_write_does_not_read_the_row_again,
    a_merge_does_not_look_at_staged_files,
    an_older_token_counts,
    a_reset_gives_nothing_up,
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: one.__name__)
def test_the_crowd_finds(mutant: Patch, monkeypatch: Any, record_property: Any) -> None:
    mutant(monkeypatch)
    for seed in range(ROUNDS):
        found = finding(seed)
        if found:
            record_property("counted", f"{mutant.__name__}: round {seed}: {found}")
            return
    pytest.fail(f"not found in {ROUNDS * REQUESTS} requests")


def finding(seed: int) -> str:
    """Runs a round; returns what was found first."""
    try:
        wrong = crowd(lambda: threads("memory:"), seed, REQUESTS).wrong
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:90]
    return wrong[0].splitlines()[0][:90] if wrong else ""
