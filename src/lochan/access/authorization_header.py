"""What a request sends in the header `Authorization`, and the one answer if it is refused.

A caller that is refused gets the same text whatever was wrong, so that it learns nothing from it.
The reason is for the operator: it is the `message` of the error, and contains no secret.
"""

from __future__ import annotations

import base64
import binascii
from typing import Final

import msgspec

from lochan.base.errors import Unauthenticated
from lochan.base.limits.credentials import AUTHORIZATION_BYTES_MAX
from lochan.base.secrets import Secret

UNAUTHENTICATED_TEXT: Final = (
    "the request has no valid credentials: send a token in the header Authorization "
    "(`Bearer TOKEN`), or an access key (`Basic`); `lochan login` stores them"
)
"""The public message of every refusal."""

_UNREADABLE: Final = "the header Authorization cannot be read"


class Bearer(msgspec.Struct, frozen=True, gc=False):
    """A token: an API token of ours, a login token, or one of an issuer."""

    token: Secret


class AccessKeyPair(msgspec.Struct, frozen=True, gc=False):
    """The id and the secret of an access key, as `Basic` sends them."""

    id: str
    secret: Secret


def refused(reason: str) -> Unauthenticated:
    """Returns the error for credentials that do not count; only the operator sees the reason."""
    return Unauthenticated(f"credentials refused: {reason}", public=UNAUTHENTICATED_TEXT)


def parse_authorization(header: str | None) -> Bearer | AccessKeyPair:
    """Reads the header; Unauthenticated if it is missing or of a form that we do not know."""
    if header is None:
        raise refused("the request has none")
    if len(header) > AUTHORIZATION_BYTES_MAX or not header.isascii():
        raise refused(_UNREADABLE)
    scheme, _, rest = header.partition(" ")
    rest = rest.strip(" ")
    match scheme.lower():
        case "bearer":
            if not rest or " " in rest:
                raise refused(_UNREADABLE)
            return Bearer(Secret(rest))
        case "basic":
            return _access_key_pair(rest)
        case _:
            raise refused("the scheme of Authorization is neither Bearer nor Basic")


def _access_key_pair(encoded: str) -> AccessKeyPair:
    try:
        text = base64.b64decode(encoded, validate=True).decode("ascii")
    except (binascii.Error, UnicodeDecodeError):
        raise refused(_UNREADABLE) from None
    access_key_id, colon, secret = text.partition(":")
    if not colon:
        raise refused(_UNREADABLE)
    return AccessKeyPair(access_key_id, Secret(secret))
