"""The operations on users, groups, policies and credentials, below `/access/v1`.

They are about the whole server, not about one of its repositories.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from lochan.access.policy import Action
from lochan.wire.access import (
    AccessKeyList,
    AccessStatusJson,
    AttachedPolicies,
    ExplainIn,
    ExplanationJson,
    GroupJson,
    GroupList,
    GroupNames,
    IdentityJson,
    LoginIn,
    LoginJson,
    MemberList,
    NewAccessKeyIn,
    NewAccessKeyJson,
    NewGroupIn,
    NewTokenIn,
    NewTokenJson,
    NewUserIn,
    PolicyIn,
    PolicyJson,
    PolicyList,
    RotatedJson,
    SetupIn,
    TokenList,
    UserJson,
    UserList,
)
from lochan.wire.operations import ApiOperation

ACCESS_PREFIX: Final = "/access/v1"

_PAGE: Final = ("max-records", "page-token")

_reads = partial(ApiOperation, beyond=True, action=Action.READ_ACCESS)
_changes = partial(ApiOperation, beyond=True, action=Action.MANAGE_ACCESS)
_own = partial(ApiOperation, beyond=True, action=Action.MANAGE_OWN_TOKENS)
"""Users may do this to their own tokens and access keys; administrators to those of all users."""

_OF_CALLERS: Final = (
    ApiOperation(
        "getAccessStatus",
        "GET",
        "/status",
        "Whether requests need credentials.",
        response=AccessStatusJson,
        beyond=True,
        needs="nothing",
    ),
    ApiOperation(
        "setUpAccess",
        "POST",
        "/setup",
        "Creates the first user, who may do everything, and returns a token; refused ever after.",
        response=NewTokenJson,
        request=SetupIn,
        request_needed=False,
        beyond=True,
        needs="nothing",
    ),
    ApiOperation(
        "login",
        "POST",
        "/login",
        "Exchanges an access key for a token that is valid for an hour.",
        response=LoginJson,
        request=LoginIn,
        beyond=True,
        needs="nothing",
    ),
    ApiOperation(
        "getIdentity",
        "GET",
        "/me",
        "Who the caller is.",
        response=IdentityJson,
        beyond=True,
        needs="credentials",
    ),
    _reads(
        "explain",
        "POST",
        "/explain",
        "Which rule allows or denies an action to a user.",
        response=ExplanationJson,
        request=ExplainIn,
    ),
    _changes(
        "rotateKey",
        "POST",
        "/rotate-key",
        "Seals all secrets again with the present key of the server.",
        response=RotatedJson,
    ),
)

_OF_USERS: Final = (
    _reads("listUsers", "GET", "/users", "Lists users.", UserList, _PAGE),
    _changes(
        "createUser", "POST", "/users", "Creates a user.", response=UserJson, request=NewUserIn
    ),
    _reads("getUser", "GET", "/users/{id}", "Reads a user.", UserJson, ("user-id",)),
    _changes(
        "deleteUser",
        "DELETE",
        "/users/{id}",
        "Deletes a user with its tokens and access keys.",
        parameters=("user-id",),
    ),
    _reads(
        "listGroupsOfUser",
        "GET",
        "/users/{id}/groups",
        "Lists the groups of a user.",
        GroupNames,
        ("user-id",),
    ),
    _own(
        "listTokens",
        "GET",
        "/users/{id}/tokens",
        "Lists the tokens of a user, without their secrets.",
        TokenList,
        ("user-id", *_PAGE),
    ),
    _own(
        "createToken",
        "POST",
        "/users/{id}/tokens",
        "Creates a token; its secret is returned this once.",
        NewTokenJson,
        ("user-id",),
        NewTokenIn,
        request_needed=False,
    ),
    _own("deleteToken", "DELETE", "/tokens/{id}", "Deletes a token.", parameters=("token-id",)),
    _own(
        "listAccessKeys",
        "GET",
        "/users/{id}/access-keys",
        "Lists the access keys of a user, without their secrets.",
        AccessKeyList,
        ("user-id", *_PAGE),
    ),
    _own(
        "createAccessKey",
        "POST",
        "/users/{id}/access-keys",
        "Creates an access key; its secret is returned this once.",
        NewAccessKeyJson,
        ("user-id",),
        NewAccessKeyIn,
        request_needed=False,
    ),
    _own(
        "deleteAccessKey",
        "DELETE",
        "/access-keys/{id}",
        "Deletes an access key.",
        parameters=("access-key-id",),
    ),
)

_OF_GROUPS: Final = (
    _reads("listGroups", "GET", "/groups", "Lists groups.", GroupList, _PAGE),
    _changes(
        "createGroup", "POST", "/groups", "Creates a group.", response=GroupJson, request=NewGroupIn
    ),
    _reads("getGroup", "GET", "/groups/{id}", "Reads a group.", GroupJson, ("group-id",)),
    _changes("deleteGroup", "DELETE", "/groups/{id}", "Deletes a group.", parameters=("group-id",)),
    _reads(
        "listMembers",
        "GET",
        "/groups/{id}/members",
        "Lists the users of a group.",
        MemberList,
        ("group-id", *_PAGE),
    ),
    _changes(
        "addMember",
        "PUT",
        "/groups/{id}/members/{user}",
        "Makes a user a member of a group.",
        parameters=("group-id", "member"),
    ),
    _changes(
        "removeMember",
        "DELETE",
        "/groups/{id}/members/{user}",
        "Removes a user from a group.",
        parameters=("group-id", "member"),
    ),
)

_OF_POLICIES: Final = (
    _reads("listPolicies", "GET", "/policies", "Lists policies.", PolicyList, _PAGE),
    _reads("getPolicy", "GET", "/policies/{id}", "Reads a policy.", PolicyJson, ("policy-id",)),
    _changes(
        "putPolicy",
        "PUT",
        "/policies/{id}",
        "Creates a policy, or replaces its statements.",
        PolicyJson,
        ("policy-id",),
        PolicyIn,
    ),
    _changes(
        "deletePolicy",
        "DELETE",
        "/policies/{id}",
        "Deletes a policy; what it allowed or denied no longer counts.",
        parameters=("policy-id",),
    ),
    _reads(
        "listPoliciesOfUser",
        "GET",
        "/users/{id}/policies",
        "Lists the policies that are attached to a user, without those of its groups.",
        AttachedPolicies,
        ("user-id",),
    ),
    _changes(
        "attachPolicyToUser",
        "PUT",
        "/users/{id}/policies/{policy}",
        "Makes a policy apply to a user.",
        parameters=("user-id", "policy"),
    ),
    _changes(
        "detachPolicyFromUser",
        "DELETE",
        "/users/{id}/policies/{policy}",
        "Makes a policy no longer apply to a user.",
        parameters=("user-id", "policy"),
    ),
    _reads(
        "listPoliciesOfGroup",
        "GET",
        "/groups/{id}/policies",
        "Lists the policies that are attached to a group; all callers are in `everyone`.",
        AttachedPolicies,
        ("group-id",),
    ),
    _changes(
        "attachPolicyToGroup",
        "PUT",
        "/groups/{id}/policies/{policy}",
        "Makes a policy apply to the members of a group.",
        parameters=("group-id", "policy"),
    ),
    _changes(
        "detachPolicyFromGroup",
        "DELETE",
        "/groups/{id}/policies/{policy}",
        "Makes a policy no longer apply to the members of a group.",
        parameters=("group-id", "policy"),
    ),
)

OPERATIONS_ACCESS: Final = (*_OF_CALLERS, *_OF_USERS, *_OF_GROUPS, *_OF_POLICIES)
