"""Events of the audit log: who was allowed or denied what, on which resource.

An event contains names only: no secret, no content, no message of a commit. The sink adds the time
and writes it; this package has neither a clock nor a file.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from lochan.access.policy import Action


class AuditEvent(msgspec.Struct, frozen=True):
    """One decision; `keys` are the first few of the request, `key_count` is the number of all."""

    principal: str
    roles: tuple[str, ...]
    credential: str
    origin: str
    trace: str
    action: Action
    repository: str
    reference: str | None
    keys: tuple[str, ...]
    key_count: int
    allowed: bool
    reason: str = ""


class Audit(Protocol):
    """Receives the decisions; called by the thread that decides, so it must not wait."""

    def wants(self, action: Action, allowed: bool) -> bool:
        """Returns whether events of this kind are recorded; called before an event is made."""
        ...

    def record(self, event: AuditEvent) -> None:
        """Records an event."""
        ...
