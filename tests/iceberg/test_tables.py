"""Tables: made, read, changed, named otherwise and taken away, wherever the repository is."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchIcebergTableError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from lochan.base.errors import Invalid
from lochan.model.commits import Put
from lochan.model.contents import DeltaLakeTable
from tests.iceberg.rows import SCHEMA, content, held, messages, metadata_files, numbers, rows


def test_what_is_appended_is_read_again(catalog):
    table = catalog.create_table("shop.orders", schema=SCHEMA)
    table.append(rows(1, 2))
    table.append(rows(3))
    assert numbers(table) == [1, 2, 3]
    assert held(catalog) == [1, 2, 3]
    assert catalog.load_table(("shop", "orders")).name() == ("shop", "orders")


def test_a_change_is_one_commit_that_says_what_it_does(catalog):
    catalog.create_table("shop.orders", schema=SCHEMA).append(rows(1))
    catalog.load_table("shop.orders").overwrite(rows(2))
    catalog.drop_table("shop.orders")
    assert messages(catalog) == [
        "Drop table shop.orders",
        "Delete and append table shop.orders",
        "Append table shop.orders",
        "Create table shop.orders",
    ]


def test_the_key_holds_what_is_current_in_the_metadata(catalog):
    table = catalog.create_table("shop.orders", schema=SCHEMA)
    made = content(catalog, "shop", "orders")
    assert (made.snapshot_id, made.schema_id, made.metadata_location) == (
        -1,
        0,
        table.metadata_location,
    )
    table.append(rows(1))
    with table.update_schema() as update:
        update.add_column("price", LongType())
    changed = content(catalog, "shop", "orders")
    assert changed.id == made.id
    assert changed.snapshot_id == table.current_snapshot().snapshot_id
    assert changed.schema_id == 1
    assert changed.metadata_location == table.metadata_location


def test_namespaces_that_are_missing_are_made_in_the_same_commit(catalog):
    catalog.create_table("a.b.c", schema=SCHEMA)
    assert messages(catalog) == ["Create table a.b.c"]
    assert catalog.list_namespaces() == [("a",)]
    assert catalog.list_namespaces("a") == [("a", "b")]


def test_a_table_may_lie_in_no_namespace(catalog):
    catalog.create_table("orders", schema=SCHEMA).append(rows(1))
    assert held(catalog, "orders") == [1]
    assert catalog.list_tables(()) == [("orders",)]


def test_a_table_is_made_with_its_layout_and_properties(catalog):
    schema = Schema(
        NestedField(7, "id", LongType(), required=True),
        NestedField(9, "name", StringType()),
        identifier_field_ids=[7],
    )
    table = catalog.create_table(
        "shop.orders",
        schema=schema,
        partition_spec=PartitionSpec(PartitionField(7, 1000, BucketTransform(4), "part")),
        sort_order=SortOrder(SortField(9, IdentityTransform())),
        properties={"owner": "shop", "write.parquet.page-row-limit": 100},
    )
    assert [field.field_id for field in table.schema().fields] == [1, 2]
    assert table.schema().identifier_field_ids == [1]
    assert [(field.source_id, field.name) for field in table.spec().fields] == [(1, "part")]
    assert [field.source_id for field in table.sort_order().fields] == [2]
    assert table.properties == {
        "owner": "shop",
        "write.parquet.page-row-limit": "100",
        "gc.enabled": "false",
    }


def test_a_partition_may_be_of_a_column_of_arrow(catalog):
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "name"))
    table = catalog.create_table("shop.orders", schema=SCHEMA, partition_spec=spec)
    table.append(rows(1, 2))
    assert len(table.inspect.partitions()) == 2


def test_each_table_has_a_directory_of_its_own(catalog, warehouse):
    first = catalog.create_table("shop.orders", schema=SCHEMA).location()
    catalog.drop_table("shop.orders")
    second = catalog.create_table("shop.orders", schema=SCHEMA).location()
    assert first != second
    assert first.startswith(f"{warehouse}/shop/orders_")


def test_a_location_is_honoured_the_tables_own_first_then_the_namespaces(catalog, warehouse):
    catalog.create_namespace("shop", {"location": f"{warehouse}/elsewhere/"})
    assert (
        catalog.create_table("shop.a", schema=SCHEMA)
        .location()
        .startswith(f"{warehouse}/elsewhere/a_")
    )
    table = catalog.create_table("shop.b", schema=SCHEMA, location=f"{warehouse}/own/")
    assert table.location() == f"{warehouse}/own"


def test_a_table_needs_a_place(catalog):
    homeless = catalog.on(catalog.repository)
    with pytest.raises(Invalid, match="needs a location"):
        homeless.create_table("shop.orders", schema=SCHEMA)
    assert messages(catalog) == []


def test_a_name_that_is_taken_is_refused(catalog):
    catalog.create_table("shop.orders", schema=SCHEMA)
    with pytest.raises(TableAlreadyExistsError, match=r"Table already exists: shop\.orders"):
        catalog.create_table("shop.orders", schema=SCHEMA)
    with pytest.raises(TableAlreadyExistsError, match="Table already exists"):
        catalog.create_table_transaction("shop.orders", schema=SCHEMA)
    with pytest.raises(TableAlreadyExistsError, match="Namespace with same name"):
        catalog.create_table("shop", schema=SCHEMA)
    assert len(messages(catalog)) == 1


def test_a_table_cannot_lie_in_a_table(catalog):
    catalog.create_table("shop.orders", schema=SCHEMA)
    with pytest.raises(NoSuchNamespaceError, match=r"Not a namespace: shop\.orders"):
        catalog.create_table("shop.orders.lines", schema=SCHEMA)


def test_a_table_is_made_only_if_it_is_missing(catalog):
    first = catalog.create_table_if_not_exists("shop.orders", schema=SCHEMA)
    second = catalog.create_table_if_not_exists("shop.orders", schema=SCHEMA)
    assert first.metadata.table_uuid == second.metadata.table_uuid
    assert len(messages(catalog)) == 1


def test_a_create_transaction_makes_the_table_with_its_first_rows_in_one_commit(catalog):
    with catalog.create_table_transaction(
        "shop.orders", schema=SCHEMA, properties={"owner": "shop"}
    ) as transaction:
        transaction.append(rows(1, 2))
        transaction.set_properties({"more": "yes"})
        assert not catalog.table_exists("shop.orders")
    assert held(catalog) == [1, 2]
    assert messages(catalog) == ["Create table shop.orders"]
    assert catalog.load_table("shop.orders").properties == {
        "owner": "shop",
        "more": "yes",
        "gc.enabled": "false",
    }


def test_a_create_transaction_whose_name_was_taken_since_fails(catalog):
    transaction = catalog.create_table_transaction("shop.orders", schema=SCHEMA)
    catalog.create_table("shop.orders", schema=SCHEMA)
    with pytest.raises(CommitFailedException, match="table already exists"):
        transaction.commit_transaction()
    assert len(messages(catalog)) == 1


def test_what_is_not_there_cannot_be_loaded_or_dropped(catalog):
    catalog.create_namespace("shop")
    for name in ("shop.orders", "nowhere.orders", "shop"):
        with pytest.raises(NoSuchTableError, match="Table does not exist"):
            catalog.load_table(name)
        with pytest.raises(NoSuchTableError, match="Table does not exist"):
            catalog.drop_table(name)
        assert not catalog.table_exists(name)


def test_a_table_of_another_kind_is_none_of_ours(catalog):
    delta = DeltaLakeTable(metadata_location_history=(), checkpoint_location_history=())
    catalog.repository.commits.commit("main", "delta", [Put(key=("delta",), content=delta)])
    with pytest.raises(NoSuchIcebergTableError, match="DELTA_LAKE_TABLE"):
        catalog.load_table("delta")
    with pytest.raises(TableAlreadyExistsError):
        catalog.create_table("delta", schema=SCHEMA)
    assert catalog.list_tables(()) == []


def test_a_table_that_is_dropped_keeps_its_files(catalog, warehouse):
    table = catalog.create_table("shop.orders", schema=SCHEMA)
    table.append(rows(1))
    before = sorted(Path(warehouse[7:]).rglob("*"))
    catalog.drop_table("shop.orders")
    assert not catalog.table_exists("shop.orders")
    assert sorted(Path(warehouse[7:]).rglob("*")) == before
    assert held(catalog.at("main~1")) == [1]


def test_a_table_is_never_purged_and_is_told_why(catalog):
    catalog.create_table("shop.orders", schema=SCHEMA).append(rows(1))
    with pytest.raises(Invalid, match=r"shop\.orders: tables are not purged: other branches"):
        catalog.purge_table("shop.orders")
    assert held(catalog) == [1]


def test_a_renamed_table_is_the_same_content_in_one_commit(catalog):
    catalog.create_table("shop.orders", schema=SCHEMA).append(rows(1))
    before = content(catalog, "shop", "orders")
    renamed = catalog.rename_table("shop.orders", "archive.old.orders")
    assert renamed.name() == ("archive", "old", "orders")
    assert content(catalog, "archive", "old", "orders") == before
    assert not catalog.table_exists("shop.orders")
    assert messages(catalog)[0] == "Rename table shop.orders to archive.old.orders"
    assert len(messages(catalog)) == 3
    renamed.append(rows(2))
    assert held(catalog, "archive.old.orders") == [1, 2]


def test_a_table_is_not_renamed_to_a_name_that_is_taken_nor_from_one_that_is_free(catalog):
    catalog.create_table("shop.orders", schema=SCHEMA)
    catalog.create_table("shop.lines", schema=SCHEMA)
    with pytest.raises(TableAlreadyExistsError):
        catalog.rename_table("shop.orders", "shop.lines")
    with pytest.raises(TableAlreadyExistsError):
        catalog.rename_table("shop.orders", "shop.orders")
    with pytest.raises(NoSuchTableError):
        catalog.rename_table("shop.nothing", "shop.more")
    assert catalog.list_tables("shop") == [("shop", "lines"), ("shop", "orders")]


def test_metadata_that_is_there_is_registered_where_it_is(catalog):
    table = catalog.create_table("shop.orders", schema=SCHEMA)
    table.append(rows(1))
    registered = catalog.register_table("copies.orders", table.metadata_location)
    assert registered.metadata_location == table.metadata_location
    assert content(catalog, "copies", "orders").id != content(catalog, "shop", "orders").id
    with pytest.raises(TableAlreadyExistsError):
        catalog.register_table("copies.orders", table.metadata_location)
    registered.append(rows(2))
    assert held(catalog) == [1]
    assert held(catalog, "copies.orders") == [1, 2]


def test_a_registered_table_may_replace_another_and_keeps_its_content_if_it_is_the_same(catalog):
    table = catalog.create_table("shop.orders", schema=SCHEMA)
    table.append(rows(1))
    early, before = table.metadata_location, content(catalog, "shop", "orders")
    table.append(rows(2))
    catalog.register_table("shop.orders", early, overwrite=True)
    assert held(catalog) == [1]
    assert content(catalog, "shop", "orders") == before
    other = catalog.create_table("shop.lines", schema=SCHEMA)
    other.append(rows(7))
    catalog.register_table("shop.orders", other.metadata_location, overwrite=True)
    assert held(catalog) == [7]
    assert content(catalog, "shop", "orders").id != before.id


def test_metadata_that_is_missing_is_not_registered(catalog, warehouse):
    with pytest.raises(FileNotFoundError):
        catalog.register_table("shop.orders", f"{warehouse}/none.metadata.json")
    assert messages(catalog) == []


def test_engines_are_told_not_to_collect_a_table_whoever_made_it(catalog, tmp_path):
    table = catalog.create_table("shop.orders", schema=SCHEMA, properties={"gc.enabled": "true"})
    assert table.properties["gc.enabled"] == "false"
    with table.transaction() as transaction:
        transaction.set_properties({"gc.enabled": "true", "owner": "shop"})
    assert catalog.load_table("shop.orders").properties["gc.enabled"] == "false"
    path = Path(table.metadata_location[7:])
    stored = msgspec.json.decode(path.read_bytes())
    assert stored["properties"] == {"owner": "shop", "gc.enabled": "false"}
    del stored["properties"]["gc.enabled"]
    foreign = tmp_path / "00000-foreign.metadata.json"
    foreign.write_bytes(msgspec.json.encode(stored))
    registered = catalog.register_table("shop.foreign", f"file://{foreign}")
    assert registered.properties["gc.enabled"] == "false"
    assert catalog.load_table("shop.foreign").properties["gc.enabled"] == "false"


def test_older_metadata_stays_whatever_a_table_asks_for(catalog, warehouse):
    table = catalog.create_table(
        "shop.orders",
        schema=SCHEMA,
        properties={
            "write.metadata.delete-after-commit.enabled": "true",
            "write.metadata.previous-versions-max": "1",
        },
    )
    for number in range(4):
        table.append(rows(number))
    assert len(metadata_files(warehouse)) == 5
    assert held(catalog.at("main~3")) == [0]


def test_an_update_that_changes_nothing_makes_no_commit(catalog):
    table = catalog.create_table("shop.orders", schema=SCHEMA, properties={"owner": "shop"})
    before = table.metadata_location
    with table.transaction() as transaction:
        transaction.set_properties({})
    assert table.metadata_location == before
    assert len(messages(catalog)) == 1


def test_a_table_that_went_meanwhile_is_not_made_again_by_an_append(catalog):
    table = catalog.create_table("shop.orders", schema=SCHEMA)
    catalog.drop_table("shop.orders")
    with pytest.raises(NoSuchTableError):
        table.append(rows(1))
    assert not catalog.table_exists("shop.orders")


def test_a_table_that_was_made_anew_meanwhile_is_another_one(catalog):
    table = catalog.create_table(
        "shop.orders", schema=SCHEMA, properties={"commit.retry.num-retries": "0"}
    )
    catalog.drop_table("shop.orders")
    catalog.create_table("shop.orders", schema=SCHEMA)
    with pytest.raises(CommitFailedException, match="UUID does not match"):
        table.append(rows(1))
    assert held(catalog) == []


def test_a_schema_that_is_no_schema_is_refused(local):
    with pytest.raises(ValueError, match=r"must be pyiceberg\.schema\.Schema or pyarrow"):
        local.create_table("shop.orders", schema={"id": "long"})
    with pytest.raises(Invalid, match="there is no format '4'"):
        local.create_table("shop.orders", schema=SCHEMA, properties={"format-version": "4"})


def test_a_stream_of_batches_is_appended(local):
    table = local.create_table("shop.orders", schema=SCHEMA)
    table.append(pa.RecordBatchReader.from_batches(SCHEMA, rows(1, 2).to_batches()))
    assert held(local) == [1, 2]
