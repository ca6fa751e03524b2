"""Rewrites stored rows as a newer Lochan would have written them; holds no test of its own."""

from __future__ import annotations

import msgspec

from lochan.base.ids import ObjId
from lochan.base.keys import table_key
from lochan.base.names import RefName
from lochan.catalog.contents import value_at
from lochan.codec.forms import add_checksum
from lochan.index.layers import find_many
from lochan.kernel.context import RepositoryContext
from lochan.kernel.repository import DESCRIPTION_KEY, REPOSITORIES_PLACE
from lochan.kv.store import Kind, Partition, Store, partition


def newer_row(raw: bytes) -> bytes:
    """Returns a row of format 2, with a right checksum and a field that does not exist yet."""
    fields = msgspec.msgpack.decode(raw[:-4])
    return add_checksum(msgspec.msgpack.encode([2, *fields[1:], "of the future"]))


def rewrite(store: Store, place: Partition, key: bytes) -> None:
    """Makes one row newer."""
    entry = store.get(place, key)
    assert entry is not None
    store.put_many([(place, key, newer_row(entry.value))])


def make_reference_newer(context: RepositoryContext, name: str) -> None:
    rewrite(context.store, partition(context.instance, Kind.REFERENCES), name.encode())


def make_description_newer(context: RepositoryContext) -> None:
    rewrite(context.store, partition(context.instance, Kind.META), DESCRIPTION_KEY)


def make_listed_newer(store: Store, name: str) -> None:
    rewrite(store, REPOSITORIES_PLACE, name.encode())


def make_content_newer(context: RepositoryContext, branch: str, *elements: str) -> None:
    """Replaces a content by one of version 2 under another id, in every row that names it.

    An object's id covers its version, so a newer one has an id of its own; the commit that leads to
    it is rewritten by hand, with its checksum.
    """
    found = context.references.fetch(RefName(branch))
    assert found is not None
    head = context.views.load(ObjId(found.row.pointer))
    (element,) = find_many(context.nodes, head.tables, [bytes(table_key(list(elements)))])
    assert element is not None
    old = value_at(element)
    (raw,) = context.objects.fetch_many([old])
    fields = msgspec.msgpack.decode(raw)
    changed = msgspec.msgpack.encode([fields[0], 2, *fields[2:], "of the future"])
    from lochan.codec.objects import object_id

    new = object_id(changed)
    context.objects.store_many([(new, changed)])
    place = partition(context.instance, Kind.OBJECTS, head.obj_id[:2])
    entry = context.store.get(place, head.obj_id)
    assert entry is not None
    body = entry.value[:-4].replace(old, new)
    assert body != entry.value[:-4]
    context.store.put_many([(place, head.obj_id, add_checksum(body))])
