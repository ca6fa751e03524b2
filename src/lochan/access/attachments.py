"""Which policies apply to which users and groups: one row for each pair.

An attachment counts if both its subject and its policy are still in the incarnations that it names.
The group `everyone` has no row, so it has one incarnation for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from lochan.access.named_rows import NamedRows
from lochan.access.names import EVERYONE
from lochan.access.records import (
    ATTACHMENT_FORM,
    ATTACHMENTS,
    AttachmentRow,
    GroupRow,
    PolicyRow,
    UserRow,
    attachment_key,
)
from lochan.access.tables import AccessTable, after_effect
from lochan.base.errors import NotFound, TooLarge
from lochan.base.limits.access import POLICIES_PER_SUBJECT_MAX
from lochan.kv.store import Store
from lochan.model.access import SubjectKind
from lochan.persist.retry import Retry
from lochan.persist.rows import Done, Doubt, Stamped, Write

EVERYONE_INCARNATION: Final = b"everyone"


class Subject(msgspec.Struct, frozen=True):
    """A user or a group in one incarnation."""

    kind: SubjectKind
    id: str
    incarnation: bytes


class Attachments:
    """The attachments of one store; for any number of threads."""

    def __init__(
        self,
        store: Store,
        users: NamedRows[UserRow],
        groups: NamedRows[GroupRow],
        policies: NamedRows[PolicyRow],
    ) -> None:
        self._users = users
        self._groups = groups
        self._policies = policies
        self.table: AccessTable[AttachmentRow] = AccessTable(
            store, ATTACHMENTS, ATTACHMENT_FORM, _key
        )

    def add(self, kind: SubjectKind, subject: str, policy: str, now_us: int, retry: Retry) -> None:
        """Attaches a policy; NotFound if it or its subject is deleted meanwhile."""
        incarnation = self.get_incarnation(kind, subject)
        wanted = self._policies.get(policy)
        mine = self.policies_of(Subject(kind, subject, incarnation))
        if wanted not in mine and len(mine) >= POLICIES_PER_SUBJECT_MAX:
            raise TooLarge(f"a {kind} has at most {POLICIES_PER_SUBJECT_MAX} policies")
        new = AttachmentRow(1, kind, subject, policy, incarnation, wanted.incarnation, now_us)

        def decide(
            found: Stamped[AttachmentRow] | None,
        ) -> Write[AttachmentRow, None] | Done[None]:
            known = found is not None and _same_ends(found.row, new)
            return Done(None) if known else Write(new, None)

        doubt = Doubt(f"{policy!r} was attached to the {kind} {subject!r}", "list its policies")
        blank = AttachmentRow(1, kind, subject, policy)
        self.table.fill(blank, decide, _same_ends, retry, doubt)
        with after_effect(doubt):
            self.check_ends(new, retry)

    def check_ends(self, row: AttachmentRow, retry: Retry) -> None:
        """Removes an attachment and raises NotFound if its policy or its subject was deleted."""
        subject = self.find_incarnation(row.subject_kind, row.subject)
        policy = self._policies.find(row.policy)
        if subject == row.subject_incarnation and _is_policy(row, policy):
            return
        found = self.table.fetch(_key(row))
        if found is not None and _same_ends(found.row, row):
            self.table.clear(found, retry, Doubt("an attachment was removed", "add it again"))
        if subject != row.subject_incarnation:
            raise self._subject_not_found(row.subject_kind, row.subject)
        raise self._policies.not_found(row.policy)

    def remove(self, kind: SubjectKind, subject: str, policy: str, retry: Retry) -> None:
        """Detaches a policy; NotFound if it is not attached."""
        doubt = Doubt(f"{policy!r} was detached from the {kind} {subject!r}", "list its policies")
        while True:
            found = self.table.fetch(attachment_key(kind, subject, policy))
            present = self.find_incarnation(kind, subject)
            wanted = self._policies.find(policy)
            if (
                found is None
                or found.row.subject_incarnation != present
                or not _is_policy(found.row, wanted)
            ):
                raise NotFound(f"the policy {policy!r} is not attached to the {kind} {subject!r}")
            if self.table.clear(found, retry, doubt):
                return
            retry.again(at_once=True)

    def policies_of(self, subject: Subject) -> tuple[PolicyRow, ...]:
        """Returns the policies of a subject, in the order of their ids."""
        return tuple(policy for _, policy in self.policies_of_all([subject]))

    def policies_of_all(self, subjects: Sequence[Subject]) -> list[tuple[Subject, PolicyRow]]:
        """Returns the policies of subjects, in their order; the policies are read at once."""
        rows: list[tuple[Subject, AttachmentRow]] = []
        for subject in subjects:
            prefix = attachment_key(subject.kind, subject.id, "")
            for page in self.table.pages(prefix):
                rows += [(subject, found.row) for found in page]
        mine = [(one, row) for one, row in rows if row.subject_incarnation == one.incarnation]
        policies = self._policies.find_many(row.policy for _, row in mine)
        return [
            (subject, policies[row.policy])
            for subject, row in mine
            if _is_policy(row, policies.get(row.policy))
        ]

    def find_incarnation(self, kind: SubjectKind, subject: str) -> bytes | None:
        """Returns the present incarnation of a user or a group, None if there is none."""
        if kind == "group" and subject == EVERYONE:
            return EVERYONE_INCARNATION
        found = self._users.find(subject) if kind == "user" else self._groups.find(subject)
        return None if found is None else found.incarnation

    def get_incarnation(self, kind: SubjectKind, subject: str) -> bytes:
        """Returns the present incarnation of a user or a group; NotFound if there is none."""
        found = self.find_incarnation(kind, subject)
        if found is None:
            raise self._subject_not_found(kind, subject)
        return found

    def prune_subject(self, kind: SubjectKind, subject: str, retry: Retry) -> None:
        """Removes the attachments of a user or a group that do not count."""
        for page in self.table.pages(attachment_key(kind, subject, "")):
            # Read after the rows: an incarnation that is not present now never comes back.
            present = self.find_incarnation(kind, subject)
            self._prune([one for one in page if one.row.subject_incarnation != present], retry)

    def prune_policy(self, policy: str, retry: Retry) -> None:
        """Removes the attachments of a policy that do not count."""
        for page in self.table.pages():
            mine = [one for one in page if one.row.policy == policy]
            if mine:
                present = self._policies.find(policy)
                self._prune([one for one in mine if not _is_policy(one.row, present)], retry)

    def _prune(self, found: Sequence[Stamped[AttachmentRow]], retry: Retry) -> None:
        doubt = Doubt("an attachment that does not count was removed", "send the request again")
        for one in found:
            if one.row.subject_incarnation:
                self.table.clear(one, retry, doubt)

    def _subject_not_found(self, kind: SubjectKind, subject: str) -> NotFound:
        rows: NamedRows[UserRow] | NamedRows[GroupRow] = (
            self._users if kind == "user" else self._groups
        )
        return rows.not_found(subject)


def _key(row: AttachmentRow) -> bytes:
    return attachment_key(row.subject_kind, row.subject, row.policy)


def _is_policy(row: AttachmentRow, policy: PolicyRow | None) -> bool:
    return policy is not None and row.policy_incarnation == policy.incarnation


def _same_ends(row: AttachmentRow, other: AttachmentRow) -> bool:
    ends = row.subject_incarnation, row.policy_incarnation
    return ends == (other.subject_incarnation, other.policy_incarnation)
