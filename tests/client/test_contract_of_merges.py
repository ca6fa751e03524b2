"""What every catalog promises of merges and their family."""

from __future__ import annotations

from typing import Any

import pytest

from lochan.base.errors import KeysConflict, LochanError
from lochan.client import KeyResolution
from tests.client.test_contract import ITEMS, ORDERS, conflicts_of, messages, put, table, version_of


def diverged(catalog: Any) -> None:
    """`main` and `dev` both changed the orders; `dev` has items of its own."""
    put(catalog, "main", ORDERS, 1)
    catalog.references.create("dev")
    put(catalog, "dev", ORDERS, 20)
    put(catalog, "dev", ITEMS, 1)
    put(catalog, "main", ORDERS, 10)


def test_a_merge_brings_everything_or_reports_all_conflicts(catalog):
    diverged(catalog)
    with pytest.raises(KeysConflict) as refusal:
        catalog.merges.merge("main", "dev")
    (conflict,) = conflicts_of(refusal)
    assert conflict.key == ORDERS
    assert (conflict.base.snapshot_id, conflict.source.snapshot_id) == (1, 20)
    assert conflict.target.snapshot_id == 10
    tried = catalog.merges.merge("main", "dev", conflicts_as_result=True)
    assert (tried.applied, tried.successful) == (False, False)
    assert [one.key for one in tried.keys if one.conflict is not None] == [ORDERS]
    assert version_of(catalog, "main", ITEMS) is None


@pytest.mark.parametrize(("behaviour", "version"), [("FORCE", 20), ("DROP", 10)])
def test_a_merge_treats_a_key_as_requested(catalog, behaviour, version):
    diverged(catalog)
    done = catalog.merges.merge(
        "main", "dev", "both", keys={ORDERS: KeyResolution(behaviour=behaviour)}
    )
    assert (done.applied, done.successful, done.branch) == (True, True, "main")
    assert done.hash == catalog.references.get("main").hash
    assert (version_of(catalog, "main", ORDERS), version_of(catalog, "main", ITEMS)) == (version, 1)
    assert messages(catalog, "main")[0] == "both"


def test_a_merge_takes_a_resolution(catalog):
    diverged(catalog)
    target, _ = catalog.contents.get("main", ORDERS)
    resolved = table(99, target.id)
    resolution = KeyResolution(expected_target=target, resolved=resolved)
    catalog.merges.merge("main", "dev", keys={ORDERS: resolution})
    assert version_of(catalog, "main", ORDERS) == 99


def test_a_resolution_may_expect_nothing_and_leave_nothing(catalog):
    """The same embedded and over HTTP, where a null content is ignored."""
    diverged(catalog)
    target, _ = catalog.contents.get("main", ORDERS)
    gone = KeyResolution(expected_target=target, resolved=None)
    free = KeyResolution(expected_target=None, resolved=table(77))
    catalog.merges.merge("main", "dev", keys={ORDERS: gone, ITEMS: free})
    assert version_of(catalog, "main", ORDERS) is None
    assert version_of(catalog, "main", ITEMS) == 77


def test_a_target_that_was_expected_to_hold_nothing_is_a_conflict(catalog):
    diverged(catalog)
    with pytest.raises(KeysConflict) as refusal:
        catalog.merges.merge("main", "dev", keys={ORDERS: KeyResolution(expected_target=None)})
    assert [one.key for one in conflicts_of(refusal)] == [ORDERS]


def test_a_dry_run_writes_nothing(catalog):
    diverged(catalog)
    before = catalog.references.get("main").hash
    tried = catalog.merges.merge("main", "dev", default="FORCE", dry_run=True)
    assert (tried.applied, tried.successful) == (False, True)
    assert catalog.references.get("main").hash == before


def test_commits_are_transplanted_and_picked(catalog):
    put(catalog, "main", ("base",), 1)
    catalog.references.create("dev")
    hashes = [put(catalog, "dev", (f"t{number}",), number) for number in range(1, 5)]
    catalog.merges.transplant("main", "dev", hashes[:1])
    assert messages(catalog, "main")[0] == "t1 1"
    catalog.merges.cherry_pick("main", [hashes[3]])
    assert version_of(catalog, "main", ("t4",)) == 4
    catalog.merges.cherry_pick("main", [f"{hashes[0]}..{hashes[2]}"])
    assert messages(catalog, "main")[:2] == ["t3 3", "t2 2"]
    squashed = catalog.references.create("squashed", "main@" + catalog.references.get().hash + "~4")
    done = catalog.merges.transplant("squashed", "dev", hashes, "all in one", squash=True)
    assert done.applied
    assert messages(catalog, "squashed")[0].startswith("all in one")
    assert squashed.hash == catalog.history.log("squashed", 2).items[1].meta.hash


def test_a_revert_undoes_a_commit(catalog):
    put(catalog, "main", ORDERS, 1)
    wrong = put(catalog, "main", ORDERS, 2)
    put(catalog, "main", ITEMS, 1)
    done = catalog.merges.revert("main", [wrong])
    assert done.applied
    assert (version_of(catalog, "main", ORDERS), version_of(catalog, "main", ITEMS)) == (1, 1)
    put(catalog, "main", ORDERS, 3)
    with pytest.raises(KeysConflict):
        catalog.merges.revert("main", [wrong])


def test_a_rebase_makes_own_commits_again_on_top(catalog):
    put(catalog, "main", ORDERS, 1)
    catalog.references.create("dev")
    put(catalog, "dev", ITEMS, 1)
    put(catalog, "main", ORDERS, 2)
    done = catalog.merges.rebase("dev", "main")
    assert done.applied
    assert messages(catalog, "dev") == ["items 1", "orders 2", "orders 1"]


def test_a_branch_is_moved_ahead_or_by_force(catalog):
    put(catalog, "main", ORDERS, 1)
    catalog.references.create("dev")
    ahead = put(catalog, "dev", ITEMS, 1)
    assert catalog.merges.fast_forward("main", "dev").hash == ahead
    back = put(catalog, "main", ORDERS, 2)
    put(catalog, "dev", ITEMS, 2)
    with pytest.raises(LochanError):
        catalog.merges.fast_forward("main", "dev")
    assert catalog.references.get("main").hash == back
    catalog.merges.force("main", "dev")
    assert catalog.references.get("main").hash == catalog.references.get("dev").hash


def test_a_branch_is_moved_and_rebased_to_a_commit_that_is_named_by_its_hash_alone(catalog):
    """A hash may begin with a digit or with a letter; a name begins with a letter."""
    hashes = [put(catalog, "main", ORDERS, version) for version in range(1, 13)]
    catalog.references.create("side", hashes[0])
    for commit in hashes[1:]:
        assert catalog.merges.fast_forward("side", commit).hash == commit
    for commit in hashes:
        assert catalog.merges.force("side", commit).hash == commit
        assert catalog.merges.rebase("side", commit).hash == commit
