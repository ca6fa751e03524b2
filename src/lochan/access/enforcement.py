"""The policy of a server: decides by the rights that a call carries.

What a caller may not see looks absent, with the error that there would be without it:

| the caller has | error |
|---|---|
| no credentials | Unauthenticated |
| no right at all in the repository | NotFound, as for a repository that does not exist |
| no right to view the reference | ReferenceNotFound, as for a name that does not exist |
| no right to view all references, for a commit by its hash alone | ReferenceNotFound |
| the right to read other keys, not this one | ContentNotFound |
| the right to see it, not to do this | Denied |

A decision never depends on whether something exists, so a refusal to create or to write reveals
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NoReturn

from lochan.access.audit import Audit, AuditEvent
from lochan.access.policy import (
    KEYED_ACTIONS,
    REFERENCE_ACTIONS,
    Action,
    Call,
    KeyRight,
    Resource,
    Rights,
)
from lochan.base.errors import (
    ContentNotFound,
    Denied,
    LochanError,
    NotFound,
    ReferenceNotFound,
    Unauthenticated,
)
from lochan.base.keys import SEPARATOR, table_key
from lochan.base.limits.policies import AUDIT_KEYS_MAX
from lochan.catalog.conflicts import text_of
from lochan.model.commits import ContentKey

_NO_CREDENTIALS: Final = "this needs credentials: a token or an access key"
_READING_KEYS: Final = frozenset((Action.READ_CONTENT, Action.READ_ENTRIES))


class EnforcedPolicy:
    """Decides by the rights of the call; reports decisions to the audit log."""

    def __init__(self, audit: Audit | None = None) -> None:
        self._audit = audit

    def decide(self, call: Call, action: Action, resource: Resource) -> None:
        """Returns if the caller may do it; raises an error of the table above otherwise."""
        rights = call.rights
        if rights is None:
            self._refuse(call, action, resource, Unauthenticated(_NO_CREDENTIALS))
        right = rights.key_right(action, resource.repository, resource.reference)
        if right is not None:
            denied: ContentKey | bytes | None = None
            if resource.keys and action in KEYED_ACTIONS:
                denied = _find_uncovered(right, resource.keys)
                allowed = denied is None
            else:
                allowed = rights.allows(action, resource.repository, resource.reference)
            if not allowed:
                self._refuse(call, action, resource, _error(call, rights, action, resource, denied))
        audit = self._audit
        if audit is not None and audit.wants(action, True):
            audit.record(_event(call, action, resource, allowed=True, reason=""))

    def allows(self, call: Call, action: Action, resource: Resource) -> bool:
        """Returns whether `decide` would return; records nothing."""
        keys = [raw_key(key) for key in resource.keys]
        return _rights_of(call).allows(action, resource.repository, resource.reference, keys)

    def sees(self, call: Call, repository: str) -> bool:
        """Returns whether anything at all is allowed in a repository."""
        return _rights_of(call).sees(repository)

    def key_right(
        self, call: Call, action: Action, repository: str, reference: str | None
    ) -> KeyRight | None:
        """Returns the keys for which a caller may do something in a reference; None for all."""
        return _rights_of(call).key_right(action, repository, reference)

    def record_refusal(
        self, call: Call, action: Action, resource: Resource, error: LochanError
    ) -> None:
        """Records what a use case refuses by itself, unless it is recorded already."""
        if isinstance(error, Denied):
            if error.recorded:
                return
            error.recorded = True
        audit = self._audit
        if audit is not None and audit.wants(action, False):
            audit.record(_event(call, action, resource, allowed=False, reason=error.kind))

    def _refuse(
        self, call: Call, action: Action, resource: Resource, error: LochanError
    ) -> NoReturn:
        self.record_refusal(call, action, resource, error)
        raise error


def _rights_of(call: Call) -> Rights:
    if call.rights is None:
        raise Unauthenticated(_NO_CREDENTIALS)
    return call.rights


def raw_key(key: ContentKey | bytes) -> bytes:
    """Returns a key as the index stores it; InvalidKey if two keys could be meant by it."""
    if isinstance(key, bytes):
        return key
    text = SEPARATOR.join(key)
    if text.count(SEPARATOR) == len(key) - 1:
        try:
            return b"t" + text.encode()
        except UnicodeEncodeError:
            pass
    return bytes(table_key(key))


def _find_uncovered(
    right: KeyRight, keys: Sequence[ContentKey | bytes]
) -> ContentKey | bytes | None:
    for key in keys:
        if not right.covers(raw_key(key)):
            return key
    return None


def _error(
    call: Call,
    rights: Rights,
    action: Action,
    resource: Resource,
    uncovered: ContentKey | bytes | None,
) -> LochanError:
    """Returns the error for what a caller may not do."""
    repository, reference = resource.repository, resource.reference
    if repository and action is not Action.CREATE_REPOSITORY and not rights.sees(repository):
        return NotFound(f"there is no repository {repository!r}")
    if action in REFERENCE_ACTIONS and action is not Action.CREATE_REFERENCE:
        views = rights.allows(Action.VIEW_REFERENCE, repository, reference)
        if reference is not None and not views:
            return ReferenceNotFound(f"Named reference '{reference}' not found")
        if resource.commit is not None and not views:
            return ReferenceNotFound(f"Commit '{resource.commit.hex()}' not found")
    where = f"repository {repository!r}" if repository else "this server"
    if reference is not None:
        where = f"reference {reference!r} of {where}"
    if uncovered is not None:
        shown = _shown(uncovered)
        if action in _READING_KEYS and rights.allows(action, repository, reference):
            key = uncovered if isinstance(uncovered, tuple) else ()
            message = f"Could not find content for key '{shown}' in reference '{reference or ''}'."
            return ContentNotFound(message, key)
        where = f"key {shown!r} in {where}"
    return Denied(
        f"{call.principal or 'the caller'} may not {action.value} on {where}; "
        "an administrator can explain which policy decides"
    )


def _event(
    call: Call, action: Action, resource: Resource, *, allowed: bool, reason: str
) -> AuditEvent:
    return AuditEvent(
        principal=call.principal,
        roles=call.roles,
        credential=call.credential,
        origin=call.origin,
        trace=call.trace,
        action=action,
        repository=resource.repository,
        reference=resource.reference,
        keys=tuple([_shown(key) for key in resource.keys[:AUDIT_KEYS_MAX]]),
        key_count=len(resource.keys),
        allowed=allowed,
        reason=reason,
    )


def _shown(key: ContentKey | bytes) -> str:
    if isinstance(key, bytes):
        return key[1:].decode("utf-8", "replace").replace(SEPARATOR, ".")
    return text_of(key)
