"""What filters refuse before they run: everything that could take long."""

from __future__ import annotations

import pytest

from lochan.base.errors import Invalid, TooLarge
from lochan.base.limits.commits import MESSAGE_BYTES_MAX
from lochan.base.limits.filters import (
    FILTER_ADDITIONS_MAX,
    FILTER_BYTES_MAX,
    FILTER_DEPTH_MAX,
    FILTER_LIST_ITEMS_MAX,
    FILTER_LOOPS_MAX,
    FILTER_TOKENS_MAX,
)
from lochan.model.commits import CommitMeta, Delete, LogEntry
from lochan.rules.filters import compile_filter
from tests.rules.test_filters import LOG, META, compiled, on_log, refused

ITEMS = ", ".join(str(number) for number in range(100))
SEARCHES = " || ".join(["commit.message.contains('z')"] * 40)
ADDITIONS = " + ".join(["commit.message"] * 6)


@pytest.mark.parametrize(
    "text",
    [
        "operations.map(x, operations.map(y, operations.map(z, 1))) == []",
        f"[{ITEMS}].map(x, [{ITEMS}].map(y, [{ITEMS}].map(z, 1))) == []",
        f"[{ITEMS}].exists(x, operations.exists(y, true))",
        "operations.exists(op, op.keyElements.exists(one, true))",
        "operations.filter(x, true).exists(y, true)",
        "operations.exists(x, operations == operations)",
        "operations.exists(x, x in operations)",
        "operations == operations",
        "[operations] == [operations]",
        "[operations][0].map(x, true) == []",
        "(operations).exists(x, true)",
        "commit.allProperties.keyElements.map(x, x) == []",
        "commit.allProperties.operations.map(x, x) == []",
        "commit.authors.map(x, x) == []",
        "commit.message.split('a').exists(x, true)",
        "operations[size(operations)].name == 'x'",
    ],
)
def test_loops_over_loops_and_over_what_may_be_long_are_refused(text):
    refused(text)


@pytest.mark.parametrize(
    "pattern",
    [
        r"r'\w{100}'",
        r"'\\w{100}'",
        r"r'(\w{10}){10}'",
        r"r'\w+{100}'",
        r"r'a{90}{90}'",
        r"r'[]\w]{100}'",
        r"r'[^]\w]{100}'",
        r"r'[a[\w]]{100}'",
        r"r'((a{99}){99}){99}'",
        r"r'\pL{50}'",
        r"r'\PN{50}'",
        r"r'\p{L}{50}'",
        r"r'.{200}'",
        r"r'(?x)\w {100}'",
        r"r'(?P<a>\w){100}'",
        r"'\x5cw{100}'",
        r"'\u005cw'",
        r"r'a{100000}'",
        "commit.author",
        "'a' + 'b'",
        "'a', 'b'",
    ],
)
def test_patterns_that_take_long_to_compile_or_are_not_written_out_are_refused(pattern):
    refused(f"commit.message.matches({pattern})")


@pytest.mark.parametrize(
    "pattern",
    [
        r"r'^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$'",
        r"r'(?i)^release[-/]\d+(\.\d+){1,3}$'",
        r"r'^(?:feat|fix|docs)(\([\w-]+\))?: .{1,40}'",
        r"'au.*-(2|4)'",
        r"r'\p{Greek}+'",
        r"r'[[:alpha:]]]'",
    ],
)
def test_patterns_that_people_write_are_taken(pattern):
    assert on_log(f"commit.message.matches({pattern})") is False


def test_matches_in_its_other_form_is_refused():
    assert "matches()" in refused("matches(commit.message, 'a')")


@pytest.mark.parametrize(
    ("fits", "over"),
    [
        (
            "(" * FILTER_DEPTH_MAX + "true" + ")" * FILTER_DEPTH_MAX,
            "(" * (FILTER_DEPTH_MAX + 1) + "true" + ")" * (FILTER_DEPTH_MAX + 1),
        ),
        (
            "1" + " - 1" * (FILTER_TOKENS_MAX // 2 - 2) + " < 1",
            "1" + " - 1" * (FILTER_TOKENS_MAX // 2 - 1) + " < 1",
        ),
        (
            "'a'" + " + 'a'" * FILTER_ADDITIONS_MAX + " != ''",
            "'a'" + " + 'a'" * (FILTER_ADDITIONS_MAX + 1) + " != ''",
        ),
        (
            " || ".join(["operations.exists(x, true)"] * FILTER_LOOPS_MAX),
            " || ".join(["operations.exists(x, true)"] * (FILTER_LOOPS_MAX + 1)),
        ),
        (
            f"[{', '.join('1' * FILTER_LIST_ITEMS_MAX)}].exists(x, true)",
            f"[{', '.join('1' * (FILTER_LIST_ITEMS_MAX + 1))}].exists(x, true)",
        ),
        (
            "true" + " " * (FILTER_BYTES_MAX - 4),
            "true" + " " * (FILTER_BYTES_MAX - 3),
        ),
    ],
    ids=["depth", "tokens", "additions", "loops", "list", "bytes"],
)
def test_every_bound_is_where_it_says(fits, over):
    assert on_log(fits) is True
    refused(over)


def test_a_long_text_says_how_long_it_may_be():
    with pytest.raises(TooLarge, match=str(FILTER_BYTES_MAX)):
        compile_filter("é" * FILTER_BYTES_MAX, LOG)


@pytest.mark.parametrize(
    "text",
    [
        f"[{ITEMS}].exists(x, commit.message.matches(r'(.*.*)*c'))",
        f"[{ITEMS}].exists(x, {SEARCHES})",
        f"[{ITEMS}].exists(x, commit.author.matches(r'\\w\\w\\w'))",
        f"[{ITEMS}].exists(x, ({ADDITIONS}) == 'x')",
    ],
)
def test_work_that_loops_multiply_is_weighed_and_refused(text):
    assert "too costly" in refused(text)


def test_costs_grow_with_what_a_filter_does():
    simple = compiled("commit.author == 'x'", LOG)
    looping = compiled("operations.exists(op, op.name == 'x')", LOG)
    pattern = compiled(r"commit.message.matches(r'\w+')", LOG)
    assert simple.cost() == simple.cost(10_000) == 1
    assert looping.cost() == 1
    assert 1_000 < looping.cost(10_000) < 10_000
    assert pattern.cost() > 100


def test_a_commit_too_large_for_a_costly_filter_is_told():
    operations = tuple(Delete(key=(f"t{number}",)) for number in range(10_000))
    large = LogEntry(META, "", operations)
    assert not on_log("operations.exists(op, op.name == 'x')", large)
    with pytest.raises(Invalid, match="10000 operations"):
        on_log("operations.filter(op, op.name == 'x').size() == 1", large)
    with pytest.raises(Invalid, match="10000 operations"):
        on_log(r"operations.exists(op, op.name.matches(r'\w'))", large)


def test_the_longest_message_can_be_judged():
    long = LogEntry(CommitMeta(message="x" * MESSAGE_BYTES_MAX), "", ())
    assert on_log(" && ".join(["commit.message.contains('x')"] * 100), long)
    assert on_log("size(" + " + ".join(["commit.message"] * 9) + ") > 500000", long)
