"""Who calls, and the one place where every use case is authorised."""

from __future__ import annotations

from enum import Enum
from typing import Protocol

import msgspec


class Call(msgspec.Struct, frozen=True):
    """Who asks; a key makes a write take effect once, however often it is sent.

    `digest` is that of the whole request: the same key with another request is refused.
    """

    who: str = ""
    idempotency_key: str | None = None
    digest: bytes = b""


class Right(Enum):
    """What a use case does, as rules will name it."""

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


class Gate(Protocol):
    """Decides whether somebody may; raises Denied."""

    def check(self, call: Call, right: Right, reference: str | None = None) -> None:
        """Returns if the caller has the right."""
        ...


class OpenPolicy:
    """Lets everybody in: there is no authentication yet, and the server binds loopback only."""

    def check(self, call: Call, right: Right, reference: str | None = None) -> None:
        """Returns."""


ANYONE = Call()
