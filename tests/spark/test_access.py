"""Which servers get the token, and what an address must not hold."""

from __future__ import annotations

import pickle

import pytest

from lochan.base.errors import Invalid, InvalidUrl
from lochan.client import Client
from lochan.client.addresses import base_url
from lochan.spark.history.options import read_options
from lochan.spark.history.sink import append_to
from lochan.spark.lake_server import open_server

TOKEN = "opensesame"
SERVER = "https://catalog.example/lake"


def header_of(client: Client) -> str | None:
    found = client._core.credentials
    return None if found is None else found.authorization()


def header_for(uri: str) -> str | None:
    return header_of(read_options({"uri": uri, "kind": "refs"}).client())


def test_workers_send_the_token_of_their_environment_to_its_own_server_only(monkeypatch):
    assert header_for(SERVER) is None
    monkeypatch.setenv("LOCHAN_TOKEN", TOKEN)
    monkeypatch.setenv("LOCHAN_TOKEN_URI", f"{SERVER}/api/v2")
    assert header_for(f"{SERVER}/r/sales") == f"Bearer {TOKEN}"
    assert header_for("https://attacker.example/lake") is None
    monkeypatch.delenv("LOCHAN_TOKEN_URI")
    with pytest.raises(Invalid, match="LOCHAN_TOKEN_URI"):
        header_for(SERVER)


def test_workers_read_the_token_file_again_when_it_was_replaced(monkeypatch, tmp_path):
    file = tmp_path / "token"
    file.write_text("first")
    monkeypatch.setenv("LOCHAN_TOKEN_FILE", str(file))
    monkeypatch.setenv("LOCHAN_TOKEN_URI", SERVER)
    client = read_options({"uri": SERVER, "kind": "refs"}).client()
    assert header_of(client) == "Bearer first"
    file.write_text("later")
    assert read_options({"uri": SERVER, "kind": "refs"}).client() is client
    assert header_of(client) == "Bearer later"


def test_a_lake_and_its_catalog_send_the_token_to_the_server_that_it_belongs_to(
    spark, server, tmp_path, monkeypatch
):
    from lochan.spark.lake import Lake

    monkeypatch.setenv("LOCHAN_TOKEN", TOKEN)
    for belongs, sent in ((server, f"Bearer {TOKEN}"), (SERVER, None)):
        monkeypatch.setenv("LOCHAN_TOKEN_URI", belongs)
        with Lake(spark, server, warehouse=str(tmp_path)) as lake:
            assert header_of(lake.client) == sent
            repository = lake.catalog.repository
            assert isinstance(repository, Client)
            assert header_of(repository) == sent
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
