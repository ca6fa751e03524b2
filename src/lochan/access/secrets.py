"""Secrets that have to be read again are sealed with keys that all servers of a store share.

Sealed bytes are one version byte, the id of the key, a random nonce, and what AES-256-GCM returns.
They are bound to a context, the id of the row that contains them: bytes that were copied into
another row do not open. No message of an error contains a secret, a key or a part of one.

A key of the servers is never used itself: keys for sealing and for each other purpose are derived
from it.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence
from hashlib import sha256
from typing import Final

from lochan.base.checks import check
from lochan.base.errors import Corrupt, Invalid, NewerFormat, TooLarge
from lochan.base.limits.credentials import (
    SEALED_PLAIN_BYTES_MAX,
    SERVER_KEY_BYTES,
    SERVER_KEYS_MAX,
    SERVER_KEYS_TEXT_BYTES_MAX,
)
from lochan.base.ports import Random
from lochan.base.secrets import MASK, Secret

__all__ = ["KeyRing", "Secret", "access_installed", "check_installed", "new_key_text", "parse_keys"]

_MISSING: Final = (
    "Users, tokens and access keys need a part that is not installed here; the server's operator "
    "adds it with `pip install 'lochan[access]'`"
)
_VERSION: Final = 1
_KEY_ID_BYTES: Final = 8
_NONCE_BYTES: Final = 12
_TAG_BYTES: Final = 16
_HEAD_BYTES: Final = 1 + _KEY_ID_BYTES
_SEALED_BYTES_MIN: Final = _HEAD_BYTES + _NONCE_BYTES + _TAG_BYTES
_BETWEEN_KEYS: Final = re.compile(r"[,\s]+")


class KeyRing:
    """The keys of the servers of one store: the first one seals, all of them open.

    To rotate, put a new key before the old ones on every server, seal everything again, then take
    the old keys away.
    """

    __slots__ = ("_keys", "_sealing_keys")

    def __init__(self, keys: Sequence[bytes]) -> None:
        check_installed()
        if not 0 < len(keys) <= SERVER_KEYS_MAX:
            raise Invalid(f"a server has 1 to {SERVER_KEYS_MAX} secret keys, not {len(keys)}")
        if any(len(key) != SERVER_KEY_BYTES for key in keys):
            raise Invalid(f"a secret key of a server has exactly {SERVER_KEY_BYTES} bytes")
        # A key that is named twice counts once, at its first place.
        self._keys = tuple(dict.fromkeys(bytes(key) for key in keys))
        sealing = [(_key_id(key), _derived(key, "seal")) for key in self._keys]
        self._sealing_keys = dict(sealing)
        check(len(self._sealing_keys) == len(self._keys), "keys have different ids")

    def __repr__(self) -> str:
        return f"KeyRing({MASK})"

    @property
    def key_ids(self) -> tuple[str, ...]:
        """The ids of the keys, for messages and logs; the first one seals."""
        return tuple(key_id.hex() for key_id in self._sealing_keys)

    def seal(self, plain: bytes, context: bytes, random: Random) -> bytes:
        """Encrypts a secret for one context; two calls never return the same bytes."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        if len(plain) > SEALED_PLAIN_BYTES_MAX:
            raise TooLarge(f"a secret has at most {SEALED_PLAIN_BYTES_MAX} bytes, not {len(plain)}")
        key_id, key = next(iter(self._sealing_keys.items()))
        head = bytes([_VERSION]) + key_id
        nonce = random.random_bytes(_NONCE_BYTES)
        check(len(nonce) == _NONCE_BYTES, "a nonce has 12 bytes")
        return head + nonce + AESGCM(key).encrypt(nonce, plain, head + context)

    def open(self, sealed: bytes, context: bytes) -> bytes:
        """Decrypts a secret.

        Corrupt if the bytes were changed or belong to another context, Invalid if the key they were
        sealed with is not among those of this server.
        """
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        key = self._sealing_keys.get(_sealed_key_id(sealed))
        if key is None:
            raise Invalid(
                f"a secret is sealed with the key {_sealed_key_id(sealed).hex()}, which this "
                f"server does not have (it has {', '.join(self.key_ids)}): add that key to the "
                "secret keys of the server"
            )
        body = sealed[_HEAD_BYTES:]
        nonce, encrypted = body[:_NONCE_BYTES], body[_NONCE_BYTES:]
        try:
            return AESGCM(key).decrypt(nonce, encrypted, sealed[:_HEAD_BYTES] + context)
        except InvalidTag:
            raise Corrupt(
                "a sealed secret was changed in the store, or was copied from another row"
            ) from None

    def is_current(self, sealed: bytes) -> bool:
        """Returns whether a secret is sealed with the first key."""
        return _sealed_key_id(sealed) == next(iter(self._sealing_keys))

    def derive(self, purpose: str) -> tuple[bytes, ...]:
        """Returns a key of 32 bytes for a purpose from each key, in the order of the keys."""
        check(purpose not in ("", "seal"), "each purpose has keys of its own")
        return tuple(_derived(key, purpose) for key in self._keys)


