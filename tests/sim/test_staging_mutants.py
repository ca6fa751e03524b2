"""Planted faults in the protocols of staging, each of which the explorer must find."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from lochan.codec.elements import decode_file
from lochan.codec.forms import encode_row
from lochan.kernel import publish
from lochan.kernel.plan import CommitPlan
from lochan.kv.store import PRESENT, Kind, partition
from lochan.persist.references import References
from lochan.staging import sweeper, writer
from lochan.staging.branch_rows import BranchRows, _Read
from lochan.staging.committer import FileCommit, FileCommitter
from lochan.staging.listing import ListingRange, Listings
from lochan.staging.reader import BranchReader
from lochan.staging.tokens import TokenRows
from tests.sim.mutants import find_violation
from tests.sim.staging_scenarios import SCENARIOS

SCHEDULES_MAX = 2_000
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}

Patch = Callable[[pytest.MonkeyPatch], None]


def head_without_condition(patch: pytest.MonkeyPatch) -> None:
    condition = References.condition

    def always(self, row, expected):
        write = condition(self, row, expected)
        return write if expected is None else msgspec.structs.replace(write, expected=PRESENT)

    patch.setattr(References, "condition", always)


def writer_does_not_read_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(writer, "_is_staging", lambda *_: True)


def reader_does_not_read_again(patch: pytest.MonkeyPatch) -> None:
    def find_many(self, branch, keys):
        found = self.elements(self._rows.load(branch).row, keys)
        return [None if one is None else decode_file(one) for one in found]

    patch.setattr(BranchReader, "find_many", find_many)


def listing_does_not_read_again(patch: pytest.MonkeyPatch) -> None:
    def page(self, branch):
        return self._page(ListingRange(), self._reader._rows.load(branch).row)

    patch.setattr(Listings, "page", page)


def tokens_cleared_without_condition(patch: pytest.MonkeyPatch) -> None:
    commit = FileCommitter.commit

    def commit_and_clear(self, publisher, branch, texts, **more):
        published = commit(self, publisher, branch, texts, **more)
        context = self._context
        row = context.references.fetch(branch).row
        row = msgspec.structs.replace(row, sealed_tokens=())
        place = partition(context.instance, Kind.REFERENCES)
        context.store.put_many([(place, branch.encode(), encode_row(row))])
        return published

    patch.setattr(publish, "without_tokens", lambda row, _: row)
    patch.setattr(FileCommitter, "commit", commit_and_clear)


def records_dropped_before_the_head_moves(patch: pytest.MonkeyPatch) -> None:
    prepare = FileCommitter.prepare

    def prepare_and_drop(self, branch, texts, **more):
        commit = prepare(self, branch, texts, **more)
        for token in commit._tokens:
            self._records.drop(token)
        return commit

    patch.setattr(FileCommitter, "prepare", prepare_and_drop)


def tokens_without_changes_stay_sealed(patch: pytest.MonkeyPatch) -> None:
    plan = FileCommit.plan

    def only_commits(self, head):
        return [one for one in plan(self, head) if isinstance(one, CommitPlan)]

    patch.setattr(FileCommit, "plan", only_commits)


def dead_tokens_are_dropped_once(patch: pytest.MonkeyPatch) -> None:
    def sweep(context, found):
        context.staged.drop(found.row.token)
        TokenRows(context.store, context.instance).remove(found)
        return True

    patch.setattr(sweeper, "_sweep", sweep)


def a_read_under_way_is_joined(patch: pytest.MonkeyPatch) -> None:
    def read(self, name, branch):
        row = self._found(name)
        # Only now: those who came while it was under way get it, too.
        joined, branch.next_read = branch.next_read, _Read()
        joined.row = branch.known = row
        branch.known_ns = self._clock.monotonic_ns()
        return row

    patch.setattr(BranchRows, "_read", read)


def a_token_is_taken_twice(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FileCommit, "_left", lambda self, _: self._tokens)
    patch.setattr(publish, "without_tokens", lenient)


def lenient(row, taken):
    left = tuple(token for token in row.sealed_tokens if token not in taken)
    return msgspec.structs.replace(row, sealed_tokens=left)


MUTANTS: list[tuple[Patch, list[str]]] = [
    (head_without_condition, ["writers beside committers"]),
    (writer_does_not_read_again, ["writers beside committers"]),
    (reader_does_not_read_again, ["readers and listings beside commits and sweeps"]),
    (listing_does_not_read_again, ["readers and listings beside commits and sweeps"]),
    (tokens_cleared_without_condition, ["writers beside committers"]),
    (records_dropped_before_the_head_moves, ["readers and listings beside commits and sweeps"]),
    (tokens_without_changes_stay_sealed, ["commits without changes"]),
    (dead_tokens_are_dropped_once, ["readers and listings beside commits and sweeps"]),
    (a_read_under_way_is_joined, ["reads that actors of one server share"]),
    (a_token_is_taken_twice, ["writers beside committers", "servers that die"]),
]


@pytest.mark.parametrize(("mutant", "names"), MUTANTS, ids=lambda one: getattr(one, "__name__", ""))
def test_the_explorer_finds(mutant, names, monkeypatch, record_property):
    mutant(monkeypatch)
    violation = find_violation([BY_NAME[name] for name in names], SCHEDULES_MAX)
    record_property("counted", f"{mutant.__name__}: {str(violation).splitlines()[0]}")
