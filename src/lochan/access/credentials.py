"""The tokens or the access keys of users: rows that are found by their own ids.

Beside each there is an `OwnedRow`, by which those of one user are found. The steps of adding one,
and what a crash after each leaves:

1. Write the `OwnedRow`. (It points to nothing and grants nothing; deleting the user removes it.)
2. Write the row itself, in two steps as `tables.py` describes. (A credential that counts, of which
   the caller does not know the secret; it is listed, so it can be deleted.)
3. Read the user again. If it was deleted meanwhile, remove both rows. (Rows of an incarnation that
   is gone: void.)

Removing one goes the other way: the row first, then the `OwnedRow`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from lochan.access.named_rows import NamedRows
from lochan.access.records import (
    OWNED_FORM,
    OwnedKind,
    OwnedRow,
    UserOwnedRow,
    UserRow,
    owned_key,
)
from lochan.access.tables import AccessTable, after_effect
from lochan.base.errors import AlreadyExists, NotFound, TooLarge
from lochan.codec.forms import RowForm
from lochan.kv.store import Store
from lochan.model.results import Page
from lochan.persist.retry import Retry
from lochan.persist.rows import Done, Doubt, Stamped, Write

Credential = TypeVar("Credential", bound=UserOwnedRow)


class CredentialsKind(msgspec.Struct, Generic[Credential], frozen=True):
    """What differs between tokens and access keys; `blank` builds a row that counts as absent."""

    kind: OwnedKind
    noun: str
    prefix: bytes
    form: RowForm[Credential]
    blank: Callable[[str, str], Credential]
    per_user_max: int


class Credentials(Generic[Credential]):
    """The tokens or the access keys of one store; for any number of threads."""

    def __init__(
        self, store: Store, users: NamedRows[UserRow], kind: CredentialsKind[Credential]
    ) -> None:
        self._users = users
        self._kind = kind
        self.table: AccessTable[Credential] = AccessTable(
            store, kind.prefix, kind.form, lambda row: self.key(row.id)
        )
        self._owned: AccessTable[OwnedRow] = AccessTable(
            store,
            owned_key(kind.kind, "", "").rstrip(b"!"),
            OWNED_FORM,
            lambda row: owned_key(row.kind, row.user, row.id),
        )

    def key(self, name: str) -> bytes:
        """Returns the key of the row of an id."""
        return self._kind.prefix + name.encode()

    def find(self, name: str) -> Credential | None:
        """Returns the row of an id, None if there is none or if its user was deleted."""
        found = self.table.fetch(self.key(name))
        if found is None:
            return None
        row = found.row
        return row if _counts(row, self._users.find(row.user)) else None

    def add(self, row: Credential, retry: Retry) -> None:
        """Adds a row with a new random id; NotFound if its user is deleted meanwhile."""
        if len(self.of_user(row.user)) >= self._kind.per_user_max:
            raise TooLarge(f"a user has at most {self._kind.per_user_max} {self._kind.noun}s")
        self.mark_owned(row, retry)

        def decide(
            found: Stamped[Credential] | None,
        ) -> Write[Credential, None] | Done[None]:
            if found is None or not found.row.user_incarnation:
                return Write(row, None)
            if found.row == row:
                return Done(None)
            raise AlreadyExists(f"there is a {self._kind.noun} {row.id!r} already")

        doubt = Doubt(f"the {self._kind.noun} {row.id!r} was created", "list them")
        self.table.fill(self._kind.blank(row.id, row.user), decide, _same, retry, doubt)
        with after_effect(doubt):
            self.check_owner(row, retry)

    def mark_owned(self, row: Credential, retry: Retry) -> None:
        """Step 1: writes the row by which it is found from its user."""
        self._owned.reserve(self._owned_row(row), retry)

    def check_owner(self, row: Credential, retry: Retry) -> None:
        """Removes a row and raises NotFound if its user was deleted."""
        if not _counts(row, self._users.find(row.user)):
            self._remove(row, retry)
            raise self._users.not_found(row.user)

    def replace(self, old: Credential, new: Credential, retry: Retry) -> bool:
        """Puts one row in the place of another of the same id; False if that has changed."""
        doubt = Doubt(f"the {self._kind.noun} {old.id!r} was replaced", "replace it again")

        def decide(
            found: Stamped[Credential] | None,
        ) -> Write[Credential, bool] | Done[bool]:
            return Done(False) if found is None or found.row != old else Write(new, True)

        def find_done(write: Write[Credential, bool]) -> Done[bool]:
            found = self.table.fetch(self.key(old.id))
            if found is None or found.row != write.row:
                raise doubt.error("the row was changed again since")
            return Done(True)

        return self.table.swap(self.key(old.id), decide, retry, doubt, find_done=find_done)

    def of_user(self, user: str) -> list[Credential]:
        """Returns those of a user in the order of their ids."""
        present = self._users.get(user)
        keys = [self.key(found.row.id) for found in self._owned_by(user)]
        rows = [found.row for found in self.table.fetch_many(keys) if found is not None]
        return [row for row in rows if row.user == user and _counts(row, present)]

    def page(self, user: str, limit: int, after: str) -> Page[Credential]:
        """Returns those of a user in the order of their ids, after an id."""
        rows = [row for row in self.of_user(user) if row.id > after]
        return Page(tuple(rows[:limit]), rows[limit - 1].id if len(rows) > limit else None)

    def delete(self, name: str, retry: Retry) -> None:
        """Removes a row; NotFound if there is none."""
        found = self.find(name)
        if found is None:
            raise NotFound(f"there is no {self._kind.noun} {name!r}")
        self._remove(found, retry)

    def prune_user(self, user: str, retry: Retry) -> None:
        """Removes those of a user that do not count, and the rows by which they are found."""
        for owned in self._owned_by(user):
            found = self.table.fetch(self.key(owned.row.id))
            # Read after the row: an incarnation that is not present now never comes back.
            present = self._users.find(user)
            if found is None or not found.row.user_incarnation:
                # If there is such a user, a writer may be about to write it.
                if present is None:
                    self._clear_owned(owned, retry)
            elif not _counts(found.row, present):
                self._remove(found.row, retry)

    def _remove(self, row: Credential, retry: Retry) -> None:
        doubt = Doubt(f"the {self._kind.noun} {row.id!r} was deleted", "delete it again")
        self._clear(row.id, retry, doubt)
        with after_effect(doubt):
            # If it was replaced meanwhile, by one with another seal, that one is removed next.
            while self._clear(row.id, retry, doubt):
                pass
            owned = self._owned.fetch(self._owned.key_of(self._owned_row(row)))
            if owned is not None:
                self._clear_owned(owned, retry)

    def _clear(self, name: str, retry: Retry, doubt: Doubt) -> bool:
        """Removes the row of an id; returns whether there was one."""
        found = self.table.fetch(self.key(name))
        if found is None or not found.row.user_incarnation:
            return False
        if not self.table.clear(found, retry, doubt):
            retry.again(at_once=True)
        return True

    def _clear_owned(self, owned: Stamped[OwnedRow], retry: Retry) -> None:
        doubt = Doubt(f"the {self._kind.noun} was removed from the list of its user", "repeat it")
        self._owned.clear(owned, retry, doubt)

    def _owned_by(self, user: str) -> list[Stamped[OwnedRow]]:
        prefix = owned_key(self._kind.kind, user, "")
        return [found for page in self._owned.pages(prefix) for found in page]

    def _owned_row(self, row: Credential) -> OwnedRow:
        return OwnedRow(1, self._kind.kind, row.user, row.id)


def _counts(row: UserOwnedRow, user: UserRow | None) -> bool:
    return user is not None and row.user_incarnation == user.incarnation


def _same(present: Credential, written: Credential) -> bool:
    return present == written
