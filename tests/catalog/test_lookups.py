"""Each key of a plan is looked up once on each head, and conflicts are computed once."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from lochan.index import layers
from lochan.kernel import build
from lochan.kernel import plan as plans
from lochan.model.commits import CommitMeta, Delete, Operation, Put, RecordJob
from lochan.model.requests import MergeRequest
from lochan.model.specs import ReferenceSpec, parse_spec
from tests.service.bench import ME, forked, key, new


class Lookups:
    """What was looked up in the indexes of commits: for each index and key how often."""

    def __init__(self) -> None:
        self.keys: Counter[tuple[int, bytes]] = Counter()
        self.bulk = 0
        self.compared = 0
        # Indexes are told apart by identity, so they must live as long as the count.
        self._indexes: list[Any] = []

    def note(self, index: Any, keys: list[bytes]) -> None:
        self.bulk += 1
        self._indexes.append(index)
        self.keys.update((id(index), key) for key in keys)


@pytest.fixture
def lookups(monkeypatch) -> Lookups:
    found = Lookups()
    many, one, both = layers.find_many, layers.find_one, layers.find_in_both
    conflicts = plans.find_conflicts

    def find_many(nodes, index, keys):
        found.note(index, keys)
        return many(nodes, index, keys)

    def find_one(nodes, index, key):
        found.note(index, [key])
        return one(nodes, index, key)

    def find_in_both(nodes, left, right, keys):
        found.note(left, keys)
        found.note(right, keys)
        return both(nodes, left, right, keys)

    def find_conflicts(plan, current):
        found.compared += 1
        return conflicts(plan, current)

    monkeypatch.setattr(build, "find_many", find_many)
    monkeypatch.setattr(build, "find_one", find_one)
    monkeypatch.setattr(build, "find_in_both", find_in_both)
    for module in ("lochan.kernel.build", "lochan.catalog.commit"):
        monkeypatch.setattr(f"{module}.find_conflicts", find_conflicts)
    return found


def test_a_commit_looks_its_keys_up_in_one_bulk_and_compares_once(lookups):
    bench = forked()
    server = bench.again()
    content, _ = bench.contents.get(ME, parse_spec("main"), key("ns.a"))
    does: list[Operation] = [
        Put(key=key("ns.a"), content=content),
        RecordJob(key=key("ns.a"), job="nightly"),
        Delete(key=key("ns.b")),
        new("ns.x"),
        new("ns.y"),
    ]
    head = ReferenceSpec(None, bench.head())
    prepared = server.commits.commit(ME, "main", head, CommitMeta(message="m"), does)
    lookups.keys.clear()
    lookups.bulk = lookups.compared = 0
    server.run(prepared)
    assert max(lookups.keys.values()) == 1
    # The tables, the records of jobs, and the namespaces that new keys need.
    assert lookups.bulk == 3
    assert lookups.compared == 1


@pytest.mark.parametrize("squash", [True, False])
def test_a_merge_looks_each_key_up_once(lookups, squash):
    bench = forked()
    bench.change("ns.b", "main")
    server = bench.again()
    request = MergeRequest(branch="main", expected=None, source=parse_spec("side"), squash=squash)
    prepared = server.merges.merge(ME, request)
    lookups.keys.clear()
    server.run(prepared)
    assert max(lookups.keys.values()) == 1
    assert bench.state()["ns.a"] == "side"
