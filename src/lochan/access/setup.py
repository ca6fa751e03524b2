"""Set-up, which happens once: the first user, three groups with their policies, the first token.

The steps, and what a crash after each leaves:

1. Read the row of set-up. If there is one, set-up was done: go to step 4. (Nothing.)
2. Reserve the rows that set-up writes: blank ones, which count as absent. Callers that do so at the
   same time get the same stamps. (Blank rows; set-up can be repeated by any caller.)
3. Write the row of set-up on condition that there is none. It contains the user, the hash of the
   token and the stamps of step 2, and it is never removed. One caller wins: **from here on requests
   need credentials**. All others have written nothing that counts. (The row of set-up. Any caller
   that reads it finishes it, so its token is valid before the first request with it is decided.)
4. If the row is not finished: fill each reserved row by its stamp. A stamp is used once, so however
   many callers do this, also late ones, each row is filled once, and one that an administrator
   deleted since is not filled again. (Some of the rows; the token is the last one.)
5. Mark the row of set-up as finished. (Everything is done.)

The caller chooses the token before step 1, so one that crashes, or whose reply is lost, sends the
same request again, and its token is the one that counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import msgspec

from lochan.access.attachments import Attachments
from lochan.access.credentials import Credentials
from lochan.access.memberships import Memberships
from lochan.access.named_rows import NamedRows
from lochan.access.policy_rows import PolicyRows
from lochan.access.records import (
    ACCESS_PARTITION,
    SETUP_FORM,
    SETUP_KEY,
    AttachmentRow,
    GroupRow,
    MembershipRow,
    PolicyRow,
    SetupRow,
    TokenRow,
    UserRow,
)
from lochan.access.tables import AccessTable, after_effect
from lochan.base.checks import check_stored
from lochan.base.errors import Conflict, Corrupt
from lochan.kv.store import Stamp, Store
from lochan.model.access import Statement
from lochan.persist.retry import Retry
from lochan.persist.rows import Done, Doubt, RowTable, Stamped, Write, send_until_known

ADMINS: Final = "admins"

_ALLOWED: Final = {
    "admin": ("*",),
    "writer": ("read", "write", "manage_own_tokens"),
    "reader": ("read", "manage_own_tokens"),
}
_GROUPS: Final = {ADMINS: "admin", "writers": "writer", "readers": "reader"}
_DOUBT: Final = Doubt("access was set up", "send the same request again")

Reserved = tuple[AccessTable[Any], msgspec.Struct, msgspec.Struct]
"""A table, the blank row that is reserved in it, and the row that it is filled with."""


class Setup:
    """The set-up of one store; for any number of threads."""

    def __init__(
        self,
        store: Store,
        users: NamedRows[UserRow],
        groups: NamedRows[GroupRow],
        policies: PolicyRows,
        memberships: Memberships,
        attachments: Attachments,
        tokens: Credentials[TokenRow],
    ) -> None:
        self._users = users
        self._groups = groups
        self._policies = policies
        self._memberships = memberships
        self._attachments = attachments
        self._tokens = tokens
        self._rows: RowTable[SetupRow] = RowTable(
            store, ACCESS_PARTITION, SETUP_FORM, lambda _: SETUP_KEY
        )

    def find(self) -> SetupRow | None:
        """Step 1: returns the row of set-up, perhaps not finished; None if there is none."""
        found = self._rows.fetch(SETUP_KEY)
        return None if found is None else found.row

    def begin(self, wanted: SetupRow, retry: Retry) -> SetupRow:
        """Steps 2 and 3: sets up, unless another caller does; returns the row that counts."""
        row = msgspec.structs.replace(wanted, stamps=self._reserve(wanted, retry))

        def decide(
            found: Stamped[SetupRow] | None,
        ) -> Write[SetupRow, SetupRow] | Done[SetupRow]:
            return Write(row, row) if found is None else Done(found.row)

        return self._rows.swap(SETUP_KEY, decide, retry, _DOUBT)

    def replace_key_check(self, key_check: bytes, retry: Retry) -> bool:
        """Keeps another proof of the key of the servers; returns whether something was set up."""

        def decide(
            found: Stamped[SetupRow] | None,
        ) -> Write[SetupRow, bool] | Done[bool]:
            if found is None or found.row.key_check == key_check:
                return Done(found is not None)
            return Write(msgspec.structs.replace(found.row, key_check=key_check), True)

        return self._rows.swap(SETUP_KEY, decide, retry, _DOUBT)

    def _reserve(self, setup: SetupRow, retry: Retry) -> tuple[bytes, ...]:
        """Step 2: returns the stamps of blank rows."""
        stamps: list[bytes] = []
        for table, blank, _ in self._reserved(setup):
            found = table.reserve(blank, retry)
            stamps.append(found.stamp)
            # Another caller may have set up meanwhile and filled the row; then that one counts.
            if found.row != blank and self.find() is None:
                name = table.key_of(found.row).decode()
                raise Conflict(
                    f"set-up needs an empty store of users, and there is {name!r}: delete it first"
                )
        return tuple(stamps)

    def finish(self, setup: SetupRow, retry: Retry) -> SetupRow:
        """Steps 4 and 5: writes everything that a row of set-up stands for; returns it finished."""
        with after_effect(_DOUBT):
            return self._finish(setup, retry)

    def _finish(self, setup: SetupRow, retry: Retry) -> SetupRow:
        reserved = self._reserved(setup)
        check_stored(len(setup.stamps) == len(reserved), "set-up names the rows that it reserved")
        for (table, blank, row), stamp in zip(reserved, setup.stamps, strict=True):
            if isinstance(row, TokenRow):
                self._tokens.mark_owned(row, retry)
            write = partial(table.update, row, Stamped(blank, Stamp(stamp)))
            # If it is lost, another caller has filled the row.
            send_until_known(write, partial(Done, None), retry, _DOUBT)

        def decide(
            found: Stamped[SetupRow] | None,
        ) -> Write[SetupRow, SetupRow] | Done[SetupRow]:
            if found is None:
                raise Corrupt("the row of set-up is gone, and it is never removed")
            if found.row.finished:
                return Done(found.row)
            finished = msgspec.structs.replace(found.row, finished=True)
            return Write(finished, finished)

        return self._rows.swap(SETUP_KEY, decide, retry, _DOUBT)

    def _reserved(self, setup: SetupRow) -> Sequence[Reserved]:
        """Returns everything that is written for a row of set-up, always in the same order."""
        new, now_us, admin = setup.incarnation, setup.created_us, setup.admin
        rows: list[Reserved] = []
        for name, actions in _ALLOWED.items():
            allow = Statement(effect="allow", actions=actions)
            policy = PolicyRow(1, name, new, now_us, "", False, 1, (new,), (allow,))
            rows.append((self._policies, PolicyRow(1, name, b""), policy))
        for name, policy_name in _GROUPS.items():
            rows.append((self._groups, GroupRow(1, name, b""), GroupRow(1, name, new, now_us)))
            empty = AttachmentRow(1, "group", name, policy_name)
            attached = AttachmentRow(1, "group", name, policy_name, new, new, now_us)
            rows.append((self._attachments.table, empty, attached))
        member = MembershipRow(1, admin, ADMINS, new, new, now_us)
        token = TokenRow(1, setup.token, admin, new, now_us, setup.digest, description="set-up")
        return [
            *rows,
            (self._users, UserRow(1, admin, b""), UserRow(1, admin, new, now_us)),
            (self._memberships.table, MembershipRow(1, admin, ADMINS), member),
            (self._tokens.table, TokenRow(1, setup.token, admin), token),
        ]
