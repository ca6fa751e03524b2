"""Use cases for clients that write the bytes of a file to the place by themselves.

1. `reserve` returns an address, where to send the bytes, and a token: branch, incarnation, path,
   address and expiry under a keyed hash. Nothing is stored; an address that is never linked is
   found by the collector of the place.
2. The client writes the bytes; the place accepts that once.
3. `link` checks the token and that the bytes are there, claims the address (a row as for
   idempotency keys), stages the entry with the operation id of the claim, and records the outcome.
   The same token linked again, by whomever, gets the same answer and writes nothing: a reserved
   address becomes one file once.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import blake2b
from hmac import compare_digest
from typing import Final

import msgspec

from lochan.access.policy import Action, Call
from lochan.base.errors import Invalid
from lochan.base.keys import file_key
from lochan.base.limits.files import ADDRESS_LIFETIME_S
from lochan.base.names import RefName
from lochan.kernel.claims import KeyedRequest
from lochan.model.entries import FileEntry
from lochan.model.files import (
    UNCONDITIONAL,
    AddressReservation,
    FileInfo,
    FileProperties,
    WriteCondition,
)
from lochan.service.file_base import FileUseCases, actions_of_write, staged_condition
from lochan.service.file_claims import StagedWrite
from lochan.service.file_places import info_of
from lochan.service.uploads import NO_PROPERTIES, check_properties
from lochan.staging.block_store import BlockAddress

_MAC_BYTES: Final = 16
_TOKEN_CHARACTERS_MAX: Final = 8_192
# No principal has a name with a control character, so no claim of a caller is taken for a link.
_LINKS: Final = "\0links"
_encode: Final = msgspec.msgpack.Encoder().encode


class _Reserved(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What a token states."""

    version: int
    branch: str
    incarnation: int
    path: str
    address: str
    expires_us: int


_decode: Final = msgspec.msgpack.Decoder(_Reserved).decode


class Addresses(FileUseCases):
    """Reserves and links addresses of one repository."""

    def reserve(self, call: Call, branch: str, path: str) -> AddressReservation:
        """Reserves an address for the bytes of a file; Invalid where clients cannot write."""
        row = self._decide(call, branch, [file_key(path)], Action.WRITE_CONTENT)
        put = self._places.place.presign_put(ADDRESS_LIFETIME_S)
        if put is None:
            raise Invalid(
                "clients cannot write to the place of this repository; send the bytes to the server"
            )
        expires_us = self._context.clock.now_us() + ADDRESS_LIFETIME_S * 1_000_000
        reserved = _Reserved(1, row.name, row.incarnation, path, put.address, expires_us)
        raw = _encode(reserved)
        return AddressReservation(
            token=urlsafe_b64encode(self._mac(raw) + raw).decode().rstrip("="),
            address=put.address,
            expires_us=expires_us,
            url=put.url,
            headers=tuple(sorted(put.headers.items())),
        )

    def link(
        self,
        call: Call,
        branch: str,
        path: str,
        token: str,
        properties: FileProperties = NO_PROPERTIES,
        condition: WriteCondition = UNCONDITIONAL,
    ) -> FileInfo:
        """Stages a file whose bytes a client has written to a reserved address."""
        key = file_key(path)
        check_properties(properties)
        row = self._decide(call, branch, [key], *actions_of_write(Action.WRITE_CONTENT, condition))
        # Not from memory: a link to a branch that is gone must not even claim its address.
        row = self._staging.rows.fetch(RefName(row.name))
        reserved = self._open(token)
        if (reserved.branch, reserved.incarnation, reserved.path) != (
            row.name,
            row.incarnation,
            path,
        ):
            raise Invalid("this address was reserved for another file")
        if reserved.expires_us <= self._context.clock.now_us():
            raise Invalid("the reservation of this address has expired; reserve another one")
        digest = blake2b(token.encode(), digest_size=32).digest()
        request = KeyedRequest(
            _LINKS, reserved.address, digest, Action.WRITE_CONTENT.value, row.name
        )
        name, wanted = RefName(row.name), staged_condition(condition)

        def write(operation: bytes) -> FileInfo:
            entry = self._entry(reserved, properties, operation)
            # The row above may come from memory: the branch may be another one by now.
            stored = self._staging.writer.put(
                name, key, entry, wanted, incarnation=reserved.incarnation
            )
            return info_of(path, stored)

        return StagedWrite(self._context, request, row, FileInfo).do_once(write)

    def _entry(
        self, reserved: _Reserved, properties: FileProperties, operation: bytes
    ) -> FileEntry:
        """Returns the entry of what the client has written; its checksum is that of the place."""
        found = self._places.place.find(BlockAddress(reserved.address))
        if found is None:
            raise Invalid("nothing was written to this address yet; write the bytes, then link it")
        if properties.size not in (None, found.size):
            raise Invalid(f"{found.size} bytes were written, and {properties.size} were stated")
        if properties.md5 and found.etag.lower() != properties.md5.lower():
            raise Invalid("what was written does not have the MD5 that was stated")
        return FileEntry(
            address=reserved.address,
            size=found.size,
            modified_us=self._context.clock.now_us(),
            etag=found.etag,
            metadata=properties.metadata,
            content_type=properties.content_type,
            operation=operation,
        )

    def _open(self, token: str) -> _Reserved:
        try:
            if len(token) > _TOKEN_CHARACTERS_MAX:
                raise ValueError
            whole = urlsafe_b64decode(token.encode("ascii") + b"=" * (-len(token) % 4))
            raw = whole[_MAC_BYTES:]
            if not compare_digest(self._mac(raw), whole[:_MAC_BYTES]):
                raise ValueError
            return _decode(raw)
        except (ValueError, msgspec.DecodeError):
            raise Invalid(
                "not the token of a reserved address; give it back as it was received"
            ) from None

    def _mac(self, raw: bytes) -> bytes:
        secret = self._context.description.token_key
        return blake2b(raw, digest_size=_MAC_BYTES, key=secret, person=b"address").digest()
