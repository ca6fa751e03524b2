"""The registry of content types, and contents as stored values.

Each type has a payload number, which the index keeps beside the key, so that a listing knows types
without reading values. Types that are not registered share one number; their values contain the
name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from lochan.base.checks import check_stored
from lochan.base.errors import Corrupt, Invalid
from lochan.base.ids import ContentId, ObjId
from lochan.base.limits.contents import CONTENT_DEPTH_MAX, CONTENT_TYPE_CHARACTERS_MAX, PAYLOAD_MAX
from lochan.codec.objects import ValueObject, build_value, decode_object, encode_object, object_id
from lochan.model.contents import (
    KNOWN_TYPES,
    NUMBER_FIELDS,
    Content,
    KnownContent,
    OtherContent,
    check_numbers,
    type_of,
    with_id,
)

OTHER_PAYLOAD: Final = PAYLOAD_MAX
NAMESPACE_PAYLOAD: Final = 4

_PAYLOADS: Final = {
    "ICEBERG_TABLE": 1,
    "DELTA_LAKE_TABLE": 2,
    "ICEBERG_VIEW": 3,
    "NAMESPACE": NAMESPACE_PAYLOAD,
    "UDF": 5,
}

_encode: Final = msgspec.msgpack.Encoder(order="sorted").encode
_encode_known: Final = msgspec.msgpack.Encoder().encode
_decode_known: Final = msgspec.msgpack.Decoder(KnownContent).decode
_decode_other: Final = msgspec.msgpack.Decoder(dict[str, Any]).decode


class ContentTypes:
    """Which types there are; further ones may be registered, each with a number of its own."""

    def __init__(self, further: Mapping[str, int] | None = None) -> None:
        self._payloads: dict[str, int] = dict(_PAYLOADS)
        for name, payload in (further or {}).items():
            taken = payload in self._payloads.values() or name in self._payloads
            if taken or not 0 < payload < OTHER_PAYLOAD:
                raise Invalid(
                    f"the content type {name!r} needs a free number from 1 to {OTHER_PAYLOAD - 1}, "
                    f"not {payload}"
                )
            self._payloads[name] = payload
        self._names = {payload: name for name, payload in self._payloads.items()}

    def payload_of(self, content: Content) -> int:
        """Returns the number of a content's type."""
        return self._payloads.get(type_of(content), OTHER_PAYLOAD)

    def find_name(self, payload: int) -> str | None:
        """Returns the type of a number; None if only the value knows."""
        return self._names.get(payload)

    def encode(self, content: Content, content_id: str) -> tuple[ObjId, bytes]:
        """Returns a content as the object that stores it, and its id."""
        if isinstance(content, OtherContent):
            if not 0 < len(content.type) <= CONTENT_TYPE_CHARACTERS_MAX:
                raise Invalid(
                    f"the type of a content has 1 to {CONTENT_TYPE_CHARACTERS_MAX} characters"
                )
            _check_depth(content.fields)
            try:
                data = _encode({**content.fields, "type": content.type})
            except (OverflowError, TypeError, UnicodeEncodeError) as error:
                raise Invalid(f"a content of type {content.type!r}: {error}") from None
        else:
            check_numbers(content)
            plain = content if content.id is None else msgspec.structs.replace(content, id=None)
            try:
                data = _encode_known(plain)
            except (OverflowError, UnicodeEncodeError) as error:
                raise Invalid(f"a content of type {type_of(content)!r}: {error}") from None
        value = build_value(ContentId(content_id), self.payload_of(content), data)
        raw = encode_object(value)
        return object_id(raw), raw

    def decode(self, raw: bytes) -> Content:
        """Reads a stored content, with its id."""
        value = decode_object(ValueObject, raw)
        try:
            if self._names.get(value.payload) in KNOWN_TYPES:
                return with_id(_read_known(value.data), value.content_id)
            fields = _decode_other(value.data)
        except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
            raise Corrupt(f"not a stored content: {error}") from None
        name = fields.pop("type", None)
        check_stored(isinstance(name, str), "a stored content contains its type")
        return OtherContent(str(name), value.content_id, fields)


def _read_known(data: bytes) -> KnownContent:
    try:
        known: KnownContent = _decode_known(data)
    except msgspec.ValidationError:
        return _read_large_numbers(data)
    return known


def _read_large_numbers(data: bytes) -> KnownContent:
    """Reads a content whose numbers were not bounded yet when it was written."""
    fields = _decode_other(data)
    kind = KNOWN_TYPES.get(str(fields.get("type")))
    large = [
        (field.name, field.wire_name, fields[field.wire_name])
        for field in (() if kind is None else NUMBER_FIELDS[kind])
        if type(fields.get(field.wire_name)) is int
    ]
    fields |= {wire_name: 0 for _, wire_name, _ in large}
    known: KnownContent = msgspec.convert(fields, KnownContent)
    return msgspec.structs.replace(known, **{name: value for name, _, value in large})


def _check_depth(fields: dict[str, Any]) -> None:
    """Refuses fields that are nested so deep that a reader could run out of stack."""
    level: list[Any] = [fields]
    for _ in range(CONTENT_DEPTH_MAX):
        below: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                below += value.values()
            elif isinstance(value, list | tuple):
                below += value
        if not below:
            return
        level = below
    raise Invalid(f"a content is nested at most {CONTENT_DEPTH_MAX} levels deep")
