"""API tokens and access keys as text: how they are made, recognised and compared.

A token is `lochan_ID_SECRET`. A server keeps a hash of it only: a secret of 256 random bits needs
no slow hash. An access key is an id and a secret, which is sealed (`secrets.py`) and not hashed,
because requests may be signed with it.

Ids and secrets that are made here are lower or upper case letters and digits of base32, so that
they need no quotes in a shell, a URL or a header. An access key may be chosen when access is set
up, so that clients of lakeFS keep theirs: then it has the form of such a key. Each text has one
form: no two texts are the same token.
"""

from __future__ import annotations

import base64
import re
from hashlib import sha256
from hmac import compare_digest
from typing import Final

from lochan.base.ports import Random

TOKEN_PREFIX: Final = "lochan_"  # noqa: S105 - every token begins with it
ACCESS_KEY_PREFIX: Final = "LOCH"

_ID_BYTES: Final = 10
_SECRET_BYTES: Final = 32
_TOKEN: Final = re.compile(r"lochan_([a-z2-7]{16})_([a-z2-7]{52})", re.ASCII)
_TOKEN_ID: Final = re.compile(r"[a-z2-7]{16}", re.ASCII)
_ACCESS_KEY_ID: Final = re.compile(r"LOCH[A-Z2-7]{16}", re.ASCII)
_ACCESS_KEY_SECRET: Final = re.compile(r"[a-z2-7]{52}", re.ASCII)
_CHOSEN_ID: Final = re.compile(r"(?!LOCH)[A-Z0-9]{16,40}", re.ASCII)
_CHOSEN_SECRET: Final = re.compile(r"[A-Za-z0-9+/=]{32,64}", re.ASCII)


def new_token_id(random: Random) -> str:
    """Returns the id of a new token, which is no secret: 16 characters."""
    return _letters(random.random_bytes(_ID_BYTES)).lower()


def new_token(random: Random) -> tuple[str, str, bytes]:
    """Returns the id, the whole text, which is shown once, and the hash that is kept."""
    token_id = new_token_id(random)
    secret = _letters(random.random_bytes(_SECRET_BYTES)).lower()
    return token_id, f"{TOKEN_PREFIX}{token_id}_{secret}", digest_of(token_id, secret)


def token_of(access_key_id: str, secret: str) -> str:
    """Returns the text of the token that stands for an access key until that is stored."""
    raw = sha256(f"lochan set-up\0{access_key_id}\0{secret}".encode()).digest()
    name = sha256(b"id\0" + raw).digest()[:_ID_BYTES]
    return f"{TOKEN_PREFIX}{_letters(name).lower()}_{_letters(raw).lower()}"


def parse_token(text: str) -> tuple[str, str] | None:
    """Returns the id and the secret of a text that has the form of a token, None for others."""
    found = _TOKEN.fullmatch(text)
    return None if found is None else (found[1], found[2])


def is_token_id(text: str) -> bool:
    """Returns whether a text has the form of a token's id."""
    return _TOKEN_ID.fullmatch(text) is not None


def digest_of(token_id: str, secret: str) -> bytes:
    """Returns the hash that is kept of a token; it binds the secret to the id."""
    return sha256(f"lochan token\0{token_id}\0{secret}".encode("utf-8", "surrogatepass")).digest()


def new_access_key_id(random: Random) -> str:
    """Returns the id of a new access key, which is no secret: 20 characters."""
    return ACCESS_KEY_PREFIX + _letters(random.random_bytes(_ID_BYTES))


def new_access_key(random: Random) -> tuple[str, str]:
    """Returns the id and the secret of a new access key."""
    return new_access_key_id(random), _letters(random.random_bytes(_SECRET_BYTES)).lower()


def is_access_key_id(text: str) -> bool:
    """Returns whether a text has the form of an access key's id."""
    return bool(_ACCESS_KEY_ID.fullmatch(text) or _CHOSEN_ID.fullmatch(text))


def is_access_key(access_key_id: str, secret: str) -> bool:
    """Returns whether two texts have the form of an access key's id and secret."""
    if _ACCESS_KEY_ID.fullmatch(access_key_id):
        return _ACCESS_KEY_SECRET.fullmatch(secret) is not None
    return bool(_CHOSEN_ID.fullmatch(access_key_id) and _CHOSEN_SECRET.fullmatch(secret))


def access_key_context(access_key_id: str) -> bytes:
    """Returns the context that the secret of an access key is sealed for."""
    return b"access key " + access_key_id.encode()


def same_secret(given: bytes, kept: bytes) -> bool:
    """Returns whether two secrets or hashes are equal, in a time that does not depend on where."""
    return compare_digest(given, kept)


def _letters(raw: bytes) -> str:
    return base64.b32encode(raw).decode().rstrip("=")
