"""Listing references, so that one row of a newer format does not hide the others.

The index of names knows the name and the kind of such a reference; only its row knows where it
points. It is listed without that, and reading it by its name raises NewerFormat. A row that is
damaged still fails the listing: damage is never passed over.
"""

from __future__ import annotations

import msgspec

from lochan.base.errors import Corrupt, NewerFormat
from lochan.base.ids import ObjId
from lochan.base.keys import Key, file_path
from lochan.base.names import REFS_NAME, RefName
from lochan.codec.rows import ReferenceRow, decode_reference_element
from lochan.index.layers import read_page
from lochan.kernel.context import RepositoryContext
from lochan.kernel.references import ReferenceIndex
from lochan.kernel.views import CommitView


class UnreadableReference(msgspec.Struct, frozen=True, gc=False):
    """A reference whose row has a newer format: what the index of names says of it."""

    name: str
    kind: str
    created_us: int
    reason: str


ListedReference = ReferenceRow | UnreadableReference


def page_references(
    context: RepositoryContext, names: ReferenceIndex, start: str, end: str | None, limit: int
) -> list[ListedReference]:
    """Returns live references in the order of their names, from `start` on, before `end`.

    Fewer than `limit` only where there are no more, as `ReferenceIndex.page`.
    """
    first = b"f" + start.encode()
    stop = b"g" if end is None else b"f" + end.encode()
    listed: list[ListedReference] = []
    while len(listed) < limit:
        missing = limit - len(listed)
        items = read_page(context.nodes, _head(context).files, first, stop, missing)
        wanted = [RefName(file_path(Key(key))) for key, _ in items]
        rows = context.references.find_many(wanted)
        for name, (_, element), found in zip(wanted, items, rows, strict=True):
            if isinstance(found, NewerFormat):
                listed.append(_unreadable(name, element, found))
                continue
            live = names.find(name) if found is None or found.row.deleted else found
            if live is not None:
                listed.append(live.row)
        if len(items) < missing:
            break
        first = items[-1][0] + b"\0"
    return listed


def _unreadable(name: RefName, element: bytes, error: NewerFormat) -> UnreadableReference:
    said = decode_reference_element(element)
    return UnreadableReference(name, said.kind, said.created_us, error.message)


def _head(context: RepositoryContext) -> CommitView:
    found = context.references.fetch(REFS_NAME)
    if found is None:
        raise Corrupt("the index of references has lost its row")
    return context.views.load(ObjId(found.row.pointer))
