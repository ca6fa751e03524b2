"""Many clients at once on one repository: every request is recorded with its answer.

A client reads where a branch is, asks for something, and records what it asked for and what it was
answered. It checks nothing: what happened is compared with the model when all clients have ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from random import Random
from threading import Lock, Thread
from typing import Any

import msgspec

from lochan.base.errors import Exhausted, LochanError, NotFound
from lochan.testing.models.catalog import Delete, Held, Name, Operation
from lochan.testing.models.merges import Choice, Choices
from tests.stateful.history_values import (
    SPACES,
    TABLES,
    held,
    new_content,
    put_of,
    to_system,
    wish_of,
)

BRANCHES = ["main", "main", "one", "one", "two", "three"]
BEHAVIOURS = ("NORMAL",) * 5 + ("FORCE",) * 4 + ("TAKE_TARGET_ON_CONFLICT", "DROP")


class Done(msgspec.Struct, kw_only=True):
    """One request and its answer.

    `seen` is where the branch was before the request, `seen_after` where it was after a refusal;
    None if there was no such branch.
    """

    kind: str
    branch: str
    seen: str | None
    answer: Any
    expected: Any = None
    source: Any = None
    """The commit that was named; None if a branch was named."""

    commits: tuple[str, ...] = ()
    operations: Sequence[Operation] = ()
    choices: Choices = msgspec.field(default_factory=Choices)
    message: str = ""
    squash: bool = True
    dry_run: bool = False
    seen_after: str | None = None

    def __str__(self) -> str:
        said = f"expected={self.expected} source={self.source} commits={self.commits}"
        how = f"{self.choices} squash={self.squash} dry_run={self.dry_run}"
        return f"{self.kind} {self.branch} {said} {how} -> {self.answer}"


class Shared:
    """What the clients of one repository know together."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.done: list[Done] = []
        self.commits: list[str] = []
        self.contents: dict[str, dict[Name, Held]] = {}
        self.heads: dict[str, str | None] = {}
        """Where branches were when somebody looked last."""

        self.failures: list[BaseException] = []

    def record(self, done: Done, made: Sequence[str]) -> None:
        with self.lock:
            self.done.append(done)
            self.commits += made


