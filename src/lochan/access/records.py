"""The rows of users, groups, memberships, policies, attachments and credentials.

All are in one partition of the store, under the keys that `*_key` returns. A row contains its own
ids, so that one that was written under the key of another is noticed.

*Incarnations* are random: what was deleted and created again is another user, group or policy. Rows
that point to one are void if it is no longer the present incarnation. A *blank* row has an empty
incarnation, so it points to nothing and counts as absent; `tables.py` states what it is for. A row
that is marked `deleting` counts as absent, too.

Key order is the order of ids: `!` sorts before every character of an id.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from lochan.base.ids import ROOT_INSTANCE
from lochan.codec.forms import RowForm
from lochan.kv.store import Kind, partition
from lochan.model.access import Statement, SubjectKind

ACCESS_PARTITION: Final = partition(ROOT_INSTANCE, Kind.ACCESS)

OwnedKind = Literal["token", "access-key"]
"""What a user owns besides memberships and attachments."""


class NamedRow(msgspec.Struct, frozen=True, array_like=True):
    """What users, groups and policies have in common."""

    format: Literal[1]
    id: str
    incarnation: bytes
    created_us: int = 0
    description: str = ""
    deleting: bool = False


class UserRow(NamedRow, frozen=True, array_like=True):
    """A person or a program."""


class GroupRow(NamedRow, frozen=True, array_like=True):
    """A group; its name is a role of its members."""


class PolicyRow(NamedRow, frozen=True, array_like=True):
    """A policy: statements under one name.

    `version` counts the changes of one incarnation. `writers` are the operation ids of the last
    ones, the latest first, so that a writer whose reply was lost finds its own.
    """

    version: int = 0
    writers: tuple[bytes, ...] = ()
    statements: tuple[Statement, ...] = ()


class MembershipRow(msgspec.Struct, frozen=True, array_like=True):
    """That a user is a member of a group, each in one incarnation."""

    format: Literal[1]
    user: str
    group: str
    user_incarnation: bytes = b""
    group_incarnation: bytes = b""
    created_us: int = 0


class AttachmentRow(msgspec.Struct, frozen=True, array_like=True):
    """That a policy applies to a user or to the members of a group."""

    format: Literal[1]
    subject_kind: SubjectKind
    subject: str
    policy: str
    subject_incarnation: bytes = b""
    policy_incarnation: bytes = b""
    created_us: int = 0


class OwnedRow(msgspec.Struct, frozen=True, array_like=True):
    """That a token or an access key may be that of a user: by it those of one user are found.

    It is written before what it points to, and removed after it. It grants nothing.
    """

    format: Literal[1]
    kind: OwnedKind
    user: str
    id: str


class UserOwnedRow(msgspec.Struct, frozen=True, array_like=True):
    """What tokens and access keys have in common."""

    format: Literal[1]
    id: str
    user: str
    user_incarnation: bytes = b""
    created_us: int = 0


class CredentialRow(UserOwnedRow, frozen=True, array_like=True):
    """An access key; its secret is sealed with the key of the servers, because it signs."""

    sealed: bytes = b""
    description: str = ""


class TokenScope(msgspec.Struct, frozen=True, array_like=True):
    """A policy that limits a token, in one incarnation."""

    policy: str
    incarnation: bytes


class TokenRow(UserOwnedRow, frozen=True, array_like=True):
    """An API token, of which only a hash is kept.

    With `scopes` it may do only what both its user and at least one of these policies may. A scope
    whose policy was deleted allows nothing.
    """

    digest: bytes = b""
    expires_us: int | None = None
    scopes: tuple[TokenScope, ...] = ()
    description: str = ""


class SetupRow(msgspec.Struct, frozen=True, array_like=True):
    """That the first user was made: from then on every request needs credentials.

    It contains everything that set-up writes after it, so that any server can finish it; `stamps`
    are those of the blank rows that are filled then, and `incarnation` is that of every one of
    them. `key_check` is sealed with the key of the servers, so that a server with another one
    notices.
    """

    format: Literal[1]
    admin: str
    token: str
    digest: bytes
    incarnation: bytes
    created_us: int
    key_check: bytes
    stamps: tuple[bytes, ...] = ()
    finished: bool = False


USER_FORM: Final = RowForm(UserRow, "user")
GROUP_FORM: Final = RowForm(GroupRow, "group")
POLICY_FORM: Final = RowForm(PolicyRow, "policy")
MEMBERSHIP_FORM: Final = RowForm(MembershipRow, "membership")
ATTACHMENT_FORM: Final = RowForm(AttachmentRow, "attachment of a policy")
OWNED_FORM: Final = RowForm(OwnedRow, "list of a user's credentials")
CREDENTIAL_FORM: Final = RowForm(CredentialRow, "access key")
TOKEN_FORM: Final = RowForm(TokenRow, "token")
SETUP_FORM: Final = RowForm(SetupRow, "set-up")

SETUP_KEY: Final = b"setup"

USERS: Final = b"users/"
GROUPS: Final = b"groups/"
POLICIES: Final = b"policies/"
MEMBERSHIPS: Final = b"members/"
ATTACHMENTS: Final = b"attached/"
OWNED: Final = b"owned/"
CREDENTIALS: Final = b"credentials/"
TOKENS: Final = b"tokens/"


def user_key(user: str) -> bytes:
    """Returns the key of a user's row."""
    return USERS + user.encode()


def group_key(group: str) -> bytes:
    """Returns the key of a group's row."""
    return GROUPS + group.encode()


def policy_key(policy: str) -> bytes:
    """Returns the key of a policy's row."""
    return POLICIES + policy.encode()


def membership_key(user: str, group: str) -> bytes:
    """Returns the key of a membership; those of one user follow each other."""
    return MEMBERSHIPS + f"{user}!{group}".encode()


def attachment_key(subject_kind: SubjectKind, subject: str, policy: str) -> bytes:
    """Returns the key of an attachment; those of one user or group follow each other."""
    return ATTACHMENTS + f"{subject_kind}/{subject}!{policy}".encode()


def owned_key(kind: OwnedKind, user: str, owned: str) -> bytes:
    """Returns the key under which a user's tokens or access keys follow each other."""
    return OWNED + f"{kind}/{user}!{owned}".encode()


def credential_key(credential: str) -> bytes:
    """Returns the key of an access key's row."""
    return CREDENTIALS + credential.encode()


def token_key(token: str) -> bytes:
    """Returns the key of a token's row."""
    return TOKENS + token.encode()
