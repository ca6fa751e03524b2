"""Addresses of servers, and names in URLs."""

from __future__ import annotations

import pytest

from lochan.base.errors import Invalid, InvalidUrl
from lochan.client.addresses import base_url, is_loopback
from lochan.client.specs import quoted_spec
from lochan.model.specs import parse_spec

HASH = "ab" * 32


@pytest.mark.parametrize(
    ("url", "repository", "base"),
    [
        ("http://h:1", "default", "http://h:1"),
        ("http://h:1/", "default", "http://h:1"),
        ("http://h:1/api/v2", "default", "http://h:1"),
        ("http://h:1/api/v1/", "default", "http://h:1"),
        ("https://h/behind/a/proxy/api/v2", "default", "https://h/behind/a/proxy"),
        ("http://h:1", "team/a", "http://h:1/r/team%2Fa"),
        ("http://[::1]:1/api/v2", "other", "http://[::1]:1/r/other"),
    ],
)
def test_a_server_is_named_with_or_without_the_path_of_the_api(url, repository, base):
    assert base_url(url, repository) == base


@pytest.mark.parametrize(
    "url",
    [
        "",
        "h:1",
        "ftp://h",
        "http://",
        "http://h:many",
        "http://h?x=1",
        "http://h#x",
        "http://\x00h",
    ],
)
def test_what_is_no_address_is_refused(url):
    with pytest.raises(InvalidUrl):
        base_url(url, "default")


def test_no_proxy_is_used_for_this_machine():
    for url in ("http://127.0.0.1:1", "http://localhost", "http://[::1]:1"):
        assert is_loopback(url)
    assert not is_loopback("http://example.org")


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ("main", "main"),
        ("-", "-"),
        ("a/b", "a%2Fb%40"),
        ("main~2^1", "main~2%5E1"),
        (f"main@{HASH}", f"main%40{HASH}"),
        (HASH, f"%40{HASH}"),
        (f"@{HASH}~1", f"%40{HASH}~1"),
        (f"{HASH}*2026-01-31T00:00:00Z", f"%40{HASH}%2A2026-01-31T00%3A00%3A00Z"),
    ],
)
def test_specs_are_one_segment_of_a_url(spec, path):
    assert quoted_spec(parse_spec(spec)) == path


@pytest.mark.parametrize("spec", ["", "no name", "main@xyz", "main~", "../config", "a?b", "a\x00b"])
def test_what_is_no_spec_never_leaves_the_client(spec):
    with pytest.raises(Invalid):
        parse_spec(spec)
