"""From settings to everything about access that one server has.

Access is off until the first user is set up or an issuer of tokens is configured: then every caller
may do everything, and only this machine is served (`exposure`). A server always has the parts that
notice set-up, because another server of the same store may do it.
"""

from __future__ import annotations

import re
from typing import Final, Literal

import msgspec

from lochan.access.authentication import Authenticator, find_digest
from lochan.access.directory import Directory
from lochan.access.enforcement import EnforcedPolicy
from lochan.access.logins import Logins
from lochan.access.oidc import OidcSettings, OidcVerifier
from lochan.access.policy import Call, Policy, Principal
from lochan.access.secrets import check_installed
from lochan.access.signatures import RequestSignature, read_signature
from lochan.assembly.first_user import set_up_first_user
from lochan.assembly.secret_keys import load_keys
from lochan.base.errors import Denied, Invalid, LochanError, NotFound, Unauthenticated
from lochan.identity.key_sources import open_keys
from lochan.kernel.repository import Ports
from lochan.kv.store import Store
from lochan.model.access import Login, NewToken
from lochan.persist.retry import RetryPolicy
from lochan.service.access import AccessControl
from lochan.service.access_credentials import check_server_key
from lochan.settings import Settings
from lochan.telemetry.audit import AuditLog
from lochan.transport.addresses import is_loopback
from lochan.transport.exchange import Request, RequestHeaders
from lochan.transport.routes import Authentication, Match

_NO_KEY: Final = (
    "set-up needs a key that all servers of this store share: write one to a file, for example "
    "with `openssl rand -base64 32`, and name it in the setting secret_key_file of each server"
)
_ELSEWHERE: Final = (
    "access is set up from the machine of the server, or by its settings setup_user and "
    "setup_token_file"
)
_IN_QUERY: Final = re.compile(
    rb"(?:^|&)(?:access_token|authorization|api_key|token)=", re.IGNORECASE
)


class ServerAccess(msgspec.Struct, frozen=True):
    """What decides, what authenticates, and what manages both."""

    directory: Directory
    policy: Policy
    control: AccessControl
    authenticator: Authenticator
    requests: RequestAuthentication
    authentication: Authentication
    signed_requests: SignedRequestAuthentication
    signed_authentication: Authentication

    def find_user(self, user: str) -> Principal | None:
        """Returns a user with its present rights; None if there is none."""
        return self.authenticator.find_user(user)

    def refresh(self) -> None:
        """Looks for changes while requests come, so that they are served from memory meanwhile."""
        if self.requests.take_used() | self.signed_requests.take_used():
            self.directory.revision.fetch()


def open_access(
    settings: Settings, store: Store, ports: Ports, retry: RetryPolicy, audit: AuditLog | None
) -> ServerAccess:
    """Opens the access of a store: checks the keys, and makes the first user if that is wanted."""
    directory = Directory(store, ports, retry)
    setup = directory.find_setup()
    key_ring = load_keys(settings, ports.random, is_set_up=setup is not None)
    if setup is not None and setup.key_check:
        if key_ring is None:
            raise Invalid(
                "access was set up with a key that this server does not have: restore the file "
                "access.key beside an embedded store, or name the file with the key in the setting "
                "secret_key_file"
            )
        try:
            check_server_key(setup, key_ring)
        except Invalid as error:
            raise Invalid(
                "access was set up with another key than those of the setting secret_key_file or "
                f"secret_key: {error.message}"
            ) from None
    logins = None if key_ring is None else Logins(key_ring, ports.clock)
    policy = EnforcedPolicy(audit)
    oidc = open_oidc(settings, ports)
    control = ServedAccess(
        directory,
        ports,
        policy,
        key_ring,
        logins,
        accepts_oidc=oidc is not None,
    )
    control.audit = audit
    set_up_first_user(settings, directory, control, ports.random)
    authenticator = Authenticator(directory, ports.clock, logins, key_ring, oidc)
    requests = RequestAuthentication(authenticator, audit, settings.repository)
    signed = SignedRequestAuthentication(authenticator, audit, settings.repository)
    waits = oidc is not None
    return ServerAccess(
        directory,
        policy,
        control,
        authenticator,
        requests,
        Authentication(requests.authenticate, find_known=requests.find_known, waits=waits),
        signed,
        Authentication(signed.authenticate, find_known=signed.find_known, waits=waits),
    )


def open_oidc(settings: Settings, ports: Ports) -> OidcVerifier | None:
    """Returns what verifies the tokens of an issuer, None if the settings name none."""
    if not settings.oidc_issuer:
        return None
    chosen = OidcSettings(
        issuer=settings.oidc_issuer,
        audience=settings.oidc_audience,
        algorithms=settings.oidc_algorithms,
        user_claim=settings.oidc_user_claim,
        roles_claim=settings.oidc_roles_claim,
    )
    return OidcVerifier(chosen, open_keys(settings.oidc_jwks, ports.clock), ports.clock)


