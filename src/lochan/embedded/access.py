"""Runs requests about access on a store, by the use cases of `service/access.py`.

A program that can open a store is its operator: it may do everything (`OpenPolicy`). Access keys
are sealed with the keys of the servers, which the environment names as it does for a server
(`LOCHAN_SECRET_KEY`, `LOCHAN_SECRET_KEY_FILE`), or with those in the file beside an embedded store.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import asdict

from lochan.access.directory import Directory
from lochan.access.logins import Logins
from lochan.access.policy import Call, OpenPolicy
from lochan.assembly.secret_keys import load_keys
from lochan.base.errors import Invalid
from lochan.base.secrets import Secret
from lochan.kernel.repository import Ports
from lochan.kv.store import Store
from lochan.model import access_requests as requests
from lochan.model.access import AccessPolicy
from lochan.model.access_requests import PutPolicyRequest
from lochan.model.requests import RepositoryRequest
from lochan.service.access import AccessControl
from lochan.service.access_credentials import check_server_key
from lochan.settings import Settings

AccessUseCase = Callable[[AccessControl, Call, Any], Any]
"""Takes the use cases of access, the caller and a request; returns the result."""


def _by_fields(method: Callable[..., Any]) -> AccessUseCase:
    """Returns a use case that takes the fields of a request by their names."""

    def run(control: AccessControl, call: Call, request: Any) -> Any:
        fields = asdict(request)
        try:
            # What a client cannot send is refused here, too.
            msgspec.json.encode(fields)
        except UnicodeEncodeError as error:
            raise Invalid(f"a text of the request is not valid Unicode: {error.reason}") from None
        return method(control, call, **fields)

    return run


def _put_policy(control: AccessControl, call: Call, request: PutPolicyRequest) -> AccessPolicy:
    policy = AccessPolicy(request.policy, request.statements, request.description)
    return control.put_policy(call, policy, request.expected)


ACCESS_READS: Final[Mapping[type[RepositoryRequest[Any]], AccessUseCase]] = {
    requests.AccessStatusRequest: _by_fields(AccessControl.status),
    requests.IdentityRequest: _by_fields(AccessControl.whoami),
    requests.LoginRequest: _by_fields(AccessControl.login),
    requests.ExplainRequest: _by_fields(AccessControl.explain),
    requests.ListUsersRequest: _by_fields(AccessControl.list_users),
    requests.GetUserRequest: _by_fields(AccessControl.get_user),
    requests.GroupsOfUserRequest: _by_fields(AccessControl.groups_of),
    requests.ListGroupsRequest: _by_fields(AccessControl.list_groups),
    requests.GetGroupRequest: _by_fields(AccessControl.get_group),
    requests.ListMembersRequest: _by_fields(AccessControl.list_members),
    requests.ListPoliciesRequest: _by_fields(AccessControl.list_policies),
    requests.GetPolicyRequest: _by_fields(AccessControl.get_policy),
    requests.AttachedPoliciesRequest: _by_fields(AccessControl.attached_to),
    requests.ListTokensRequest: _by_fields(AccessControl.list_tokens),
    requests.ListAccessKeysRequest: _by_fields(AccessControl.list_access_keys),
}

ACCESS_WRITES: Final[Mapping[type[RepositoryRequest[Any]], AccessUseCase]] = {
    requests.SetUpRequest: _by_fields(AccessControl.set_up),
    requests.RotateKeyRequest: _by_fields(AccessControl.rotate_key),
    requests.CreateUserRequest: _by_fields(AccessControl.create_user),
    requests.DeleteUserRequest: _by_fields(AccessControl.delete_user),
    requests.CreateGroupRequest: _by_fields(AccessControl.create_group),
    requests.DeleteGroupRequest: _by_fields(AccessControl.delete_group),
    requests.AddMemberRequest: _by_fields(AccessControl.add_member),
    requests.RemoveMemberRequest: _by_fields(AccessControl.remove_member),
    requests.PutPolicyRequest: _put_policy,
    requests.DeletePolicyRequest: _by_fields(AccessControl.delete_policy),
    requests.AttachPolicyRequest: _by_fields(AccessControl.attach),
    requests.DetachPolicyRequest: _by_fields(AccessControl.detach),
    requests.CreateTokenRequest: _by_fields(AccessControl.create_token),
    requests.DeleteTokenRequest: _by_fields(AccessControl.delete_token),
    requests.CreateAccessKeyRequest: _by_fields(AccessControl.create_access_key),
    requests.DeleteAccessKeyRequest: _by_fields(AccessControl.delete_access_key),
}


_SEALING: Final = (
    requests.SetUpRequest,
    requests.LoginRequest,
    requests.CreateAccessKeyRequest,
    requests.RotateKeyRequest,
)
"""Requests that need the keys of the servers."""


class StoreAccess:
    """The use cases of access on one store; the keys are read when a request needs them."""

    def __init__(self, store: Store, store_url: str, ports: Ports) -> None:
        # Without an address the keys are those of the environment.
        self._store_url = store_url or "memory:"
        self._ports = ports
        self._directory = Directory(store, ports)
        self._without_keys = AccessControl(self._directory, ports, OpenPolicy())
        self._with_keys: AccessControl | None = None

    def control(self, kind: type[RepositoryRequest[Any]]) -> AccessControl:
        """Returns the use cases for a kind of request."""
        if kind not in _SEALING:
            return self._without_keys
        if self._with_keys is None:
            self._with_keys = self._load()
        return self._with_keys

    def _load(self) -> AccessControl:
        ports, setup = self._ports, self._directory.find_setup()
        settings = Settings(
            store=self._store_url,
            secret_key=Secret(os.environ.get("LOCHAN_SECRET_KEY", "")),
            secret_key_file=os.environ.get("LOCHAN_SECRET_KEY_FILE", ""),
        )
        key_ring = load_keys(settings, ports.random, is_set_up=setup is not None)
        if setup is not None and key_ring is not None:
            check_server_key(setup, key_ring)
        logins = None if key_ring is None else Logins(key_ring, ports.clock)
        return AccessControl(self._directory, ports, OpenPolicy(), key_ring, logins)
