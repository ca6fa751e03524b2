"""The directory: users, groups, memberships, policies, attachments, tokens, access keys, set-up.

Everything is a row in one partition of the store, so all servers of a store share it. Each change
ends with a new revision before it is acknowledged (`revision.py`). If a server crashes between the
two, the change counts on other servers after ACCESS_AGE_MS_MAX.

Rows that point to a user, a group or a policy count only as long as it is in the incarnation that
they name; one that is marked `deleting` counts as absent. The directory decides nothing and knows
no secrets: `service/access.py` has the use cases. Listings are in the byte order of ids; the token
of a page is the id after which the next one begins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from lochan.access.attachments import EVERYONE_INCARNATION, Subject
from lochan.access.credential_directory import CredentialDirectory
from lochan.access.directory_base import description_of, page_limit
from lochan.access.names import (
    EVERYONE,
    check_joinable,
    check_subject,
    credential_id,
    group_id,
    is_name,
    is_user_id,
    policy_id,
    user_id,
)
from lochan.access.policy_rows import shown
from lochan.access.records import GroupRow, PolicyRow, SetupRow, UserRow
from lochan.access.rights import AttachedPolicy, check_policy
from lochan.access.tokens import same_secret
from lochan.kernel.repository import Ports
from lochan.kv.store import Store
from lochan.model.access import AccessPolicy, Group, SubjectKind, User
from lochan.model.results import Page
from lochan.persist.retry import RetryPolicy

_EVERYONE: Final = Group(EVERYONE, "every authenticated caller")

_Item = TypeVar("_Item")
_Shown = TypeVar("_Shown")


class Directory(CredentialDirectory):
    """Who there is and what applies to whom, in one store; for any number of threads."""

    def __init__(self, store: Store, ports: Ports, retry_policy: RetryPolicy | None = None) -> None:
        super().__init__(store, ports, retry_policy or RetryPolicy())
        self._setup: SetupRow | None = None

    def find_setup(self) -> SetupRow | None:
        """Returns the row of set-up, None if nothing was set up; finishes what is half done."""
        if self._setup is None:
            found = self._rows.setup.find()
            self._setup = None if found is None else self._finish_setup(found)
        return self._setup

    def set_up(self, wanted: SetupRow) -> bool:
        """Sets up, once for each store; returns whether the given user and token are those of it.

        The same request again returns the same.
        """
        user_id(wanted.admin)
        credential_id(wanted.token)
        row = self.find_setup()
        if row is None:
            row = self._setup = self._finish_setup(self._rows.setup.begin(wanted, self._retry()))
        same = (row.admin, row.token) == (wanted.admin, wanted.token)
        return same_secret(wanted.digest, row.digest) and same

    def replace_key_check(self, key_check: bytes) -> None:
        """Keeps another proof of the key of the servers, in the row of set-up."""
        self._rows.setup.replace_key_check(key_check, self._retry())
        self._setup = None

    def create_user(self, user: str, description: str = "") -> User:
        """Creates a user; AlreadyExists if there is one."""
        user_id(user)
        row = UserRow(1, user, self._new_id(), self._now_us(), description_of(description))
        with self._changing():
            self._rows.users.create(row, self._retry())
        return _user(row)

    def get_user(self, user: str) -> User:
        """Returns a user; NotFound if there is none."""
        return _user(self._rows.users.get(user_id(user)))

    def find_user_row(self, user: str) -> UserRow | None:
        """Returns the row of a user, None if there is none."""
        return self._rows.users.find(user) if is_user_id(user) else None

    def list_users(self, limit: int | None = None, after: str = "") -> Page[User]:
        """Returns a page of users."""
        if after:
            user_id(after)
        page = self._rows.users.page(page_limit(limit), after, self._retry())
        return _page(page, _user)

    def delete_user(self, user: str) -> None:
        """Deletes a user with its memberships, attachments, tokens and access keys."""
        with self._changing():
            self._rows.users.delete(user_id(user), self._retry())

    def create_group(self, group: str, description: str = "") -> Group:
        """Creates a group; AlreadyExists if there is one."""
        check_joinable(group)
        row = GroupRow(1, group, self._new_id(), self._now_us(), description_of(description))
        with self._changing():
            self._rows.groups.create(row, self._retry())
        return _group(row)

    def get_group(self, group: str) -> Group:
        """Returns a group; NotFound if there is none."""
        return _EVERYONE if group == EVERYONE else _group(self._rows.groups.get(group_id(group)))

    def list_groups(self, limit: int | None = None, after: str = "") -> Page[Group]:
        """Returns a page of groups; `everyone` is not among them."""
        if after:
            group_id(after)
        page = self._rows.groups.page(page_limit(limit), after, self._retry())
        return _page(page, _group)

    def delete_group(self, group: str) -> None:
        """Deletes a group with its memberships and attachments."""
        check_joinable(group)
        with self._changing():
            self._rows.groups.delete(group, self._retry())

    def put_policy(self, policy: AccessPolicy, expected: int | None = None) -> AccessPolicy:
        """Creates or replaces a policy; returns it with its version.

        Conflict unless the present version is the expected one, if one is; 0 expects none.
        """
        policy_id(policy.id)
        check_policy(policy)
        row = PolicyRow(
            1,
            policy.id,
            self._new_id(),
            self._now_us(),
            description_of(policy.description),
            writers=(self._new_id(),),
            statements=policy.statements,
        )
        with self._changing():
            return shown(self._rows.policies.put(row, expected, self._retry()))

    def get_policy(self, policy: str) -> AccessPolicy:
        """Returns a policy; NotFound if there is none."""
        return shown(self._rows.policies.get(policy_id(policy)))

    def list_policies(self, limit: int | None = None, after: str = "") -> Page[AccessPolicy]:
        """Returns a page of policies."""
        if after:
            policy_id(after)
        page = self._rows.policies.page(page_limit(limit), after, self._retry())
        return _page(page, shown)

    def delete_policy(self, policy: str) -> None:
        """Deletes a policy and detaches it from all users and groups."""
        with self._changing():
            self._rows.policies.delete(policy_id(policy), self._retry())

    def add_member(self, user: str, group: str) -> None:
        """Makes a user a member of a group; harmless if it is one."""
        check_joinable(group)
        with self._changing():
            self._rows.memberships.add(user_id(user), group, self._now_us(), self._retry())

    def remove_member(self, user: str, group: str) -> None:
        """Ends a membership; NotFound if there is none."""
        check_joinable(group)
        with self._changing():
            self._rows.memberships.remove(user_id(user), group, self._retry())

    def list_members(self, group: str, limit: int | None = None, after: str = "") -> Page[User]:
        """Returns a page of the members of a group; it may be short and still have a next one."""
        check_joinable(group)
        if after:
            user_id(after)
        row = self._rows.groups.get(group)
        return _page(self._rows.memberships.page(row, page_limit(limit), after), _user)

    def groups_of(self, user: str) -> tuple[str, ...]:
        """Returns the groups of a user in the order of their ids; none if there is no such user."""
        row = self.find_user_row(user)
        return () if row is None else tuple(one.id for one in self._rows.memberships.groups_of(row))

    def attach(self, kind: SubjectKind, subject: str, policy: str) -> None:
        """Makes a policy apply to a user or to the members of a group; harmless if it does."""
        check_subject(kind, subject)
        policy_id(policy)
        with self._changing():
            self._rows.attachments.add(kind, subject, policy, self._now_us(), self._retry())

    def detach(self, kind: SubjectKind, subject: str, policy: str) -> None:
        """Ends that a policy applies to a user or to a group; NotFound if it does not."""
        check_subject(kind, subject)
        policy_id(policy)
        with self._changing():
            self._rows.attachments.remove(kind, subject, policy, self._retry())

    def attached_to(self, kind: SubjectKind, subject: str) -> tuple[AccessPolicy, ...]:
        """Returns the policies of a user or a group itself, in the order of their ids."""
        check_subject(kind, subject)
        attachments = self._rows.attachments
        incarnation = attachments.get_incarnation(kind, subject)
        return tuple(map(shown, attachments.policies_of(Subject(kind, subject, incarnation))))

    def policies_for(self, user: str | None, roles: Sequence[str]) -> tuple[AttachedPolicy, ...]:
        """Returns all policies that apply to a caller: its own, of its groups, of `everyone`.

        `roles` are names of further groups; those without a group have no effect. All of it is
        read between two changes.
        """
        return self.revision.read_unchanged(lambda: self._policies_for(user, roles))

    def _policies_for(self, user: str | None, roles: Sequence[str]) -> tuple[AttachedPolicy, ...]:
        row = None if user is None else self.find_user_row(user)
        groups = (
            {} if row is None else {one.id: one for one in self._rows.memberships.groups_of(row)}
        )
        named = {one for one in roles if is_name(one)} - groups.keys() - {EVERYONE}
        groups |= self._rows.groups.find_many(named)
        subjects = [] if row is None else [Subject("user", row.id, row.incarnation)]
        subjects += [Subject("group", name, groups[name].incarnation) for name in sorted(groups)]
        subjects.append(Subject("group", EVERYONE, EVERYONE_INCARNATION))
        return tuple(
            AttachedPolicy(policy=shown(policy), via=f"{subject.kind}:{subject.id}")
            for subject, policy in self._rows.attachments.policies_of_all(subjects)
        )

    def _finish_setup(self, row: SetupRow) -> SetupRow:
        if row.finished:
            return row
        with self._changing():
            return self._rows.setup.finish(row, self._retry())


def _user(row: UserRow) -> User:
    return User(row.id, row.description, row.created_us)


def _group(row: GroupRow) -> Group:
    return Group(row.id, row.description, row.created_us)


def _page(page: Page[_Item], show: Callable[[_Item], _Shown]) -> Page[_Shown]:
    return Page(tuple(map(show, page.items)), page.token)
