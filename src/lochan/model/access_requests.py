"""Requests about access: users, groups, policies, tokens, access keys and decisions.

They are about the whole store, whichever of its repositories a client was made for.
"""

from __future__ import annotations

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
    SubjectKind,
    Token,
    User,
)
from lochan.model.commits import ContentKey
from lochan.model.requests import PageRequest, RepositoryRequest


class AccessStatusRequest(RepositoryRequest[AccessStatus], frozen=True):
    """Reads whether requests need credentials."""


class SetUpRequest(RepositoryRequest[NewToken], frozen=True, kw_only=True):
    """Creates the first user; can be done once, but may be sent again with a chosen token."""

    user: str
    token: str | None

    def __repr__(self) -> str:
        return f"SetUpRequest(user={self.user!r}, token=…)"


class IdentityRequest(RepositoryRequest[Identity], frozen=True):
    """Reads who the caller is."""


class LoginRequest(RepositoryRequest[Login], frozen=True, kw_only=True):
    """Exchanges an access key for a short-lived token."""

    access_key_id: str
    secret: str

    def __repr__(self) -> str:
        return f"LoginRequest(access_key_id={self.access_key_id!r}, secret=…)"


class ListUsersRequest(PageRequest[User], frozen=True, kw_only=True):
    """Lists users in the order of their ids."""


class CreateUserRequest(RepositoryRequest[User], frozen=True, kw_only=True):
    """Creates a user."""

    user: str
    description: str


class GetUserRequest(RepositoryRequest[User], frozen=True, kw_only=True):
    """Reads a user."""

    user: str


class DeleteUserRequest(RepositoryRequest[None], frozen=True, kw_only=True):
    """Deletes a user with its tokens and access keys."""

    user: str


class GroupsOfUserRequest(RepositoryRequest[tuple[str, ...]], frozen=True, kw_only=True):
    """Reads the groups of a user."""

    user: str


class ListGroupsRequest(PageRequest[Group], frozen=True, kw_only=True):
    """Lists groups in the order of their ids."""


class CreateGroupRequest(RepositoryRequest[Group], frozen=True, kw_only=True):
    """Creates a group."""

    group: str
    description: str


class GetGroupRequest(RepositoryRequest[Group], frozen=True, kw_only=True):
    """Reads a group."""

    group: str


class DeleteGroupRequest(RepositoryRequest[None], frozen=True, kw_only=True):
    """Deletes a group."""

    group: str


class ListMembersRequest(PageRequest[User], frozen=True, kw_only=True):
    """Lists the users of a group in the order of their ids."""

    group: str


class AddMemberRequest(RepositoryRequest[None], frozen=True, kw_only=True):
    """Makes a user a member of a group."""

    user: str
    group: str


class RemoveMemberRequest(RepositoryRequest[None], frozen=True, kw_only=True):
    """Removes a user from a group."""

    user: str
    group: str


class ListPoliciesRequest(PageRequest[AccessPolicy], frozen=True, kw_only=True):
    """Lists policies in the order of their ids."""


class GetPolicyRequest(RepositoryRequest[AccessPolicy], frozen=True, kw_only=True):
    """Reads a policy."""

    policy: str


class PutPolicyRequest(RepositoryRequest[AccessPolicy], frozen=True, kw_only=True):
    """Creates a policy, or replaces its statements and its description."""

    policy: str
    statements: tuple[Statement, ...]
    description: str
    expected: int | None


class DeletePolicyRequest(RepositoryRequest[None], frozen=True, kw_only=True):
    """Deletes a policy."""

    policy: str


class AttachedPoliciesRequest(
    RepositoryRequest[tuple[AccessPolicy, ...]], frozen=True, kw_only=True
):
    """Reads the policies that are attached to a user or to a group itself."""

    kind: SubjectKind
    subject: str


class AttachPolicyRequest(RepositoryRequest[None], frozen=True, kw_only=True):
    """Makes a policy apply to a user or to the members of a group."""

    kind: SubjectKind
    subject: str
    policy: str


class DetachPolicyRequest(RepositoryRequest[None], frozen=True, kw_only=True):
    """Makes a policy no longer apply to a user or to the members of a group."""

    kind: SubjectKind
    subject: str
    policy: str


class ListTokensRequest(PageRequest[Token], frozen=True, kw_only=True):
    """Lists the tokens of a user."""

    user: str


class CreateTokenRequest(RepositoryRequest[NewToken], frozen=True, kw_only=True):
    """Creates a token of a user."""

    user: str
    description: str
    scopes: tuple[str, ...]
    expires_us: int | None


class DeleteTokenRequest(RepositoryRequest[None], frozen=True, kw_only=True):
    """Deletes a token."""

    token: str


class ListAccessKeysRequest(PageRequest[AccessKey], frozen=True, kw_only=True):
    """Lists the access keys of a user."""

    user: str


class CreateAccessKeyRequest(RepositoryRequest[NewAccessKey], frozen=True, kw_only=True):
    """Creates an access key of a user."""

    user: str
    description: str


class DeleteAccessKeyRequest(RepositoryRequest[None], frozen=True, kw_only=True):
    """Deletes an access key."""

    access_key: str


class ExplainRequest(RepositoryRequest[Explanation], frozen=True, kw_only=True):
    """Reads which rule decides whether a user may do something."""

    user: str
    action: str
    repository: str
    reference: str | None
    key: ContentKey | None
    path: str | None


class RotateKeyRequest(RepositoryRequest[int], frozen=True):
    """Seals all secrets with the present key of the server; the result is their number."""
