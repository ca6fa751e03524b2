"""Views, as far as pyiceberg has them."""

from __future__ import annotations

import pytest
from pyiceberg.exceptions import (
    NoSuchTableError,
    NoSuchViewError,
    TableAlreadyExistsError,
    ViewAlreadyExistsError,
)
from pyiceberg.view.metadata import SQLViewRepresentation, ViewRepresentation, ViewVersion

from tests.iceberg.rows import SCHEMA, content, messages

SQL = "select id from shop.orders"


def version(sql: str = SQL) -> ViewVersion:
    representation = SQLViewRepresentation(type="sql", sql=sql, dialect="spark")
    return ViewVersion.model_validate(
        {
            "schema-id": 0,
            "representations": [ViewRepresentation(representation)],
            "default-namespace": ("shop",),
        }
    )


def test_a_view_is_made_and_loaded(catalog, warehouse):
    made = catalog.create_view("shop.big", SCHEMA, version(), properties={"owner": "shop"})
    loaded = catalog.load_view("shop.big")
    assert loaded == made
    assert loaded.name() == ("shop", "big")
    representation = loaded.sql_for("spark")
    assert representation is not None
    assert representation.sql == SQL
    assert [field.field_id for field in loaded.schema().fields] == [1, 2]
    assert loaded.properties == {"owner": "shop"}
    assert loaded.location().startswith(f"{warehouse}/shop/big_")
    assert catalog.view_exists("shop.big")
    assert content(catalog, "shop", "big").version_id == 1
    assert messages(catalog) == ["Create view shop.big"]


def test_views_and_tables_are_told_apart(catalog):
    catalog.create_view("shop.big", SCHEMA, version())
    catalog.create_table("shop.orders", schema=SCHEMA)
    assert catalog.list_views("shop") == [("shop", "big")]
    assert catalog.list_tables("shop") == [("shop", "orders")]
    assert not catalog.table_exists("shop.big")
    assert not catalog.view_exists("shop.orders")
    with pytest.raises(NoSuchTableError):
        catalog.load_table("shop.big")
    with pytest.raises(NoSuchViewError, match=r"View does not exist: shop\.orders"):
        catalog.load_view("shop.orders")
    with pytest.raises(NoSuchViewError):
        catalog.drop_view("shop.orders")


def test_a_name_that_is_taken_is_refused(catalog):
    catalog.create_view("shop.big", SCHEMA, version())
    catalog.create_table("shop.orders", schema=SCHEMA)
    with pytest.raises(ViewAlreadyExistsError, match=r"View already exists: shop\.big"):
        catalog.create_view("shop.big", SCHEMA, version())
    with pytest.raises(TableAlreadyExistsError, match="Table with same name already exists"):
        catalog.create_view("shop.orders", SCHEMA, version())
    with pytest.raises(ViewAlreadyExistsError, match="Namespace with same name"):
        catalog.create_view("shop", SCHEMA, version())
    with pytest.raises(TableAlreadyExistsError, match="View with same name already exists"):
        catalog.create_table("shop.big", schema=SCHEMA)


def test_a_view_is_dropped_and_registered_again(catalog):
    catalog.create_view("shop.big", SCHEMA, version())
    location = content(catalog, "shop", "big").metadata_location
    catalog.drop_view("shop.big")
    assert not catalog.view_exists("shop.big")
    registered = catalog.register_view("other.big", location)
    assert catalog.load_view("other.big") == registered
    with pytest.raises(ViewAlreadyExistsError):
        catalog.register_view("other.big", location)


def test_a_view_is_made_in_a_block_too(catalog):
    with catalog.many() as many:
        many.create_table("shop.orders", schema=SCHEMA)
        many.create_view("shop.big", SCHEMA, version())
        assert many.load_view("shop.big").sql_for("spark")
        assert not catalog.view_exists("shop.big")
    assert catalog.load_view("shop.big").sql_for("spark")
    assert messages(catalog) == ["Create table shop.orders; Create view shop.big"]
