"""Checking the rows of access: reads every one, holds it against its key, changes nothing.

A row that points to a user, a group or a policy that is gone is not reported: such rows are void,
and deletions leave them for a while. A credential without the row by which its user finds it is
reported, because the user could neither list nor revoke it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from lochan.access.records import (
    ACCESS_PARTITION,
    ATTACHMENT_FORM,
    ATTACHMENTS,
    CREDENTIAL_FORM,
    CREDENTIALS,
    GROUP_FORM,
    GROUPS,
    MEMBERSHIP_FORM,
    MEMBERSHIPS,
    OWNED,
    OWNED_FORM,
    POLICIES,
    POLICY_FORM,
    SETUP_FORM,
    SETUP_KEY,
    TOKEN_FORM,
    TOKENS,
    USER_FORM,
    USERS,
    CredentialRow,
    OwnedKind,
    SetupRow,
    TokenRow,
    attachment_key,
    credential_key,
    group_key,
    membership_key,
    owned_key,
    policy_key,
    token_key,
    user_key,
)
from lochan.access.revision import REVISION_BYTES, REVISION_KEY
from lochan.base.errors import Corrupt
from lochan.codec.forms import RowForm
from lochan.kernel.check_findings import Findings, Problem, RowKind, Unjudged
from lochan.kv.store import Entry, Store
from lochan.persist.rows import scan_all

_Kind = tuple[RowForm[Any], Callable[[Any], bytes]]
"""How rows are read, and the key that each has."""

_KINDS: Final[dict[bytes, _Kind]] = {
    SETUP_KEY: (SETUP_FORM, lambda _: SETUP_KEY),
    USERS: (USER_FORM, lambda row: user_key(row.id)),
    GROUPS: (GROUP_FORM, lambda row: group_key(row.id)),
    POLICIES: (POLICY_FORM, lambda row: policy_key(row.id)),
    MEMBERSHIPS: (MEMBERSHIP_FORM, lambda row: membership_key(row.user, row.group)),
    ATTACHMENTS: (
        ATTACHMENT_FORM,
        lambda row: attachment_key(row.subject_kind, row.subject, row.policy),
    ),
    OWNED: (OWNED_FORM, lambda row: owned_key(row.kind, row.user, row.id)),
    CREDENTIALS: (CREDENTIAL_FORM, lambda row: credential_key(row.id)),
    TOKENS: (TOKEN_FORM, lambda row: token_key(row.id)),
}


def check_access(store: Store, findings: Findings) -> Sequence[Unjudged]:
    """Checks all rows of access in a store; returns how many are of no known kind."""
    unknown = 0
    for entry in scan_all(store, ACCESS_PARTITION):
        if entry.key == REVISION_KEY:
            findings.count("access")
            findings.attempt(RowKind.ACCESS, "revision", _check_revision, entry.value)
            continue
        kind = _kind_of(entry.key)
        if kind is None:
            unknown += 1
            continue
        findings.count("access")
        row = findings.attempt(RowKind.ACCESS, _shown(entry.key), _read, entry, kind)
        if isinstance(row, TokenRow | CredentialRow) and row.user_incarnation:
            _check_listed(store, findings, entry, row)
        elif isinstance(row, SetupRow) and not row.finished:
            what = "set-up stopped half way"
            findings.add(RowKind.ACCESS, _shown(entry.key), Problem.UNFINISHED, what)
    return (
        [Unjudged("unknown access rows", unknown, "another Lochan wrote them")] if unknown else []
    )


def _kind_of(key: bytes) -> _Kind | None:
    whole = _KINDS.get(key)
    if whole is not None:
        return whole
    prefix, slash, _ = key.partition(b"/")
    return _KINDS.get(prefix + slash) if slash else None


def _read(entry: Entry, kind: _Kind) -> Any:
    form, key_of = kind
    row = form.decode(entry.value)
    if key_of(row) != entry.key:
        raise Corrupt("the row is that of another key")
    return row


def _check_revision(value: bytes) -> None:
    if len(value) != REVISION_BYTES:
        raise Corrupt(f"a revision has {REVISION_BYTES} bytes, not {len(value)}")


def _check_listed(
    store: Store, findings: Findings, entry: Entry, row: TokenRow | CredentialRow
) -> None:
    """Reports a credential that its user cannot find; one that was deleted meanwhile is none."""
    kind: OwnedKind = "token" if isinstance(row, TokenRow) else "access-key"
    listed = owned_key(kind, row.user, row.id)
    if store.get(ACCESS_PARTITION, listed) is None and (
        store.get(ACCESS_PARTITION, entry.key) is not None
    ):
        what = "the credential is not in the list of its user, who cannot find and revoke it"
        findings.add(RowKind.ACCESS, _shown(entry.key), Problem.INCONSISTENT, what)


def _shown(key: bytes) -> str:
    return key.decode("utf-8", "backslashreplace")
