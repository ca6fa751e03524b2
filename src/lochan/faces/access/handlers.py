"""The handlers of access: a request is read, one use case is called, its result is written."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar

import msgspec

from lochan.faces.answers import NO_CONTENT, answer
from lochan.faces.calls import server_call
from lochan.faces.params import Handlers, limit_of, token_of
from lochan.model.access import AccessPolicy, SubjectKind
from lochan.model.results import Page
from lochan.service.access import AccessControl
from lochan.transport.exchange import Exchange, Response
from lochan.wire.access import (
    AccessKeyList,
    AttachedPolicies,
    ExplainIn,
    GroupList,
    GroupNames,
    LoginIn,
    MemberList,
    NewAccessKeyIn,
    NewGroupIn,
    NewTokenIn,
    NewUserIn,
    PolicyIn,
    PolicyList,
    RotatedJson,
    SetupIn,
    TokenList,
    UserList,
    access_key_out,
    explanation_out,
    group_out,
    identity_out,
    login_out,
    new_access_key_out,
    new_token_out,
    policy_out,
    status_out,
    token_out,
    user_out,
)
from lochan.wire.codec import PageJson, micros
from lochan.wire.strict import StrictReader

_read_setup: Final = StrictReader(SetupIn)
_read_login: Final = StrictReader(LoginIn)
_read_user: Final = StrictReader(NewUserIn)
_read_group: Final = StrictReader(NewGroupIn)
_read_policy: Final = StrictReader(PolicyIn)
_read_token: Final = StrictReader(NewTokenIn)
_read_access_key: Final = StrictReader(NewAccessKeyIn)
_read_question: Final = StrictReader(ExplainIn)

# No cache, neither of a proxy nor of a browser, may keep an answer with a secret.
_NOT_KEPT: Final = ((b"cache-control", b"no-store"),)

_EMPTY: Final = b"{}"

# Browsers and proxies send one of these. A page of another program on this machine, or a client of
# a proxy on it, would otherwise look like the machine itself.
_NOT_DIRECT: Final = (
    "origin",
    "sec-fetch-site",
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-real-ip",
    "via",
)

_Item = TypeVar("_Item")


def is_direct(exchange: Exchange) -> bool:
    """Returns whether a request comes from a program itself, not from a browser or a proxy."""
    headers = exchange.request.headers
    return all(headers.get(name) is None for name in _NOT_DIRECT)


def secret_answer(value: Any) -> Response:
    """Returns an answer that contains a secret."""
    return msgspec.structs.replace(answer(value), headers=_NOT_KEPT)


def page_answer(
    page: Page[_Item],
    shape: Callable[[bool, str | None, list[Any]], PageJson],
    show: Callable[[_Item], Any],
) -> Response:
    """Returns a page as the answer."""
    items = [show(each) for each in page.items]
    return answer(shape(page.token is not None, page.token, items))


class AccessHandlers:
    """One method for each operation."""

    def __init__(self, access: AccessControl) -> None:
        self._access = access

    def bound(self) -> Handlers:
        """Returns the handler of each operation; all of them are brief."""
        handlers = {
            "getAccessStatus": self.status,
            "setUpAccess": self.set_up,
            "login": self.login,
            "getIdentity": self.whoami,
            "explain": self.explain,
            "rotateKey": self.rotate_key,
            "listUsers": self.list_users,
            "createUser": self.create_user,
            "getUser": self.get_user,
            "deleteUser": self.delete_user,
            "listGroupsOfUser": self.groups_of,
            "listTokens": self.list_tokens,
            "createToken": self.create_token,
            "deleteToken": self.delete_token,
            "listAccessKeys": self.list_access_keys,
            "createAccessKey": self.create_access_key,
            "deleteAccessKey": self.delete_access_key,
            "listGroups": self.list_groups,
            "createGroup": self.create_group,
            "getGroup": self.get_group,
            "deleteGroup": self.delete_group,
            "listMembers": self.list_members,
            "addMember": self.add_member,
            "removeMember": self.remove_member,
            "listPolicies": self.list_policies,
            "getPolicy": self.get_policy,
            "putPolicy": self.put_policy,
            "deletePolicy": self.delete_policy,
        }
        return {
            **{name: (handler, name != "rotateKey") for name, handler in handlers.items()},
            **self._bound_to("user"),
            **self._bound_to("group"),
        }

    def _bound_to(self, kind: SubjectKind) -> Handlers:
        """Returns the handlers of the policies that are attached to users, or to groups."""
        word = kind.capitalize()
        return {
            f"listPoliciesOf{word}": (partial(self.attached, kind), True),
            f"attachPolicyTo{word}": (partial(self.attach, kind), True),
            f"detachPolicyFrom{word}": (partial(self.detach, kind), True),
        }

    def status(self, exchange: Exchange) -> Response:
        """Returns whether requests need credentials."""
        return answer(status_out(self._access.status(server_call(exchange))))

    def set_up(self, exchange: Exchange) -> Response:
        """Creates the first user; refused to browsers and through proxies."""
        direct = is_direct(exchange)
        # What is refused is not read.
        body: SetupIn = _read_setup((exchange.request.body if direct else b"") or _EMPTY)
        made = self._access.set_up(server_call(exchange), body.user, body.token, is_direct=direct)
        return secret_answer(new_token_out(made))

    def login(self, exchange: Exchange) -> Response:
        """Exchanges an access key for a short-lived token."""
        body: LoginIn = _read_login(exchange.request.body)
        made = self._access.login(server_call(exchange), body.access_key_id, body.secret)
        return secret_answer(login_out(made))

    def whoami(self, exchange: Exchange) -> Response:
        """Returns who the caller is."""
        return answer(identity_out(self._access.whoami(server_call(exchange))))

    def explain(self, exchange: Exchange) -> Response:
        """Returns which rule decides."""
        body: ExplainIn = _read_question(exchange.request.body)
        explanation = self._access.explain(
            server_call(exchange),
            body.user,
            body.action,
            body.repository,
            body.reference,
            body.key,
            body.path,
        )
        return answer(explanation_out(explanation))

    def rotate_key(self, exchange: Exchange) -> Response:
        """Seals all secrets again."""
        return answer(RotatedJson(self._access.rotate_key(server_call(exchange))))

    def list_users(self, exchange: Exchange) -> Response:
        """Lists users."""
        page = self._access.list_users(
            server_call(exchange), limit_of(exchange), token_of(exchange)
        )
        return page_answer(page, UserList, user_out)

    def create_user(self, exchange: Exchange) -> Response:
        """Creates a user."""
        body: NewUserIn = _read_user(exchange.request.body)
        made = self._access.create_user(server_call(exchange), body.id, body.description)
        return answer(user_out(made))

    def get_user(self, exchange: Exchange) -> Response:
        """Reads a user."""
        return answer(user_out(self._access.get_user(server_call(exchange), exchange.params["id"])))

    def delete_user(self, exchange: Exchange) -> Response:
        """Deletes a user."""
        self._access.delete_user(server_call(exchange), exchange.params["id"])
        return NO_CONTENT

    def groups_of(self, exchange: Exchange) -> Response:
        """Lists the groups of a user."""
        found = self._access.groups_of(server_call(exchange), exchange.params["id"])
        return answer(GroupNames(tuple(found)))

    def list_tokens(self, exchange: Exchange) -> Response:
        """Lists the tokens of a user."""
        page = self._access.list_tokens(
            server_call(exchange), exchange.params["id"], limit_of(exchange), token_of(exchange)
        )
        return page_answer(page, TokenList, token_out)

    def create_token(self, exchange: Exchange) -> Response:
        """Creates a token of a user."""
        body: NewTokenIn = _read_token(exchange.request.body or _EMPTY)
        made = self._access.create_token(
            server_call(exchange),
            exchange.params["id"],
            body.description,
            body.scopes,
            None if body.expires_at is None else micros(body.expires_at),
        )
        return secret_answer(new_token_out(made))

    def delete_token(self, exchange: Exchange) -> Response:
        """Deletes a token."""
        self._access.delete_token(server_call(exchange), exchange.params["id"])
        return NO_CONTENT

    def list_access_keys(self, exchange: Exchange) -> Response:
        """Lists the access keys of a user."""
        page = self._access.list_access_keys(
            server_call(exchange), exchange.params["id"], limit_of(exchange), token_of(exchange)
        )
        return page_answer(page, AccessKeyList, access_key_out)

    def create_access_key(self, exchange: Exchange) -> Response:
        """Creates an access key of a user."""
        body: NewAccessKeyIn = _read_access_key(exchange.request.body or _EMPTY)
        made = self._access.create_access_key(
            server_call(exchange), exchange.params["id"], body.description
        )
        return secret_answer(new_access_key_out(made))

    def delete_access_key(self, exchange: Exchange) -> Response:
        """Deletes an access key."""
        self._access.delete_access_key(server_call(exchange), exchange.params["id"])
        return NO_CONTENT

    def list_groups(self, exchange: Exchange) -> Response:
        """Lists groups."""
        page = self._access.list_groups(
            server_call(exchange), limit_of(exchange), token_of(exchange)
        )
        return page_answer(page, GroupList, group_out)

    def create_group(self, exchange: Exchange) -> Response:
        """Creates a group."""
        body: NewGroupIn = _read_group(exchange.request.body)
        made = self._access.create_group(server_call(exchange), body.id, body.description)
        return answer(group_out(made))

    def get_group(self, exchange: Exchange) -> Response:
        """Reads a group."""
        return answer(
            group_out(self._access.get_group(server_call(exchange), exchange.params["id"]))
        )

    def delete_group(self, exchange: Exchange) -> Response:
        """Deletes a group."""
        self._access.delete_group(server_call(exchange), exchange.params["id"])
        return NO_CONTENT

    def list_members(self, exchange: Exchange) -> Response:
        """Lists the users of a group."""
        page = self._access.list_members(
            server_call(exchange), exchange.params["id"], limit_of(exchange), token_of(exchange)
        )
        return page_answer(page, MemberList, user_out)

    def add_member(self, exchange: Exchange) -> Response:
        """Makes a user a member of a group."""
        params = exchange.params
        self._access.add_member(server_call(exchange), params["user"], params["id"])
        return NO_CONTENT

    def remove_member(self, exchange: Exchange) -> Response:
        """Removes a user from a group."""
        params = exchange.params
        self._access.remove_member(server_call(exchange), params["user"], params["id"])
        return NO_CONTENT

    def list_policies(self, exchange: Exchange) -> Response:
        """Lists policies."""
        page = self._access.list_policies(
            server_call(exchange), limit_of(exchange), token_of(exchange)
        )
        return page_answer(page, PolicyList, policy_out)

    def get_policy(self, exchange: Exchange) -> Response:
        """Reads a policy."""
        return answer(
            policy_out(self._access.get_policy(server_call(exchange), exchange.params["id"]))
        )

    def put_policy(self, exchange: Exchange) -> Response:
        """Creates a policy, or replaces its statements."""
        body: PolicyIn = _read_policy(exchange.request.body)
        policy = AccessPolicy(exchange.params["id"], body.statements, body.description)
        made = self._access.put_policy(server_call(exchange), policy, body.expected_version)
        return answer(policy_out(made))

    def delete_policy(self, exchange: Exchange) -> Response:
        """Deletes a policy."""
        self._access.delete_policy(server_call(exchange), exchange.params["id"])
        return NO_CONTENT

    def attached(self, kind: SubjectKind, exchange: Exchange) -> Response:
        """Lists the policies of a user or a group."""
        found = self._access.attached_to(server_call(exchange), kind, exchange.params["id"])
        return answer(AttachedPolicies(tuple(policy_out(each) for each in found)))

    def attach(self, kind: SubjectKind, exchange: Exchange) -> Response:
        """Makes a policy apply to a user or a group."""
        params = exchange.params
        self._access.attach(server_call(exchange), kind, params["id"], params["policy"])
        return NO_CONTENT

    def detach(self, kind: SubjectKind, exchange: Exchange) -> Response:
        """Makes a policy no longer apply to a user or a group."""
        params = exchange.params
        self._access.detach(server_call(exchange), kind, params["id"], params["policy"])
        return NO_CONTENT
