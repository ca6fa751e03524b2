"""Planted faults in the code of access, each of which the explorer must find."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import contextmanager

import msgspec
import pytest

from lochan.access import memberships, named_rows
from lochan.access.attachments import Attachments
from lochan.access.credentials import Credentials
from lochan.access.directory import Directory
from lochan.access.directory_base import DirectoryBase
from lochan.access.memberships import Memberships
from lochan.access.named_rows import NamedRows
from lochan.access.records import ACCESS_PARTITION
from lochan.access.revision import REVISION_KEY, Revision
from lochan.access.setup import Setup
from lochan.access.tables import AccessTable
from lochan.base.errors import LochanError, Unavailable, Unknown
from lochan.persist.rows import Done, Doubt, Write
from lochan.testing.sim import Scenario
from tests.sim import access_reads, access_scenarios, access_setup
from tests.sim.access_scenarios import named
from tests.sim.mutants import find_violation

Patch = Callable[[pytest.MonkeyPatch], None]

SCHEDULES_MAX = 3_000
ANY_DOUBT = Doubt("it is done", "look")


def memberships_count_by_name(patch: pytest.MonkeyPatch) -> None:
    """Of whatever incarnation."""
    patch.setattr(memberships, "_is_group", lambda row, group: group is not None)


def links_are_not_checked_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Memberships, "check_ends", lambda *_: None)
    patch.setattr(Attachments, "check_ends", lambda *_: None)


def tokens_are_not_checked_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Credentials, "check_owner", lambda *_: None)


def members_are_not_pruned(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Memberships, "prune_group", lambda *_: None)


def tokens_are_not_pruned(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Credentials, "prune_user", lambda *_: None)


def a_row_that_is_being_deleted_counts(patch: pytest.MonkeyPatch) -> None:
    def present(found):
        return None if found is None or not found.row.incarnation else found.row

    patch.setattr(named_rows, "_present", present)


def the_row_goes_first_and_the_rest_later(patch: pytest.MonkeyPatch) -> None:
    """And an incarnation that comes after is not distinguished."""

    def finish(self, found, retry):
        self.clear(found, retry, ANY_DOUBT)
        self._prune(found.row.id, retry)

    patch.setattr(NamedRows, "finish", finish)
    patch.setattr(memberships, "_is_group", lambda row, group: group is not None)


def rows_are_added_without_a_blank_one(patch: pytest.MonkeyPatch) -> None:
    """On condition that there is none: a late copy brings back what was removed."""

    def fill(self, blank, decide, is_done, retry, doubt):
        key = self.key_of(blank)

        def find_done(write):
            found = self.fetch(key)
            return Done(write.answer) if found and is_done(found.row, write.row) else None

        return self.swap(key, decide, retry, doubt, find_done=find_done)

    patch.setattr(AccessTable, "fill", fill)


def a_deletion_means_whatever_is_there(patch: pytest.MonkeyPatch) -> None:
    """Also what was created since its reply was lost."""

    def delete(self, name, retry):
        def decide(found):
            if found is None or not found.row.incarnation:
                raise self.not_found(name)
            if found.row.deleting:
                return Done(None)
            return Write(msgspec.structs.replace(found.row, deleting=True), None)

        self.swap(self.key(name), decide, retry, ANY_DOUBT)
        found = self.fetch(self.key(name))
        if found is not None and found.row.deleting:
            self.finish(found, retry)

    patch.setattr(NamedRows, "delete", delete)


def the_revision_comes_before_the_change(patch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def changing(self):
        self.revision.change()
        yield

    patch.setattr(DirectoryBase, "_changing", changing)


def a_revision_is_sent_again_with_the_same_value(patch: pytest.MonkeyPatch) -> None:
    def change(self):
        value = self._ports.random.random_bytes(16)
        for _ in range(20):
            try:
                self._store.put_many([(ACCESS_PARTITION, REVISION_KEY, value)])
            except (Unknown, Unavailable):
                continue
            return

    patch.setattr(Revision, "change", change)


def rights_are_read_while_they_change(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Revision, "read_unchanged", lambda self, read: read())


def a_secret_is_replaced_by_two_writes(patch: pytest.MonkeyPatch) -> None:
    def replace(self, old, new):
        try:
            self.delete_credential(old.id)
            self.add_credential(new)
        except LochanError:
            return False
        return True

    patch.setattr(Directory, "replace_credential", replace)


def a_secret_is_replaced_whatever_it_is_now(patch: pytest.MonkeyPatch) -> None:
    def replace(self, old, new, retry):
        def decide(found):
            return Done(False) if found is None else Write(new, True)

        doubt = ANY_DOUBT
        return self.table.swap(self.key(old.id), decide, retry, doubt)

    patch.setattr(Credentials, "replace", replace)


def a_deleted_key_is_not_looked_for_again(patch: pytest.MonkeyPatch) -> None:
    """As it was at first: a lost reply to a row that was replaced counted as its removal."""

    def remove(self, row, retry):
        doubt = ANY_DOUBT
        while True:
            found = self.table.fetch(self.key(row.id))
            if found is None or self.table.clear(found, retry, doubt):
                return
            retry.again(at_once=True)

    patch.setattr(Credentials, "_remove", remove)


def set_up_fills_rows_whatever_they_are(patch: pytest.MonkeyPatch) -> None:
    def finish(self, setup, retry):
        for table, blank, row in self._reserved(setup):
            found = table.fetch(table.key_of(blank))
            if found is None or found.row == blank:
                table.update(row, found)
        found = self._rows.fetch(b"setup")
        finished = msgspec.structs.replace(setup, finished=True)
        self._rows.update(finished, found)
        return finished

    patch.setattr(Setup, "_finish", finish)


def the_loser_of_set_up_finishes_its_own(patch: pytest.MonkeyPatch) -> None:
    right = Setup.begin

    def begin(self, wanted, retry):
        right(self, wanted, retry)
        return msgspec.structs.replace(wanted, stamps=self._reserve(wanted, retry))

    patch.setattr(Setup, "begin", begin)


def set_up_that_is_half_done_is_left_so(patch: pytest.MonkeyPatch) -> None:
    def find_setup(self):
        return self._rows.setup.find()

    patch.setattr(Directory, "find_setup", find_setup)


def rights_are_remembered_for_ever(patch: pytest.MonkeyPatch) -> None:
    """A commit that is decided by an older state than the one that was acknowledged."""

    def policies_for(self, user, roles):
        known = self.__dict__.setdefault("_remembered", {})
        return known.setdefault(user, self._policies_for(user, roles))

    patch.setattr(Directory, "policies_for", policies_for)


GROUPS = [access_scenarios.GROUP_AND_MEMBERS, access_scenarios.GROUP_AND_DEATHS]
USERS = [access_scenarios.USER_AND_TOKENS, access_scenarios.USER_AND_DEATHS]

MUTANTS: list[tuple[Patch, Sequence[Scenario], str]] = [
    (memberships_count_by_name, named(GROUPS), "void rows do not count"),
    (links_are_not_checked_again, named(GROUPS), "nothing void is left"),
    (tokens_are_not_checked_again, named(USERS), "nothing void is left"),
    (members_are_not_pruned, named(GROUPS), "nothing void is left"),
    (tokens_are_not_pruned, named(USERS), "nothing void is left"),
    (a_row_that_is_being_deleted_counts, named(GROUPS), "nothing void is left"),
    (the_row_goes_first_and_the_rest_later, named(GROUPS), "void rows do not count"),
    (
        rows_are_added_without_a_blank_one,
        named([access_scenarios.LATE_LINKS]),
        "acknowledged changes count",
    ),
    (
        a_deletion_means_whatever_is_there,
        named([access_scenarios.TWO_DELETIONS]),
        "acknowledged changes count",
    ),
    (the_revision_comes_before_the_change, [access_reads.CACHED], "caches notice"),
    (the_revision_comes_before_the_change, [access_reads.REVOKED], "revoked is refused"),
    (a_revision_is_sent_again_with_the_same_value, [access_reads.CACHED], "caches notice"),
    (
        rights_are_read_while_they_change,
        [access_reads.RIGHTS],
        "no right comes from two states",
    ),
    (a_secret_is_replaced_by_two_writes, [access_reads.ROTATION], "one secret is accepted"),
    (a_secret_is_replaced_whatever_it_is_now, [access_reads.ROTATION], "one secret is accepted"),
    (
        a_deleted_key_is_not_looked_for_again,
        [access_reads.ROTATION_AND_DELETION],
        "a deleted key is dead",
    ),
    (set_up_fills_rows_whatever_they_are, access_setup.SCENARIOS, "deleted stays deleted"),
    (the_loser_of_set_up_finishes_its_own, access_setup.SCENARIOS, "one token counts"),
    (set_up_that_is_half_done_is_left_so, access_setup.SCENARIOS, "one token counts"),
    (
        rights_are_remembered_for_ever,
        [access_reads.COMMITS, access_reads.COMMITS_AND_GROUP],
        "commits obey",
    ),
]


@pytest.mark.parametrize(
    ("mutant", "scenarios", "invariant"),
    MUTANTS,
    ids=[f"{mutant.__name__}: {invariant}" for mutant, _, invariant in MUTANTS],
)
def test_the_explorer_finds(
    mutant: Patch,
    scenarios: Sequence[Scenario],
    invariant: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mutant(monkeypatch)
    violation = find_violation(scenarios, SCHEDULES_MAX)
    print(f"{mutant.__name__}: seed {violation.seed} of {violation.scenario}")
    assert violation.invariant == invariant
