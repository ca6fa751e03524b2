"""Which servers get the token, and what an address must not hold."""

from __future__ import annotations

import pickle

import pytest

from lochan.base.errors import Invalid, InvalidUrl
from lochan.client import Client
from lochan.client.transport import base_url
from lochan.spark.access import token_for
from lochan.spark.history.options import read_options
from lochan.spark.history.sink import append_to
from lochan.spark.lake_server import open_server

TOKEN = "opensesame"
SERVER = "https://catalog.example/lake"


@pytest.fixture
def secret(monkeypatch):
    monkeypatch.setenv("LOCHAN_TOKEN", TOKEN)
    monkeypatch.setenv("LOCHAN_TOKEN_URI", f"{SERVER}/api/v2")


def headers_of(uri: str) -> dict[str, str]:
    return read_options({"uri": uri, "kind": "refs"}).client()._core.headers


@pytest.mark.parametrize(
    "uri", [SERVER, f"{SERVER}/", f"{SERVER}/api/v1", "https://CATALOG.example:443/lake"]
)
def test_the_token_is_sent_to_the_server_that_it_belongs_to(secret, uri):
    assert headers_of(uri) == {"authorization": f"Bearer {TOKEN}"}


@pytest.mark.parametrize(
    "uri",
    [
        "http://attacker:80",
        "http://catalog.example/lake",
        "https://catalog.example:444/lake",
        "https://catalog.example",
        "https://catalog.example/other",
        "https://catalog.example/lake/../other",
        "https://catalog.example.attacker.example/lake",
    ],
)
def test_the_token_is_sent_nowhere_else(secret, uri):
    assert headers_of(uri) == {}


def test_a_token_without_the_address_that_it_belongs_to_is_sent_nowhere_and_told(monkeypatch):
    monkeypatch.setenv("LOCHAN_TOKEN", TOKEN)
    monkeypatch.delenv("LOCHAN_TOKEN_URI", raising=False)
    with pytest.raises(Invalid, match="LOCHAN_TOKEN_URI") as refusal:
        token_for(SERVER)
    assert TOKEN not in refusal.value.message


def test_no_token_is_sent_where_none_is_set(monkeypatch):
    monkeypatch.delenv("LOCHAN_TOKEN", raising=False)
    assert headers_of(SERVER) == {}


def test_a_lake_and_its_catalog_send_the_token_to_the_server_that_it_belongs_to(
    spark, server, tmp_path, monkeypatch
):
    from lochan.spark.lake import Lake

    monkeypatch.setenv("LOCHAN_TOKEN", TOKEN)
    for belongs, sent in ((server, {"authorization": f"Bearer {TOKEN}"}), (SERVER, {})):
        monkeypatch.setenv("LOCHAN_TOKEN_URI", belongs)
        with Lake(spark, server, warehouse=str(tmp_path)) as lake:
            assert lake.client._core.headers == sent
            repository = lake.catalog.repository
            assert isinstance(repository, Client)
            assert repository._core.headers == sent
            assert TOKEN not in repr(lake.catalog.properties)
            assert TOKEN.encode() not in pickle.dumps(append_to(lake, "t", query="q"))


@pytest.mark.parametrize(
    "address",
    [
        "http://ada:opensesame@127.0.0.1:1",
        "http://127.0.0.1:1?token=opensesame",
        "http://127.0.0.1:1/#opensesame",
        "http://127.0.0.1:opensesame",
    ],
)
def test_an_address_with_a_secret_is_refused_and_not_repeated(address):
    for refused in (open_server, lambda uri: read_options({"uri": uri, "kind": "refs"})):
        with pytest.raises(InvalidUrl) as refusal:
            refused(address)
        assert "opensesame" not in refusal.value.message


@pytest.mark.parametrize(
    "url",
    [
        "http://ada:opensesame@host:80port",
        "https://ada:opensesame@",
        "http://ada:opensesame",
        "ftp://ada:opensesame@host",
    ],
)
def test_what_is_no_address_is_not_repeated(url):
    with pytest.raises(InvalidUrl) as refusal:
        base_url(url, "default")
    assert "opensesame" not in refusal.value.message
    assert refusal.value.__cause__ is None