class Proposal:
    """One client and its generator of requests."""

    def __init__(self, system: Any, shared: Shared, seed: int) -> None:
        self.system = system
        self.shared = shared
        self.pick = Random(seed)
        self.number = 0
        self.seed = seed

    def run(self, count: int) -> None:
        """Does so many requests; an error that is none of ours ends it and is kept."""
        try:
            sent = 0
            while sent < count:
                sent += self.step()
        except Exception as error:
            self.shared.failures.append(error)

    def step(self) -> int:
        """Sends one request; returns 0 if there was nothing to ask for."""
        self.number += 1
        kind = self.pick.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        branch = self.pick.choice(BRANCHES)
        if kind in ("force", "assign", "rebase", "delete"):
            branch = self.pick.choice(["two", "three"])
        seen = self.head_lately(branch) if kind in COMMITTING else self.head(branch)
        wanted = getattr(self, kind.replace("-", "_"))(branch, seen)
        if wanted is None:
            return 0
        done, call = wanted
        try:
            done.answer = call()
        except LochanError as error:
            done.answer = error
            if not isinstance(error, Exhausted):
                done.seen_after = self.head(branch)
        made = []
        if not isinstance(done.answer, LochanError) and kind in COMMITTING and not done.dry_run:
            made = [done.answer.hash] if done.answer.hash else []
            self.shared.heads[branch] = done.answer.hash or seen
        self.shared.record(done, made)
        return 1

    def head(self, branch: str) -> str | None:
        found: str | None = None
        with suppress(NotFound):
            found = self.system.references.get(branch).hash
        self.shared.heads[branch] = found
        return found

    def head_lately(self, branch: str) -> str | None:
        """Returns where a branch is, or where it was not long ago."""
        known = self.shared.heads.get(branch)
        return known if known is not None and self.pick.random() < 0.6 else self.head(branch)

    def content(self, commit: str) -> dict[Name, Held]:
        """Returns all that a commit holds; read once for all clients."""
        known = self.shared.contents.get(commit)
        if known is None:
            entries = self.system.contents.iterate(f"@{commit}", with_content=True)
            known = {entry.key: held(entry.content) for entry in entries}
            self.shared.contents[commit] = known
        return known

    def some_commit(self) -> str | None:
        known = self.shared.commits
        return self.pick.choice(known[-40:]) if known else None

    def expected(self, seen: str) -> str:
        """Mostly what was just read, sometimes an older commit, wherever that is."""
        if self.pick.random() < 0.1:
            return self.some_commit() or seen
        return seen

    def text(self) -> str:
        return f"{self.seed}.{self.number}"

    def is_dry(self) -> bool:
        return self.pick.random() < 0.08

    # What follows returns a request, or None if there is nothing to ask for.

    def commit(self, branch: str, seen: str | None) -> Any:
        if seen is None:
            return None
        expected = self.expected(seen)
        operations = self.operations(self.content(expected))
        done = Done(
            kind="commit",
            branch=branch,
            seen=seen,
            answer=None,
            expected=expected,
            operations=operations,
            message=self.text(),
        )
        sent = [to_system(one) for one in operations]
        return done, lambda: self.system.commits.commit(
            branch, done.message, sent, expected=expected
        )

    def operations(self, before: dict[Name, Held]) -> list[Operation]:
        """Puts one or two keys, of few; makes namespaces where they are missing."""
        found: dict[Name, Operation] = {}
        missing = [key for key in SPACES if key not in before]
        for key in missing:
            found[key] = put_of(new_content(self.pick, key), key, None, None)
        for _ in range(self.pick.choice([1, 1, 2])):
            key = self.pick.choice(TABLES)
            there = before.get(key)
            if there is not None and self.pick.random() < 0.15:
                found[key] = Delete(key)
            else:
                content_id = None if there is None else there.content_id
                found[key] = put_of(self.table(there), key, content_id, None)
        return list(found.values())

    def table(self, there: Held | None) -> Any:
        """Makes a content of the type that is there."""
        while True:
            made = new_content(self.pick, ("no namespace",))
            if held(made).type == ("ICEBERG_TABLE" if there is None else there.type):
                return made

    def choices(self, target: str, source: str) -> Choices:
        default = self.pick.choice(BEHAVIOURS)
        if self.pick.random() < 0.85:
            return Choices(default)
        ours, theirs = self.content(target), self.content(source)
        keys = [key for key in {**ours, **theirs} if ours.get(key) != theirs.get(key)]
        if not keys:
            return Choices(default)
        key = self.pick.choice(keys)
        if self.pick.random() < 0.5:
            return Choices(default, {key: Choice(self.pick.choice(BEHAVIOURS))})
        return Choices(default, {key: Choice("NORMAL", ours.get(key), theirs.get(key))})

    def merge(self, branch: str, seen: str | None) -> Any:
        other = self.pick.choice([name for name in BRANCHES if name != branch])
        source = self.head_lately(other)
        if seen is None or source is None:
            return None
        by_name = self.pick.random() < 0.15
        done = Done(
            kind="merge",
            branch=branch,
            seen=seen,
            answer=None,
            expected=self.expected(seen),
            source=None if by_name else source,
            choices=self.choices(seen, source),
            message=self.text(),
            squash=self.pick.random() < 0.6,
            dry_run=self.is_dry(),
        )
        spec = other if by_name else f"@{source}"
        return done, lambda: self.system.merges.merge(
            branch, spec, done.message, squash=done.squash, **self.how(done)
        )

    def how(self, done: Done) -> dict[str, Any]:
        return {
            "expected": done.expected,
            "default": done.choices.default,
            "keys": {key: wish_of(one) for key, one in done.choices.keys.items()},
            "dry_run": done.dry_run,
            "conflicts_as_result": self.pick.random() < 0.7,
        }

    def cherry_pick(self, branch: str, seen: str | None) -> Any:
        picked = [self.some_commit() for _ in range(self.pick.choice([1, 1, 2, 3]))]
        commits = tuple(one for one in picked if one is not None)
        if seen is None or not commits:
            return None
        done = Done(
            kind="cherry-pick",
            branch=branch,
            seen=seen,
            answer=None,
            expected=self.expected(seen),
            commits=commits,
            choices=Choices(self.pick.choice(BEHAVIOURS)),
            message=self.text(),
            squash=self.pick.random() < 0.5,
            dry_run=self.is_dry(),
        )
        return done, lambda: self.system.merges.cherry_pick(
            branch, commits, done.message, squash=done.squash, **self.how(done)
        )

    def transplant(self, branch: str, seen: str | None) -> Any:
        other = self.pick.choice([name for name in BRANCHES if name != branch])
        try:
            page = self.system.history.log(other, self.pick.choice([1, 2, 3]))
        except NotFound:
            return None
        commits = tuple(entry.meta.hash for entry in page.items)[::-1]
        if seen is None or not commits:
            return None
        done = Done(
            kind="transplant",
            branch=branch,
            seen=seen,
            answer=None,
            expected=self.expected(seen),
            commits=commits,
            choices=Choices(self.pick.choice(BEHAVIOURS)),
            message=self.text(),
            squash=self.pick.random() < 0.5,
            dry_run=self.is_dry(),
        )
        return done, lambda: self.system.merges.transplant(
            branch, other, commits, done.message, squash=done.squash, **self.how(done)
        )

    def revert(self, branch: str, seen: str | None) -> Any:
        if seen is None:
            return None
        page = self.system.history.log(f"@{seen}", 4)
        line = [entry.meta.hash for entry in page.items]
        if not line:
            return None
        commits = tuple(self.pick.sample(line, min(len(line), self.pick.choice([1, 1, 2]))))
        done = Done(
            kind="revert",
            branch=branch,
            seen=seen,
            answer=None,
            expected=self.expected(seen),
            commits=commits,
            message=self.text(),
            dry_run=self.is_dry(),
        )
        how = self.how(done)
        return done, lambda: self.system.merges.revert(
            branch,
            commits,
            done.message,
            expected=done.expected,
            dry_run=done.dry_run,
            conflicts_as_result=how["conflicts_as_result"],
        )

    def move(self, kind: str, branch: str, seen: str | None) -> Any:
        """A request that moves a branch to a commit of another, or onto it."""
        other = self.pick.choice([name for name in BRANCHES if name != branch])
        source = self.head(other)
        if seen is None or source is None:
            return None
        done = Done(kind=kind, branch=branch, seen=seen, answer=None, expected=seen, source=source)
        spec = f"@{source}"
        if kind == "assign":
            call = self.system.references.assign
            return done, lambda: call(branch, spec, expected=seen)
        done.dry_run = self.is_dry()
        if kind == "rebase":
            done.choices = Choices(self.pick.choice(BEHAVIOURS))
            return done, lambda: self.system.merges.rebase(
                branch, spec, expected=seen, default=done.choices.default, dry_run=done.dry_run
            )
        call = getattr(self.system.merges, kind.replace("-", "_"))
        return done, lambda: call(branch, spec, expected=seen, dry_run=done.dry_run)

    def rebase(self, branch: str, seen: str | None) -> Any:
        return self.move("rebase", branch, seen)

    def fast_forward(self, branch: str, seen: str | None) -> Any:
        return self.move("fast-forward", branch, seen)

    def force(self, branch: str, seen: str | None) -> Any:
        return self.move("force", branch, seen)

    def assign(self, branch: str, seen: str | None) -> Any:
        return self.move("assign", branch, seen)

    def delete(self, branch: str, seen: str | None) -> Any:
        if seen is None:
            return None
        done = Done(kind="delete", branch=branch, seen=seen, answer=None, expected=seen)
        return done, lambda: self.system.references.delete(branch, expected=seen)

    def create(self, branch: str, seen: str | None) -> Any:
        branch = "three"
        source = self.head(self.pick.choice(["main", "one"]))
        if source is None:
            return None
        done = Done(kind="create", branch=branch, seen=seen, answer=None, source=source)
        return done, lambda: self.system.references.create(branch, f"@{source}")


COMMITTING = {"commit", "merge", "cherry-pick", "transplant", "revert"}
WEIGHTS = {
    "commit": 36,
    "merge": 32,
    "cherry-pick": 6,
    "transplant": 5,
    "revert": 6,
    "rebase": 2,
    "fast-forward": 3,
    "force": 1,
    "assign": 1,
    "delete": 1,
    "create": 3,
}


def prepare(system: Any) -> None:
    """Makes the first commit and the branches."""
    first = Proposal(system, Shared(), 0)
    seen = first.head("main")
    assert seen is not None
    operations = [to_system(one) for one in first.operations({})]
    system.commits.commit("main", "first", operations, expected=seen)
    for name in ("one", "two", "three"):
        system.references.create(name, "main")


def run_crowd(systems: Sequence[Any], seed: int, count: int) -> Shared:
    """Runs one client in each of as many threads until so many requests were sent in all."""
    shared = Shared()
    proposals = [Proposal(one, shared, seed * 1_000 + at) for at, one in enumerate(systems)]
    each = -(-count // len(proposals))
    threads = [Thread(target=proposal.run, args=(each,)) for proposal in proposals]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if shared.failures:
        raise shared.failures[0]
    return shared
