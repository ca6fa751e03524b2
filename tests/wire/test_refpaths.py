"""References in URLs: names, hashes and steps."""

from __future__ import annotations

import pytest

from lochan.base.errors import Invalid
from lochan.wire.refpaths import (
    RefPath,
    check_new_name,
    parse_on_ref,
    parse_ref_path,
)

HASH = "ab" * 32


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("main", RefPath("main")),
        ("-", RefPath("-")),
        ("a/b@", RefPath("a/b")),
        (f"main@{HASH}", RefPath("main", HASH)),
        (f"main@{HASH.upper()}", RefPath("main", HASH)),
        (f"@{HASH}", RefPath(None, HASH)),
        ("main~3^2", RefPath("main", None, "~3^2")),
        (f"@{HASH}~1", RefPath(None, HASH, "~1")),
        ("@~1", RefPath(None, None, "~1")),
        (
            "main*2023-01-01T00:00:00.123456789Z",
            RefPath("main", None, "*2023-01-01T00:00:00.123456789Z"),
        ),
    ],
)
def test_references_are_read(text, path):
    assert parse_ref_path(text) == path


@pytest.mark.parametrize(
    "path",
    [
        RefPath("main"),
        RefPath("a/b"),
        RefPath("main", HASH),
        RefPath(None, HASH, "~1"),
        RefPath("main", None, "^2"),
        RefPath("a/b", HASH, "*12"),
    ],
)
def test_what_is_written_is_read_back(path):
    assert parse_ref_path(path.path()) == path


@pytest.mark.parametrize(
    "text", ["", "..invalid..", "a.", "a/", "1a", "a@xyz", "a~", "a~x", "a@b@c", "a b", "é"]
)
def test_what_is_no_reference_is_refused_with_the_rule(text):
    with pytest.raises(Invalid, match="Reference name must start with a letter"):
        parse_ref_path(text)


def test_a_spec_says_all_of_it():
    assert RefPath("main").spec() == "main"
    assert RefPath("main", None, "~1").spec() == "main~1"
    assert RefPath(None, HASH, "~1").spec() == f"@{HASH}~1"
    assert RefPath("main", HASH).spec() == f"main@{HASH}"


def test_a_hash_on_a_reference_may_be_steps_alone():
    assert parse_on_ref("main", "~1") == RefPath("main", None, "~1")
    assert parse_on_ref("main", None) == RefPath("main")
    with pytest.raises(Invalid, match="Hash must consist"):
        parse_on_ref("main", "nothex")


@pytest.mark.parametrize("name", ["HEAD", "detached", "deadbeef"])
def test_names_that_mean_something_else_are_reserved(name):
    with pytest.raises(Invalid, match="potential commit ID"):
        check_new_name(name)
