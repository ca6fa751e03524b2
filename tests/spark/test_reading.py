"""TableRead by reference: what Spark returns is what PyIceberg's own scan returns."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyiceberg.expressions.parser import parse
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from lochan.base.errors import ContentNotFound, Invalid, ReferenceNotFound
from lochan.spark.read.table_reader import plan_read
from tests.spark.row_values import rows

ORDERS = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "region", StringType(), required=False),
    NestedField(3, "amount", LongType(), required=False),
)


def orders(*numbers: int, region: str = "north") -> pa.Table:
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "region": pa.array([region] * len(numbers), pa.string()),
            "amount": pa.array([number * 10 for number in numbers], pa.int64()),
        }
    )


def test_a_table_is_read_as_it_is_on_its_branch(lake):
    table = lake.catalog.create_table("shop.orders", ORDERS)
    table.append(orders(1, 2, 3))
    assert rows(lake.read("shop.orders")) == rows(table.scan())
    assert lake.read("shop.orders").columns == ["id", "region", "amount"]


def test_branches_tags_and_old_commits_each_show_their_own_rows(lake):
    table = lake.catalog.create_table("shop.orders", ORDERS)
    table.append(orders(1))
    first = lake.client.references.get("main").hash
    lake.client.references.create("v1", "main", kind="TAG")
    lake.client.references.create("etl", "main")
    lake.catalog.at("etl").load_table("shop.orders").append(orders(2))
    table.append(orders(3))

    def ids(ref: str) -> list[int]:
        return [row["id"] for row in rows(lake.read("shop.orders", ref=ref))]

    assert ids("main") == [1, 3]
    assert ids("etl") == [1, 2]
    assert ids("v1") == [1]
    assert ids(first) == [1]
    assert ids("main~1") == [1]


def test_a_table_without_rows_is_an_empty_frame_with_its_columns(lake):
    lake.catalog.create_table("shop.orders", ORDERS)
    frame = lake.read("shop.orders", columns=["amount", "id"], where="id > 3")
    assert frame.columns == ["amount", "id"]
    assert frame.count() == 0


def test_a_table_that_is_not_there_is_not_found(lake):
    lake.catalog.create_table("shop.orders", ORDERS)
    with pytest.raises(ContentNotFound, match=r"no table shop\.other on main"):
        lake.read("shop.other")
    with pytest.raises(ReferenceNotFound):
        lake.read("shop.orders", ref="nowhere")


def test_only_files_that_the_filter_can_match_are_planned(lake):
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "region"))
    table = lake.catalog.create_table("shop.orders", ORDERS, partition_spec=spec)
    for number, region in enumerate(("north", "south", "east"), 1):
        table.append(orders(number, number + 10, region=region))

    def planned(where: str) -> int:
        return len(plan_read(lake, "shop.orders", ref="main", where=where).tasks)

    assert planned("true") == 3
    assert planned("region = 'south'") == 1
    assert planned("region in ('south', 'east')") == 2
    assert planned("id > 12") == 1
    assert planned("id > 100") == 0
    where = "region != 'east' and amount >= 20"
    assert rows(lake.read("shop.orders", where=where)) == rows(table.scan(row_filter=where))


def test_a_filter_chooses_rows_within_files_too(lake):
    table = lake.catalog.create_table("shop.orders", ORDERS)
    table.append(orders(*range(100)))
    frame = lake.read("shop.orders", columns=["amount"], where=parse("id > 97"))
    assert rows(frame) == [{"amount": 980}, {"amount": 990}]


@pytest.mark.parametrize(
    ("columns", "where", "words"),
    [
        (["nothing"], None, "there is no column nothing; there are id, region, amount"),
        ("id", None, "a list of names"),
        (
            None,
            "id >",
            r"'id >' cannot be used: .*Syntax error.* end of input, at its end$",
        ),
        (None, "id > > 3 and id", r"Syntax error.* at character 6, before '> 3 and id'$"),
        (None, "id > 3\nand ) y", r"Syntax error.* at line 2, character 5, before '\) y'$"),
        (None, "nothing = 1", "cannot be used: .*`nothing` cannot be resolved"),
        (None, "id + 1", 'cannot be used: .*"BIGINT".*'),
        (None, "count(*) > 1", "cannot be used: .*invalid expressions: count"),
        (None, "id = 1 or", "Syntax error.* at its end$"),
        (None, "id = date '2026-13-01'", "invalid: '2026-13-01' at character 6, before .date "),
    ],
)
def test_what_cannot_be_meant_is_refused_in_words(lake, columns, where, words):
    lake.catalog.create_table("shop.orders", ORDERS)
    with pytest.raises(Invalid, match=words):
        lake.read("shop.orders", columns=columns, where=where)
