"""Planted faults in the protocols of staging, each of which the explorer must find."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from lochan.base.keys import file_path
from lochan.codec.elements import decode_file
from lochan.codec.forms import encode_row
from lochan.kernel import head_moves, publish, staged_conflicts
from lochan.kernel.plan import CommitPlan
from lochan.kv.store import PRESENT, Kind, partition
from lochan.persist.references import References
from lochan.persist.staged import is_cleared, tombstone
from lochan.staging import committer, folds, listing, reader, reset, sweeper, tokens, writer
from lochan.staging.branch_rows import BranchRows, _Read
from lochan.staging.committer import FileCommit, FileCommitter
from lochan.staging.hidden_runs import RunBase, base_of
from lochan.staging.listing import BranchListings, ListingRange
from lochan.staging.move_guard import MoveGuard
from lochan.staging.reader import BranchReader
from lochan.staging.tokens import BranchTokens, TokenRows
from lochan.staging.writer import StagedWriter
from tests.sim import staging_actors
from tests.sim.mutants import find_violation
from tests.sim.staging_actors import read_page
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
    def list_once(server, branch):
        staging = server.app.staging
        row = staging.rows.load(branch).row
        found, _ = read_page(staging, *ListingRange().keys(), row)
        return {file_path(key): decode_file(element).address for key, element in found}

    patch.setattr(staging_actors, "listing", list_once)


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


def a_run_is_kept_although_the_head_changed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(listing, "base_of", lambda tokens, _: RunBase(tokens, None, b""))


def a_run_is_kept_although_other_tokens_are_sealed(patch: pytest.MonkeyPatch) -> None:
    known = base_of
    patch.setattr(listing, "base_of", lambda _, head: known((), head))


def a_run_hides_what_is_staged_in_it(patch: pytest.MonkeyPatch) -> None:
    layers, known = BranchListings.layers, base_of

    def jumping(self, row, is_sealed, *more):
        return layers(self, row, True, *more)

    patch.setattr(BranchListings, "layers", jumping)
    patch.setattr(listing, "base_of", lambda tokens, head: known(tokens[:1], head))


def a_listing_does_not_seal(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(BranchListings, "seal", lambda *_: True)


def a_reset_leaves_a_deletion(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reset, "cleared", tombstone)


def a_cleared_record_hides_nothing(patch: pytest.MonkeyPatch) -> None:
    def newest(layers, at):
        found = [layer[at].value for layer in layers if layer[at] is not None]
        return next((one for one in found if not is_cleared(one)), None)

    patch.setattr(reader, "_newest", newest)


def a_cleared_record_is_a_conflict(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(staged_conflicts, "is_cleared", lambda _: False)


def a_fold_takes_the_oldest_records(patch: pytest.MonkeyPatch) -> None:
    copied = folds.copy_records
    patch.setattr(
        tokens, "copy_records", lambda context, some, into: copied(context, some[::-1], into)
    )


def a_fold_does_not_look_whether_its_tokens_are_there(patch: pytest.MonkeyPatch) -> None:
    def with_folded(self, row, _, new):
        if new in row.sealed_tokens:
            return None
        return self._changed(row, sealed_tokens=(new,))

    patch.setattr(BranchTokens, "_with_folded", with_folded)


def a_commit_does_not_recognise_folded_tokens(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        committer, "left_of", lambda mine, sealed: tuple(one for one in mine if one in sealed)
    )


def moves_drop_staged_files(patch: pytest.MonkeyPatch) -> None:
    def seal_only(self, row, *, dry_run):
        if row.staging_token and not self._records.is_empty(row.staging_token):
            self._tokens.seal(row)

    patch.setattr(MoveGuard, "prepare", seal_only)


def moves_keep_records_of_the_old_head(patch: pytest.MonkeyPatch) -> None:
    prepare = MoveGuard.prepare
    patch.setattr(
        MoveGuard, "prepare", lambda self, row, *, dry_run: prepare(self, row, dry_run=True)
    )


def moves_go_below_staged_files(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(head_moves, "check_moved", lambda *_: None)


FOLDING = ["sealed tokens that are folded", "servers that die while they fold"]


def a_condition_is_looked_at_only_once(patch: pytest.MonkeyPatch) -> None:
    put_over = StagedWriter._put_over

    def put_anyway(self, row, write, expected, attempt):
        there = self._records.fetch([row.staging_token], [write.key])[0][0]
        return put_over(self, row, write, PRESENT if there else expected, attempt)

    patch.setattr(StagedWriter, "_put_over", put_anyway)


def a_reset_gives_up_the_present_token_only(patch: pytest.MonkeyPatch) -> None:
    def discard(self, row):
        gone = row.staging_token

        def without(found):
            kept = found.staging_token != gone or not gone
            return None if kept else self._changed(found, staging_token=b"")

        return self._swap(row, without)

    patch.setattr(BranchTokens, "discard", discard)


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
    (a_run_is_kept_although_the_head_changed, ["listings that pass deleted files"]),
    (a_run_is_kept_although_other_tokens_are_sealed, ["listings that pass deleted files"]),
    (a_run_hides_what_is_staged_in_it, ["listings that pass deleted files"]),
    (a_listing_does_not_seal, ["listings that pass deleted files"]),
    (a_reset_leaves_a_deletion, ["resets beside merges and seals"]),
    (a_cleared_record_hides_nothing, ["resets of paths beside seals and commits"]),
    (a_cleared_record_is_a_conflict, ["resets beside merges and seals"]),
    (a_fold_takes_the_oldest_records, FOLDING),
    (a_fold_does_not_look_whether_its_tokens_are_there, FOLDING),
    (a_commit_does_not_recognise_folded_tokens, FOLDING),
    (a_token_is_taken_twice, ["writers beside committers", "servers that die"]),
    (moves_drop_staged_files, ["a branch that is set elsewhere"]),
    (moves_keep_records_of_the_old_head, ["a branch that is set elsewhere"]),
    (moves_go_below_staged_files, ["a branch that is moved forward"]),
    (a_condition_is_looked_at_only_once, ["conditional writes"]),
    (a_reset_gives_up_the_present_token_only, ["resets beside writers and committers"]),
    (a_token_is_taken_twice, ["servers that die"]),
]


@pytest.mark.parametrize(("mutant", "names"), MUTANTS, ids=lambda one: getattr(one, "__name__", ""))
def test_the_explorer_finds(mutant, names, monkeypatch, record_property):
    mutant(monkeypatch)
    violation = find_violation([BY_NAME[name] for name in names], SCHEDULES_MAX)
    record_property("counted", f"{mutant.__name__}: {str(violation).splitlines()[0]}")
