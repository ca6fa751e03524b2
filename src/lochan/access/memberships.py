"""Which users are members of which groups: one row for each pair, in the order of users.

A membership counts if both its user and its group are still in the incarnations that it names. All
members of a group are found by reading all memberships, as seed 004 describes it: there are some
tens of thousands at most, and the question is rare.
"""

from __future__ import annotations

from collections.abc import Sequence

from lochan.access.named_rows import NamedRows
from lochan.access.records import (
    MEMBERSHIP_FORM,
    MEMBERSHIPS,
    GroupRow,
    MembershipRow,
    UserRow,
    membership_key,
)
from lochan.access.tables import AccessTable, after_effect
from lochan.base.errors import NotFound, TooLarge
from lochan.base.limits.access import GROUPS_PER_USER_MAX, MEMBERSHIPS_SCANNED_MAX
from lochan.kv.store import Store
from lochan.model.results import Page
from lochan.persist.retry import Retry
from lochan.persist.rows import Done, Doubt, Stamped, Write


class Memberships:
    """The memberships of one store; for any number of threads."""

    def __init__(
        self, store: Store, users: NamedRows[UserRow], groups: NamedRows[GroupRow]
    ) -> None:
        self._users = users
        self._groups = groups
        self.table: AccessTable[MembershipRow] = AccessTable(
            store, MEMBERSHIPS, MEMBERSHIP_FORM, lambda row: membership_key(row.user, row.group)
        )

    def add(self, user: str, group: str, now_us: int, retry: Retry) -> None:
        """Makes a user a member of a group; NotFound if one of them is deleted meanwhile."""
        member, joined = self._users.get(user), self._groups.get(group)
        mine = self.groups_of(member)
        if joined not in mine and len(mine) >= GROUPS_PER_USER_MAX:
            raise TooLarge(f"a user is in at most {GROUPS_PER_USER_MAX} groups")
        new = MembershipRow(1, user, group, member.incarnation, joined.incarnation, now_us)

        def decide(
            found: Stamped[MembershipRow] | None,
        ) -> Write[MembershipRow, None] | Done[None]:
            known = found is not None and _same_ends(found.row, new)
            return Done(None) if known else Write(new, None)

        doubt = Doubt(f"{user!r} was added to the group {group!r}", "list its members")
        self.table.fill(MembershipRow(1, user, group), decide, _same_ends, retry, doubt)
        with after_effect(doubt):
            self.check_ends(new, retry)

    def check_ends(self, row: MembershipRow, retry: Retry) -> None:
        """Removes a membership and raises NotFound if its user or its group was deleted."""
        user, group = self._users.find(row.user), self._groups.find(row.group)
        if _counts(row, user, group):
            return
        found = self.table.fetch(self.table.key_of(row))
        if found is not None and _same_ends(found.row, row):
            self.table.clear(found, retry, Doubt("a membership was removed", "add it again"))
        if user is None or user.incarnation != row.user_incarnation:
            raise self._users.not_found(row.user)
        raise self._groups.not_found(row.group)

    def remove(self, user: str, group: str, retry: Retry) -> None:
        """Ends a membership; NotFound if there is none."""
        doubt = Doubt(f"{user!r} was removed from the group {group!r}", "list its members")
        while True:
            found = self.table.fetch(membership_key(user, group))
            ends = self._users.find(user), self._groups.find(group)
            if found is None or not _counts(found.row, *ends):
                raise NotFound(f"{user!r} is no member of the group {group!r}")
            if self.table.clear(found, retry, doubt):
                return
            retry.again(at_once=True)

    def groups_of(self, user: UserRow) -> tuple[GroupRow, ...]:
        """Returns the groups of a user in the order of their ids."""
        prefix = membership_key(user.id, "")
        rows = [found.row for page in self.table.pages(prefix) for found in page]
        groups = self._groups.find_many(row.group for row in rows)
        counting = [row for row in rows if _counts(row, user, groups.get(row.group))]
        return tuple(groups[row.group] for row in counting)

    def page(self, group: GroupRow, limit: int, after: str) -> Page[UserRow]:
        """Returns members in the order of their ids, after an id.

        A page may be short, or empty, and still have a next one.
        """
        members: list[UserRow] = []
        # All memberships of one user follow each other; `"` sorts after `!` and before any id.
        start = MEMBERSHIPS + f'{after}"'.encode() if after else MEMBERSHIPS
        scanned = 0
        for page in self.table.pages(start=start):
            rows = [found.row for found in page]
            members += self._members(group, rows)
            if len(members) > limit:
                return Page(tuple(members[:limit]), members[limit - 1].id)
            scanned += len(rows)
            # The rows of the last user may go on in the next page of the store.
            whole = [row.user for row in rows if row.user != rows[-1].user]
            if whole and scanned >= MEMBERSHIPS_SCANNED_MAX:
                return Page(tuple(one for one in members if one.id != rows[-1].user), whole[-1])
        return Page(tuple(members), None)

    def _members(self, group: GroupRow, rows: Sequence[MembershipRow]) -> list[UserRow]:
        mine = [row for row in rows if row.group == group.id]
        users = self._users.find_many(row.user for row in mine)
        return [users[row.user] for row in mine if _counts(row, users.get(row.user), group)]

    def prune_user(self, user: str, retry: Retry) -> None:
        """Removes the memberships of a user that do not count."""
        for page in self.table.pages(membership_key(user, "")):
            # Read after the rows: an incarnation that is not present now never comes back.
            present = self._users.find(user)
            self._prune([one for one in page if not _is_user(one.row, present)], retry)

    def prune_group(self, group: str, retry: Retry) -> None:
        """Removes the memberships of a group that do not count."""
        for page in self.table.pages():
            mine = [one for one in page if one.row.group == group]
            if mine:
                present = self._groups.find(group)
                self._prune([one for one in mine if not _is_group(one.row, present)], retry)

    def _prune(self, found: Sequence[Stamped[MembershipRow]], retry: Retry) -> None:
        doubt = Doubt("a membership that does not count was removed", "send the request again")
        for one in found:
            if one.row.user_incarnation:
                self.table.clear(one, retry, doubt)


def _is_user(row: MembershipRow, user: UserRow | None) -> bool:
    return user is not None and row.user_incarnation == user.incarnation


def _is_group(row: MembershipRow, group: GroupRow | None) -> bool:
    return group is not None and row.group_incarnation == group.incarnation


def _counts(row: MembershipRow, user: UserRow | None, group: GroupRow | None) -> bool:
    return _is_user(row, user) and _is_group(row, group)


def _same_ends(row: MembershipRow, other: MembershipRow) -> bool:
    ends = row.user_incarnation, row.group_incarnation
    return ends == (other.user_incarnation, other.group_incarnation)
