"""Who sends a request: its credentials become a `Principal` with the rights that it has now.

Four kinds of credentials count: API tokens, access keys (`Basic`), login tokens that access keys
were exchanged for, and tokens of an OpenID Connect issuer. Before the first user is set up, and
without an issuer, every caller is anyone and may do everything.

**How old an answer may be.** A `Principal` is remembered by the SHA-256 of the header that proved
it, under one revision (`revision.py`). It counts

* while the revision was read less than ACCESS_STALE_MS ago and is still that one: a change that
  was acknowledged by any server counts on every server after that time at the latest;
* for ACCESS_AGE_MS_MAX at most: a change whose server ended before it marked the revision counts
  after that time;
* until its own expiry, by the clock of this server.

Revisions are read before rows, so what is remembered under a revision is never older than it.

A request that is signed with an access key is different each time. Of it the caller and the key of
its day and region are remembered, under the same rules; the secret itself is not.

Refused headers are remembered apart, few and briefly: they push out no caller. Compiled policies
are remembered for longer, and are used again only for equal policies.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final

import msgspec

from lochan.access.authorization_header import (
    UNAUTHENTICATED_TEXT,
    AccessKeyPair,
    Bearer,
    parse_authorization,
)
from lochan.access.callers import Caller, Callers
from lochan.access.directory import Directory
from lochan.access.generations import Generations
from lochan.access.logins import Logins
from lochan.access.names import EVERYONE
from lochan.access.oidc import OidcVerifier
from lochan.access.policy import Principal, Rights
from lochan.access.rights import OPEN_RIGHTS, AttachedPolicy, compile_rights
from lochan.access.secrets import KeyRing
from lochan.access.signatures import (
    RequestSignature,
    SignatureChain,
    derive_signing_key,
    refused_signature,
)
from lochan.base.errors import Unauthenticated
from lochan.base.limits.access import ACCESS_AGE_MS_MAX
from lochan.base.limits.credentials import (
    AUTHORIZATION_BYTES_MAX,
    KNOWN_CALLERS_MAX,
    KNOWN_RIGHTS_MAX,
    REFUSED_HEADERS_MAX,
    REFUSED_MS,
)
from lochan.base.ports import Clock
from lochan.model.access import AccessPolicy

_NS_PER_MS: Final = 1_000_000
_AGE_NS_MAX: Final = ACCESS_AGE_MS_MAX * _NS_PER_MS
_REFUSED_NS: Final = REFUSED_MS * _NS_PER_MS

_ANYONE: Final = Principal(rights=OPEN_RIGHTS)


class _Known(msgspec.Struct, frozen=True):
    """A caller that was authenticated, and when the reading of its rows began."""

    principal: Principal
    began_ns: int
    expires_us: int | None


class Proof(msgspec.Struct, frozen=True):
    """Who has signed a request, and what its body is checked by."""

    principal: Principal
    payload: str
    """What the signature states about the body."""
    chain: SignatureChain


class _Signer(msgspec.Struct, frozen=True):
    """A caller, and the key by which its requests of one day and region are signed."""

    known: _Known
    signing_key: bytes


class _Refused(msgspec.Struct, frozen=True, gc=False):
    """A header that was refused, when, and why."""

    began_ns: int
    message: str


class _Compiled(msgspec.Struct, frozen=True):
    """Rights, and the policies that they were compiled from."""

    policies: tuple[AttachedPolicy, ...]
    scopes: tuple[AccessPolicy, ...] | None
    rights: Rights


class _State:
    """What is known under one revision; dropped with it."""

    __slots__ = ("began_ns", "callers", "is_open", "refusals", "revision", "signers", "users")

    def __init__(self, revision: bytes, began_ns: int, *, is_open: bool) -> None:
        self.revision = revision
        self.began_ns = began_ns
        self.is_open = is_open
        self.callers: Generations[bytes, _Known] = Generations(KNOWN_CALLERS_MAX)
        self.signers: Generations[tuple[str, str], _Signer] = Generations(KNOWN_CALLERS_MAX)
        self.users: Generations[str, _Known] = Generations(KNOWN_CALLERS_MAX)
        self.refusals: Generations[bytes, _Refused] = Generations(REFUSED_HEADERS_MAX)


class Authenticator:
    """Authenticates the requests of one server; for any number of threads.

    `find_known` reads memory only and never waits: it is for the event loop. `authenticate` may
    read the store, and may wait for the keys of an issuer.
    """

    def __init__(
        self,
        directory: Directory,
        clock: Clock,
        logins: Logins | None = None,
        key_ring: KeyRing | None = None,
        oidc: OidcVerifier | None = None,
    ) -> None:
        self._directory = directory
        self._clock = clock
        self._callers = Callers(directory, clock, logins, key_ring, oidc)
        self._find_revision = directory.revision.find_known
        self._state: _State | None = None
        # Set-up is never undone, so a server that has seen it once does not look again.
        self._is_closed = oidc is not None
        self._compiled: Generations[tuple[object, ...], _Compiled] = Generations(KNOWN_RIGHTS_MAX)

    def is_required(self) -> bool:
        """Returns whether requests need credentials; may read the store."""
        return not self._current().is_open

    def find_known(self, authorization: str | None) -> Principal | None:
        """Returns the caller if it is remembered and nothing has changed; None: authenticate it."""
        return self.find_by_digest(find_digest(authorization))

    def find_by_digest(self, digest: bytes | None) -> Principal | None:
        """Does the same for a header whose digest is known already."""
        state = self._state
        if state is None or self._find_revision() != state.revision:
            return None
        if state.is_open:
            fresh = self._clock.monotonic_ns() - state.began_ns <= _AGE_NS_MAX
            return _ANYONE if fresh else None
        return None if digest is None else self._find_caller(state, digest)

    def authenticate(self, authorization: str | None) -> Principal:
        """Returns the caller; Unauthenticated if its credentials do not count.

        The public text is the same whatever was wrong. Errors of the store are raised as they are:
        a caller that cannot be checked is not refused.
        """
        state = self._current()
        if state.is_open:
            return _ANYONE
        credentials = parse_authorization(authorization)
        digest = _digest(authorization or "")
        found = self._find_caller(state, digest)
        if found is not None:
            return found
        began_ns = self._clock.monotonic_ns()
        earlier = state.refusals.find(digest)
        if earlier is not None and began_ns - earlier.began_ns < _REFUSED_NS:
            raise Unauthenticated(earlier.message, public=UNAUTHENTICATED_TEXT)
        try:
            known = self._directory.revision.read_unchanged(
                lambda: self._identify(credentials, began_ns)
            )
        except Unauthenticated as error:
            state.refusals.keep(digest, _Refused(began_ns, error.message))
            raise
        state.callers.keep(digest, known)
        return known.principal

    def find_user(self, user: str) -> Principal | None:
        """Returns a user with its rights, for what an operator bounds by them; None if it is none.

        No credentials are shown, so no request may choose the name.
        """
        state = self._current()
        if state.is_open:
            return None
        known = state.users.find(user)
        began_ns = self._clock.monotonic_ns()
        if known is None or began_ns - known.began_ns > _AGE_NS_MAX:
            known = self._directory.revision.read_unchanged(lambda: self._user(user, began_ns))
            if known is None:
                return None
            state.users.keep(user, known)
        return known.principal

    def _user(self, user: str, began_ns: int) -> _Known | None:
        row = self._directory.find_user_row(user)
        return None if row is None else self._known(Caller(user, row.id, "identity"), began_ns)

    def find_signed(self, signed: RequestSignature) -> Proof | None:
        """Returns who has signed a request, if its key is remembered; None: authenticate it."""
        state = self._state
        if state is None or self._find_revision() != state.revision or state.is_open:
            return None
        signer = self._find_signer(state, signed)
        return None if signer is None else self._prove(signed, signer)

    def authenticate_signed(self, signed: RequestSignature) -> Proof:
        """Returns who has signed a request; Unauthenticated if the signature does not count.

        Before access is set up everyone may sign with anything.
        """
        state = self._current()
        if state.is_open:
            return Proof(_ANYONE, signed.payload, signed.chain(None))
        signer = self._find_signer(state, signed)
        if signer is None:
            began_ns = self._clock.monotonic_ns()
            digest = _digest(f"key {signed.access_key_id}")
            earlier = state.refusals.find(digest)
            if earlier is not None and began_ns - earlier.began_ns < _REFUSED_NS:
                raise refused_signature("unknown key", earlier.message)
            try:
                signer = self._directory.revision.read_unchanged(
                    lambda: self._identify_signer(signed, began_ns)
                )
            except Unauthenticated as error:
                state.refusals.keep(digest, _Refused(began_ns, error.message))
                raise
            state.signers.keep((signed.access_key_id, signed.scope.text), signer)
        return self._prove(signed, signer)

    def _find_signer(self, state: _State, signed: RequestSignature) -> _Signer | None:
        signer = state.signers.find((signed.access_key_id, signed.scope.text))
        if signer is None or self._clock.monotonic_ns() - signer.known.began_ns > _AGE_NS_MAX:
            return None
        return signer

    def _prove(self, signed: RequestSignature, signer: _Signer) -> Proof:
        signed.check_time(self._clock.now_us())
        if not signed.is_signed(signer.signing_key):
            raise refused_signature("signature", f"not that of the key {signed.access_key_id}")
        return Proof(signer.known.principal, signed.payload, signed.chain(signer.signing_key))

    def _identify_signer(self, signed: RequestSignature, began_ns: int) -> _Signer:
        caller, secret = self._callers.find_signer(signed.access_key_id)
        return _Signer(self._known(caller, began_ns), derive_signing_key(secret, signed.scope))

    def _current(self) -> _State:
        """Returns the state under the present revision, a new one if that has changed."""
        revision = self._directory.revision.read()
        began_ns = self._clock.monotonic_ns()
        state = self._state
        if state is not None and state.revision == revision:
            if not state.is_open or began_ns - state.began_ns <= _AGE_NS_MAX:
                return state
        if not self._is_closed and self._directory.find_setup() is not None:
            self._is_closed = True
        state = self._state = _State(revision, began_ns, is_open=not self._is_closed)
        return state

    def _find_caller(self, state: _State, digest: bytes) -> Principal | None:
        known = state.callers.find(digest)
        if known is None or self._clock.monotonic_ns() - known.began_ns > _AGE_NS_MAX:
            return None
        if known.expires_us is not None and known.expires_us <= self._clock.now_us():
            return None
        return known.principal

    def _identify(self, credentials: Bearer | AccessKeyPair, began_ns: int) -> _Known:
        """Reads who has shown credentials, with its groups and policies."""
        return self._known(self._callers.identify(credentials), began_ns)

    def _known(self, caller: Caller, began_ns: int) -> _Known:
        directory = self._directory
        groups = () if caller.user is None else directory.groups_of(caller.user)
        roles = tuple(dict.fromkeys((*groups, *caller.claimed_roles, EVERYONE)))
        policies = directory.policies_for(caller.user, roles)
        principal = Principal(
            name=caller.name,
            roles=roles,
            credential=caller.credential,
            rights=self._rights(caller.name, roles, policies, caller.scopes),
        )
        return _Known(principal, began_ns, caller.expires_us)

    def _rights(
        self,
        name: str,
        roles: tuple[str, ...],
        policies: tuple[AttachedPolicy, ...],
        scopes: tuple[AccessPolicy, ...] | None,
    ) -> Rights:
        """Returns compiled rights, those of before if the policies are equal.

        So the tokens of one user share them, and a change of other users costs no compilation.
        """
        key = (name, roles, None if scopes is None else tuple(policy.id for policy in scopes))
        compiled = self._compiled.find(key)
        if compiled is None or (compiled.policies, compiled.scopes) != (policies, scopes):
            rights = compile_rights(policies, name, roles, scopes)
            compiled = _Compiled(policies, scopes, rights)
            self._compiled.keep(key, compiled)
        return compiled.rights


def find_digest(authorization: str | None) -> bytes | None:
    """Returns what a header is remembered by; None for none, and for one that is refused."""
    if authorization is None or len(authorization) > AUTHORIZATION_BYTES_MAX:
        return None
    return _digest(authorization)


def _digest(authorization: str) -> bytes:
    """Returns what a header is remembered by: no memory of a server contains its secret."""
    return sha256(authorization.encode("utf-8", "surrogatepass")).digest()
