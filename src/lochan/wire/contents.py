"""Contents on the wire: known types as in `model.contents`, unknown types unchanged."""

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
"""Any content; its fields depend on its `type`."""

_RESERVED: Final = ("type", "id")


def content_out(content: Content) -> Any:
    """Returns a content as JSON."""
    if isinstance(content, OtherContent):
        return {"type": content.type, "id": content.id, **content.fields}
    return content


def content_v1(content: Content) -> Any:
    """Returns a content as version 1 shows it: its clients refuse the field `metadata`."""
    if isinstance(content, IcebergTable | IcebergView | DeltaLakeTable):
        if content.metadata is not msgspec.UNSET:
            return msgspec.structs.replace(content, metadata=msgspec.UNSET)
        return content
    return content_out(content)


def content_in(value: Any, where: str = "content") -> Content:
    """Converts decoded JSON to a content; Invalid if it is malformed."""
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
    """Converts decoded JSON to a content or None."""
    return None if value is None else content_in(value, where)
