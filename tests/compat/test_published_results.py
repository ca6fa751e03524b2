"""Unexpected results of the published tests are found, and nothing else."""

from __future__ import annotations

import pytest

from tests.compat.published_results import (
    EXCEPTIONS,
    EXPECTED,
    Outcome,
    count,
    find_complaints,
    read_outcomes,
)

FRAME = "[engine:nessie-multi-env]/[nessie-api:V{}]/[class:compat.PublishedTests]"


def results(*names: str, outcome: str = "successful") -> list[Outcome]:
    split = [name.split(" ") for name in names]
    return [Outcome(outcome, version, name, "because") for version, name in split]


def everything() -> list[Outcome]:
    return results(*(f"{version} t{n}" for version, last in EXPECTED.items() for n in range(last)))


def test_outcomes_are_read_with_their_version_and_name():
    text = "\n".join(
        [
            "\x1b[0msuccessful\t" + FRAME.format(2) + "/[method:merge()]\t\t",
            "noise",
            f"failed\t{FRAME.format(1)}/[nested-class:Deep]/[method:log(%5BI)]/[call:#2]\tError\t1",
            f"aborted\t{FRAME.format(1)}/[method:assumed()]\tTestAborted\t",
            f"skipped\t{FRAME.format(2)}/[method:later()]\t\t",
            "end",
        ]
    )
    assert read_outcomes(text) == [
        Outcome("successful", "v2", "merge()", ""),
        Outcome("failed", "v1", "Deep/log([I)/#2", "Error: 1"),
        Outcome("aborted", "v1", "assumed()", "TestAborted"),
        Outcome("skipped", "v2", "later()", ""),
    ]


def test_a_run_that_did_not_finish_is_refused():
    with pytest.raises(ValueError, match="did not finish"):
        read_outcomes("successful\t" + FRAME.format(2) + "/[method:merge()]\t\t")


def test_when_all_pass_there_is_nothing_to_say():
    assert find_complaints(everything(), {}) == []
    assert "v2: 159 passed of 159, 0 failed, 0 skipped" in count(everything())


def test_a_failure_that_is_not_named_is_reported():
    (sentence, missing) = find_complaints(
        [*everything()[1:], *results("v1 t0", outcome="failed")], {}
    )
    assert sentence == "v1 t0 failed: because"
    assert missing == "v1: 28 passed, 29 expected"


def test_a_failure_that_is_named_is_accepted():
    outcomes = [*everything()[1:], *results("v1 t0", outcome="failed")]
    assert find_complaints(outcomes, {"v1 t0": "a quirk"}) == []


def test_an_exception_that_passes_must_leave_the_list():
    assert find_complaints(everything(), {"v1 t0": "a quirk"}) == [
        "v1 t0 is an exception and did not fail"
    ]


def test_a_test_that_was_not_run_is_missed():
    assert find_complaints(everything()[:-1], {}) == ["v2: 158 passed, 159 expected"]


def test_there_are_three_exceptions_at_most():
    four = {f"v2 t{number}": "a quirk" for number in range(4)}
    failed = results(*four, outcome="failed")
    kept = [one for one in everything() if one.full_name not in four]
    assert find_complaints([*kept, *failed], four) == ["4 exceptions; at most 3"]
    assert len(EXCEPTIONS) <= 3
