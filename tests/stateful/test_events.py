"""Random mixes of all operations against a model of what must be reported, in both modes."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from lochan.base.errors import LochanError
from lochan.embedded import Embedded
from lochan.events.subscribers import DeliveryOptions
from lochan.model import events
from lochan.model.commits import Delete, Operation, Put
from lochan.model.events import Event
from lochan.model.files import FileInfo
from tests.events.collector import Collector, collected
from tests.events.replayed import (
    all_names,
    changes,
    context_of,
    delivered,
    events_of,
    ids_by_name,
)
from tests.profile import counted
from tests.service.bench import table

OPERATIONS = counted(2_000, 22_400)
SEEDS = 4
KEYS = [f"k{number}" for number in range(6)]
BRANCHES = ["main", "b1", "b2", "b3"]

Fact = tuple[Any, ...]


class Walk:
    """Draws operations and lists the events that each must raise."""

    def __init__(self, repository: Embedded, seed: int) -> None:
        self.repository = repository
        self.draw = random.Random(seed)
        self.expected: Counter[Fact] = Counter()
        self.states: dict[str, dict[str, str]] = {}
        self.done: Counter[str] = Counter()
        self.number = 0

    def step(self) -> None:
        kinds = [
            *("commit", "commit", "commit", "files", "merge", "replay", "transplant", "revert"),
            *(
                "assign",
                "reset",
                "rebase",
                "forward",
                "force",
                "create",
                "delete",
                "dry_run",
                "tag",
            ),
        ]
        kind = self.draw.choice(kinds)
        self.number += 1
        try:
            getattr(self, kind)()
        except LochanError:
            self.done["refused"] += 1
        else:
            self.done[kind] += 1

    def branch(self) -> str:
        return self.draw.choice([name for name in BRANCHES if name in self.heads()])

    def heads(self) -> dict[str, str]:
        return {str(one.name): one.hash for one in self.repository.references.iterate() if one.name}

    def state(self, commit: str) -> dict[str, str]:
        """Returns what a commit contains, read as a listing."""
        if commit not in self.states:
            spec = f"@{commit}"
            found = self.repository.contents.iterate(spec, with_content=True)
            tables = {"t/" + one.key[0]: repr(one.content) for one in found}
            listed = self.repository.files.iterate(spec)
            infos = [one for one in listed if isinstance(one, FileInfo)]
            files = {"f/" + one.path: one.sha256 for one in infos}
            self.states[commit] = tables | files
        return self.states[commit]

    def changed(self, branch: str, before: str, after: str) -> None:
        """Expects the events of the keys that differ between two commits."""
        old, new = self.state(before), self.state(after)
        for key in old.keys() | new.keys():
            if old.get(key) != new.get(key):
                kind = "REMOVED" if key not in new else "STORED"
                name = f"{'CONTENT' if key.startswith('t/') else 'FILE'}_{kind}"
                self.expected[name, branch, after, key[2:]] += 1

    def moved(self, type_name: str, branch: str, before: str) -> None:
        after = self.heads()[branch]
        if after != before:
            self.expected[type_name, branch, before, after] += 1
            if type_name != "REFERENCE_UPDATED":
                self.changed(branch, before, after)

    def commit(self) -> None:
        branch = self.branch()
        before = self.heads()[branch]
        operations: list[Operation] = []
        for key in self.draw.sample(KEYS, self.draw.randint(1, 3)):
            if "t/" + key in self.state(before):
                operations.append(Delete(key=(key,)))
            else:
                operations.append(Put(key=(key,), content=table(f"{key}-{self.number}")))
        self.repository.commits.commit(branch, "commit", operations)
        self.moved("COMMIT", branch, before)

    def files(self) -> None:
        branch = self.branch()
        before = self.heads()[branch]
        self.repository.files.put(branch, self.draw.choice("xyz"), b"%d" % self.draw.randint(0, 9))
        self.repository.files.commit(branch, "files")
        self.moved("COMMIT", branch, before)

    def merge(self, *, squash: bool = True) -> None:
        branch, source = self.branch(), self.branch()
        before = self.heads()[branch]
        self.repository.merges.merge(branch, source, default="FORCE", squash=squash)
        self.moved("MERGE", branch, before)

    def replay(self) -> None:
        self.merge(squash=False)

    def transplant(self) -> None:
        branch, source = self.branch(), self.branch()
        before = self.heads()[branch]
        log = self.repository.history.log(source, self.draw.randint(1, 3)).items
        hashes = [str(entry.meta.hash) for entry in reversed(log)]
        self.repository.merges.transplant(branch, source, hashes, default="FORCE")
        self.moved("TRANSPLANT", branch, before)

    def revert(self) -> None:
        branch = self.branch()
        before = self.heads()[branch]
        self.repository.merges.revert(branch, [before])
        self.moved("COMMIT", branch, before)

    def assign(self) -> None:
        branch, source = self.branch(), self.branch()
        before = self.heads()[branch]
        self.repository.references.assign(branch, source)
        self.moved("REFERENCE_UPDATED", branch, before)

    def reset(self) -> None:
        branch, source = self.branch(), self.branch()
        before = self.heads()[branch]
        self.repository.files.hard_reset(branch, source)
        self.moved("REFERENCE_UPDATED", branch, before)

    def rebase(self) -> None:
        branch, source = self.branch(), self.branch()
        before = self.heads()[branch]
        self.repository.merges.rebase(branch, source, default="FORCE")
        self.moved("REFERENCE_UPDATED", branch, before)

    def forward(self) -> None:
        branch, source = self.branch(), self.branch()
        before = self.heads()[branch]
        self.repository.merges.fast_forward(branch, source)
        self.moved("MERGE", branch, before)

    def force(self) -> None:
        branch, source = self.branch(), self.branch()
        before = self.heads()[branch]
        self.repository.merges.force(branch, source)
        self.moved("MERGE", branch, before)

    def create(self) -> None:
        name, source = self.draw.choice(BRANCHES), self.branch()
        made = self.repository.references.create(name, source)
        self.expected["REFERENCE_CREATED", name, made.hash] += 1

    def delete(self) -> None:
        name = self.branch()
        before = self.heads()[name]
        self.repository.references.delete(name)
        self.expected["REFERENCE_DELETED", name, before] += 1

    def tag(self) -> None:
        made = self.repository.references.create(f"t{self.number}", self.branch(), kind="TAG")
        self.expected["REFERENCE_CREATED", made.name, made.hash] += 1

    def dry_run(self) -> None:
        self.repository.merges.merge(self.branch(), self.branch(), default="FORCE", dry_run=True)


def fact_of(event: Event) -> Fact:
    name = event.reference.name
    if isinstance(event, events.ReferenceCreated):
        return event.type, name, event.hash_after
    if isinstance(event, events.ReferenceDeleted):
        return event.type, name, event.hash_before
    if isinstance(event, events.ContentStored | events.ContentRemoved):
        return event.type, name, event.hash, event.key[0]
    if isinstance(event, events.FileStored | events.FileRemoved):
        return event.type, name, event.hash, event.path
    assert isinstance(
        event,
        events.CommitMade | events.MergeMade | events.TransplantMade | events.ReferenceUpdated,
    )
    return event.type, name, event.hash_before, event.hash_after


@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_events_are_those_that_a_model_lists(seed, record_property):
    collector = Collector()
    durable = Collector(options=DeliveryOptions(cursor="model"))
    with collected(collector, durable) as repository:
        walk = Walk(repository, seed)
        walk.expected["REFERENCE_CREATED", "main", walk.heads()["main"]] += 1
        for _ in range(OPERATIONS // SEEDS):
            walk.step()
        delivered(repository)
        context = context_of(repository)
        again = [each for name in all_names(context) for each in events_of(changes(context, name))]
    for got in (collector.events, durable.events):
        assert Counter(map(fact_of, got)) == walk.expected
        assert ids_by_name(again) == ids_by_name(got)
        assert len({event.id for event in got}) == len(got)
    done = {kind for kind, count in walk.done.items() if count > 3}
    assert {"commit", "files", "merge", "transplant", "assign", "force", "create"} <= done
    record_property(
        "counted",
        f"events of a model: {sum(walk.done.values())} operations, {walk.done['refused']} of them "
        f"refused, {len(durable.events)} events in each mode",
    )
