"""The model of history on examples that were worked out by hand."""

from __future__ import annotations

from lochan.testing.models.catalog import CATALOG, Delete, Held, Put, Unchanged, commit
from lochan.testing.models.history import History
from lochan.testing.models.merges import Choice, Choices, fast_forward, merge, pick, rebase, revert

N = ("n",)
A, B = ("n", "a"), ("n", "b")


def criss_cross() -> History:
    """Two branches that merged each other: two best common ancestors."""
    history = History()
    history.add("root", ["empty"], {"k": 0})
    history.add("l1", ["root"], {"left": 1})
    history.add("r1", ["root"], {"right": 1})
    history.add("l2", ["l1", "r1"], {"right": 1})
    history.add("r2", ["r1", "l1"], {"left": 1})
    return history


def only(outcomes):
    (outcome,) = outcomes.values()
    return outcome


def test_after_merges_both_ways_there_are_two_best_common_ancestors():
    history = criss_cross()
    assert set(history.best_common_ancestors("l2", "r2")) == {"l1", "r1"}
    assert history.best_common_ancestors("l2", "r1") == ["r1"]
    assert history.best_common_ancestors("l1", "r1") == ["root"]
    history.add("other", ["empty"], {"k": 5})
    assert history.best_common_ancestors("l1", "other") == ["empty"]


def test_a_change_back_is_merged_after_the_change():
    history = History()
    history.add("m", ["empty"], {"k": "A"})
    history.add("s1", ["m"], {"k": "B"})
    history.add("m1", ["m", "s1"], {"k": "B"})
    history.add("s2", ["s1"], {"k": "A"})
    outcome = only(merge(history, "m1", "s2"))
    assert outcome.base == "s1"
    assert [plan.operations for plan in outcome.commits] == [{"k": "A"}]
    assert outcome.commits[0].merged == ("s2",)


def test_conflicts_are_all_reported_and_choices_decide_them():
    history = History()
    history.add("m", ["empty"], {"k": 1, "l": 1})
    history.add("s", ["m"], {"k": 2, "l": 2})
    history.add("t", ["m"], {"k": 3, "l": 3})
    refused = only(merge(history, "t", "s"))
    assert {(one.key, one.base, one.source, one.target) for one in refused.conflicts} == {
        ("k", 1, 2, 3),
        ("l", 1, 2, 3),
    }
    assert not refused.commits
    keys = {"k": Choice("FORCE"), "l": Choice("NORMAL", 3, 9)}
    done = only(merge(history, "t", "s", Choices(keys=keys)))
    assert done.commits[0].content == {"k": 2, "l": 9}
    for behaviour in ("DROP", "TAKE_TARGET_ON_CONFLICT"):
        assert not only(merge(history, "t", "s", Choices(behaviour))).commits
    wrong = only(merge(history, "t", "s", Choices("FORCE", {"l": Choice("NORMAL", 1, 9)})))
    assert [one.key for one in wrong.conflicts] == ["l"]


def test_commits_of_several_branches_are_composed_in_the_order_given():
    history = History()
    history.add("m", ["empty"], {"k": 1})
    history.add("a1", ["m"], {"x": 1})
    history.add("a2", ["a1"], {"never": 1})
    history.add("a3", ["a2"], {"y": 1})
    history.add("b1", ["m"], {"z": 1})
    outcome = pick(history, "m", ["a3", "b1", "a1"], squash=True)
    assert [plan.content for plan in outcome.commits] == [{"k": 1, "x": 1, "y": 1, "z": 1}]
    replayed = pick(history, "m", ["a3", "b1", "a1"])
    assert [plan.operations for plan in replayed.commits] == [{"y": 1}, {"z": 1}, {"x": 1}]


def test_a_revert_and_a_rebase_and_a_fast_forward():
    history = criss_cross()
    assert revert(history, "l2", ["l1"]).commits[0].content == {"k": 0, "right": 1}
    moved = rebase(history, "l2", "r1")
    assert moved.moved
    assert [plan.operations for plan in moved.outcome.commits] == [{"left": 1}]
    assert not rebase(history, "l2", "l1").moved
    assert fast_forward(history, "r1", "l2") is True
    assert fast_forward(history, "l2", "r1") is False
    assert fast_forward(history, "l2", "r2") is None


def test_a_commit_is_judged_by_what_its_keys_held_where_it_was_read():
    history = History()
    space, table = Held("n", "NAMESPACE", ""), Held("a", "TABLE", "1")
    history.add("c1", ["empty"], {N: space, A: table})
    history.add("c2", ["c1"], {A: Held("a", "TABLE", "2")})

    def done(*operations, expected="c1"):
        return commit(history, "c2", expected, operations, {B: "b"}).outcome

    assert [one.key for one in done(Put(A, "TABLE", "3", "a")).conflicts] == [A]
    assert not done(Put(A, "TABLE", "3", "a"), expected="c2").conflicts
    assert [one.key for one in done(Put(B, "TABLE", "3"), Unchanged(A)).conflicts] == [A]
    assert not done(Put(B, "TABLE", "3")).conflicts
    assert done(Put(A, "TABLE", "3")).invalid
    assert [one.rule for one in done(Delete(N)).conflicts] == ["NAMESPACE_NOT_EMPTY"]
    orphan = done(Put(("o", "x"), "TABLE", "1"))
    assert [one.rule for one in orphan.conflicts] == ["NAMESPACE_ABSENT"]


def test_a_namespace_that_both_sides_made_is_kept_unless_the_caller_expects_something():
    history = History()
    history.add("m", ["empty"], {})
    history.add("s", ["m"], {N: Held("1", "NAMESPACE", ""), A: Held("a", "TABLE", "1")})
    history.add("t", ["m"], {N: Held("2", "NAMESPACE", "")})
    done = only(merge(history, "t", "s", merge_rules=CATALOG))
    assert set(done.commits[0].operations) == {A}
    wrong = Choices(keys={N: Choice("NORMAL", None)})
    assert [
        one.key for one in only(merge(history, "t", "s", wrong, merge_rules=CATALOG)).conflicts
    ] == [N]
