"""Single fields of structs: where a query needs no others Spark looks for their names, not ids."""

from __future__ import annotations

from functools import reduce

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

from tests.profile import counted

PAIR = pa.struct([("a", pa.int64()), ("b", pa.int64())])
COLUMNS = pa.schema(
    [
        ("id", pa.int64()),
        ("s", pa.struct([("a", pa.int64()), ("b", pa.int64()), ("deep", PAIR)])),
        ("l", pa.list_(PAIR)),
        ("m", pa.map_(pa.string(), PAIR)),
    ]
)
TWO = {"a": 1, "b": 2}
ROW = {"id": 1, "s": {**TWO, "deep": TWO}, "l": [TWO], "m": [("k", TWO)]}


@pytest.mark.parametrize(
    ("renames", "ways"),
    [
        ([], {"s.a": 1, "s.deep.b": 2}),
        ([("s", "t")], {"t.a": 1, "t.b": 2, "t.deep.b": 2}),
        ([("s.a", "c"), ("s.deep.b", "c")], {"s.c": 1, "s.b": 2, "s.deep.c": 2}),
        ([("s.a", "c"), ("s.b", "a"), ("s.c", "b")], {"s.a": 2, "s.b": 1}),
        (
            [("l.element.a", "c"), ("m.value.b", "c")],
            {"l.c[0]": 1, "l.b[0]": 2, "m['k'].a": 1, "m['k'].c": 2},
        ),
    ][:: counted(2, 1)],
)
def test_one_field_of_a_struct_is_found_after_it_was_renamed(lake, renames, ways):
    table = lake.catalog.create_table("t.nested", COLUMNS)
    table.append(pa.Table.from_pylist([ROW], COLUMNS))
    for old, new in renames:
        with table.update_schema() as change:
            change.rename_column(old, new)
    frame = lake.read("t.nested")
    singles = [frame.selectExpr(f"{way} as v") for way in ways]
    filtered = [frame.where(f"{way} = {value}").selectExpr("id") for way, value in ways.items()]
    found = reduce(DataFrame.unionAll, singles + filtered).toArrow().column(0).to_pylist()
    assert sorted(found) == sorted([*ways.values(), *[1] * len(ways)])
    # Through a filter of the read the same.
    name, value = next(iter(ways.items()))
    if "[" not in name:
        read = lake.read("t.nested", columns=["id"], where=f"{name} = {value}")
        assert read.toArrow().to_pylist() == [{"id": 1}]
