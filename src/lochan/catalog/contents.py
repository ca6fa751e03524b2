"""Reading contents: from index elements to what they stand for, in bulk."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lochan.base.ids import ID_BYTES, ContentId, ObjId, content_id_from_uuid_bytes
from lochan.catalog.types import ContentTypes
from lochan.codec.elements import FLAG_CONTENT_ID_IN_VALUE
from lochan.kernel.parts import Parts
from lochan.model.contents import Content

_VALUE_END = 2 + ID_BYTES


def payload_at(element: bytes) -> int:
    """Returns the payload number of a table's element."""
    return element[1]


def value_at(element: bytes) -> ObjId:
    """Returns the id of the value that a table's element leads to."""
    return ObjId(element[2:_VALUE_END])


def content_id_at(element: bytes) -> ContentId | None:
    """Returns the content id of a table's element; None if only the value knows it."""
    if element[0] & FLAG_CONTENT_ID_IN_VALUE:
        return None
    return content_id_from_uuid_bytes(element[_VALUE_END:])


def load_contents(
    parts: Parts, types: ContentTypes, elements: Sequence[bytes]
) -> dict[bytes, Content]:
    """Returns the contents of table elements, by element."""
    if not elements:
        return {}
    raws = parts.objects.fetch_many([value_at(element) for element in elements])
    return {element: types.decode(raw) for element, raw in zip(elements, raws, strict=True)}


def load_content_ids(
    parts: Parts, types: ContentTypes, elements: Iterable[bytes]
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
    for element, content in load_contents(parts, types, unknown).items():
        found[element] = content.id or ""
    return found
