"""Use cases of users, groups, policies and who may do what; those of credentials are beside it.

Every method decides READ_ACCESS or MANAGE_ACCESS on the server as a whole, before it reads. These
decide nothing, because there is nothing to decide by, or nothing to protect: `status`, `set_up`,
`login`, `whoami`.
"""

from __future__ import annotations

from lochan.access.actions import actions_of
from lochan.access.names import EVERYONE, OIDC_PREFIX, user_id
from lochan.access.policy import Action, Call
from lochan.access.rights import explain
from lochan.base.errors import Invalid
from lochan.base.keys import file_key, table_key
from lochan.model.access import AccessPolicy, Explanation, Group, SubjectKind, User
from lochan.model.commits import ContentKey
from lochan.model.results import Page
from lochan.service.access_credentials import CredentialControl


class AccessControl(CredentialControl):
    """Who there is and who may do what, in one store; for any number of threads."""

    def create_user(self, call: Call, user: str, description: str = "") -> User:
        """Creates a user; AlreadyExists if there is one."""
        self._decide(call, Action.MANAGE_ACCESS)
        return self._directory.create_user(user, description)

    def get_user(self, call: Call, user: str) -> User:
        """Returns a user; NotFound if there is none."""
        self._decide(call, Action.READ_ACCESS)
        return self._directory.get_user(user)

    def list_users(
        self, call: Call, limit: int | None = None, token: str | None = None
    ) -> Page[User]:
        """Returns a page of users in the order of their ids."""
        self._decide(call, Action.READ_ACCESS)
        return self._directory.list_users(limit, token or "")

    def delete_user(self, call: Call, user: str) -> None:
        """Deletes a user with its memberships, attachments, tokens and access keys."""
        self._decide(call, Action.MANAGE_ACCESS)
        self._directory.delete_user(user)

    def create_group(self, call: Call, group: str, description: str = "") -> Group:
        """Creates a group; AlreadyExists if there is one."""
        self._decide(call, Action.MANAGE_ACCESS)
        return self._directory.create_group(group, description)

    def get_group(self, call: Call, group: str) -> Group:
        """Returns a group; NotFound if there is none."""
        self._decide(call, Action.READ_ACCESS)
        return self._directory.get_group(group)

    def list_groups(
        self, call: Call, limit: int | None = None, token: str | None = None
    ) -> Page[Group]:
        """Returns a page of groups in the order of their ids; `everyone` is not among them."""
        self._decide(call, Action.READ_ACCESS)
        return self._directory.list_groups(limit, token or "")

    def delete_group(self, call: Call, group: str) -> None:
        """Deletes a group with its memberships and attachments."""
        self._decide(call, Action.MANAGE_ACCESS)
        self._directory.delete_group(group)

    def put_policy(
        self, call: Call, policy: AccessPolicy, expected: int | None = None
    ) -> AccessPolicy:
        """Creates or replaces a policy; Conflict unless it has the expected version, if any."""
        self._decide(call, Action.MANAGE_ACCESS)
        return self._directory.put_policy(policy, expected)

    def get_policy(self, call: Call, policy: str) -> AccessPolicy:
        """Returns a policy; NotFound if there is none."""
        self._decide(call, Action.READ_ACCESS)
        return self._directory.get_policy(policy)

    def list_policies(
        self, call: Call, limit: int | None = None, token: str | None = None
    ) -> Page[AccessPolicy]:
        """Returns a page of policies in the order of their ids."""
        self._decide(call, Action.READ_ACCESS)
        return self._directory.list_policies(limit, token or "")

    def delete_policy(self, call: Call, policy: str) -> None:
        """Deletes a policy and detaches it from all users and groups."""
        self._decide(call, Action.MANAGE_ACCESS)
        self._directory.delete_policy(policy)

    def add_member(self, call: Call, user: str, group: str) -> None:
        """Makes a user a member of a group."""
        self._decide(call, Action.MANAGE_ACCESS)
        self._directory.add_member(user, group)

    def remove_member(self, call: Call, user: str, group: str) -> None:
        """Ends a membership; NotFound if there is none."""
        self._decide(call, Action.MANAGE_ACCESS)
        self._directory.remove_member(user, group)

    def list_members(
        self, call: Call, group: str, limit: int | None = None, token: str | None = None
    ) -> Page[User]:
        """Returns a page of the members of a group; it may be short and still have a next one."""
        self._decide(call, Action.READ_ACCESS)
        return self._directory.list_members(group, limit, token or "")

    def groups_of(self, call: Call, user: str) -> tuple[str, ...]:
        """Returns the groups of a user; NotFound if there is no such user."""
        self._decide(call, Action.READ_ACCESS)
        self._directory.get_user(user)
        return self._directory.groups_of(user)

    def attach(self, call: Call, kind: SubjectKind, subject: str, policy: str) -> None:
        """Makes a policy apply to a user or to the members of a group."""
        self._decide(call, Action.MANAGE_ACCESS)
        self._directory.attach(kind, subject, policy)

    def detach(self, call: Call, kind: SubjectKind, subject: str, policy: str) -> None:
        """Ends that a policy applies to a user or to a group; NotFound if it does not."""
        self._decide(call, Action.MANAGE_ACCESS)
        self._directory.detach(kind, subject, policy)

    def attached_to(self, call: Call, kind: SubjectKind, subject: str) -> tuple[AccessPolicy, ...]:
        """Returns the policies of a user or a group itself."""
        self._decide(call, Action.READ_ACCESS)
        return self._directory.attached_to(kind, subject)

    def explain(
        self,
        call: Call,
        user: str,
        action: str,
        repository: str = "",
        reference: str | None = None,
        key: ContentKey | None = None,
        path: str | None = None,
    ) -> Explanation:
        """Returns which statement allows or denies something to a user.

        Of a name that means several actions, one that is denied is explained, if any is. Roles
        that only an issuer claims for a user are not known here.
        """
        self._decide(call, Action.READ_ACCESS)
        actions = sorted(actions_of(action), key=lambda one: one.value)
        if key is not None and path is not None:
            raise Invalid("a question is about a key or about a path, not about both")
        raw = None if key is None else bytes(table_key(key))
        if path is not None:
            raw = bytes(file_key(path))
        if not user_id(user).startswith(OIDC_PREFIX):
            self._directory.get_user(user)
        roles = (*self._directory.groups_of(user), EVERYONE)
        policies = self._directory.policies_for(user, roles)
        found = [explain(policies, user, roles, one, repository, reference, raw) for one in actions]
        return next((one for one in found if not one.allowed), found[0])
