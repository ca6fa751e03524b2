"""Who calls and what a caller may do: the one place where every use case is authorised.

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
from typing import Protocol

import msgspec

from lochan.base.ids import ObjId
from lochan.base.names import RefName
from lochan.codec.rows import ReferenceRow
from lochan.kernel.build import Head
from lochan.model.commits import ContentKey


class Call(msgspec.Struct, frozen=True):
    """One request as its face has authenticated it; required by every use case, reads included.

    `principal` is empty while there is no authentication. An idempotency key makes a write take
    effect once, however often it is sent; `digest` is that of the whole request, because the same
    key with another request is refused. `trace` names the request in logs.
    """

    principal: str = ""
    idempotency_key: str | None = None
    digest: bytes = b""
    roles: tuple[str, ...] = ()
    repository: str = ""
    trace: str = ""


class Action(Enum):
    """What a use case does, as rules will name it; claims of idempotency keys store the value."""

    VIEW_REFERENCE = "view_reference"
    CREATE_REFERENCE = "create_reference"
    ASSIGN_REFERENCE = "assign_reference"
    DELETE_REFERENCE = "delete_reference"
    READ_ENTRIES = "read_entries"
    READ_CONTENT = "read_content"
    READ_LOG = "read_log"
    COMMIT = "commit"
    READ_SETTINGS = "read_settings"
    WRITE_SETTINGS = "write_settings"
    EXCHANGE_OBJECTS = "exchange_objects"
    CREATE_REPOSITORY = "create_repository"
    LIST_REPOSITORIES = "list_repositories"


class Resource(msgspec.Struct, frozen=True):
    """What an action is done to, as far as it was resolved.

    `reference` is None for a commit that is named by its hash alone, and for what belongs to no
    reference. `incarnation` and `commit` are None where the action is on a name: to create it, to
    read its ref-log, or before anything else of a write is read. `keys` are those that the request
    names; without any it is about all keys.
    """

    repository: str
    reference: str | None = None
    incarnation: int | None = None
    commit: ObjId | None = None
    keys: Sequence[ContentKey] = ()


class Policy(Protocol):
    """Decides what callers may do."""

    def decide(self, call: Call, action: Action, resource: Resource) -> None:
        """Returns if the caller may do it; raises Denied otherwise."""
        ...


class OpenPolicy:
    """Allows everything: there is no authentication yet, and the server binds to loopback only."""

    def decide(self, call: Call, action: Action, resource: Resource) -> None:
        """Returns."""


class Access:
    """The policy of one repository."""

    def __init__(self, repository: str, policy: Policy) -> None:
        self.repository = repository
        self.policy = policy

    def decide(
        self,
        call: Call,
        action: Action,
        reference: str | None = None,
        incarnation: int | None = None,
        commit: ObjId | None = None,
        keys: Sequence[ContentKey] = (),
    ) -> None:
        """Returns if the caller may do it; raises Denied otherwise."""
        resource = Resource(self.repository, reference, incarnation, commit, keys)
        self.policy.decide(call, action, resource)


class WriteTarget(msgspec.Struct, frozen=True):
    """What one call writes, and the decisions on it.

    `created` are names that do not exist yet; they are decided on instead of the reference that
    lists them. `source` is the name of the source, for the claim.
    """

    access: Access
    call: Call
    action: Action
    name: RefName
    keys: Sequence[ContentKey] = ()
    source: str = ""
    created: Sequence[str] = ()

    def check(self, incarnation: int | None = None) -> None:
        """Raises Denied unless the caller may write it by its name, or an incarnation of it."""
        decide, call = self.access.decide, self.call
        for name in self.created:
            decide(call, self.action, name)
        if not self.created:
            decide(call, self.action, self.name, incarnation, None, self.keys)

    def check_row(self, row: ReferenceRow) -> None:
        """Raises Denied unless the caller may write this row."""
        if self.created:
            self.check()
            return
        decide, pointer = self.access.decide, ObjId(row.pointer)
        decide(self.call, self.action, self.name, row.incarnation, pointer, self.keys)

    def check_head(self, head: Head) -> None:
        """Raises Denied unless the caller may commit on this head."""
        decide, row = self.access.decide, head.row
        decide(self.call, self.action, self.name, row.incarnation, head.view.obj_id, self.keys)
