"""Conflicts on the wire; used by merges and by errors."""

from __future__ import annotations

import msgspec

from lochan.model.results import ContentConflict
from lochan.wire.contents import ContentJson, content_out, optional_in
from lochan.wire.keys import KeyJson


class ConflictJson(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A conflict; the contents of the three sides where they are known."""

    conflict_type: str
    key: KeyJson | None
    message: str
    base: ContentJson | msgspec.UnsetType = msgspec.UNSET
    source: ContentJson | msgspec.UnsetType = msgspec.UNSET
    target: ContentJson | msgspec.UnsetType = msgspec.UNSET


def conflict_out(conflict: ContentConflict) -> ConflictJson:
    """Returns a conflict as JSON."""
    return ConflictJson(
        conflict.kind,
        None if conflict.key is None else KeyJson(conflict.key),
        conflict.message,
        msgspec.UNSET if conflict.base is None else content_out(conflict.base),
        msgspec.UNSET if conflict.source is None else content_out(conflict.source),
        msgspec.UNSET if conflict.target is None else content_out(conflict.target),
    )


def conflict_v1(conflict: ContentConflict) -> ConflictJson:
    """Returns a conflict as version 1 shows it: without the contents of the sides."""
    key = None if conflict.key is None else KeyJson(conflict.key)
    return ConflictJson(conflict.kind, key, conflict.message)


def conflict_in(conflict: ConflictJson) -> ContentConflict:
    """Returns the conflict that JSON describes."""
    return ContentConflict(
        conflict.conflict_type,
        None if conflict.key is None else conflict.key.elements,
        conflict.message,
        optional_in(None if conflict.base is msgspec.UNSET else conflict.base),
        optional_in(None if conflict.source is msgspec.UNSET else conflict.source),
        optional_in(None if conflict.target is msgspec.UNSET else conflict.target),
    )
