"""All tables of rows about access, put together: which rows are removed before which others."""

from __future__ import annotations

from typing import Final

from lochan.access.attachments import Attachments
from lochan.access.credentials import Credentials, CredentialsKind
from lochan.access.memberships import Memberships
from lochan.access.named_rows import NamedKind, NamedRows
from lochan.access.policy_rows import PolicyRows
from lochan.access.records import (
    CREDENTIAL_FORM,
    CREDENTIALS,
    GROUP_FORM,
    GROUPS,
    POLICIES,
    POLICY_FORM,
    TOKEN_FORM,
    TOKENS,
    USER_FORM,
    USERS,
    CredentialRow,
    GroupRow,
    PolicyRow,
    TokenRow,
    UserRow,
)
from lochan.access.setup import Setup
from lochan.base.limits.access import (
    ACCESS_KEYS_PER_USER_MAX,
    GROUPS_MAX,
    POLICIES_MAX,
    TOKENS_PER_USER_MAX,
    USERS_MAX,
)
from lochan.base.ports import Clock
from lochan.kv.store import Store
from lochan.persist.retry import Retry

_USERS: Final = NamedKind("user", USERS, USER_FORM, lambda name: UserRow(1, name, b""), USERS_MAX)
_GROUPS: Final = NamedKind(
    "group", GROUPS, GROUP_FORM, lambda name: GroupRow(1, name, b""), GROUPS_MAX
)
_POLICIES: Final = NamedKind(
    "policy", POLICIES, POLICY_FORM, lambda name: PolicyRow(1, name, b""), POLICIES_MAX
)
_TOKENS: Final = CredentialsKind(
    "token",
    "token",
    TOKENS,
    TOKEN_FORM,
    lambda token, user: TokenRow(1, token, user),
    TOKENS_PER_USER_MAX,
)
_ACCESS_KEYS: Final = CredentialsKind(
    "access-key",
    "access key",
    CREDENTIALS,
    CREDENTIAL_FORM,
    lambda key, user: CredentialRow(1, key, user),
    ACCESS_KEYS_PER_USER_MAX,
)


class AccessRows:
    """The tables of one store; for any number of threads."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self.users: NamedRows[UserRow] = NamedRows(store, clock, _USERS, self._prune_user)
        self.groups: NamedRows[GroupRow] = NamedRows(store, clock, _GROUPS, self._prune_group)
        self.policies = PolicyRows(store, clock, _POLICIES, self._prune_policy)
        self.memberships = Memberships(store, self.users, self.groups)
        self.attachments = Attachments(store, self.users, self.groups, self.policies)
        self.tokens: Credentials[TokenRow] = Credentials(store, self.users, _TOKENS)
        self.access_keys: Credentials[CredentialRow] = Credentials(store, self.users, _ACCESS_KEYS)
        self.setup = Setup(
            store,
            self.users,
            self.groups,
            self.policies,
            self.memberships,
            self.attachments,
            self.tokens,
        )

    def _prune_user(self, user: str, retry: Retry) -> None:
        self.tokens.prune_user(user, retry)
        self.access_keys.prune_user(user, retry)
        self.memberships.prune_user(user, retry)
        self.attachments.prune_subject("user", user, retry)

    def _prune_group(self, group: str, retry: Retry) -> None:
        self.memberships.prune_group(group, retry)
        self.attachments.prune_subject("group", group, retry)

    def _prune_policy(self, policy: str, retry: Retry) -> None:
        self.attachments.prune_policy(policy, retry)
