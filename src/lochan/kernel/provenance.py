"""How a commit was made and who caused it, in its hidden headers.

The ref-log is rebuilt from them, and events filter on them. They are made from what authentication
found out, never from what a client sends: author and committer are headers of another kind.
"""

from __future__ import annotations

from typing import Final

import msgspec

from lochan.base.limits.commits import ROLES_CHARACTERS_MAX, ROLES_RECORDED_MAX
from lochan.codec.commits import Headers

KIND_HEADER: Final = "kind"
SOURCE_HEADER: Final = "source"
BASE_HEADER: Final = "base"
WHO_HEADER: Final = "initiator"
OPERATION_HEADER: Final = "operation"
ROLES_HEADER: Final = "roles"
SOURCE_HASH_HEADER: Final = "source-hash"
"""What was merged, if no parent of the commit records it."""

COMMIT_KIND: Final = "commit"

SYSTEM_PREFIX: Final = "system:"
"""Names of initiators that are no users; authentication gives none of them to a caller."""

MORE_ROLES: Final = "…"
"""The last of the recorded roles if there were more; no group has this name."""


class Initiator(msgspec.Struct, frozen=True):
    """Who caused a write, and the roles that it had then; without authentication no name."""

    name: str = ""
    roles: tuple[str, ...] = ()


UNNAMED: Final = Initiator()
SWEEP: Final = Initiator(f"{SYSTEM_PREFIX}sweep")
"""Deletes expired branches."""


def recorded_roles(roles: tuple[str, ...]) -> tuple[str, ...]:
    """Returns roles as they are recorded, in their order; the rest of too many is a mark."""
    size = 0
    for count, role in enumerate(roles):
        size += len(role)
        if count == ROLES_RECORDED_MAX or size > ROLES_CHARACTERS_MAX:
            return (*roles[:count], MORE_ROLES)
    return roles


class Provenance(msgspec.Struct, frozen=True):
    """How a commit was made; an empty field was not recorded.

    `source` is what a user named, a branch or a hash; `base` is in hex.
    """

    kind: str = COMMIT_KIND
    source: str = ""
    base: str = ""
    who: Initiator = UNNAMED
    operation: str = ""
    source_hash: str = ""

    def headers(self) -> Headers:
        """Returns the hidden headers, in order."""
        who = self.who
        if self.kind == COMMIT_KIND and not (self.source or self.base or who.name or who.roles):
            # The case of nearly every commit; the kind `commit` is not stored.
            return ((OPERATION_HEADER, (self.operation,)),) if self.operation else ()
        headers = (
            (BASE_HEADER, self.base),
            (WHO_HEADER, who.name),
            (KIND_HEADER, self.kind),
            (OPERATION_HEADER, self.operation),
            (SOURCE_HEADER, self.source),
            (SOURCE_HASH_HEADER, self.source_hash),
        )
        made = [(name, (value,)) for name, value in headers if value]
        if not who.roles:
            return tuple(made)
        return tuple(sorted([*made, (ROLES_HEADER, who.roles)]))


def read_provenance(hidden: Headers) -> Provenance:
    """Reads hidden headers; others than ours are left aside."""
    if len(hidden) == 1 and hidden[0][0] == OPERATION_HEADER:
        # The case of nearly every commit.
        return Provenance(operation=hidden[0][1][0])
    headers = dict(hidden)

    def first(name: str, default: str = "") -> str:
        values = headers.get(name)
        return values[0] if values else default

    return Provenance(
        first(KIND_HEADER, COMMIT_KIND),
        first(SOURCE_HEADER),
        first(BASE_HEADER),
        Initiator(first(WHO_HEADER), headers.get(ROLES_HEADER, ())),
        first(OPERATION_HEADER),
        first(SOURCE_HASH_HEADER),
    )
