"""Users, groups, policies, tokens, access keys and decisions on the wire.

Requests are read strictly (`wire/strict.py`): an unknown field is refused, because it may be the
misspelt condition of a rule. Answers with secrets are `NewTokenJson`, `NewAccessKeyJson` and
`LoginJson`.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from lochan.model.access import (
    AccessKey,
    AccessPolicy,
    AccessStatus,
    Explanation,
    Group,
    Identity,
    Login,
    NewAccessKey,
    NewToken,
    Statement,
    Token,
    User,
)
from lochan.wire.codec import Instant, PageJson, instant, micros

ID_PATTERN: Final = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
"""What generated requests contain as ids; which ids exist is checked by the use cases."""

UserId = Annotated[str, Meta(extra_json_schema={"pattern": ID_PATTERN, "examples": ["ada"]})]
GroupId = Annotated[str, Meta(extra_json_schema={"pattern": ID_PATTERN, "examples": ["analysts"]})]
PolicyId = Annotated[str, Meta(extra_json_schema={"pattern": ID_PATTERN, "examples": ["sales"]})]
ActionName = Annotated[str, Meta(extra_json_schema={"examples": ["read"]})]


class AccessStatusJson(msgspec.Struct, frozen=True, rename="camel"):
    """Whether requests need credentials, and whether those of an identity provider are taken."""

    is_set_up: bool
    accepts_oidc: bool = False


class IdentityJson(msgspec.Struct, frozen=True):
    """Who the caller is: its name, its roles, and the id of its token or access key."""

    name: str
    roles: tuple[str, ...] = ()
    credential: str = ""


class SetupIn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The first user, who may do everything.

    A caller that chooses the token itself may send the same request again if a reply was lost.
    """

    user: UserId = "admin"
    token: str | None = None


