"""Addresses of files mean one thing: a repository, a reference, a path."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lochan.base.errors import Invalid
from lochan.cli.files.places import parse_place
from lochan.client.file_addresses import FileAddress, parse_address

HASH = "ab" * 32


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("lochan://default@main/a/b.csv", ("default", "main", "a/b.csv")),
        ("default@main/a", ("default", "main", "a")),
        ("lochan://default/a", ("default", "-", "a")),
        ("lochan://@dev/a", ("", "dev", "a")),
        ("lochan://default@main", ("default", "main", "")),
        ("lochan://default@feature%2Fx/a", ("default", "feature/x", "a")),
        (f"lochan://r@main@{HASH}~1/a", ("r", f"main@{HASH}~1", "a")),
        (f"lochan://r@{HASH}/a", ("r", HASH, "a")),
        # Nothing in a path is decoded or has a meaning.
        ("lochan://r@main//../%2F/./é?x#y", ("r", "main", "/../%2F/./é?x#y")),
    ],
)
def test_an_address_is_parsed(text, expected):
    assert parse_address(text) == FileAddress(*expected)


@pytest.mark.parametrize("text", ["lochan://r@../a", "lochan://r@a b/c", "lochan://r@.x/a"])
def test_a_reference_that_nothing_can_have_is_refused(text):
    with pytest.raises(Invalid, match="lochan://repository@reference/path"):
        parse_address(text)


@given(
    st.sampled_from(["", "default", "my-repo", "a b"]),
    st.sampled_from(["main", "feature/x", HASH, f"main@{HASH}", "main~2", "-"]),
    st.text(max_size=30),
)
def test_an_address_is_read_as_it_was_written(repository, spec, path):
    address = FileAddress(repository, spec, path)
    assert parse_address(address.text()) == address


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("main:a/b.csv", FileAddress("", "main", "a/b.csv")),
        ("main:", FileAddress("", "main", "")),
        ("-:a", FileAddress("", "-", "a")),
        (":a", FileAddress("", "-", "a")),
        ("feature/x:a:b", FileAddress("", "feature/x", "a:b")),
        ("main~1:a", FileAddress("", "main~1", "a")),
        (
            "main*2026-01-31T00:00:00Z:a",
            FileAddress("", "main*2026-01-31T00:00:00Z", "a"),
        ),
        (f"{HASH}:a", FileAddress("", HASH, "a")),
        ("lochan://r@main/a:b", FileAddress("r", "main", "a:b")),
        ("a/b.csv", Path("a/b.csv")),
        ("./main:a", Path("main:a")),
        ("/tmp/a:b", Path("/tmp/a:b")),
        ("-", Path("-")),
        ("../x:y", Path("../x:y")),
    ],
)
def test_a_place_is_a_file_of_a_repository_or_of_this_machine(text, expected):
    assert parse_place(text) == expected
