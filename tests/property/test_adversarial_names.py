"""Names chosen to hurt: harmless as long as the seed is not known, and harmful if it is."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from lochan.base.limits.storage import NODE_ELEMENTS_TARGET
from lochan.index.boundary import BoundaryRule
from lochan.index.build import build_tree
from lochan.index.edit import edit_tree
from lochan.index.node import Change
from lochan.index.source import CachedNodes
from lochan.persist.cache import Caches
from lochan.testing.memory_nodes import MemoryNodes

KNOWN = BoundaryRule(b"seed of attacker")
SECRET = BoundaryRule(b"seed of the repo")
ORDINARY = (2**64 // NODE_ELEMENTS_TARGET).to_bytes(8, "big")
EAGER = (8 * 2**64 // NODE_ELEMENTS_TARGET).to_bytes(8, "big")
KEYS = 20_000
EDITS = 2_000
VALUE = bytes(50)


def all_boundaries() -> Iterator[bytes]:
    """Names that each end a node under the known seed."""
    number = 0
    while True:
        number += 1
        name = b"tsales\x01t%08d" % number
        if KNOWN.hash(0, name) < ORDINARY:
            yield name


def no_boundaries() -> Iterator[bytes]:
    """Names of which none ends a node under the known seed, not even where boundaries are eager."""
    number = 0
    while True:
        number += 1
        name = b"tsales\x01t%08d" % number
        if KNOWN.hash(0, name) >= EAGER:
            yield name


def written_per_edit(rule: BoundaryRule, names: Iterator[bytes], edits: int) -> list[int]:
    """Builds a tree of such names, then inserts and deletes single ones at random places."""
    chosen = [next(names) for _ in range(KEYS + edits)]
    random = Random(4)
    random.shuffle(chosen)
    held, spare = chosen[:KEYS], chosen[KEYS:]
    stored = MemoryNodes()
    root = build_tree(rule, 50, ((name, VALUE) for name in sorted(held)), stored.keep)
    source = CachedNodes(stored, Caches(1 << 26))
    written = []
    for _ in range(edits):
        inserts = random.random() < 0.5
        change: Change = (spare.pop(), VALUE) if inserts else (held.pop(), None)
        edited = edit_tree(source, rule, 50, root, [change])
        stored.keep_all(edited.nodes)
        root = edited.root
        written.append(len(edited.nodes))
    return sorted(written)


@pytest.mark.parametrize("names", [all_boundaries, no_boundaries])
def test_names_chosen_against_another_seed_do_no_harm(names):
    written = written_per_edit(SECRET, names(), EDITS)
    p50, p99, worst = written[EDITS // 2], written[EDITS * 99 // 100], written[-1]
    print(f"{names.__name__}: {EDITS} edits write {p50} (p50), {p99} (p99), {worst} (max) nodes")
    assert p99 <= 10
    assert worst <= 20


@pytest.mark.parametrize("names", [all_boundaries, no_boundaries])
def test_the_same_names_do_harm_when_the_seed_is_known(names):
    """What the secret seed protects from; it shows that the test above could fail."""
    written = written_per_edit(KNOWN, names(), 60)
    assert written[len(written) // 2] > 20
