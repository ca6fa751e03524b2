"""Store addresses: read strictly, printed without secrets."""

from __future__ import annotations

import pytest

from lochan.base.errors import InvalidUrl
from lochan.kv.url import StoreUrl, parse_store_url


@pytest.mark.parametrize(
    ("text", "scheme", "rest"),
    [
        ("memory:", "memory", ""),
        ("rocksdb:./a:b?cache_mb=1", "rocksdb", "./a:b?cache_mb=1"),
        ("postgresql://h/d", "postgresql", "//h/d"),
        ("a+b.c-1:x", "a+b.c-1", "x"),
    ],
)
def test_an_address_is_split_at_its_scheme(text: str, scheme: str, rest: str) -> None:
    assert parse_store_url(text) == StoreUrl(scheme, rest)


@pytest.mark.parametrize(
    "text",
    ["", ":", "memory", ":x", "Memory:", "1a:", "a b:", "a" * 33 + ":", "rocksdb:a\0b", "x:a\nb"],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(InvalidUrl):
        parse_store_url(text)


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://user:SECRET@host/db",
        "postgresql://user:SEC/RET@host/db",
        "postgresql://user:SECRET@x@host/db",
        "postgresql://:SECRET@host/db",
        "cassandra://user:SECRET@h1,h2/KEYSPACE?datacenter=dc1",
        "postgresql://host/db?password=SECRET",
        "postgresql://host/db?x=1&sslpassword=SECRET&y=2",
        "dynamodb:///t?aws_secret_access_key=SECRET;session_token=SECRET",
        "dynamodb:///t?API_KEY=SECRET",
        "mongodb://user:SECRET@h/?authSource=admin",
    ],
)
def test_no_printed_form_shows_a_password(text: str) -> None:
    url = parse_store_url(text)
    for printed in (str(url), repr(url), f"{url}", f"{[url]}", str(list(url.__rich_repr__()))):
        assert "SECRET" not in printed
        assert "SEC/RET" not in printed
        assert "***" in printed


def test_what_is_no_secret_is_printed() -> None:
    text = "dynamodb:///TABLE?region=eu&endpoint=http://localhost:8000"
    assert str(parse_store_url(text)) == text
