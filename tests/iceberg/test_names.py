"""Names that are meant badly, or only unusual."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lochan.base.errors import InvalidKey
from lochan.iceberg.names import directory_of, key_of
from tests.iceberg.rows import SCHEMA, held, messages, rows

REFUSED = ["", ".", "shop.", ".orders", "shop..orders", (), ("",), ("a", ""), ("a\0b",), ("a\nb",)]
REFUSED += [("\ud800",), "x" * 1_000, tuple("abcdefghij" * 10)]

ODD = [
    ("a.b", "c.d"),
    ("shop/eu", "orders/2024"),
    ("..", ".."),
    (".", "..."),
    ("Größe", "表"),
    ("\U0001f4a7", "ÿ\u200b"),
    ("a b", "c%2Fd"),
    ("'; drop", '"quoted"\\'),
    ("s3://bucket", "file:///etc"),
    ("main@x", "a~1^2"),
    (" ", "?#&"),
]


@pytest.mark.parametrize("name", REFUSED, ids=repr)
def test_a_name_that_no_repository_holds_is_refused_in_words(local, name):
    for method in (
        local.load_table,
        local.table_exists,
        local.drop_table,
        local.purge_table,
        local.load_view,
        local.view_exists,
        local.drop_view,
        local.create_namespace,
        local.drop_namespace,
        local.namespace_exists,
        local.load_namespace_properties,
        lambda odd: local.create_table(odd, schema=SCHEMA),
        lambda odd: local.create_table_transaction(odd, schema=SCHEMA),
        lambda odd: local.rename_table("shop.orders", odd),
        lambda odd: local.register_table(odd, "file:///none"),
    ):
        with pytest.raises(InvalidKey, match="names no table, view or namespace"):
            method(name)
    assert messages(local) == []


@pytest.mark.parametrize("name", ODD, ids=repr)
def test_an_unusual_name_is_a_name_like_any_other(catalog, warehouse, tmp_path, name):
    table = catalog.create_table(name, schema=SCHEMA)
    table.append(rows(1))
    assert held(catalog, name) == [1]
    assert catalog.list_tables(name[:-1]) == [name]
    assert catalog.list_namespaces() == [name[:-1]]
    lake = Path(warehouse[7:])
    place = Path(table.location()[7:])
    assert place.resolve().is_relative_to(lake)
    assert [path for path in tmp_path.iterdir() if path not in (lake, tmp_path / "store")] == []
    catalog.rename_table(name, (*name, "deeper")[1:])
    assert held(catalog, (*name, "deeper")[1:]) == [1]
    with pytest.raises(InvalidKey):
        catalog.rename_table((*name, "deeper")[1:], (*name, ""))


def test_a_text_is_split_at_dots_and_a_tuple_is_not():
    assert key_of("a.b.c") == ("a", "b", "c")
    assert key_of(("a.b", "c")) == ("a.b", "c")


def test_case_counts(local):
    local.create_table("shop.Orders", schema=SCHEMA)
    assert not local.table_exists("shop.orders")


def test_a_table_with_a_long_name_is_kept_on_every_file_system(local):
    name = "x" * 300
    local.create_table(f"shop.{name}", schema=SCHEMA)
    location = local.load_table(f"shop.{name}").location()
    assert all(len(part) < 200 for part in location.split("/"))


@given(st.text(min_size=1))
def test_every_element_is_a_directory_inside_its_parent(element):
    name = directory_of(element)
    assert name
    assert name.isascii()
    assert name.strip(".")
    assert not set(name) & set("/\\:%?#* \0")