def parse_keys(text: str) -> tuple[bytes, ...]:
    """Reads keys of servers: base64, one on each line or separated by commas; `#` begins a comment.

    Invalid names the place of a key that cannot be used, never the key.
    """
    if len(text) > SERVER_KEYS_TEXT_BYTES_MAX:
        raise Invalid(f"secret keys of a server take at most {SERVER_KEYS_TEXT_BYTES_MAX} bytes")
    keys = []
    for number, line in enumerate(text.splitlines(), 1):
        stated = line.partition("#")[0].strip()
        for word in _BETWEEN_KEYS.split(stated) if stated else ():
            keys.append(_parsed_key(word, number))
    if not keys:
        raise Invalid(
            "there is no secret key: write one of 32 random bytes in base64 on a line, for example "
            "with `openssl rand -base64 32`"
        )
    return tuple(keys)


def new_key_text(random: Random) -> str:
    """Returns a new key of the servers, as `parse_keys` reads it."""
    return base64.b64encode(random.random_bytes(SERVER_KEY_BYTES)).decode()


def access_installed() -> bool:
    """Returns whether the libraries for sealed secrets and signed tokens are installed."""
    try:
        import cryptography
        import jwt  # noqa: F401 - loading them is the purpose
    except ImportError:
        return False
    return bool(cryptography)


def check_installed() -> None:
    """Raises Invalid with the command that installs the libraries, unless they are installed."""
    if not access_installed():
        raise Invalid(_MISSING)


def _parsed_key(word: str, line: int) -> bytes:
    try:
        key = base64.b64decode(word.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        raise Invalid(f"the secret key in line {line} is not base64") from None
    if len(key) != SERVER_KEY_BYTES:
        raise Invalid(
            f"the secret key in line {line} has {len(key)} bytes and needs exactly "
            f"{SERVER_KEY_BYTES}: make one with `openssl rand -base64 32`"
        )
    return key


def _derived(key: bytes, purpose: str) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    made = HKDF(SHA256(), SERVER_KEY_BYTES, salt=None, info=b"lochan 1 " + purpose.encode())
    return made.derive(key)


def _key_id(key: bytes) -> bytes:
    return sha256(b"lochan key id\0" + key).digest()[:_KEY_ID_BYTES]


def _sealed_key_id(sealed: bytes) -> bytes:
    if sealed and sealed[0] > _VERSION:
        raise NewerFormat("a secret was sealed by a newer Lochan: upgrade the server")
    if len(sealed) < _SEALED_BYTES_MIN or sealed[0] != _VERSION:
        raise Corrupt("a sealed secret was changed in the store")
    return sealed[1:_HEAD_BYTES]
