"""What pyiceberg does to tables, through the catalog: columns, partitions, rows, formats."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform, YearTransform
from pyiceberg.types import IntegerType, LongType, NestedField, StringType, TimestampType

from lochan.base.errors import Invalid
from lochan.model.commits import CommitMeta, Put
from tests.iceberg.rows import SCHEMA, content, held, messages, metadata_files, numbers, rows


@pytest.fixture(params=["1", "2"], ids=["format 1", "format 2"])
def table(catalog, request):
    """A table of three rows, of either format."""
    made = catalog.create_table(
        "shop.orders", schema=SCHEMA, properties={"format-version": request.param}
    )
    assert made.metadata.format_version == int(request.param)
    made.append(rows(1, 2, 3))
    return made


def stored(table: Any) -> dict[str, Any]:
    """What is in the table's metadata file."""
    return msgspec.json.decode(Path(table.metadata_location[7:]).read_bytes())


def test_columns_come_change_and_go(table, catalog):
    with table.update_schema() as update:
        update.add_column("price", IntegerType())
        update.rename_column("name", "title")
    with table.update_schema() as update:
        update.update_column("price", LongType())
        update.move_first("title")
    more = pa.table({"title": ["new"], "id": [4], "price": [5]})
    table.append(more)
    read = catalog.load_table("shop.orders").scan().to_arrow().sort_by("id").to_pylist()
    assert read[0] == {"title": "row 1", "id": 1, "price": None}
    assert read[3] == {"title": "new", "id": 4, "price": 5}
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("title")
    assert catalog.load_table("shop.orders").schema().column_names == ["id", "price"]
    assert content(catalog, "shop", "orders").schema_id == table.schema().schema_id


def test_partitions_change_and_old_rows_are_still_found(table, catalog):
    with table.update_spec() as update:
        update.add_field("id", BucketTransform(4), "part")
    table.append(rows(4, 5))
    with table.update_spec() as update:
        update.remove_field("part")
        update.add_field("name", IdentityTransform())
    table.append(rows(6))
    loaded = catalog.load_table("shop.orders")
    assert numbers(loaded) == [1, 2, 3, 4, 5, 6]
    assert len(loaded.specs()) == 3
    assert numbers_where(loaded, "id = 5") == [5]
    assert content(catalog, "shop", "orders").spec_id == loaded.spec().spec_id


def numbers_where(table: Any, where: str) -> list[int]:
    return sorted(table.scan(row_filter=where).to_arrow()["id"].to_pylist())


def test_the_order_of_rows_changes(table, catalog):
    with table.update_sort_order() as update:
        update.asc("name", IdentityTransform())
    loaded = catalog.load_table("shop.orders")
    assert [field.source_id for field in loaded.sort_order().fields] == [2]
    assert content(catalog, "shop", "orders").sort_order_id == loaded.sort_order().order_id


def test_rows_are_deleted_and_overwritten(table, catalog):
    table.delete("id = 2")
    assert held(catalog) == [1, 3]
    table.overwrite(rows(7, 8), overwrite_filter="id = 3")
    assert held(catalog) == [1, 7, 8]
    table.overwrite(rows(9))
    assert held(catalog) == [9]
    assert held(catalog.at("main~2")) == [1, 3]


def test_rows_are_updated_and_inserted_by_key(table, catalog):
    new = pa.table({"id": [2, 4], "name": ["changed", "new"]}, schema=SCHEMA)
    done = table.upsert(new, join_cols=["id"])
    assert (done.rows_updated, done.rows_inserted) == (1, 1)
    read = catalog.load_table("shop.orders").scan().to_arrow().sort_by("id").to_pylist()
    assert [row["name"] for row in read] == ["row 1", "changed", "row 3", "new"]


def test_partitions_are_overwritten_as_they_come(catalog):
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "day", TimestampType()))
    table = catalog.create_table("shop.days", schema=schema)
    with table.update_spec() as update:
        update.add_field("id", IdentityTransform())
    days = [datetime(2024, 1, 1), datetime(2025, 1, 1)]  # noqa: DTZ001
    some = pa.table({"id": [1, 2], "day": days})
    table.append(some)
    table.dynamic_partition_overwrite(
        pa.table({"id": [2, 2], "day": [datetime(2026, 1, 1)] * 2})  # noqa: DTZ001
    )
    assert held(catalog, "shop.days") == [1, 2, 2]
    with table.update_spec() as update:
        update.add_field("day", YearTransform())
    assert len(catalog.load_table("shop.days").spec().fields) == 2


def test_several_changes_of_one_transaction_are_one_commit(table, catalog):
    before = messages(catalog)
    with table.transaction() as transaction:
        with transaction.update_schema() as update:
            update.add_column("price", LongType())
        transaction.append(rows(4).append_column("price", pa.array([10])))
        transaction.set_properties({"owner": "shop"})
    assert len(messages(catalog)) == len(before) + 1
    assert held(catalog) == [1, 2, 3, 4]
    assert catalog.load_table("shop.orders").properties["owner"] == "shop"


