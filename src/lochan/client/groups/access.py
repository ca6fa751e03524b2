"""The methods of access: users, groups, policies, tokens, access keys and decisions."""

from __future__ import annotations

from collections.abc import Sequence

from lochan.base.errors import Invalid
from lochan.base.limits.requests import PAGE_ENTRIES_MAX
from lochan.client.methods import Group, Runner, page_iterator, request_method
from lochan.model.access import Statement, SubjectKind
from lochan.model.access_requests import (
    AccessStatusRequest,
    AddMemberRequest,
    AttachedPoliciesRequest,
    AttachPolicyRequest,
    CreateAccessKeyRequest,
    CreateGroupRequest,
    CreateTokenRequest,
    CreateUserRequest,
    DeleteAccessKeyRequest,
    DeleteGroupRequest,
    DeletePolicyRequest,
    DeleteTokenRequest,
    DeleteUserRequest,
    DetachPolicyRequest,
    ExplainRequest,
    GetGroupRequest,
    GetPolicyRequest,
    GetUserRequest,
    GroupsOfUserRequest,
    IdentityRequest,
    ListAccessKeysRequest,
    ListGroupsRequest,
    ListMembersRequest,
    ListPoliciesRequest,
    ListTokensRequest,
    ListUsersRequest,
    LoginRequest,
    PutPolicyRequest,
    RemoveMemberRequest,
    RotateKeyRequest,
    SetUpRequest,
)
from lochan.model.commits import ContentKey


