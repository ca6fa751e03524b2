"""Page tokens: where a listing goes on, pinned to one commit, and nothing a client could change.

A token is version, kind of listing, pinned commit, position and hashes of the filter and of what
was listed (a reference as the request named it), followed by a keyed hash of all that. One that was
changed, or made for another listing, reference, filter or repository, is refused.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import blake2b, sha256
from hmac import compare_digest
from typing import Final, NewType

import msgspec

from lochan.base.errors import Invalid
from lochan.base.ids import ObjId

PageToken = NewType("PageToken", str)

_VERSION: Final = 2
_MAC_BYTES: Final = 16
_TOKEN_CHARACTERS_MAX: Final = 8_192
_encode: Final = msgspec.msgpack.Encoder().encode


class Position(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Where a listing goes on."""

    version: int
    kind: str
    commit: bytes
    key: bytes
    filter: bytes
    of: bytes


_decode: Final = msgspec.msgpack.Decoder(Position).decode


class Tokens:
    """Makes and reads the tokens of one repository."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def make(
        self, kind: str, commit: ObjId, key: bytes, wanted: str = "", of: str = ""
    ) -> PageToken:
        """Makes a token; `wanted` is the filter that the listing has, `of` what is listed."""
        raw = _encode(Position(_VERSION, kind, commit, key, _digest(wanted), _digest(of)))
        return PageToken(urlsafe_b64encode(self._mac(raw) + raw).decode().rstrip("="))

    def read(
        self, token: PageToken, kind: str, wanted: str = "", of: str = ""
    ) -> tuple[ObjId, bytes]:
        """Returns pinned commit and position; Invalid unless the token fits exactly here."""
        if len(token) > _TOKEN_CHARACTERS_MAX or not token.isascii():
            raise Invalid("not a page token; take it from the last page unchanged")
        try:
            whole = urlsafe_b64decode(token + "=" * (-len(token) % 4))
        except ValueError:
            raise Invalid("not a page token; take it from the last page unchanged") from None
        raw = whole[_MAC_BYTES:]
        # The text is compared as well: base64 has several spellings for some bytes.
        spelled = urlsafe_b64encode(whole).decode().rstrip("=")
        if spelled != token or not compare_digest(self._mac(raw), whole[:_MAC_BYTES]):
            raise Invalid("this page token was changed, or made for another repository")
        try:
            position = _decode(raw)
        except msgspec.ValidationError:
            raise Invalid("this page token is of an earlier version; start again") from None
        if position.kind != kind:
            raise Invalid(f"this page token was made for another listing ({position.kind})")
        # A caller that names the pinned commit by its hash can mean no other.
        if position.of != _digest(of) and of.rpartition("@")[2] != position.commit.hex():
            raise Invalid("this page token was made for another reference; name the same one")
        if position.filter != _digest(wanted):
            raise Invalid("this page token was made for another filter or another choice of keys")
        return ObjId(position.commit), position.key

    def _mac(self, raw: bytes) -> bytes:
        return blake2b(raw, digest_size=_MAC_BYTES, key=self._key).digest()


def _digest(wanted: str) -> bytes:
    return sha256(wanted.encode("utf-8", "surrogatepass")).digest()[:8]
