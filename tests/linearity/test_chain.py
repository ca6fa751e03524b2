"""A correct history has no violation, and each kind of violation is found."""

from __future__ import annotations

import pytest

from tests.linearity.chain import Attempt, Link, Outcome, find_violations
from tests.linearity.journal import Journal, read_names

OK, NO, MAYBE = Outcome.ACKNOWLEDGED, Outcome.REFUSED, Outcome.UNKNOWN


def commit(
    name: str, began: float, settled: float, outcome: Outcome = OK, **more: object
) -> Attempt:
    reply_hash = f"#{name}" if outcome is OK else ""
    fields = {"reply_hash": reply_hash} | more
    return Attempt(name, began, settled, outcome, **fields)  # type: ignore[arg-type]


def read(reply_hash: str, began: float, settled: float) -> Attempt:
    return Attempt("", began, settled, OK, reply_hash)


def chain(*names: str) -> list[Link]:
    return [Link(f"#{name}", name) for name in names]


def test_a_correct_history_has_no_violation():
    attempts = [
        commit("a", 0, 1),
        commit("b", 2, 4),
        commit("c", 3, 5, MAYBE),
        commit("d", 3, 6, MAYBE),
        commit("e", 3, 6, NO),
        read("#b", 4.5, 4.6),
        read("", 0, 3),
        commit("f", 7, 8),
    ]
    assert find_violations(chain("a", "c", "b", "f"), attempts) == []


@pytest.mark.parametrize(
    ("names", "attempts", "wrong"),
    [
        ("b", [commit("a", 0, 1), commit("b", 2, 3)], "'a' was acknowledged and is lost"),
        ("aba", [commit("a", 0, 1), commit("b", 0, 1)], "'a' was applied twice"),
        (
            "ba",
            [commit("a", 0, 1), commit("b", 2, 3)],
            "'b' began after 'a' and is before it in the chain",
        ),
        ("a", [commit("a", 0, 1, NO)], "'a' was refused and is in the chain"),
        ("ax", [commit("a", 0, 1)], "'x' is in the chain and was not attempted"),
        ("a", [commit("a", 0, 1, reply_hash="#z")], "'a' has the hash #a, the reply had #z"),
        (
            "ab",
            [commit("a", 0, 1), commit("b", 2, 3), read("#a", 4, 5)],
            "'a read' began after 'b' and is before it in the chain",
        ),
        ("a", [commit("a", 0, 1), read("#z", 2, 3)], "a read returned #z, which is not in the"),
        (
            "ab",
            [commit("b", 0, 9), read("#b", 1, 2), commit("a", 3, 4)],
            "'a' began after 'a read' and is before it in the chain",
        ),
        (
            "ba",
            [commit("a", 0, 1, MAYBE), commit("b", 2, 3)],
            "'b' began after 'a' and is before it in the chain",
        ),
        (
            "ab",
            [commit("a", 0, 9, touches=("k",)), commit("b", 0, 9, touches=("k",))],
            "'b' overwrote 'k', which it had not read",
        ),
        (
            "ab",
            [commit("a", 0, 1), commit("b", 2, 3, expected="#z", touches=("k",))],
            "'b' was based on #z, which is not in the chain",
        ),
    ],
    ids=[
        *("lost", "twice", "reordered", "refused yet applied", "invented", "another hash"),
        *("stale read", "read of nothing", "commit before a read", "applied after a crash"),
        *("lost update", "base not in the chain"),
    ],
)
def test_each_violation_is_found(names, attempts, wrong):
    found = find_violations(chain(*names), attempts)
    assert [sentence for sentence in found if sentence.startswith(wrong)], found


def test_a_commit_may_overwrite_what_its_client_has_read():
    attempts = [
        commit("a", 0, 9, touches=("k",)),
        commit("b", 0, 9, touches=("k",), expected="#a"),
        commit("c", 0, 9, touches=("other",)),
    ]
    assert find_violations(chain("a", "b", "c"), attempts) == []


def test_the_journal_is_on_the_disk_before_a_request_is_sent(tmp_path):
    path = tmp_path / "journal"
    journal = Journal(path)
    first = journal.begin("a")
    assert '"begin"' in path.read_text()
    journal.settle(first, OK, "#a")
    journal.begin("b", "#a")
    assert read_names(path, OK) == {"a"}
    assert read_names(path, MAYBE) == set()
    journal.settle_all()
    assert read_names(path, MAYBE) == {"b"}
    assert [one.outcome for one in journal.attempts] == [OK, MAYBE]
    assert journal.attempts[0].settled <= journal.attempts[1].began
    journal.close()
