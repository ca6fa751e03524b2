"""A stream of changes leaves the tree that a fresh build makes, however it is cut into batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from lochan.base.errors import Invalid, TooLarge
from lochan.base.limits.storage import NODE_RAW_BYTES_CAP
from lochan.index import bulk, recut
from lochan.index.bulk import ChangeBatch, TreeMerge
from lochan.index.node import Change, NewNode
from tests.profile import counted
from tests.property import tree_runs
from tests.property.tree_runs import TreeRun, hard_one_in

RUNS = counted(1, 15)
BATCHES = 25
HARD_ONE_IN = [50_000, 200, 30, 6]
KINDS_OF_TREES = [
    (tree_runs.sequential, tree_runs.varied_values, 3_000),
    (tree_runs.scattered, tree_runs.varied_values, 1_000),
    (tree_runs.shared_prefixes, tree_runs.varied_values, 2_500),
    (tree_runs.nested_prefixes, tree_runs.varied_values, 400),
    (tree_runs.clustered, tree_runs.varied_values, 2_500),
    (tree_runs.long_keys, tree_runs.huge_values, 200),
]


def first_byte_agrees(new: bytes, old: bytes) -> bool:
    """Stands for equal identities of files: the rest may differ."""
    return new[:1] == old[:1]


class StreamRun(TreeRun):
    """Random changes, put into the tree as a stream."""

    def step(self) -> None:
        """Streams one batch of changes and compares with a fresh build."""
        ordered: list[Change] = sorted(self.batch().items())
        wanted = [one for one in ordered if self._has_effect(*one)]
        written: list[NewNode] = []
        seen: list[Change] = []
        merged = TreeMerge(
            self.source,
            self.rule,
            first_byte_agrees,
            written.append,
            lambda keys, values: seen.extend(zip(keys, values, strict=True)),
        )
        self.root = merged.run(self.root, self._pieces(ordered))
        self.stored.keep_all(written)
        self.source.remember(written)
        self.batches += 1
        assert seen == wanted, f"other changes than those with an effect: run {self.number}"
        for key, value in wanted:
            if value is None:
                del self.content[key]
            else:
                self.content[key] = value
        self._compare([new.obj_id for new in written])

    def _has_effect(self, key: bytes, value: bytes | None) -> bool:
        old = self.content.get(key)
        if old is None or value is None:
            return old is not value
        return not first_byte_agrees(value, old)

    def _pieces(self, changes: Sequence[Change]) -> Iterator[ChangeBatch]:
        size = self.random.choice([1, 3, 17, 100, 5_000])
        return (batch_of(changes[at : at + size]) for at in range(0, len(changes), size))


def batch_of(changes: Sequence[Change]) -> ChangeBatch:
    return ChangeBatch([key for key, _ in changes], [value for _, value in changes])


@pytest.mark.parametrize("one_in", HARD_ONE_IN)
@pytest.mark.parametrize(("keys", "values", "first_batch_max"), KINDS_OF_TREES)
def test_every_stream_leaves_the_tree_that_a_fresh_build_makes(
    monkeypatch, keys, values, first_batch_max, one_in
):
    hard_one_in(monkeypatch, one_in)
    for number in range(RUNS):
        run = StreamRun(number, keys, values, first_batch_max)
        for _ in range(BATCHES):
            run.step()


def the_leaf_that_follows_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk._Leaves, "_following", lambda *_: None)


def a_leaf_is_done_with_its_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    right = bulk._Leaves._join

    def join(self, leaf, *rest):
        dropped = right(self, leaf, *rest)
        if self._open is not None:
            self._close(leaf)
        return dropped

    monkeypatch.setattr(bulk._Leaves, "_join", join)


def nothing_old_is_hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    known = bytearray([recut._NOT_EAGER] * len(recut._KNOWN_BY_POSITION))
    monkeypatch.setattr(recut, "_KNOWN_BY_POSITION", known)


def every_leaf_counts_as_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    right = bulk._Leaves._close

    def close(self, leaf):
        leaf.is_clean = True
        right(self, leaf)

    monkeypatch.setattr(bulk._Leaves, "_close", close)


@pytest.mark.parametrize(
    "mutate",
    [
        the_leaf_that_follows_is_not_taken,
        a_leaf_is_done_with_its_batch,
        nothing_old_is_hashed,
        every_leaf_counts_as_clean,
    ],
    ids=lambda mutate: mutate.__name__,
)
def test_a_wrong_merge_is_noticed(monkeypatch, mutate):
    mutate(monkeypatch)
    hard_one_in(monkeypatch, 200)
    with pytest.raises((AssertionError, IndexError, KeyError)):
        run_until_noticed()


def run_until_noticed() -> None:
    for number in range(20):
        run = StreamRun(number, tree_runs.shared_prefixes, tree_runs.varied_values, 1_000)
        for _ in range(BATCHES):
            run.step()


def test_a_stream_out_of_order_or_with_impossible_values_is_refused():
    run = StreamRun(1, tree_runs.sequential, tree_runs.varied_values, 100)
    run.step()
    merged = TreeMerge(run.source, run.rule, first_byte_agrees, lambda _: None, lambda *_: None)
    for batches in ([[(b"tb", b"x"), (b"ta", b"x")]], [[(b"tb", b"x")], [(b"ta", b"x")]]):
        with pytest.raises(Invalid, match="ascending"):
            merged.run(run.root, map(batch_of, batches))
    for value in (b"", bytes(NODE_RAW_BYTES_CAP)):
        with pytest.raises(TooLarge):
            merged.run(run.root, [batch_of([(b"ta", value)])])
