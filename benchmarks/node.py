"""Nodes and the embedded index: encode, decode, splice, find; bytes per element."""

from __future__ import annotations

from benchmarks.change import TABLES
from benchmarks.data import Files, Tables
from benchmarks.measure import emit, per_call_us
from lochan.base.ids import EMPTY_ID
from lochan.base.keys import Universe
from lochan.codec.objects import NodeObject, decode_object, encode_object, object_id
from lochan.index.layers import SHAPES, Index
from lochan.index.node import build_node, find_value
from lochan.index.spill import encode_embedded, splice


def run(_: list[int]) -> None:
    tables = Tables(1)
    for count in (29, 40):
        keys = tables.sorted_keys(count)
        _measure("tables", keys, [tables.element() for _ in keys], TABLES.width)
    items = Files(1).sorted_items(40)
    _measure("files", [key for key, _ in items], [value for _, value in items], None)


def _measure(universe: str, keys: list[bytes], values: list[bytes], width: int | None) -> None:
    node = build_node(0, keys, values, width)
    raw = encode_object(node)
    shape = SHAPES[Universe.FILES] if width is None else TABLES
    index = Index(node, EMPTY_ID)
    new = [(keys[len(keys) // 2] + b"x", values[0])]

    def spliced() -> bytes:
        return encode_embedded(splice(shape, index, new))

    calls = 5_000
    count = len(keys)
    emit(
        "node",
        universe=universe,
        elements=count,
        bytes_per_element=len(raw) / count,
        build_ns_per_element=per_call_us(lambda: build_node(0, keys, values, width), calls)
        * 1e3
        / count,
        encode_ns_per_element=per_call_us(lambda: encode_object(node), calls) * 1e3 / count,
        decode_ns_per_element=per_call_us(lambda: decode_object(NodeObject, raw), calls)
        * 1e3
        / count,
        hash_us=per_call_us(lambda: object_id(raw), calls),
        find_us=per_call_us(lambda: find_value(node, keys[count // 2]), calls),
        splice_us=per_call_us(spliced, calls),
    )
