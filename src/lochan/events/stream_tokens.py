"""Tokens of event streams: what was delivered of a scope, and nothing that a client could change.

A scope is one reference, or all references that a pattern matches. A token contains the position of
each of them, so it is bounded by their number; it is bound to its scope and its repository by a
keyed hash. Names are in it as digests.

A token between two changes is complete by itself. The events of one change have the token before
that change in common, marked with the name whose change has begun, and add their own id:
`TOKEN.ID`. From there the change is made again, and its events up to that id are left out.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from hashlib import blake2b
from hmac import compare_digest
from typing import Final

import msgspec

from lochan.base.errors import Invalid
from lochan.base.limits.events import STREAM_TOKEN_CHARACTERS_MAX
from lochan.base.names import INTERNAL_PREFIX, RefName, known_name
from lochan.codec.cursors import IndexPlace, ReplayPosition
from lochan.events.replay import after_incarnation

_VERSION: Final = 1
_MAC_BYTES: Final = 16
_DIGEST_BYTES: Final = 8
_encode: Final = msgspec.msgpack.Encoder().encode
_WILD: Final = re.compile(r"[*?]")
_EVENT_ID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")
_PATTERN_CHARACTERS_MAX: Final = 256
_REFUSED: Final = "not a token of this stream; send one as it came, with the same reference"


class StreamScope:
    """The references of a stream: one by its name, or those that a pattern matches.

    A pattern has one `*` at most: matching takes time in proportion to the name then.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.is_pattern = _WILD.search(text) is not None
        self.name = RefName("")
        if not self.is_pattern:
            self.name = known_name(text)
        elif text.count("*") > 1 or len(text) > _PATTERN_CHARACTERS_MAX:
            raise Invalid("a pattern of references has one * at most, and any number of ?")
        else:
            parts = re.split(r"([*?])", text)
            wild = {"*": ".*", "?": "."}
            self._match = re.compile("".join(wild.get(part) or re.escape(part) for part in parts))

    def matches(self, name: str) -> bool:
        """Returns whether a reference is in the scope; internal ones never are."""
        if not self.is_pattern:
            return name == self.name
        return not name.startswith(INTERNAL_PREFIX) and self._match.fullmatch(name) is not None


class Delivered(msgspec.Struct, frozen=True):
    """What was delivered of a scope: a position for each name.

    A name without one has no change up to that place of the index of names that is not delivered.
    """

    index: IndexPlace
    positions: Mapping[RefName, ReplayPosition]

    def position(self, name: RefName) -> ReplayPosition:
        """Returns the position of a name."""
        return self.positions.get(name) or after_incarnation(self.index.sequence)

    def moved(self, name: RefName, position: ReplayPosition) -> Delivered:
        """Returns what is delivered after one more change."""
        return Delivered(self.index, {**self.positions, name: position})


class _Form(msgspec.Struct, frozen=True, gc=False, array_like=True):
    version: int
    scope: bytes
    index: IndexPlace
    positions: tuple[tuple[bytes, ReplayPosition], ...]
    begun: bytes


_decode: Final = msgspec.msgpack.Decoder(_Form).decode


class StreamStart(msgspec.Struct, frozen=True):
    """Where a stream goes on: what a token contains, read and checked.

    `event_id` is that of the last event that was received of a change that has begun; empty if
    there is none.
    """

    index: IndexPlace
    by_digest: Mapping[bytes, ReplayPosition]
    begun: bytes = b""
    event_id: str = ""

    @classmethod
    def behind(cls, name: RefName, position: ReplayPosition, index: IndexPlace) -> StreamStart:
        """Returns the start behind a position of one reference."""
        return cls(index, {_digest(name): position})

    def delivered(self, names: list[RefName]) -> Delivered:
        """Returns the positions of those of the names that have one."""
        found = {name: self.by_digest.get(_digest(name)) for name in names}
        return Delivered(self.index, {name: one for name, one in found.items() if one is not None})

    def skipped_to(self, name: RefName) -> str:
        """Returns the id of the last event of the next change of a name that was received."""
        return self.event_id if self.begun == _digest(name) else ""


class StreamTokens:
    """Makes and reads the tokens of one repository and scope."""

    def __init__(self, key: bytes, scope: StreamScope) -> None:
        self._key = key
        self._scope = _digest(scope.text)

    def make(self, delivered: Delivered, begun: RefName | None = None) -> str:
        """Makes the token of what is delivered; `begun` is the name whose next change has begun."""
        positions = tuple([(_digest(name), one) for name, one in delivered.positions.items()])
        mark = b"" if begun is None else _digest(begun)
        raw = _encode(_Form(_VERSION, self._scope, delivered.index, positions, mark))
        return urlsafe_b64encode(self._mac(raw) + raw).decode("ascii").rstrip("=")

    def read(self, text: str) -> StreamStart:
        """Reads a token; Invalid unless it was made here, for this scope, and is unchanged."""
        token, point, event_id = text.partition(".")
        if len(text) > STREAM_TOKEN_CHARACTERS_MAX or not text.isascii():
            raise Invalid(_REFUSED)
        try:
            whole = urlsafe_b64decode(token + "=" * (-len(token) % 4))
        except ValueError:
            raise Invalid(_REFUSED) from None
        raw = whole[_MAC_BYTES:]
        # The text is compared as well: base64 has several spellings for some bytes.
        spelled = urlsafe_b64encode(whole).decode("ascii").rstrip("=")
        if spelled != token or not compare_digest(self._mac(raw), whole[:_MAC_BYTES]):
            raise Invalid(_REFUSED)
        try:
            form = _decode(raw)
        except msgspec.ValidationError:
            raise Invalid("this token is of another version; begin without one") from None
        begins = bool(form.begun)
        if form.scope != self._scope or begins != bool(_EVENT_ID.match(event_id)):
            raise Invalid(_REFUSED)
        if bool(point) != begins:
            raise Invalid(_REFUSED)
        return StreamStart(form.index, dict(form.positions), form.begun, event_id)

    def _mac(self, raw: bytes) -> bytes:
        return blake2b(raw, digest_size=_MAC_BYTES, key=self._key, person=b"event-stream").digest()


def _digest(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=_DIGEST_BYTES).digest()
