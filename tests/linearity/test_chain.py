"""The witness acquits what is right and finds each wrong."""

from __future__ import annotations

import pytest

from tests.linearity.chain import Attempt, Fate, Link, find_violations
from tests.linearity.journal import Journal, read_names

OK, NO, MAYBE = Fate.ACKNOWLEDGED, Fate.REFUSED, Fate.UNKNOWN


def commit(name: str, began: float, settled: float, fate: Fate = OK, **more: object) -> Attempt:
    told = f"#{name}" if fate is OK else ""
    return Attempt(name, began, settled, fate, **({"told": told} | more))  # type: ignore[arg-type]


def read(told: str, began: float, settled: float) -> Attempt:
    return Attempt("", began, settled, OK, told)


def chain(*names: str) -> list[Link]:
    return [Link(f"#{name}", name) for name in names]


def test_a_sound_history_is_acquitted():
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
        ("ba", [commit("a", 0, 1), commit("b", 2, 3)], "'b' began after 'a' and stands before it"),
        ("a", [commit("a", 0, 1, NO)], "'a' was refused and is in the chain"),
        ("ax", [commit("a", 0, 1)], "'x' is in the chain and nobody attempted it"),
        ("a", [commit("a", 0, 1, told="#z")], "'a' was told #z and is #a"),
        (
            "ab",
            [commit("a", 0, 1), commit("b", 2, 3), read("#a", 4, 5)],
            "'a read' began after 'b' and stands before it",
        ),
        ("a", [commit("a", 0, 1), read("#z", 2, 3)], "a read was told #z, which is not in the"),
        (
            "ab",
            [commit("b", 0, 9), read("#b", 1, 2), commit("a", 3, 4)],
            "'a' began after 'a read' and stands before it",
        ),
        (
            "ba",
            [commit("a", 0, 1, MAYBE), commit("b", 2, 3)],
            "'b' began after 'a' and stands before it",
        ),
        (
            "ab",
            [commit("a", 0, 9, touches=("k",)), commit("b", 0, 9, touches=("k",))],
            "'b' overwrote 'k', which it had not seen",
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
def test_each_wrong_is_found(names, attempts, wrong):
    found = find_violations(chain(*names), attempts)
    assert [sentence for sentence in found if sentence.startswith(wrong)], found


def test_who_has_seen_the_other_may_overwrite():
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
    assert [one.fate for one in journal.attempts] == [OK, MAYBE]
    assert journal.attempts[0].settled <= journal.attempts[1].began
    journal.close()
