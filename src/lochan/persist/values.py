"""Content values, and the one question that sometimes needs one: which content is this?"""

from __future__ import annotations

from lochan.base.ids import ContentId
from lochan.codec.objects import ValueObject, decode_object
from lochan.model.entries import TableEntry
from lochan.persist.objects import Objects


def load_content_id(objects: Objects, entry: TableEntry) -> ContentId:
    """Returns the content id; reads the value only if the id is no UUID."""
    if entry.content_id is not None:
        return entry.content_id
    (raw,) = objects.fetch_many([entry.value])
    return ContentId(decode_object(ValueObject, raw).content_id)
