"""What users see of access: users, groups, policies, tokens, access keys, decisions.

Secrets appear only in `NewToken`, `NewAccessKey` and `Login`, which are returned once.
"""

from __future__ import annotations

from typing import Literal

import msgspec

SubjectKind = Literal["user", "group"]
"""What a policy may be attached to."""


class Statement(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """One rule of a policy: an effect on actions, on what all of its patterns match.

    A pattern is a name, or `*` for every name, or a prefix that ends at a separator before a `*`:
    `dev/*` for references, `sales.*` for keys, `raw/2026/*` for the paths of files. `rule` is a
    condition in CEL, empty for none.

    It is stored as it is shown. A field that is not known is refused and not left out: without it
    a statement could allow more than its author wrote.
    """

    effect: Literal["allow", "deny"]
    actions: tuple[str, ...]
    repositories: tuple[str, ...] = ("*",)
    references: tuple[str, ...] = ("*",)
    keys: tuple[str, ...] = ("*",)
    paths: tuple[str, ...] = ("*",)
    rule: str = ""


class User(msgspec.Struct, frozen=True):
    """A person or a program."""

    id: str
    description: str = ""
    created_us: int = 0


class Group(msgspec.Struct, frozen=True):
    """A group of users; its name is a role of its members."""

    id: str
    description: str = ""
    created_us: int = 0


class AccessPolicy(msgspec.Struct, frozen=True):
    """Statements under one name; `version` counts the changes, 0 for one that is not stored."""

    id: str
    statements: tuple[Statement, ...]
    description: str = ""
    created_us: int = 0
    version: int = 0


class Token(msgspec.Struct, frozen=True):
    """An API token, without its secret; `scopes` are policies that limit what it may do."""

    id: str
    user: str
    description: str = ""
    created_us: int = 0
    expires_us: int | None = None
    scopes: tuple[str, ...] = ()


class NewToken(msgspec.Struct, frozen=True):
    """A token with its text, which is shown once."""

    token: Token
    secret: str

    def __repr__(self) -> str:
        return f"{type(self).__name__}(***)"


class AccessKey(msgspec.Struct, frozen=True):
    """An access key, without its secret."""

    id: str
    user: str
    description: str = ""
    created_us: int = 0


class NewAccessKey(msgspec.Struct, frozen=True):
    """An access key with its secret, which is shown once."""

    key: AccessKey
    secret: str

    def __repr__(self) -> str:
        return f"{type(self).__name__}(***)"


class Login(msgspec.Struct, frozen=True):
    """A short-lived token that an access key was exchanged for."""

    secret: str
    expires_us: int

    def __repr__(self) -> str:
        return f"{type(self).__name__}(***)"


class Identity(msgspec.Struct, frozen=True):
    """Who the caller is."""

    name: str
    roles: tuple[str, ...] = ()
    credential: str = ""


class AccessStatus(msgspec.Struct, frozen=True):
    """Whether requests need credentials."""

    is_set_up: bool
    accepts_oidc: bool = False


class Explanation(msgspec.Struct, frozen=True):
    """Why something is allowed or denied: the statement that decides, None if none matches."""

    allowed: bool
    reason: str
    policy: str = ""
    statement: int | None = None
    via: str = ""
