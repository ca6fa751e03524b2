"""The flows of users, groups, policies, tokens, access keys and decisions.

Writes have no idempotency key: a secret could not be answered a second time. So they are sent once,
and one whose reply was lost is Unknown. Only set-up with a token that the caller has chosen may be
sent again: it takes effect once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar
from urllib.parse import quote

from lochan.base.errors import Invalid
from lochan.client.failures import exchange, exchange_undecoded
from lochan.client.messages import Flow, HttpRequest, page_query
from lochan.model import access_requests as requests
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
    SubjectKind,
    Token,
    User,
)
from lochan.model.requests import PageRequest, RepositoryRequest
from lochan.model.results import Page
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
    access_key_in,
    explanation_in,
    group_in,
    identity_in,
    login_in,
    new_access_key_in,
    new_token_in,
    policy_in,
    status_in,
    token_in,
    user_in,
)
from lochan.wire.codec import encode, instant_to_send
from lochan.wire.operations_access import ACCESS_PREFIX

_Shape = TypeVar("_Shape")


def status(_: requests.AccessStatusRequest) -> Flow[AccessStatus]:
    """Fetches whether requests need credentials."""
    return status_in((yield from _get("/status", AccessStatusJson)))


def set_up(request: requests.SetUpRequest) -> Flow[NewToken]:
    """Creates the first user."""
    body = encode(SetupIn(user=request.user, token=request.token))
    path, once = f"{ACCESS_PREFIX}/setup", request.token is None
    http = HttpRequest("POST", path, (), body, writes=True, once=once, of_server=True)
    return new_token_in((yield from exchange(http, NewTokenJson)))


def whoami(_: requests.IdentityRequest) -> Flow[Identity]:
    """Fetches who the caller is."""
    return identity_in((yield from _get("/me", IdentityJson)))


def login(request: requests.LoginRequest) -> Flow[Login]:
    """Exchanges an access key for a token, which is stored nowhere: it may be sent again."""
    body = encode(LoginIn(access_key_id=request.access_key_id, secret=request.secret))
    http = HttpRequest("POST", f"{ACCESS_PREFIX}/login", (), body, of_server=True)
    return login_in((yield from exchange(http, LoginJson)))


def explain(request: requests.ExplainRequest) -> Flow[Explanation]:
    """Fetches which rule decides."""
    body = encode(
        ExplainIn(
            user=request.user,
            action=request.action,
            repository=request.repository,
            reference=request.reference,
            key=request.key,
            path=request.path,
        )
    )
    http = HttpRequest("POST", f"{ACCESS_PREFIX}/explain", (), body, of_server=True)
    return explanation_in((yield from exchange(http, ExplanationJson)))


def rotate_key(_: requests.RotateKeyRequest) -> Flow[int]:
    """Seals all secrets again."""
    return (yield from _write("POST", "/rotate-key", RotatedJson)).resealed


def list_users(request: requests.ListUsersRequest) -> Flow[Page[User]]:
    """Fetches a page of users."""
    reply = yield from _get("/users", UserList, request)
    return Page(tuple(user_in(each) for each in reply.users), reply.token)


def create_user(request: requests.CreateUserRequest) -> Flow[User]:
    """Creates a user."""
    body = NewUserIn(id=request.user, description=request.description)
    return user_in((yield from _write("POST", "/users", UserJson, body)))


def get_user(request: requests.GetUserRequest) -> Flow[User]:
    """Fetches a user."""
    return user_in((yield from _get(_of_user(request.user), UserJson)))


def delete_user(request: requests.DeleteUserRequest) -> Flow[None]:
    """Deletes a user."""
    yield from _change("DELETE", _of_user(request.user))


def groups_of(request: requests.GroupsOfUserRequest) -> Flow[tuple[str, ...]]:
    """Fetches the groups of a user."""
    return (yield from _get(f"{_of_user(request.user)}/groups", GroupNames)).groups


def list_groups(request: requests.ListGroupsRequest) -> Flow[Page[Group]]:
    """Fetches a page of groups."""
    reply = yield from _get("/groups", GroupList, request)
    return Page(tuple(group_in(each) for each in reply.groups), reply.token)


def create_group(request: requests.CreateGroupRequest) -> Flow[Group]:
    """Creates a group."""
    body = NewGroupIn(id=request.group, description=request.description)
    return group_in((yield from _write("POST", "/groups", GroupJson, body)))


def get_group(request: requests.GetGroupRequest) -> Flow[Group]:
    """Fetches a group."""
    return group_in((yield from _get(_of_group(request.group), GroupJson)))


def delete_group(request: requests.DeleteGroupRequest) -> Flow[None]:
    """Deletes a group."""
    yield from _change("DELETE", _of_group(request.group))


def list_members(request: requests.ListMembersRequest) -> Flow[Page[User]]:
    """Fetches a page of the users of a group."""
    reply = yield from _get(f"{_of_group(request.group)}/members", MemberList, request)
    return Page(tuple(user_in(each) for each in reply.members), reply.token)


def add_member(request: requests.AddMemberRequest) -> Flow[None]:
    """Makes a user a member of a group."""
    yield from _change("PUT", f"{_of_group(request.group)}/members/{_quoted(request.user)}")


def remove_member(request: requests.RemoveMemberRequest) -> Flow[None]:
    """Removes a user from a group."""
    yield from _change("DELETE", f"{_of_group(request.group)}/members/{_quoted(request.user)}")


def list_policies(request: requests.ListPoliciesRequest) -> Flow[Page[AccessPolicy]]:
    """Fetches a page of policies."""
    reply = yield from _get("/policies", PolicyList, request)
    return Page(tuple(policy_in(each) for each in reply.policies), reply.token)


def get_policy(request: requests.GetPolicyRequest) -> Flow[AccessPolicy]:
    """Fetches a policy."""
    return policy_in((yield from _get(_of_policy(request.policy), PolicyJson)))


def put_policy(request: requests.PutPolicyRequest) -> Flow[AccessPolicy]:
    """Creates or replaces a policy."""
    body = PolicyIn(
        statements=request.statements,
        description=request.description,
        expected_version=request.expected,
    )
    return policy_in((yield from _write("PUT", _of_policy(request.policy), PolicyJson, body)))


def delete_policy(request: requests.DeletePolicyRequest) -> Flow[None]:
    """Deletes a policy."""
    yield from _change("DELETE", _of_policy(request.policy))


def attached(request: requests.AttachedPoliciesRequest) -> Flow[tuple[AccessPolicy, ...]]:
    """Fetches the policies of a user or a group."""
    path = f"{_of_subject(request.kind, request.subject)}/policies"
    reply = yield from _get(path, AttachedPolicies)
    return tuple(policy_in(each) for each in reply.policies)


def attach(request: requests.AttachPolicyRequest) -> Flow[None]:
    """Makes a policy apply to a user or a group."""
    subject = _of_subject(request.kind, request.subject)
    yield from _change("PUT", f"{subject}/policies/{_quoted(request.policy)}")


def detach(request: requests.DetachPolicyRequest) -> Flow[None]:
    """Makes a policy no longer apply to a user or a group."""
    subject = _of_subject(request.kind, request.subject)
    yield from _change("DELETE", f"{subject}/policies/{_quoted(request.policy)}")


def list_tokens(request: requests.ListTokensRequest) -> Flow[Page[Token]]:
    """Fetches a page of the tokens of a user."""
    reply = yield from _get(f"{_of_user(request.user)}/tokens", TokenList, request)
    return Page(tuple(token_in(each) for each in reply.tokens), reply.token)


def create_token(request: requests.CreateTokenRequest) -> Flow[NewToken]:
    """Creates a token."""
    expires_us = request.expires_us
    body = NewTokenIn(
        description=request.description,
        scopes=request.scopes,
        expires_at=None if expires_us is None else instant_to_send("expiresAt", expires_us),
    )
    path = f"{_of_user(request.user)}/tokens"
    return new_token_in((yield from _write("POST", path, NewTokenJson, body)))


def delete_token(request: requests.DeleteTokenRequest) -> Flow[None]:
    """Deletes a token."""
    yield from _change("DELETE", f"/tokens/{_quoted(request.token)}")


def list_access_keys(request: requests.ListAccessKeysRequest) -> Flow[Page[AccessKey]]:
    """Fetches a page of the access keys of a user."""
    reply = yield from _get(f"{_of_user(request.user)}/access-keys", AccessKeyList, request)
    return Page(tuple(access_key_in(each) for each in reply.access_keys), reply.token)


def create_access_key(request: requests.CreateAccessKeyRequest) -> Flow[NewAccessKey]:
    """Creates an access key."""
    body = NewAccessKeyIn(description=request.description)
    path = f"{_of_user(request.user)}/access-keys"
    return new_access_key_in((yield from _write("POST", path, NewAccessKeyJson, body)))


def delete_access_key(request: requests.DeleteAccessKeyRequest) -> Flow[None]:
    """Deletes an access key."""
    yield from _change("DELETE", f"/access-keys/{_quoted(request.access_key)}")


def _get(path: str, shape: type[_Shape], page: PageRequest[Any] | None = None) -> Flow[_Shape]:
    query = () if page is None else page_query(page)
    http = HttpRequest("GET", ACCESS_PREFIX + path, query, of_server=True)
    return (yield from exchange(http, shape))


def _write(method: str, path: str, shape: type[_Shape], body: Any = None) -> Flow[_Shape]:
    raw = None if body is None else encode(body)
    http = HttpRequest(
        method, ACCESS_PREFIX + path, (), raw, writes=True, once=True, of_server=True
    )
    return (yield from exchange(http, shape))


def _change(method: str, path: str) -> Flow[None]:
    http = HttpRequest(method, ACCESS_PREFIX + path, writes=True, once=True, of_server=True)
    yield from exchange_undecoded(http)


def _of_user(user: str) -> str:
    return f"/users/{_quoted(user)}"


def _of_group(group: str) -> str:
    return f"/groups/{_quoted(group)}"


def _of_policy(policy: str) -> str:
    return f"/policies/{_quoted(policy)}"


def _of_subject(kind: SubjectKind, subject: str) -> str:
    return _of_user(subject) if kind == "user" else _of_group(subject)


def _quoted(name: str) -> str:
    """Returns an id as one segment of a path; clients take dot segments out of an address."""
    if name in ("", ".", ".."):
        raise Invalid(f"not the id of anything: {name!r}")
    return quote(name, safe="")


FLOWS: Final[Mapping[type[RepositoryRequest[Any]], Callable[[Any], Flow[Any]]]] = {
    requests.AccessStatusRequest: status,
    requests.SetUpRequest: set_up,
    requests.IdentityRequest: whoami,
    requests.LoginRequest: login,
    requests.ExplainRequest: explain,
    requests.RotateKeyRequest: rotate_key,
    requests.ListUsersRequest: list_users,
    requests.CreateUserRequest: create_user,
    requests.GetUserRequest: get_user,
    requests.DeleteUserRequest: delete_user,
    requests.GroupsOfUserRequest: groups_of,
    requests.ListGroupsRequest: list_groups,
    requests.CreateGroupRequest: create_group,
    requests.GetGroupRequest: get_group,
    requests.DeleteGroupRequest: delete_group,
    requests.ListMembersRequest: list_members,
    requests.AddMemberRequest: add_member,
    requests.RemoveMemberRequest: remove_member,
    requests.ListPoliciesRequest: list_policies,
    requests.GetPolicyRequest: get_policy,
    requests.PutPolicyRequest: put_policy,
    requests.DeletePolicyRequest: delete_policy,
    requests.AttachedPoliciesRequest: attached,
    requests.AttachPolicyRequest: attach,
    requests.DetachPolicyRequest: detach,
    requests.ListTokensRequest: list_tokens,
    requests.CreateTokenRequest: create_token,
    requests.DeleteTokenRequest: delete_token,
    requests.ListAccessKeysRequest: list_access_keys,
    requests.CreateAccessKeyRequest: create_access_key,
    requests.DeleteAccessKeyRequest: delete_access_key,
}
"""Which flow carries which request about access."""