class LoginIn(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """An access key to be exchanged for a short-lived token."""

    access_key_id: str
    secret: str


class LoginJson(msgspec.Struct, frozen=True, rename="camel"):
    """A short-lived token."""

    secret: str
    expires_at: Instant


class NewUserIn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A user to create."""

    id: UserId
    description: str = ""


class UserJson(msgspec.Struct, frozen=True):
    """A person or a program."""

    id: str
    description: str
    created: Instant


class UserList(PageJson, frozen=True, rename="camel"):
    """A page of users."""

    users: list[UserJson]


class NewGroupIn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A group to create."""

    id: GroupId
    description: str = ""


class GroupJson(msgspec.Struct, frozen=True):
    """A group of users; its name is a role of its members."""

    id: str
    description: str
    created: Instant


class GroupList(PageJson, frozen=True, rename="camel"):
    """A page of groups."""

    groups: list[GroupJson]


class GroupNames(msgspec.Struct, frozen=True):
    """The groups of a user."""

    groups: tuple[str, ...]


class MemberList(PageJson, frozen=True, rename="camel"):
    """A page of the users of a group; it may be short, or empty, and still have a next one."""

    members: list[UserJson]


class PolicyIn(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """The statements that a policy is to have.

    With `expectedVersion` it is refused if the policy was changed since that version; 0 expects
    that there is none.
    """

    statements: tuple[Statement, ...]
    description: str = ""
    expected_version: Annotated[int, Meta(ge=0, le=2**62)] | None = None


class PolicyJson(msgspec.Struct, frozen=True):
    """Statements under one name."""

    id: str
    statements: tuple[Statement, ...]
    description: str
    created: Instant
    version: int


class PolicyList(PageJson, frozen=True, rename="camel"):
    """A page of policies."""

    policies: list[PolicyJson]


class AttachedPolicies(msgspec.Struct, frozen=True):
    """The policies that are attached to a user or a group itself."""

    policies: tuple[PolicyJson, ...]


class NewTokenIn(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """A token to create; `scopes` are policies that limit what it may do."""

    description: str = ""
    scopes: tuple[PolicyId, ...] = ()
    expires_at: Instant | None = None


class TokenJson(msgspec.Struct, frozen=True, rename="camel"):
    """An API token, without its secret."""

    id: str
    user: str
    description: str
    created: Instant
    expires_at: Instant | None
    scopes: tuple[str, ...]


class TokenList(PageJson, frozen=True, rename="camel"):
    """A page of tokens."""

    tokens: list[TokenJson]


class NewTokenJson(msgspec.Struct, frozen=True):
    """A token with its text, which is shown once."""

    token: TokenJson
    secret: str


class NewAccessKeyIn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An access key to create."""

    description: str = ""


class AccessKeyJson(msgspec.Struct, frozen=True):
    """An access key, without its secret."""

    id: str
    user: str
    description: str
    created: Instant


class AccessKeyList(PageJson, frozen=True, rename="camel"):
    """A page of access keys."""

    access_keys: list[AccessKeyJson]


class NewAccessKeyJson(msgspec.Struct, frozen=True, rename="camel"):
    """An access key with its secret, which is shown once."""

    access_key: AccessKeyJson
    secret: str


class ExplainIn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question: may this user do this action to this?

    Without a reference it is about the repository as a whole, without a repository about the
    server. `key` has the elements of a table's key, `path` is that of a file.
    """

    user: UserId
    action: ActionName
    repository: str = ""
    reference: str | None = None
    key: tuple[str, ...] | None = None
    path: str | None = None


class ExplanationJson(msgspec.Struct, frozen=True):
    """Why something is allowed or denied; `statement` counts from 1, null if none decides."""

    allowed: bool
    reason: str
    policy: str
    statement: int | None
    via: str


class RotatedJson(msgspec.Struct, frozen=True):
    """How many secrets were sealed again with the present key of the server."""

    resealed: int


def status_out(status: AccessStatus) -> AccessStatusJson:
    """Returns the status as JSON."""
    return AccessStatusJson(status.is_set_up, status.accepts_oidc)


def status_in(status: AccessStatusJson) -> AccessStatus:
    """Returns the status that JSON describes."""
    return AccessStatus(status.is_set_up, status.accepts_oidc)


def identity_out(identity: Identity) -> IdentityJson:
    """Returns an identity as JSON."""
    return IdentityJson(identity.name, identity.roles, identity.credential)


def identity_in(identity: IdentityJson) -> Identity:
    """Returns the identity that JSON describes."""
    return Identity(identity.name, identity.roles, identity.credential)


def login_out(login: Login) -> LoginJson:
    """Returns a login as JSON, with its secret."""
    return LoginJson(login.secret, instant(login.expires_us))


def login_in(login: LoginJson) -> Login:
    """Returns the login that JSON describes."""
    return Login(login.secret, micros(login.expires_at))


def user_out(user: User) -> UserJson:
    """Returns a user as JSON."""
    return UserJson(user.id, user.description, instant(user.created_us))


def user_in(user: UserJson) -> User:
    """Returns the user that JSON describes."""
    return User(user.id, user.description, micros(user.created))


def group_out(group: Group) -> GroupJson:
    """Returns a group as JSON."""
    return GroupJson(group.id, group.description, instant(group.created_us))


def group_in(group: GroupJson) -> Group:
    """Returns the group that JSON describes."""
    return Group(group.id, group.description, micros(group.created))


def policy_out(policy: AccessPolicy) -> PolicyJson:
    """Returns a policy as JSON."""
    created = instant(policy.created_us)
    return PolicyJson(policy.id, policy.statements, policy.description, created, policy.version)


def policy_in(policy: PolicyJson) -> AccessPolicy:
    """Returns the policy that JSON describes."""
    created_us = micros(policy.created)
    return AccessPolicy(
        policy.id, policy.statements, policy.description, created_us, policy.version
    )


def token_out(token: Token) -> TokenJson:
    """Returns a token as JSON."""
    return TokenJson(
        token.id,
        token.user,
        token.description,
        instant(token.created_us),
        None if token.expires_us is None else instant(token.expires_us),
        token.scopes,
    )


def token_in(token: TokenJson) -> Token:
    """Returns the token that JSON describes."""
    return Token(
        token.id,
        token.user,
        token.description,
        micros(token.created),
        None if token.expires_at is None else micros(token.expires_at),
        token.scopes,
    )


def new_token_out(new: NewToken) -> NewTokenJson:
    """Returns a token as JSON, with its secret."""
    return NewTokenJson(token_out(new.token), new.secret)


def new_token_in(new: NewTokenJson) -> NewToken:
    """Returns the token that JSON describes, with its secret."""
    return NewToken(token_in(new.token), new.secret)


def access_key_out(key: AccessKey) -> AccessKeyJson:
    """Returns an access key as JSON."""
    return AccessKeyJson(key.id, key.user, key.description, instant(key.created_us))


def access_key_in(key: AccessKeyJson) -> AccessKey:
    """Returns the access key that JSON describes."""
    return AccessKey(key.id, key.user, key.description, micros(key.created))


def new_access_key_out(new: NewAccessKey) -> NewAccessKeyJson:
    """Returns an access key as JSON, with its secret."""
    return NewAccessKeyJson(access_key_out(new.key), new.secret)


def new_access_key_in(new: NewAccessKeyJson) -> NewAccessKey:
    """Returns the access key that JSON describes, with its secret."""
    return NewAccessKey(access_key_in(new.access_key), new.secret)


def explanation_out(explanation: Explanation) -> ExplanationJson:
    """Returns an explanation as JSON."""
    return ExplanationJson(**msgspec.structs.asdict(explanation))


def explanation_in(explanation: ExplanationJson) -> Explanation:
    """Returns the explanation that JSON describes."""
    return Explanation(**msgspec.structs.asdict(explanation))
