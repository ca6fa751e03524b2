"""Ways to a catalog, and what it leaves open."""

from __future__ import annotations

import pytest
from pyiceberg.catalog import load_catalog

from lochan.base.errors import Invalid, InvalidUrl, StoreClosed, Unavailable
from lochan.client import Client
from lochan.embedded import Embedded, open_repository
from lochan.iceberg import LochanCatalog
from tests.client.serving import serving
from tests.iceberg.rows import SCHEMA, held, rows


def test_pyiceberg_finds_the_catalog_by_its_name(address, warehouse):
    catalog = load_catalog(
        "lake",
        **{
            "py-catalog-impl": "lochan.iceberg.LochanCatalog",
            "uri": address,
            "warehouse": warehouse,
            "s3.endpoint": "http://127.0.0.1:1",
        },
    )
    assert isinstance(catalog, LochanCatalog)
    assert catalog.name == "lake"
    with catalog:
        table = catalog.create_table("shop.orders", schema=SCHEMA)
        table.append(rows(1))
        assert held(catalog) == [1]
        assert table.io.properties == {"s3.endpoint": "http://127.0.0.1:1"}


def test_a_repository_is_chosen_by_name(warehouse):
    with (
        serving("memory:", "other") as url,
        LochanCatalog(uri=url, repository="other", warehouse=warehouse) as other,
        LochanCatalog(uri=url, warehouse=warehouse) as default,
    ):
        other.create_table("shop.orders", schema=SCHEMA)
        assert not default.table_exists("shop.orders")
        assert other.properties["repository"] == "other"


def test_the_repository_is_at_hand(address, tmp_path):
    with LochanCatalog(uri=address) as catalog:
        assert isinstance(catalog.repository, Client)
        assert catalog.warehouse is None
    with LochanCatalog(uri=f"rocksdb:{tmp_path}/store", warehouse=str(tmp_path)) as catalog:
        assert isinstance(catalog.repository, Embedded)
        assert catalog.warehouse == f"file://{tmp_path}"


def test_what_was_opened_here_is_closed_and_nothing_else(tmp_path, warehouse):
    catalog = LochanCatalog(uri=f"rocksdb:{tmp_path}/store", warehouse=warehouse)
    other = catalog.at("main")
    other.close()
    catalog.create_table("shop.orders", schema=SCHEMA)
    catalog.close()
    with pytest.raises(StoreClosed):
        other.table_exists("shop.orders")
    with open_repository(f"rocksdb:{tmp_path}/store") as repository:
        with LochanCatalog.on(repository, warehouse=warehouse) as borrowed:
            assert borrowed.table_exists("shop.orders")
        assert repository.references.get("main").name == "main"


def test_what_was_written_is_there_after_opening_again(tmp_path, warehouse):
    uri = f"rocksdb:{tmp_path}/store"
    with LochanCatalog(uri=uri, warehouse=warehouse) as catalog:
        catalog.create_table("shop.orders", schema=SCHEMA).append(rows(1))
    with LochanCatalog(uri=uri) as catalog:
        assert held(catalog) == [1]


def test_headers_are_for_the_server_and_kept_from_everything_else(address, warehouse):
    with LochanCatalog("lake", uri=address, warehouse=warehouse, **{"header.x-team": "blue"}) as it:
        assert isinstance(it.repository, Client)
        assert it.repository._core.headers == {"x-team": "blue"}
        table = it.create_table("shop.orders", schema=SCHEMA)
        assert not any("x-team" in key for key in {**it.properties, **table.io.properties})


@pytest.mark.parametrize("name", ["header.x-team", "token", "credential", "profile"])
def test_headers_and_credentials_without_a_server_are_a_mistake(name):
    with pytest.raises(Invalid, match=f"leave out {name}: that is for servers") as refusal:
        LochanCatalog("lake", uri="memory:", **{name: "opensesame"})
    assert "opensesame" not in refusal.value.message


def test_the_password_of_a_store_is_not_among_the_properties(monkeypatch):
    opened = open_repository("memory:")
    monkeypatch.setattr("lochan.iceberg.catalog.open_repository", lambda *_: opened)
    with LochanCatalog(uri="postgresql://ada:opensesame@host/lake") as catalog:
        assert "opensesame" not in repr(catalog.properties)


def test_an_address_that_leads_nowhere_is_told_at_once(monkeypatch):
    with pytest.raises(InvalidUrl):
        LochanCatalog(uri="nothing:at-all")
    monkeypatch.setattr("time.sleep", lambda _: None)
    with pytest.raises(Unavailable):
        LochanCatalog.on(Client("http://127.0.0.1:9", sleep=lambda _: None))