class ServedAccess(AccessControl):
    """The use cases of access as a server offers them: set-up and logins are in the audit log.

    Set-up needs no credentials, so it is not offered to other machines, nor if an issuer makes
    callers known: then the settings of the server make the first user.
    """

    audit: AuditLog | None = None

    def set_up(
        self, call: Call, user: str, token: str | None = None, *, is_direct: bool = True
    ) -> NewToken:
        """Creates the first user, who may do everything, and its token: once for each store."""
        check_installed()
        from_settings = not call.origin
        is_here = call.origin == "unix" or is_loopback(call.origin)
        if not from_settings and (self._accepts_oidc or not is_here):
            self._record("setup", call, reason="elsewhere")
            raise Denied(_ELSEWHERE)
        if self._key_ring is None:
            raise Invalid(_NO_KEY)
        try:
            made = super().set_up(call, user, token, is_direct=is_direct)
        except LochanError as error:
            self._record("setup", call, reason=error.kind)
            raise
        self._record("setup", call, principal=user)
        return made

    def login(self, call: Call, access_key_id: str, secret: str) -> Login:
        """Exchanges an access key for a short-lived token; Unauthenticated if it is none."""
        try:
            made = super().login(call, access_key_id, secret)
        except Unauthenticated as error:
            self._record("login", call, reason=error.message)
            raise
        row = self._directory.find_credential(access_key_id)
        self._record("login", call, principal="" if row is None else row.user)
        return made

    def _record(
        self, event: Literal["login", "setup"], call: Call, principal: str = "", reason: str = ""
    ) -> None:
        if self.audit is not None:
            self.audit.record_attempt(
                event,
                principal=principal,
                origin=call.origin,
                request=call.trace,
                allowed=not reason,
                reason=reason,
            )


class AuthorizationHeader(msgspec.Struct, frozen=True, gc=False):
    """The header of that name, read once for all requests that repeat it; and its digest."""

    text: str | None
    digest: bytes | None


def read_authorization(headers: RequestHeaders) -> AuthorizationHeader:
    """Returns the header; two of them are refused before."""
    text = headers.get("authorization")
    return AuthorizationHeader(text, find_digest(text))


class RequestAuthentication:
    """Finds out who sends a request; writes refused credentials to the audit log.

    A repository in which the caller has no right at all looks absent from here on: before its body
    is read, before it counts against the quota of that repository, and whatever is wrong with it.
    """

    def __init__(
        self, authenticator: Authenticator, audit: AuditLog | None, default_repository: str
    ) -> None:
        self._find_by_digest = authenticator.find_by_digest
        self._authenticate = authenticator.authenticate
        self._audit = audit
        self._default_repository = default_repository
        self._used = False

    def take_used(self) -> bool:
        """Returns whether requests came since the last call."""
        used, self._used = self._used, False
        return used

    def find_known(self, request: Request, match: Match) -> Principal | None:
        """Returns the caller if memory is enough for that, and nothing is refused."""
        self._used = True
        if request.query.raw:
            _check_query(request)
        caller = self._find_by_digest(request.headers.derive(read_authorization).digest)
        return None if caller is None or self._is_hidden(caller, match) else caller

    def authenticate(self, request: Request, match: Match) -> Principal:
        """Returns the caller; Unauthenticated if its credentials do not count.

        NotFound if the repository looks absent to the caller.
        """
        _check_query(request)
        try:
            caller = self._authenticate(request.headers.derive(read_authorization).text)
        except Unauthenticated as error:
            self._record("authentication", request, match, "", error.message)
            raise
        self._check_seen(request, match, caller)
        return caller

    def _check_seen(self, request: Request, match: Match, caller: Principal) -> None:
        if self._is_hidden(caller, match):
            absent = NotFound(f"there is no repository {match.repository!r}")
            self._record("repository", request, match, caller.name, absent.message)
            raise absent

    def _is_hidden(self, caller: Principal, match: Match) -> bool:
        """Returns whether the repository of a request looks absent; it need not exist.

        What is about all repositories has the default one in its match, and does not use it.
        """
        name, rights = match.repository, caller.rights
        if name is None or rights is None or rights.sees(name):
            return False
        return match.route.of_repository or name != self._default_repository

    def _record(
        self,
        event: Literal["authentication", "repository"],
        request: Request,
        match: Match,
        principal: str,
        reason: str,
    ) -> None:
        if self._audit is not None:
            self._audit.record_attempt(
                event,
                principal=principal,
                origin=request.origin,
                request=request.id,
                route=match.route.name,
                allowed=False,
                reason=reason,
            )


class SignedRequestAuthentication(RequestAuthentication):
    """Does the same for requests that may be signed as AWS does it, by header or in the address."""

    def __init__(
        self, authenticator: Authenticator, audit: AuditLog | None, default_repository: str
    ) -> None:
        super().__init__(authenticator, audit, default_repository)
        self._authenticator = authenticator

    def find_known(self, request: Request, match: Match) -> Principal | None:
        """Returns the caller if memory is enough for that, and nothing is refused."""
        try:
            signed = _read_signed(request)
            if signed is None:
                return super().find_known(request, match)
            self._used = True
            proof = self._authenticator.find_signed(signed)
        except Unauthenticated:
            # It is refused, and recorded, by `authenticate`.
            return None
        if proof is None or self._is_hidden(proof.principal, match):
            return None
        request.proof = proof
        return proof.principal

    def authenticate(self, request: Request, match: Match) -> Principal:
        """Returns the caller; Unauthenticated if its signature or credentials do not count."""
        try:
            signed = _read_signed(request)
            proof = None if signed is None else self._authenticator.authenticate_signed(signed)
        except Unauthenticated as error:
            self._record("authentication", request, match, "", error.message)
            raise
        if proof is None:
            return super().authenticate(request, match)
        self._check_seen(request, match, proof.principal)
        request.proof = proof
        return proof.principal


def _read_signed(request: Request) -> RequestSignature | None:
    return read_signature(request.method, request.path, request.query.raw, request.headers.raw)


def _check_query(request: Request) -> None:
    """Refuses credentials in an address: addresses are logged, and proxies log them too."""
    if _IN_QUERY.search(request.query.raw):
        raise Invalid("credentials belong into the header Authorization, never into the address")