def test_a_tables_own_branches_and_tags_are_kept(table, catalog):
    first = table.current_snapshot().snapshot_id
    table.manage_snapshots().create_tag(first, "then").commit()
    table.manage_snapshots().create_branch(first, "side").commit()
    table.append(rows(4))
    table.append(rows(5), branch="side")
    loaded = catalog.load_table("shop.orders")
    assert numbers(loaded) == [1, 2, 3, 4]
    side = loaded.scan().use_ref("side").to_arrow()["id"].to_pylist()
    assert sorted(side) == [1, 2, 3, 5]
    assert set(loaded.refs()) == {"main", "then", "side"}


def test_snapshots_are_expired_in_the_metadata_and_older_commits_still_read_them(table, catalog):
    first = table.current_snapshot().snapshot_id
    table.overwrite(rows(4))
    table.maintenance.expire_snapshots().by_id(first).commit()
    assert catalog.load_table("shop.orders").snapshot_by_id(first) is None
    assert held(catalog.at("main~2")) == [1, 2, 3]


def test_a_table_of_format_1_becomes_one_of_format_2(catalog):
    table = catalog.create_table("shop.orders", schema=SCHEMA, properties={"format-version": "1"})
    table.append(rows(1))
    with table.transaction() as transaction:
        transaction.upgrade_table_version(2)
    table.append(rows(2))
    loaded = catalog.load_table("shop.orders")
    assert loaded.metadata.format_version == 2
    assert numbers(loaded) == [1, 2]
    assert "format-version" not in loaded.properties


def test_what_nobody_here_knows_survives_every_commit(catalog):
    table = catalog.create_table("shop.orders", schema=SCHEMA)
    table.append(rows(1))
    odd = stored(table)
    odd["x-lineage"] = {"from": ["a", "b"], "rate": 1.0}
    odd["snapshots"][0]["key-id"] = "k1"
    odd["schemas"][0]["fields"][0]["x-mark"] = [1, 2]
    place = Path(table.metadata_location[7:]).with_name("00009-odd.metadata.json")
    place.write_bytes(msgspec.json.encode(odd))
    registered = catalog.register_table("shop.odd", f"file://{place}")
    registered.append(rows(2))
    with registered.transaction() as transaction:
        transaction.set_properties({"owner": "shop"})
    after = stored(registered)
    assert after["x-lineage"] == {"from": ["a", "b"], "rate": 1.0}
    assert after["snapshots"][0]["key-id"] == "k1"
    assert after["schemas"][0]["fields"][0]["x-mark"] == [1, 2]
    assert held(catalog, "shop.odd") == [1, 2]


def test_a_table_of_format_3_is_made_loaded_and_described(catalog):
    table = catalog.create_table(
        "shop.orders",
        schema=Schema(NestedField(1, "id", LongType()), NestedField(2, "name", StringType())),
        properties={"format-version": "3"},
    )
    assert stored(table)["next-row-id"] == 0
    with table.transaction() as transaction:
        transaction.set_properties({"owner": "shop"})
    with table.update_schema() as update:
        update.add_column("price", LongType())
    loaded = catalog.load_table("shop.orders")
    assert loaded.metadata.format_version == 3
    assert loaded.properties["owner"] == "shop"
    assert loaded.schema().column_names == ["id", "name", "price"]
    assert held(catalog) == []


def test_metadata_that_pyiceberg_cannot_read_is_told_and_kept(catalog, warehouse):
    table = catalog.create_table("shop.orders", schema=SCHEMA, properties={"format-version": "3"})
    odd = stored(table)
    odd["schemas"][0]["fields"][0]["type"] = "something-of-2030"
    place = Path(table.metadata_location[7:]).with_name("00001-odd.metadata.json")
    place.write_bytes(msgspec.json.encode(odd))
    with pytest.raises(Invalid, match=r"pyiceberg cannot read the metadata of shop\.odd"):
        catalog.register_table("shop.odd", f"file://{place}")
    assert not catalog.table_exists("shop.odd")
    # Another client may have registered it, and then it stays.
    meta = CommitMeta(message="a table of 2030")
    ordinary = content(catalog, "shop", "orders")
    odd_one = msgspec.structs.replace(ordinary, id=None, metadata_location=f"file://{place}")
    catalog.repository.commits.commit("main", meta, [Put(key=("shop", "odd"), content=odd_one)])
    with pytest.raises(Invalid, match=r"pyiceberg cannot read the metadata of shop\.odd"):
        catalog.load_table("shop.odd")
    assert content(catalog, "shop", "odd").metadata_location == f"file://{place}"
    catalog.rename_table("shop.orders", "shop.other")
    assert len(metadata_files(warehouse)) == 2
