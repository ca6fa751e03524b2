"""The tokens and access keys of the directory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lochan.access.directory_base import DirectoryBase, page_limit
from lochan.access.names import credential_id, is_credential_id, policy_id, user_id
from lochan.access.policy_rows import shown
from lochan.access.records import CredentialRow, TokenRow, TokenScope
from lochan.model.access import AccessPolicy
from lochan.model.results import Page


class CredentialDirectory(DirectoryBase):
    """Finds, adds, replaces and removes the tokens and access keys of users."""

    def add_token(self, row: TokenRow) -> None:
        """Adds a token of a user; NotFound if the user is not in that incarnation."""
        with self._changing():
            self._rows.tokens.add(row, self._retry())

    def find_token(self, token: str) -> TokenRow | None:
        """Returns a token, None if there is none or its user is gone; it may have expired."""
        return self._rows.tokens.find(token) if is_credential_id(token) else None

    def list_tokens(self, user: str, limit: int | None = None, after: str = "") -> Page[TokenRow]:
        """Returns a page of the tokens of a user."""
        return self._rows.tokens.page(user_id(user), page_limit(limit), after)

    def delete_token(self, token: str) -> None:
        """Revokes a token; NotFound if there is none."""
        with self._changing():
            self._rows.tokens.delete(credential_id(token), self._retry())

    def new_scopes(self, policies: Sequence[str]) -> tuple[TokenScope, ...]:
        """Returns what a token that is limited to some policies stores; NotFound for others."""
        rows = [self._rows.policies.get(policy_id(one)) for one in dict.fromkeys(policies)]
        return tuple(TokenScope(row.id, row.incarnation) for row in rows)

    def scope_policies(self, scopes: Sequence[TokenScope]) -> tuple[AccessPolicy, ...]:
        """Returns the policies that limit a token.

        One that was deleted since is left out, so it allows nothing; without any left the token
        may do nothing.
        """
        rows = self._rows.policies.find_many(scope.policy for scope in scopes)
        present = {TokenScope(row.id, row.incarnation): row for row in rows.values()}
        return tuple(shown(present[scope]) for scope in scopes if scope in present)

    def add_credential(self, row: CredentialRow) -> None:
        """Adds an access key of a user; NotFound if the user is not in that incarnation."""
        with self._changing():
            self._rows.access_keys.add(row, self._retry())

    def find_credential(self, key: str) -> CredentialRow | None:
        """Returns an access key, None if there is none or its user is gone."""
        return self._rows.access_keys.find(key) if is_credential_id(key) else None

    def list_credentials(
        self, user: str, limit: int | None = None, after: str = ""
    ) -> Page[CredentialRow]:
        """Returns a page of the access keys of a user."""
        return self._rows.access_keys.page(user_id(user), page_limit(limit), after)

    def all_credentials(self) -> Iterator[CredentialRow]:
        """Yields the access keys of all users, also of those that are gone."""
        for page in self._rows.access_keys.table.pages():
            yield from (found.row for found in page if found.row.user_incarnation)

    def delete_credential(self, key: str) -> None:
        """Deletes an access key; NotFound if there is none."""
        with self._changing():
            self._rows.access_keys.delete(credential_id(key), self._retry())

    def replace_credential(self, old: CredentialRow, new: CredentialRow) -> bool:
        """Puts one access key in the place of another of the same id, by one write.

        From then on the new secret is accepted, and the old one is not. Returns False if the old
        row is no longer there as it was read; then nothing was changed.
        """
        with self._changing():
            return self._rows.access_keys.replace(old, new, self._retry())
