"""Reading contents: from index elements to what they stand for, in bulk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from lochan.base.ids import ID_BYTES, ContentId, ObjId, content_id_from_uuid_bytes
from lochan.catalog.types import ContentTypes
from lochan.codec.elements import FLAG_CONTENT_ID_IN_VALUE, check_flags
from lochan.kernel.context import RepositoryContext
from lochan.model.contents import Content

_VALUE_END: Final = 2 + ID_BYTES
_KNOWN_FLAGS: Final = (0, FLAG_CONTENT_ID_IN_VALUE)

NOTHING_UNPUBLISHED: Mapping[ObjId, bytes] = {}


def payload_at(element: bytes) -> int:
    """Returns the payload number of a table's element."""
    return element[1]


def value_at(element: bytes) -> ObjId:
    """Returns the id of the value that a table's element leads to."""
    if element[0] not in _KNOWN_FLAGS:
        check_flags(element, FLAG_CONTENT_ID_IN_VALUE)
    return ObjId(element[2:_VALUE_END])


def has_id_in_value(element: bytes) -> bool:
    """Returns whether the content id of a table's element is no UUID: the value contains it."""
    return bool(element[0] & FLAG_CONTENT_ID_IN_VALUE)


def raw_content_id_at(element: bytes) -> bytes:
    """Returns the bytes of the UUID of a table's element; zeros if only the value knows the id."""
    return element[_VALUE_END:]


def find_raw_content_id(element: bytes) -> bytes | None:
    """Returns the bytes of the UUID of a table's element; None if only the value knows the id."""
    if element[0] not in _KNOWN_FLAGS:
        check_flags(element, FLAG_CONTENT_ID_IN_VALUE)
    return None if has_id_in_value(element) else raw_content_id_at(element)


def content_id_at(element: bytes) -> ContentId | None:
    """Returns the content id of a table's element; None if only the value knows it."""
    if element[0] and find_raw_content_id(element) is None:
        return None
    return content_id_from_uuid_bytes(element[_VALUE_END:])


def load_contents(
    context: RepositoryContext,
    types: ContentTypes,
    elements: Sequence[bytes],
    unpublished: Mapping[ObjId, bytes] = NOTHING_UNPUBLISHED,
) -> dict[bytes, Content]:
    """Returns the contents of table elements, by element.

    A plan on a chain may meet elements whose values are not stored yet; they are `unpublished`.
    """
    raws = load_values(context, elements, unpublished)
    return {element: types.decode(raws[element]) for element in elements}


def load_values(
    context: RepositoryContext,
    elements: Sequence[bytes],
    unpublished: Mapping[ObjId, bytes] = NOTHING_UNPUBLISHED,
) -> dict[bytes, bytes]:
    """Returns the contents of table elements as they are stored, by element."""
    # Kept as bytes: a content may contain maps, which an earlier caller could have changed.
    raws: dict[bytes, bytes] = {}
    missing: list[bytes] = []
    cache = context.values
    for element in elements:
        value = value_at(element)
        raw = cache.find(value) or unpublished.get(value)
        if raw is None:
            missing.append(element)
        else:
            raws[element] = raw
    if missing:
        ids = [value_at(element) for element in missing]
        for element, obj_id, raw in zip(missing, ids, context.objects.fetch_many(ids), strict=True):
            raws[element] = raw
            cache.keep(obj_id, raw)
    return raws


def load_content_ids(
    context: RepositoryContext,
    types: ContentTypes,
    elements: Iterable[bytes],
    unpublished: Mapping[ObjId, bytes] = NOTHING_UNPUBLISHED,
) -> dict[bytes, str]:
    """Returns the content ids of table elements, by element; reads values only where it must."""
    found: dict[bytes, str] = {}
    unknown: list[bytes] = []
    for element in elements:
        content_id = content_id_at(element)
        if content_id is None:
            unknown.append(element)
        else:
            found[element] = content_id
    for element, content in load_contents(context, types, unknown, unpublished).items():
        found[element] = content.id or ""
    return found
