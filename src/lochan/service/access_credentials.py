"""Use cases of set-up, tokens, access keys and logins; each secret is returned once.

Users manage their own tokens and access keys with MANAGE_OWN_TOKENS, those of others with
MANAGE_ACCESS. A token has the rights of its user, or less: scopes are policies that limit it. What
limits a caller must not end with the credentials that it creates: a token with scopes creates none,
one that expires creates only tokens that expire no later, and a user of an issuer creates none for
itself while the issuer states roles for it, because policies of these roles may deny something.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from lochan.access.access_keys import AccessKeySecrets
from lochan.access.authorization_header import refused
from lochan.access.directory import Directory
from lochan.access.directory_base import description_of
from lochan.access.logins import Logins
from lochan.access.names import EVERYONE, user_id
from lochan.access.policy import Action, Call, Policy, Resource
from lochan.access.records import CredentialRow, SetupRow, TokenRow, UserRow
from lochan.access.secrets import KeyRing
from lochan.access.tokens import (
    digest_of,
    is_access_key,
    new_access_key,
    new_token,
    parse_token,
    token_of,
)
from lochan.base.errors import (
    AlreadyExists,
    Conflict,
    Denied,
    Invalid,
    NotFound,
    TooLarge,
)
from lochan.base.limits.access import SCOPES_PER_TOKEN_MAX
from lochan.kernel.repository import Ports
from lochan.model.access import (
    AccessKey,
    AccessStatus,
    Identity,
    Login,
    NewAccessKey,
    NewToken,
    Token,
)
from lochan.model.results import Page

TOKEN_CREDENTIAL: Final = "token:"  # noqa: S105 - the names of tokens in calls begin with it

OIDC_CREDENTIAL: Final = "oidc"
"""What calls name as their credential that show a token of an issuer."""

_SETUP_CHECK: Final = b"lochan set-up"
_INCARNATION_BYTES: Final = 16
_NOT_DIRECT: Final = (
    "access is set up by a program on the machine of the server, not by a browser and not through "
    "a proxy: use `lochan access setup`, or the settings setup_user and setup_token_file"
)
_NOT_SET_UP: Final = "access is not set up: create the first user with `lochan access setup`"


class CredentialControl:
    """Set-up, and the credentials of users; for any number of threads.

    Without a key ring there are no access keys and no logins.
    """

    def __init__(
        self,
        directory: Directory,
        ports: Ports,
        policy: Policy,
        key_ring: KeyRing | None = None,
        logins: Logins | None = None,
        *,
        accepts_oidc: bool = False,
    ) -> None:
        self._directory = directory
        self._ports = ports
        self._policy = policy
        self._key_ring = key_ring
        self._secrets = None if key_ring is None else AccessKeySecrets(key_ring)
        self._logins = logins
        self._accepts_oidc = accepts_oidc

    def status(self, call: Call) -> AccessStatus:  # noqa: ARG002 - every caller may know it
        """Returns whether requests need credentials."""
        return AccessStatus(self._directory.find_setup() is not None, self._accepts_oidc)

    def set_up(
        self,
        call: Call,  # noqa: ARG002 - there is nothing to decide by
        user: str,
        token: str | None = None,
        *,
        is_direct: bool = True,
    ) -> NewToken:
        """Creates the first user, who may do everything, and its token: once for each store.

        There is nothing to decide by before; afterwards it is refused. A caller that chooses the
        text of the token itself can send the same request again if a reply is lost. A request that
        may come from a browser or through a proxy is not direct, and is denied.
        """
        if not is_direct:
            raise Denied(_NOT_DIRECT)
        random = self._ports.random
        user_id(user)
        if token is None:
            name, token, digest = new_token(random)
        else:
            parsed = parse_token(token)
            if parsed is None:
                raise Invalid("a token that is chosen has the form lochan_ID_SECRET")
            name, digest = parsed[0], digest_of(*parsed)
        incarnation, now_us = random.random_bytes(_INCARNATION_BYTES), self._ports.clock.now_us()
        row = SetupRow(1, user, name, digest, incarnation, now_us, self._key_check())
        if not self._directory.set_up(row):
            raise AlreadyExists("access was set up before: sign in as a user of it")
        made = self._directory.find_token(name)
        if made is None:
            raise AlreadyExists("access was set up before, and its first token was deleted since")
        return NewToken(_token(made), token)

    def set_up_key(
        self,
        call: Call,
        user: str,
        chosen: tuple[str, str] | None = None,
        *,
        is_direct: bool = True,
    ) -> NewAccessKey:
        """Creates the first user as `set_up` does, with an access key instead of a token.

        1. Set up with a token that is derived from the access key.
        2. Create the access key. 3. Delete the token.

        A crash before 3 leaves the token: a caller that has chosen the access key sends the same
        request again, which finishes the steps.
        """
        key_id, secret = chosen or new_access_key(self._ports.random)
        if not is_access_key(key_id, secret):
            raise Invalid(
                "an access key that is chosen has an id of 16 to 40 capital letters and digits, "
                "and a secret of 32 to 64 characters of Base64"
            )
        made = self.set_up(call, user, token_of(key_id, secret), is_direct=is_direct)
        owner = self._directory.find_user_row(user_id(user))
        if owner is None:
            raise AlreadyExists("access was set up before, and its first user was deleted since")
        row = self._add_access_key(owner, key_id, secret, "")
        self._directory.delete_token(made.token.id)
        return NewAccessKey(_access_key(row), secret)

    def whoami(self, call: Call) -> Identity:
        """Returns who the caller is."""
        return Identity(call.principal, call.roles, call.credential)

    def login(self, call: Call, access_key_id: str, secret: str) -> Login:  # noqa: ARG002
        """Exchanges an access key for a short-lived token; Unauthenticated if it is none."""
        if self._secrets is None or self._logins is None:
            raise Invalid("this server has no secret key, so it has no access keys and no logins")
        row = None
        if is_access_key(access_key_id, secret):
            row = self._directory.find_credential(access_key_id)
        if not self._secrets.matches(row, secret) or row is None:
            raise refused("the access key is not known, or was deleted, or its user was")
        return self._logins.issue(row.user, row.user_incarnation, row.id)

    def create_token(
        self,
        call: Call,
        user: str,
        description: str = "",
        scopes: Sequence[str] = (),
        expires_us: int | None = None,
    ) -> NewToken:
        """Creates a token of a user, limited by policies and in time if that is requested."""
        owner = self._new_owner(call, user, expires_us)
        if len(scopes) > SCOPES_PER_TOKEN_MAX:
            raise TooLarge(f"a token is limited by at most {SCOPES_PER_TOKEN_MAX} policies")
        now_us = self._ports.clock.now_us()
        if expires_us is not None and expires_us <= now_us:
            raise Invalid("a token expires in the future")
        name, text, digest = new_token(self._ports.random)
        row = TokenRow(
            1,
            name,
            user,
            owner.incarnation,
            now_us,
            digest,
            expires_us,
            self._directory.new_scopes(scopes),
            description_of(description),
        )
        self._directory.add_token(row)
        return NewToken(_token(row), text)

    def list_tokens(
        self, call: Call, user: str, limit: int | None = None, token: str | None = None
    ) -> Page[Token]:
        """Returns a page of the tokens of a user."""
        self._decide_own(call, user, Action.READ_ACCESS)
        page = self._directory.list_tokens(user, limit, token or "")
        return Page(tuple(map(_token, page.items)), page.token)

    def delete_token(self, call: Call, token: str) -> None:
        """Revokes a token; NotFound if there is none."""
        found = self._directory.find_token(token)
        self._decide_own(call, "" if found is None else found.user, Action.MANAGE_ACCESS)
        self._directory.delete_token(token)

    def create_access_key(self, call: Call, user: str, description: str = "") -> NewAccessKey:
        """Creates an access key of a user."""
        owner = self._new_owner(call, user)
        name, secret = new_access_key(self._ports.random)
        row = self._add_access_key(owner, name, secret, description_of(description))
        return NewAccessKey(_access_key(row), secret)

    def _add_access_key(
        self, owner: UserRow, name: str, secret: str, description: str
    ) -> CredentialRow:
        if self._secrets is None:
            raise Invalid("this server has no secret key, so it has no access keys and no logins")
        sealed = self._secrets.seal(name, secret, self._ports.random)
        now_us = self._ports.clock.now_us()
        row = CredentialRow(1, name, owner.id, owner.incarnation, now_us, sealed, description)
        self._directory.add_credential(row)
        return row

    def list_access_keys(
        self, call: Call, user: str, limit: int | None = None, token: str | None = None
    ) -> Page[AccessKey]:
        """Returns a page of the access keys of a user."""
        self._decide_own(call, user, Action.READ_ACCESS)
        page = self._directory.list_credentials(user, limit, token or "")
        return Page(tuple(map(_access_key, page.items)), page.token)

    def delete_access_key(self, call: Call, access_key: str) -> None:
        """Deletes an access key and ends its logins; NotFound if there is none."""
        found = self._directory.find_credential(access_key)
        self._decide_own(call, "" if found is None else found.user, Action.MANAGE_ACCESS)
        self._directory.delete_credential(access_key)

    def rotate_key(self, call: Call) -> int:
        """Seals everything again that is not sealed with the first key; returns how much that was.

        Then the other keys can be taken away from all servers.
        """
        self._decide(call, Action.MANAGE_ACCESS)
        ring = self._key_ring
        if ring is None:
            raise Invalid("this server has no secret key, so nothing is sealed")
        secrets = AccessKeySecrets(ring)
        names = [row.id for row in self._directory.all_credentials()]
        count = sum(self._seal_again(ring, secrets, name) for name in names)
        setup = self._directory.find_setup()
        if setup is not None and not (setup.key_check and ring.is_current(setup.key_check)):
            self._directory.replace_key_check(self._key_check())
            count += 1
        return count

    def _seal_again(self, ring: KeyRing, secrets: AccessKeySecrets, name: str) -> bool:
        """Seals one access key again, unless that is done or the access key is gone."""
        while True:
            row = self._directory.find_credential(name)
            if row is None or ring.is_current(row.sealed):
                return False
            sealed = secrets.seal(name, secrets.open(row).decode(), self._ports.random)
            new = msgspec.structs.replace(row, sealed=sealed)
            # If another server has replaced it meanwhile, it is read again.
            if self._directory.replace_credential(row, new):
                return True

    def _key_check(self) -> bytes:
        ring = self._key_ring
        return b"" if ring is None else ring.seal(_SETUP_CHECK, _SETUP_CHECK, self._ports.random)

    def _decide(self, call: Call, action: Action) -> None:
        """Raises Denied unless the caller may do it; Conflict before anything is set up.

        Users that were created before would be there when requests begin to need credentials.
        """
        self._policy.decide(call, action, Resource(""))
        if self._directory.find_setup() is None:
            raise Conflict(_NOT_SET_UP)

    def _decide_own(self, call: Call, user: str, action: Action) -> None:
        """Decides on the credentials of a user: the caller's own, or those of others."""
        own = user != "" and user == call.principal
        self._decide(call, Action.MANAGE_OWN_TOKENS if own else action)

    def _new_owner(self, call: Call, user: str, expires_us: int | None = None) -> UserRow:
        """Returns the user for whom a credential may be created, which ends then or never."""
        self._decide_own(call, user, Action.MANAGE_ACCESS)
        if call.credential.startswith(TOKEN_CREDENTIAL):
            token = self._directory.find_token(call.credential.removeprefix(TOKEN_CREDENTIAL))
            if token is None or token.scopes:
                raise self._refused(
                    call, "a token that is limited by policies cannot create credentials"
                )
            if token.expires_us is not None and not 0 < (expires_us or 0) <= token.expires_us:
                raise self._refused(
                    call, "a token that expires creates only tokens that expire no later"
                )
        owner = self._directory.find_user_row(user_id(user))
        if owner is None:
            raise NotFound(f"there is no user {user!r}")
        if user == call.principal and call.credential == OIDC_CREDENTIAL:
            kept = {*self._directory.groups_of(user), EVERYONE}
            if not kept.issuperset(call.roles):
                raise self._refused(
                    call,
                    "credentials that you create would not have the roles that your issuer states "
                    "for you, so an administrator has to create them",
                )
        return owner

    def _refused(self, call: Call, message: str) -> Denied:
        """Returns a refusal to create credentials, after recording it."""
        error = Denied(message)
        self._policy.record_refusal(call, Action.MANAGE_OWN_TOKENS, Resource(""), error)
        return error


def check_server_key(setup: SetupRow, key_ring: KeyRing) -> None:
    """Raises Invalid if a server does not have the key with which its store was set up."""
    if setup.key_check:
        key_ring.open(setup.key_check, _SETUP_CHECK)


def _token(row: TokenRow) -> Token:
    scopes = tuple(scope.policy for scope in row.scopes)
    return Token(row.id, row.user, row.description, row.created_us, row.expires_us, scopes)


def _access_key(row: CredentialRow) -> AccessKey:
    return AccessKey(row.id, row.user, row.description, row.created_us)
