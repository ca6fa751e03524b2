"""Namespaces: made, listed, described and taken away."""

from __future__ import annotations

import pytest
from pyiceberg.exceptions import (
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
)

from tests.iceberg.rows import SCHEMA, content, messages


def test_a_namespace_is_made_once(catalog):
    catalog.create_namespace("shop", {"owner": "shop", "level": 3})
    assert catalog.namespace_exists("shop")
    assert catalog.load_namespace_properties("shop") == {"owner": "shop", "level": "3"}
    with pytest.raises(NamespaceAlreadyExistsError, match="Namespace already exists: shop"):
        catalog.create_namespace("shop")
    catalog.create_namespace_if_not_exists("shop")
    assert messages(catalog) == ["Create namespace shop"]


def test_a_namespace_inside_others_makes_them_too(catalog):
    catalog.create_namespace("a.b.c")
    assert [catalog.namespace_exists(name) for name in ("a", "a.b", "a.b.c")] == [True] * 3
    assert messages(catalog) == ["Create namespace a.b.c"]


def test_a_namespace_cannot_have_the_name_of_a_table(catalog):
    catalog.create_table("shop.orders", schema=SCHEMA)
    with pytest.raises(NamespaceAlreadyExistsError):
        catalog.create_namespace("shop.orders")
    with pytest.raises(NoSuchNamespaceError, match="Not a namespace"):
        catalog.create_namespace("shop.orders.deep")
    assert not catalog.namespace_exists("shop.orders")
    with pytest.raises(NoSuchNamespaceError):
        catalog.load_namespace_properties("shop.orders")


def test_namespaces_and_tables_are_listed_by_level(catalog):
    for name in ("shop.orders", "shop.lines", "shop.eu.orders", "root", "shopping.cart"):
        catalog.create_table(name, schema=SCHEMA)
    catalog.create_namespace("empty")
    assert catalog.list_namespaces() == [("empty",), ("shop",), ("shopping",)]
    assert catalog.list_namespaces("shop") == [("shop", "eu")]
    assert catalog.list_namespaces("shop.eu") == []
    assert catalog.list_tables("shop") == [("shop", "lines"), ("shop", "orders")]
    assert catalog.list_tables(("shop", "eu")) == [("shop", "eu", "orders")]
    assert catalog.list_tables("empty") == []
    assert catalog.list_tables(()) == [("root",)]


def test_what_is_in_no_namespace_cannot_be_listed(catalog):
    for listing in (catalog.list_tables, catalog.list_views, catalog.list_namespaces):
        with pytest.raises(NoSuchNamespaceError, match="Namespace does not exist: nowhere"):
            listing("nowhere")


def test_only_an_empty_namespace_goes(catalog):
    catalog.create_table("shop.eu.orders", schema=SCHEMA)
    for name in ("shop", "shop.eu"):
        with pytest.raises(NamespaceNotEmptyError, match=f"Namespace {name} is not empty"):
            catalog.drop_namespace(name)
    catalog.drop_table("shop.eu.orders")
    catalog.drop_namespace("shop.eu")
    catalog.drop_namespace("shop")
    assert catalog.list_namespaces() == []
    with pytest.raises(NoSuchNamespaceError):
        catalog.drop_namespace("shop")


def test_properties_of_a_namespace_are_set_and_removed(catalog):
    catalog.create_namespace("shop", {"a": "1", "b": "2"})
    before = content(catalog, "shop").id
    summary = catalog.update_namespace_properties("shop", {"a", "x"}, {"b": "3", "c": 4})
    assert (summary.removed, summary.updated, summary.missing) == (["a"], ["b", "c"], ["x"])
    assert catalog.load_namespace_properties("shop") == {"b": "3", "c": "4"}
    assert content(catalog, "shop").id == before
    assert messages(catalog) == ["Update namespace shop", "Create namespace shop"]


def test_a_property_is_not_set_and_removed_at_once(catalog):
    catalog.create_namespace("shop")
    with pytest.raises(ValueError, match=r"at once: \['a'\]"):
        catalog.update_namespace_properties("shop", {"a"}, {"a": "1"})
    with pytest.raises(NoSuchNamespaceError):
        catalog.update_namespace_properties("nowhere", updates={"a": "1"})


def test_namespaces_are_those_of_the_reference(catalog):
    catalog.create_namespace("shop")
    catalog.repository.references.create("etl")
    etl = catalog.at("etl")
    etl.create_namespace("staging")
    etl.drop_namespace("shop")
    assert etl.list_namespaces() == [("staging",)]
    assert catalog.list_namespaces() == [("shop",)]
