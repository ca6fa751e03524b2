"""Tables by reference: branches apart from each other, tags and commits as they were."""

from __future__ import annotations

import pytest
from pyiceberg.exceptions import NoSuchTableError

from lochan.base.errors import NotABranch, ReferenceNotFound
from tests.iceberg.rows import SCHEMA, content, held, messages, metadata_files, rows


def test_branches_go_apart_and_come_together(catalog):
    catalog.create_table("shop.orders", schema=SCHEMA).append(rows(1))
    catalog.repository.references.create("etl")
    etl = catalog.at("etl")
    etl.load_table("shop.orders").append(rows(2))
    etl.create_table("shop.lines", schema=SCHEMA).append(rows(10))
    catalog.create_table("shop.customers", schema=SCHEMA).append(rows(100))
    assert held(catalog) == [1]
    assert held(etl) == [1, 2]
    assert not catalog.table_exists("shop.lines")
    assert not etl.table_exists("shop.customers")
    catalog.repository.merges.merge("main", "etl")
    assert held(catalog) == [1, 2]
    assert held(catalog, "shop.lines") == [10]
    assert held(catalog, "shop.customers") == [100]
    assert not etl.table_exists("shop.customers")


def test_both_branches_write_the_same_table_without_touching_each_others_files(catalog):
    catalog.create_table("shop.orders", schema=SCHEMA).append(rows(1))
    catalog.repository.references.create("etl")
    etl = catalog.at("etl")
    for number in range(2, 5):
        catalog.load_table("shop.orders").append(rows(number))
        etl.load_table("shop.orders").append(rows(10 * number))
    assert held(catalog) == [1, 2, 3, 4]
    assert held(etl) == [1, 20, 30, 40]
    assert content(catalog, "shop", "orders").id == content(etl, "shop", "orders").id


def test_a_tag_a_hash_and_steps_back_show_what_was(catalog):
    table = catalog.create_table("shop.orders", schema=SCHEMA)
    for number in range(1, 4):
        table.append(rows(number))
        if number == 2:
            catalog.repository.references.create("v2", "main", kind="TAG")
            then = catalog.repository.references.get("main").hash
    assert held(catalog.at("v2")) == [1, 2]
    assert held(catalog.at(then)) == [1, 2]
    assert held(catalog.at("main~1")) == [1, 2]
    assert held(catalog.at("main~2")) == [1]
    assert held(catalog.at(f"main@{then}")) == [1, 2]
    assert held(catalog.at("v2~1")) == [1]
    assert not catalog.at("main~4").table_exists("shop.orders")


@pytest.mark.parametrize("ref", ["v1", "main~1", "HASH", "main@HASH", "v1~1"])
def test_only_branches_take_changes_and_a_refusal_leaves_no_metadata(catalog, warehouse, ref):
    table = catalog.create_table("shop.orders", schema=SCHEMA)
    table.append(rows(1))
    catalog.repository.references.create("v1", "main", kind="TAG")
    table.append(rows(2))
    head = catalog.repository.references.get("main").hash
    place = catalog.at(ref.replace("HASH", head))
    files = metadata_files(warehouse)
    with pytest.raises(NotABranch, match="is not a branch"):
        place.load_table("shop.orders").append(rows(3))
    with pytest.raises(NotABranch):
        place.create_table("shop.more", schema=SCHEMA)
    with pytest.raises(NotABranch):
        place.drop_table("shop.orders")
    with pytest.raises(NotABranch):
        place.create_namespace("more")
    with pytest.raises(NotABranch):
        place.many()
    assert catalog.repository.references.get("main").hash == head
    assert metadata_files(warehouse) == files
    assert held(catalog) == [1, 2]


def test_a_reference_that_is_not_there_is_told(catalog):
    nowhere = catalog.at("nowhere")
    for method in (nowhere.load_table, nowhere.table_exists, nowhere.drop_table):
        with pytest.raises(ReferenceNotFound, match="nowhere"):
            method("shop.orders")
    with pytest.raises(ReferenceNotFound):
        nowhere.create_table("shop.orders", schema=SCHEMA)
    with pytest.raises(ReferenceNotFound):
        nowhere.many()


def test_the_default_branch_is_read_unless_another_is_named(catalog):
    assert catalog.ref == "main"
    assert catalog.at("etl").ref == "etl"
    assert catalog.properties["ref"] == "main"
    catalog.at("-").create_table("shop.orders", schema=SCHEMA)
    assert messages(catalog) == ["Create table shop.orders"]


def test_a_table_goes_on_belonging_to_its_reference(catalog):
    catalog.create_table("shop.orders", schema=SCHEMA)
    catalog.repository.references.create("etl")
    table = catalog.at("etl").load_table("shop.orders")
    table.append(rows(1))
    table.refresh().append(rows(2))
    assert held(catalog.at("etl")) == [1, 2]
    assert held(catalog) == []


def test_a_table_on_one_branch_only_is_on_no_other(catalog):
    catalog.repository.references.create("etl")
    catalog.at("etl").create_table("shop.orders", schema=SCHEMA)
    with pytest.raises(NoSuchTableError):
        catalog.load_table("shop.orders")
    assert catalog.list_namespaces() == []


def test_the_same_name_on_two_branches_may_be_two_tables(catalog):
    catalog.repository.references.create("etl")
    one = catalog.create_table("shop.orders", schema=SCHEMA)
    other = catalog.at("etl").create_table("shop.orders", schema=SCHEMA)
    assert one.metadata.table_uuid != other.metadata.table_uuid
    assert one.location() != other.location()
