"""The credentials of a catalog: where they come from, and that nothing shows them."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator

import pytest
from pyiceberg.catalog import load_catalog

from lochan.base.errors import Invalid, LochanError, NotFound, Unauthenticated
from lochan.client.profiles import Profile, ProfileFile
from lochan.iceberg import LochanCatalog
from tests.client.serving import Guard, serving
from tests.iceberg.rows import SCHEMA, held, rows

CANARY = "lochan_1_opensesame"


@pytest.fixture
def guard() -> Guard:
    pair = b64encode(f"id:{CANARY}".encode()).decode()
    return Guard(f"Bearer {CANARY}", f"Basic {pair}")


@pytest.fixture
def address(guard: Guard) -> Iterator[str]:
    """A server that needs credentials."""
    with serving("memory:", guard=guard) as url:
        yield url


@pytest.mark.parametrize(
    "given",
    [
        {"token": CANARY},
        {"credential": f"id:{CANARY}"},
        {"header.Authorization": f"Bearer {CANARY}"},
    ],
    ids=["token", "credential", "header"],
)
def test_properties_carry_credentials_which_nothing_shows(address, warehouse, guard, given):
    properties = {"py-catalog-impl": "lochan.iceberg.LochanCatalog", "warehouse": warehouse}
    catalog = load_catalog("lake", **properties, uri=address, **given)
    assert isinstance(catalog, LochanCatalog)
    with catalog:
        table = catalog.create_table("shop.orders", schema=SCHEMA)
        table.append(rows(1))
        with catalog.many("more") as many:
            many.load_table("shop.orders").append(rows(2))
        assert held(catalog.at("main")) == [1, 2]
        shown = [catalog, catalog.properties, table, table.io.properties, vars(table.io)]
        assert not any("opensesame" in repr(each) for each in shown)
    assert len(set(guard.seen)) == 1


def test_the_environment_and_a_profile_are_used_as_by_every_client(
    address, warehouse, monkeypatch, tmp_path
):
    with pytest.raises(Unauthenticated, match="`lochan login"):
        LochanCatalog(uri=address, warehouse=warehouse)
    monkeypatch.setenv("LOCHAN_CREDENTIALS", str(tmp_path / "credentials.toml"))
    ProfileFile().store("mine", Profile(url=address, token=CANARY))
    for given in ({}, {"profile": "mine"}):
        with LochanCatalog(uri=address, warehouse=warehouse, **given) as catalog:
            assert catalog.list_namespaces() == []
    ProfileFile().remove("mine")
    monkeypatch.setenv("LOCHAN_TOKEN", CANARY)
    monkeypatch.setenv("LOCHAN_TOKEN_URI", address)
    with LochanCatalog(uri=address, warehouse=warehouse) as catalog:
        assert catalog.list_namespaces() == []


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({"token": "opensesame wrong"}, Invalid),
        ({"token": "opensesame"}, Unauthenticated),
        ({"credential": "opensesame"}, Invalid),
        ({"credential": ":opensesame"}, Invalid),
        ({"credential": "id:opensesame"}, Unauthenticated),
        ({"token": "opensesame", "credential": "id:opensesame"}, Invalid),
        ({"profile": "missing"}, NotFound),
    ],
)
def test_no_error_shows_credentials(address, given, kind):
    with pytest.raises(LochanError) as refusal:
        LochanCatalog(uri=address, **given)
    assert isinstance(refusal.value, kind)
    assert "opensesame" not in str(refusal.value)


def test_credentials_go_to_another_machine_over_plain_http_only_if_that_is_allowed():
    with pytest.raises(Invalid, match="plain http"):
        LochanCatalog(uri="http://catalog.invalid", token=CANARY)
