"""Contents on the wire: as `model.contents` shapes them; unknown types as they came."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec

from lochan.base.errors import Invalid
from lochan.model.contents import (
    KNOWN_TYPES,
    Content,
    DeltaLakeTable,
    IcebergTable,
    IcebergView,
    KnownContent,
    OtherContent,
)
from lochan.wire.codec import convert

ContentJson = Annotated[
    Any, msgspec.Meta(extra_json_schema={"$ref": "#/components/schemas/Content"})
]
"""Any content; what it is depends on its `type`."""

_RESERVED: Final = ("type", "id")


def content_out(content: Content) -> Any:
    """Returns a content as it is written."""
    if isinstance(content, OtherContent):
        return {"type": content.type, "id": content.id, **content.fields}
    return content


def content_v1(content: Content) -> Any:
    """Returns a content as version 1 writes it: clients of it refuse the field `metadata`."""
    if isinstance(content, IcebergTable | IcebergView | DeltaLakeTable):
        if content.metadata is not msgspec.UNSET:
            return msgspec.structs.replace(content, metadata=msgspec.UNSET)
        return content
    return content_out(content)


def optional_out(content: Content | None) -> Any:
    """Returns a content as it is written, or null."""
    return None if content is None else content_out(content)


def content_in(value: Any, where: str = "content") -> Content:
    """Reads a content from decoded JSON; Invalid if it is none."""
    if not isinstance(value, dict):
        raise Invalid(f"{where}: a content is an object")
    kind = value.get("type")
    if not isinstance(kind, str) or not kind:
        raise Invalid(f"{where}: a content says its `type`")
    if kind in KNOWN_TYPES:
        known: Content = convert(value, KnownContent, where)
        return known
    content_id = value.get("id")
    if content_id is not None and not isinstance(content_id, str):
        raise Invalid(f"{where}: the `id` of a content is text")
    fields = {name: each for name, each in value.items() if name not in _RESERVED}
    return OtherContent(kind, content_id, fields)


def optional_in(value: Any, where: str = "content") -> Content | None:
    """Reads a content that may be null."""
    return None if value is None else content_in(value, where)
