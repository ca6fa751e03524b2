"""One node and the embedded layer: encode, decode, find, splice; bytes and heap."""

from __future__ import annotations

from benchmarks.branch import TABLES
from benchmarks.data import Files, Tables
from benchmarks.measure import Effort, emit, peak_heap_bytes, per_call_us
from lochan.base.ids import EMPTY_ID
from lochan.base.keys import Universe
from lochan.codec.objects import NodeObject, decode_object, encode_object, object_id
from lochan.index.layers import SHAPES, Index
from lochan.index.node import build_node, find_value
from lochan.index.spill import encode_embedded, splice

# Section 8 of the prototype study, its recommended layout with 40 elements. Its encoding includes
# what `build_us` is here: finding the common prefix and joining the values.
PROTOTYPE = {
    "encode": {"ns_per_element": 126, "bytes_per_element": 99},
    "decode": {"ns_per_element": 24},
    "find": {"us": 1.4},
    "splice": {"us": 3.7},
}


def run(_: int, effort: Effort) -> None:
    tables = Tables(1)
    for count in (29, 40):
        keys = tables.sorted_keys(count)
        _measure("tables", keys, [tables.element() for _ in keys], TABLES.width, effort)
    items = Files(1).sorted_items(40)
    _measure("files", [key for key, _ in items], [value for _, value in items], None, effort)


def _measure(
    universe: str, keys: list[bytes], values: list[bytes], width: int | None, effort: Effort
) -> None:
    node = build_node(0, keys, values, width)
    raw = encode_object(node)
    shape = SHAPES[Universe.FILES] if width is None else TABLES
    index = Index(node, EMPTY_ID)
    new = [(keys[len(keys) // 2] + b"x", values[0])]

    def us(call) -> float:
        return per_call_us(call, effort.calls, effort.repeats)

    def line(name: str, **figures: object) -> None:
        prototype = PROTOTYPE[name] if (universe, count) == ("tables", 40) else None
        emit(name, universe=universe, elements=count, **figures, prototype=prototype)

    count = len(keys)
    build_us = us(lambda: build_node(0, keys, values, width))
    encode_us = us(lambda: encode_object(node))
    line(
        "encode",
        ns_per_element=(build_us + encode_us) * 1e3 / count,
        build_us=build_us,
        encode_us=encode_us,
        hash_us=us(lambda: object_id(raw)),
        bytes_per_element=len(raw) / count,
        peak_heap_bytes=peak_heap_bytes(lambda: encode_object(build_node(0, keys, values, width))),
    )
    line(
        "decode",
        ns_per_element=us(lambda: decode_object(NodeObject, raw)) * 1e3 / count,
        peak_heap_bytes=peak_heap_bytes(lambda: decode_object(NodeObject, raw)),
    )
    line(
        "find",
        us=us(lambda: find_value(decode_object(NodeObject, raw), keys[count // 2])),
        decoded_us=us(lambda: find_value(node, keys[count // 2])),
        peak_heap_bytes=peak_heap_bytes(lambda: find_value(node, keys[count // 2])),
    )
    line(
        "splice",
        us=us(lambda: encode_embedded(splice(shape, index, new))),
        peak_heap_bytes=peak_heap_bytes(lambda: encode_embedded(splice(shape, index, new))),
    )
