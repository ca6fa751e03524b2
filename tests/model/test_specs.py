"""Reference specifications: names, hashes and relative steps."""

from __future__ import annotations

import pytest

from lochan.base.errors import Invalid
from lochan.model.specs import (
    ReferenceSpec,
    Step,
    check_new_name,
    parse_on_reference,
    parse_path,
    parse_spec,
)

HASH = "ab" * 32


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("main", ReferenceSpec("main")),
        ("-", ReferenceSpec("-")),
        ("a/b@", ReferenceSpec("a/b")),
        (f"main@{HASH}", ReferenceSpec("main", HASH)),
        (f"main@{HASH.upper()}", ReferenceSpec("main", HASH)),
        (f"@{HASH}", ReferenceSpec(None, HASH)),
        ("main~3^2", ReferenceSpec("main", None, (Step("~3", 3), Step("^2", 2)))),
        (f"@{HASH}~1", ReferenceSpec(None, HASH, (Step("~1", 1),))),
        ("@~1", ReferenceSpec(None, None, (Step("~1", 1),))),
        (
            "main*2023-01-01T00:00:00.123456789Z",
            ReferenceSpec(
                "main", None, (Step("*2023-01-01T00:00:00.123456789Z", 1_672_531_200_123_456),)
            ),
        ),
    ],
)
def test_references_are_read(text, path):
    assert parse_path(text) == path


@pytest.mark.parametrize(
    "text",
    ["main", "a/b", f"main@{HASH}", f"@{HASH}~1", "main^2", f"a/b@{HASH}*12~1", "~1", "-*12"],
)
def test_the_text_of_a_spec_parses_to_the_same_spec(text):
    assert parse_path(text).text() == text


def test_a_whole_hash_alone_is_a_commit_where_a_user_writes_it():
    assert parse_spec(HASH) == parse_spec(HASH.upper()) == ReferenceSpec(None, HASH)
    assert parse_spec(f"{HASH}~1") == ReferenceSpec(None, HASH, (Step("~1", 1),))
    assert parse_path(HASH) == ReferenceSpec(HASH)
    assert parse_spec(HASH[:12]) == ReferenceSpec(HASH[:12])


@pytest.mark.parametrize(
    "text",
    ["main" + "~1" * 11, "main~" + "9" * 19, "main~2023-01-01T00:00:00Z", "main*" + "9" * 19],
)
def test_steps_are_bounded_in_number_and_size(text):
    with pytest.raises(Invalid, match=r"steps|relative spec|time"):
        parse_path(text)


@pytest.mark.parametrize(
    "text", ["", "..invalid..", "a.", "a/", "1a", "a@xyz", "a~", "a~x", "a@b@c", "a b", "é"]
)
def test_what_is_no_reference_is_refused_with_the_rule(text):
    with pytest.raises(Invalid, match="Reference name must start with a letter"):
        parse_path(text)


def test_a_hash_on_a_reference_may_be_steps_alone():
    assert parse_on_reference("main", "~1") == ReferenceSpec("main", None, (Step("~1", 1),))
    assert parse_on_reference("main", None) == ReferenceSpec("main")
    with pytest.raises(Invalid, match="Hash must consist"):
        parse_on_reference("main", "nothex")


@pytest.mark.parametrize("name", ["HEAD", "detached", "deadbeef"])
def test_names_that_mean_something_else_are_reserved(name):
    with pytest.raises(Invalid, match="potential commit ID"):
        check_new_name(name)
