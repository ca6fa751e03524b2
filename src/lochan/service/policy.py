"""What a caller may do: the one place where every use case is authorised.

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
from lochan.model.commits import ContentKey
from lochan.service.calls import Call


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
    """Allows everything: nobody is authenticated yet, and the server binds to loopback only."""

    def decide(self, call: Call, action: Action, resource: Resource) -> None:
        """Returns."""


class Access:
    """The policy, asked about resources of one repository."""

    def __init__(self, repository: str, policy: Policy) -> None:
        self._repository = repository
        self._decide = policy.decide

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
        self._decide(call, action, Resource(self._repository, reference, incarnation, commit, keys))
