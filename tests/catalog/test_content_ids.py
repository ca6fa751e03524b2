"""The ids of contents: in the element of the key if they are UUIDs, else in the value."""

from __future__ import annotations

import pytest

from lochan.base.ids import ContentId, find_uuid_bytes
from lochan.catalog.contents import load_content_ids
from lochan.catalog.types import ContentTypes
from lochan.codec.elements import pack_table
from lochan.model.contents import Namespace
from tests.kernel.workbench import Bench, counted


@pytest.mark.parametrize(
    ("content_id", "reads"),
    [("01234567-89ab-cdef-0123-456789abcdef", 0), ("an old catalog's id", 1), ("ÜÜ😀", 1)],
)
def test_any_content_id_is_found_again_and_only_one_that_is_no_uuid_costs_a_read(
    content_id: str, reads: int
) -> None:
    bench = Bench()
    types = ContentTypes()
    content = Namespace(elements=("db",), properties={})
    obj_id, raw = types.encode(content, content_id)
    bench.context.objects.store_many([(obj_id, raw)])
    element = pack_table(types.payload_of(content), obj_id, find_uuid_bytes(ContentId(content_id)))
    observed, counts = counted(bench.store)
    context = bench.again(observed).context
    counts.reset()
    assert load_content_ids(context, types, [element]) == {element: content_id}
    assert sum(counts.calls.values()) == reads
