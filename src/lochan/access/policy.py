"""Calls, actions and resources, and the policy that decides on them.

The order of every use case:

1. A face authenticates the request and builds the `Call`.
2. A write with an idempotency key that was done before is answered from its record
   (`service/claims.py`), after a decision on what that record names.
3. Names are resolved once: to a reference, its incarnation and a commit (`service/resolve.py`).
4. The policy decides on exactly that, for the sources of a write as for its target.
5. The use case works on exactly what was decided on. A reference that is deleted and created again
   has another incarnation and needs another decision.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Final, Protocol

import msgspec

from lochan.base.errors import LochanError
from lochan.base.ids import ObjId
from lochan.model.commits import ContentKey


class Principal(msgspec.Struct, frozen=True):
    """Who sends a request, as its face has found out; without a name it is not known.

    `roles` are the names of groups. `rights` is what the caller may do, as it was when the request
    was authenticated: one request is decided by one state of users, groups and policies.
    `credential` names the token or access key, for the audit log.
    """

    name: str = ""
    roles: tuple[str, ...] = ()
    credential: str = ""
    rights: Rights | None = None


ANYONE: Final = Principal()


class Call(msgspec.Struct, frozen=True):
    """One request as its face has authenticated it; required by every use case, reads included.

    `principal` is empty without authentication. An idempotency key makes a write take effect once,
    however often it is sent; `digest` is that of the whole request, because the same key with
    another request is refused. `trace` names the request in logs, `origin` the address that it came
    from. `rights`, `credential` and `roles` are those of the `Principal`.
    """

    principal: str = ""
    idempotency_key: str | None = None
    digest: bytes = b""
    roles: tuple[str, ...] = ()
    repository: str = ""
    trace: str = ""
    rights: Rights | None = None
    credential: str = ""
    origin: str = ""


class Action(Enum):
    """What a use case does, as policies name it; claims of idempotency keys store the value."""

    VIEW_REFERENCE = "view_reference"
    CREATE_REFERENCE = "create_reference"
    ASSIGN_REFERENCE = "assign_reference"
    DELETE_REFERENCE = "delete_reference"
    READ_ENTRIES = "read_entries"
    READ_CONTENT = "read_content"
    READ_LOG = "read_log"
    COMMIT = "commit"
    MERGE = "merge"
    WRITE_CONTENT = "write_content"
    DELETE_CONTENT = "delete_content"
    IMPORT_FILES = "import_files"
    READ_SETTINGS = "read_settings"
    WRITE_SETTINGS = "write_settings"
    EXCHANGE_OBJECTS = "exchange_objects"
    CREATE_REPOSITORY = "create_repository"
    LIST_REPOSITORIES = "list_repositories"
    DELETE_REPOSITORY = "delete_repository"
    READ_ACCESS = "read_access"
    MANAGE_ACCESS = "manage_access"
    MANAGE_OWN_TOKENS = "manage_own_tokens"
    READ_METRICS = "read_metrics"

    # Each is one object, and every decision looks one up: that of Enum is computed in Python.
    __hash__ = object.__hash__


KEYED_ACTIONS: Final = frozenset(
    (Action.READ_ENTRIES, Action.READ_CONTENT, Action.WRITE_CONTENT, Action.DELETE_CONTENT)
)
"""Actions on single keys: policies may allow them for some keys of a reference only."""

REFERENCE_ACTIONS: Final = KEYED_ACTIONS | {
    *(Action.VIEW_REFERENCE, Action.CREATE_REFERENCE, Action.ASSIGN_REFERENCE),
    *(Action.DELETE_REFERENCE, Action.READ_LOG, Action.COMMIT, Action.MERGE),
    Action.IMPORT_FILES,
}
"""Actions in one reference. All but creating one need VIEW_REFERENCE too: rights include that."""


class Resource(msgspec.Struct, frozen=True):
    """What an action is done to, as far as it was resolved.

    `reference` is None for a commit that is named by its hash alone, and for what belongs to no
    reference: only a policy for all references covers it. `incarnation` and `commit` are None where
    the action is on a name: to create it, to read its ref-log, or before anything else of a write
    is read. `keys` are those that the request names; bytes are a key as the index stores it, such
    as that of a file. An action on keys without any is allowed if it is allowed for some key;
    `Policy.key_right` returns for which.
    """

    repository: str
    reference: str | None = None
    incarnation: int | None = None
    commit: ObjId | None = None
    keys: Sequence[ContentKey | bytes] = ()


class KeyRight(Protocol):
    """The keys of a reference for which a caller may do something; equal rights compare equal.

    If the caller may not do it at all, its right covers no key.
    """

    def covers(self, raw: bytes) -> bool:
        """Returns whether the caller may do it to a key, given as the index stores it."""
        ...

    def next_range(self, raw: bytes) -> tuple[bytes, bytes | None] | None:
        """Returns the next range [start, end) that has covered keys at or after a key.

        None if there is none; no end is the end of all keys. A range may begin before the key. What
        lies between ranges is not covered, so that a listing need not read it; within a range
        `covers` decides.
        """
        ...


class Rights(Protocol):
    """What one caller may do: the compiled policies of a user, or of one token of a user."""

    def allows(
        self,
        action: Action,
        repository: str,
        reference: str | None = None,
        keys: Sequence[bytes] = (),
    ) -> bool:
        """Returns whether all of it is allowed; an action on keys without any: for some key.

        Keys are as the index stores them. Without a reference, only policies for all references
        count.
        """
        ...

    def key_right(self, action: Action, repository: str, reference: str | None) -> KeyRight | None:
        """Returns the keys for which an action is allowed; None for all.

        An action that is not on keys is allowed for all keys or for none.
        """
        ...

    def sees(self, repository: str) -> bool:
        """Returns whether anything at all is allowed in a repository; otherwise it looks absent."""
        ...


class Policy(Protocol):
    """Decides what callers may do."""

    def decide(self, call: Call, action: Action, resource: Resource) -> None:
        """Returns if the caller may do it; raises Denied otherwise.

        What the caller may not even view looks absent: then the error is the NotFound that there
        would be without it.
        """
        ...

    def allows(self, call: Call, action: Action, resource: Resource) -> bool:
        """Returns whether `decide` would return.

        It is for what an answer leaves out instead of being refused, so it records no refusal.
        Raises Unauthenticated if the caller has no rights at all to look at.
        """
        ...

    def sees(self, call: Call, repository: str) -> bool:
        """Returns whether anything at all is allowed in a repository; otherwise it looks absent.

        Raises Unauthenticated if the caller has no rights at all to look at.
        """
        ...

    def key_right(
        self, call: Call, action: Action, repository: str, reference: str | None
    ) -> KeyRight | None:
        """Returns the keys for which a caller may do something in a reference; None for all."""
        ...

    def record_refusal(
        self, call: Call, action: Action, resource: Resource, error: LochanError
    ) -> None:
        """Records what a use case refuses by itself, unless it is recorded already."""
        ...


class OpenPolicy:
    """Allows everything: there is no authentication, and the server binds to loopback only."""

    def decide(self, call: Call, action: Action, resource: Resource) -> None:
        """Returns."""

    def allows(self, call: Call, action: Action, resource: Resource) -> bool:  # noqa: ARG002
        """Returns True."""
        return True

    def sees(self, call: Call, repository: str) -> bool:  # noqa: ARG002
        """Returns True."""
        return True

    def key_right(
        self,
        call: Call,  # noqa: ARG002 - the protocol has them
        action: Action,  # noqa: ARG002
        repository: str,  # noqa: ARG002
        reference: str | None,  # noqa: ARG002
    ) -> KeyRight | None:
        """Returns None: all keys."""
        return None

    def record_refusal(
        self, call: Call, action: Action, resource: Resource, error: LochanError
    ) -> None:
        """Records nothing."""