class AccessMethods(Group[Runner]):
    """Who may do what on a server or in a store, whichever repository is used."""

    @request_method
    def status(self) -> AccessStatusRequest:
        """Returns whether requests need credentials."""
        return AccessStatusRequest()

    @request_method
    def set_up(self, user: str = "admin", *, token: str | None = None) -> SetUpRequest:
        """Creates the first user, who may do everything, and a token; AlreadyExists ever after.

        A caller that chooses the token, `lochan_ID_SECRET`, may call this again if it does not know
        whether the first call took effect.
        """
        return SetUpRequest(user=user, token=token)

    @request_method
    def whoami(self) -> IdentityRequest:
        """Returns who the caller is."""
        return IdentityRequest()

    @request_method
    def login(self, access_key_id: str, secret: str) -> LoginRequest:
        """Returns a token for an access key; the token is valid for an hour."""
        return LoginRequest(access_key_id=access_key_id, secret=secret)

    @request_method
    def explain(
        self,
        user: str,
        action: str,
        *,
        repository: str = "",
        reference: str | None = None,
        key: ContentKey | None = None,
        path: str | None = None,
    ) -> ExplainRequest:
        """Returns whether a user may do something, and which rule decides."""
        return ExplainRequest(
            user=user,
            action=action,
            repository=repository,
            reference=reference,
            key=None if key is None else tuple(key),
            path=path,
        )

    @request_method
    def rotate_key(self) -> RotateKeyRequest:
        """Seals all secrets with the present key of the server; returns how many."""
        return RotateKeyRequest()

    @request_method
    def list_users(self, limit: int | None = None, token: str | None = None) -> ListUsersRequest:
        """Returns a page of users."""
        return ListUsersRequest(limit=limit, token=token)

    @page_iterator
    def iterate_users(self) -> ListUsersRequest:
        """Yields all users, in the order of their ids."""
        return ListUsersRequest(limit=PAGE_ENTRIES_MAX)

    @request_method
    def create_user(self, user: str, description: str = "") -> CreateUserRequest:
        """Creates a user, who may do nothing yet."""
        return CreateUserRequest(user=user, description=description)

    @request_method
    def get_user(self, user: str) -> GetUserRequest:
        """Returns a user."""
        return GetUserRequest(user=user)

    @request_method
    def delete_user(self, user: str) -> DeleteUserRequest:
        """Deletes a user with its tokens and access keys."""
        return DeleteUserRequest(user=user)

    @request_method
    def groups_of(self, user: str) -> GroupsOfUserRequest:
        """Returns the groups of a user."""
        return GroupsOfUserRequest(user=user)

    @request_method
    def list_groups(self, limit: int | None = None, token: str | None = None) -> ListGroupsRequest:
        """Returns a page of groups."""
        return ListGroupsRequest(limit=limit, token=token)

    @page_iterator
    def iterate_groups(self) -> ListGroupsRequest:
        """Yields all groups, in the order of their ids."""
        return ListGroupsRequest(limit=PAGE_ENTRIES_MAX)

    @request_method
    def create_group(self, group: str, description: str = "") -> CreateGroupRequest:
        """Creates a group without members."""
        return CreateGroupRequest(group=group, description=description)

    @request_method
    def get_group(self, group: str) -> GetGroupRequest:
        """Returns a group."""
        return GetGroupRequest(group=group)

    @request_method
    def delete_group(self, group: str) -> DeleteGroupRequest:
        """Deletes a group; its users stay."""
        return DeleteGroupRequest(group=group)

    @request_method
    def list_members(
        self, group: str, limit: int | None = None, token: str | None = None
    ) -> ListMembersRequest:
        """Returns a page of the users of a group."""
        return ListMembersRequest(group=group, limit=limit, token=token)

    @page_iterator
    def iterate_members(self, group: str) -> ListMembersRequest:
        """Yields all users of a group, in the order of their ids."""
        return ListMembersRequest(group=group, limit=PAGE_ENTRIES_MAX)

    @request_method
    def add_member(self, user: str, group: str) -> AddMemberRequest:
        """Makes a user a member of a group."""
        return AddMemberRequest(user=user, group=group)

    @request_method
    def remove_member(self, user: str, group: str) -> RemoveMemberRequest:
        """Removes a user from a group."""
        return RemoveMemberRequest(user=user, group=group)

    @request_method
    def list_policies(
        self, limit: int | None = None, token: str | None = None
    ) -> ListPoliciesRequest:
        """Returns a page of policies."""
        return ListPoliciesRequest(limit=limit, token=token)

    @page_iterator
    def iterate_policies(self) -> ListPoliciesRequest:
        """Yields all policies, in the order of their ids."""
        return ListPoliciesRequest(limit=PAGE_ENTRIES_MAX)

    @request_method
    def get_policy(self, policy: str) -> GetPolicyRequest:
        """Returns a policy."""
        return GetPolicyRequest(policy=policy)

    @request_method
    def put_policy(
        self,
        policy: str,
        statements: Sequence[Statement],
        description: str = "",
        *,
        expected: int | None = None,
    ) -> PutPolicyRequest:
        """Creates a policy, or replaces it; Conflict if it is not in the `expected` version."""
        return PutPolicyRequest(
            policy=policy,
            statements=tuple(statements),
            description=description,
            expected=expected,
        )

    @request_method
    def delete_policy(self, policy: str) -> DeletePolicyRequest:
        """Deletes a policy; what it allowed or denied no longer counts."""
        return DeletePolicyRequest(policy=policy)

    @request_method
    def attached(
        self, *, user: str | None = None, group: str | None = None
    ) -> AttachedPoliciesRequest:
        """Returns the policies of a user, without those of its groups, or of a group."""
        kind, subject = _subject(user, group)
        return AttachedPoliciesRequest(kind=kind, subject=subject)

    @request_method
    def attach(
        self, policy: str, *, user: str | None = None, group: str | None = None
    ) -> AttachPolicyRequest:
        """Makes a policy apply to a user or to a group; all callers are in `everyone`."""
        kind, subject = _subject(user, group)
        return AttachPolicyRequest(kind=kind, subject=subject, policy=policy)

    @request_method
    def detach(
        self, policy: str, *, user: str | None = None, group: str | None = None
    ) -> DetachPolicyRequest:
        """Makes a policy no longer apply to a user or to a group."""
        kind, subject = _subject(user, group)
        return DetachPolicyRequest(kind=kind, subject=subject, policy=policy)

    @request_method
    def list_tokens(
        self, user: str, limit: int | None = None, token: str | None = None
    ) -> ListTokensRequest:
        """Returns a page of the tokens of a user, without their secrets."""
        return ListTokensRequest(user=user, limit=limit, token=token)

    @page_iterator
    def iterate_tokens(self, user: str) -> ListTokensRequest:
        """Yields all tokens of a user, without their secrets."""
        return ListTokensRequest(user=user, limit=PAGE_ENTRIES_MAX)

    @request_method
    def create_token(
        self,
        user: str,
        description: str = "",
        *,
        scopes: Sequence[str] = (),
        expires_us: int | None = None,
    ) -> CreateTokenRequest:
        """Creates a token, which `scopes`, ids of policies, may limit; its secret is shown once."""
        return CreateTokenRequest(
            user=user, description=description, scopes=tuple(scopes), expires_us=expires_us
        )

    @request_method
    def delete_token(self, token: str) -> DeleteTokenRequest:
        """Deletes a token by its id."""
        return DeleteTokenRequest(token=token)

    @request_method
    def list_access_keys(
        self, user: str, limit: int | None = None, token: str | None = None
    ) -> ListAccessKeysRequest:
        """Returns a page of the access keys of a user, without their secrets."""
        return ListAccessKeysRequest(user=user, limit=limit, token=token)

    @page_iterator
    def iterate_access_keys(self, user: str) -> ListAccessKeysRequest:
        """Yields all access keys of a user, without their secrets."""
        return ListAccessKeysRequest(user=user, limit=PAGE_ENTRIES_MAX)

    @request_method
    def create_access_key(self, user: str, description: str = "") -> CreateAccessKeyRequest:
        """Creates an access key; its secret is shown once."""
        return CreateAccessKeyRequest(user=user, description=description)

    @request_method
    def delete_access_key(self, access_key: str) -> DeleteAccessKeyRequest:
        """Deletes an access key by its id."""
        return DeleteAccessKeyRequest(access_key=access_key)


def _subject(user: str | None, group: str | None) -> tuple[SubjectKind, str]:
    if user is not None and group is None:
        return "user", user
    if group is not None and user is None:
        return "group", group
    raise Invalid("a policy is attached to a user or to a group: name one of them")
