"""Servers on one store with users, tokens and access keys; holds no test of its own."""

from __future__ import annotations

import base64
from typing import Any

from lochan.access.access_keys import AccessKeySecrets
from lochan.access.authentication import Authenticator
from lochan.access.directory import Directory
from lochan.access.logins import Logins
from lochan.access.oidc import OidcSettings, OidcVerifier
from lochan.access.policy import Action, Principal
from lochan.access.records import CredentialRow, SetupRow, TokenRow
from lochan.access.secrets import KeyRing
from lochan.access.signing_keys import KeySource, parse_key_set
from lochan.access.tokens import new_access_key, new_token
from lochan.base.errors import Unauthenticated
from lochan.kernel.repository import Ports
from lochan.kv.store import Store
from lochan.model.access import AccessPolicy, Statement
from lochan.stores.memory.store import MemoryStore
from lochan.testing.ports import ManualClock, RecordedWaiting, SeededRandom
from tests.access.issuer import AUDIENCE, ISSUER, edwards_key, jwk, jwks

KEY = SeededRandom(1).random_bytes(32)
ISSUER_KEYS = parse_key_set(jwks(jwk(edwards_key())))


class Server:
    """One server: its own memory, on a store and a clock that others may share."""

    def __init__(
        self,
        store: Store | None = None,
        clock: ManualClock | None = None,
        *,
        seed: int = 1,
        keys: tuple[bytes, ...] = (KEY,),
        oidc: KeySource | None = None,
        roles_claim: str = "roles",
    ) -> None:
        self.store = MemoryStore() if store is None else store
        self.clock = ManualClock() if clock is None else clock
        self.random = SeededRandom(seed)
        ports = Ports(self.clock, self.random, RecordedWaiting(self.clock))
        self.directory = Directory(self.store, ports)
        ring = KeyRing(keys)
        self.logins = Logins(ring, self.clock)
        self.secrets = AccessKeySecrets(ring)
        settings = OidcSettings(
            issuer=ISSUER, audience=AUDIENCE, algorithms=("EdDSA",), roles_claim=roles_claim
        )
        verifier = None if oidc is None else OidcVerifier(settings, oidc, self.clock)
        self.authenticator = Authenticator(self.directory, self.clock, self.logins, ring, verifier)

    def another(self, **more: Any) -> Server:
        """Another server on the same store, with the same time."""
        return Server(self.store, self.clock, seed=2, **more)

    def set_up(self) -> str:
        """Creates the first user, `root`; returns its token."""
        token_id, text, digest = new_token(self.random)
        row = SetupRow(1, "root", token_id, digest, self.random.random_bytes(16), 0, b"check")
        assert self.directory.set_up(row)
        return f"Bearer {text}"

    def add_user(self, user: str = "alice", *policies: str) -> None:
        self.directory.create_user(user)
        for policy in policies:
            self.directory.attach("user", user, policy)

    def add_policy(self, name: str, *statements: Statement) -> None:
        self.directory.put_policy(AccessPolicy(name, statements))

    def add_token(
        self, user: str = "alice", scopes: tuple[str, ...] = (), expires_us: int | None = None
    ) -> tuple[str, str]:
        """Creates a token; returns its id and the header to send."""
        token_id, text, digest = new_token(self.random)
        row = TokenRow(
            1,
            token_id,
            user,
            self.incarnation(user),
            digest=digest,
            expires_us=expires_us,
            scopes=self.directory.new_scopes(scopes),
        )
        self.directory.add_token(row)
        return token_id, f"Bearer {text}"

    def add_access_key(self, user: str = "alice") -> tuple[str, str]:
        """Creates an access key; returns its id and its secret."""
        key_id, secret = new_access_key(self.random)
        sealed = self.secrets.seal(key_id, secret, self.random)
        row = CredentialRow(1, key_id, user, self.incarnation(user), sealed=sealed)
        self.directory.add_credential(row)
        return key_id, secret

    def log_in(self, key_id: str, user: str = "alice") -> str:
        """Returns the header of a login with an access key."""
        return f"Bearer {self.logins.issue(user, self.incarnation(user), key_id).secret}"

    def incarnation(self, user: str) -> bytes:
        row = self.directory.find_user_row(user)
        assert row is not None
        return row.incarnation

    def knows(self, header: str) -> Principal:
        """Authenticates a caller that counts."""
        found = self.accepts(header)
        assert found is not None
        return found

    def accepts(self, header: str | None) -> Principal | None:
        """Authenticates as a server does: from memory first; None if the caller is refused."""
        found = self.authenticator.find_known(header)
        if found is not None:
            return found
        try:
            return self.authenticator.authenticate(header)
        except Unauthenticated:
            return None

    def advance_ms(self, duration_ms: int) -> None:
        self.clock.advance_us(duration_ms * 1_000)


def basic(key_id: str, secret: str) -> str:
    return "Basic " + base64.b64encode(f"{key_id}:{secret}".encode()).decode()


def allow(*actions: str, references: tuple[str, ...] = ("*",)) -> Statement:
    return Statement(effect="allow", actions=actions, references=references)


def may(
    principal: Principal | None, action: Action = Action.COMMIT, reference: str = "main"
) -> bool:
    """Returns whether a caller may do something in a repository."""
    assert principal is not None
    assert principal.rights is not None
    return principal.rights.allows(action, "lake", reference)
