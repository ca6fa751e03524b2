"""A random mix of operations on files, tables and branches, beside a plain model of them.

The model of a commit is two dictionaries; that of a branch is a commit and the records that are
staged above it. After every step all branches are compared with the model, whole.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TypeVar

import msgspec

from lochan.base.errors import (
    ConditionFailed,
    NothingToCommit,
    PathNotFound,
    StagedWork,
)
from lochan.embedded import Embedded
from lochan.model.commits import Delete, Put
from lochan.model.files import FileChange, FileInfo
from lochan.model.results import Merged
from tests.service.bench import table, where

PATHS = ("a", "a/1", "a/2", "b/1", "b/2", "c")
TABLES = ("t", "u")
BRANCHES = ("main", "one", "two")

_Value = TypeVar("_Value", bytes, str)
Staged = dict[str, bytes | None]


class Snapshot(msgspec.Struct, frozen=True):
    """The content of a commit."""

    files: dict[str, bytes]
    tables: dict[str, str]


class Branch(msgspec.Struct):
    """A branch: its head, and records above it; None is a deletion.

    `cleared` are paths that were reset since something was staged there; it decides nothing.
    """

    head: str
    staged: Staged
    cleared: set[str] = msgspec.field(default_factory=set)


class FileWalk:
    """One repository and its model, moved about at random."""

    def __init__(self, repository: Embedded, seed: int) -> None:
        self.repository = repository
        self.files = repository.files
        self.random = Random(seed)
        self.done: dict[str, int] = {}
        self.written = 0
        self.commits: dict[str, Snapshot] = {}
        self.parents: dict[str, str] = {}
        first = Put(key=("t",), content=table("first"))
        head = repository.commits.commit("main", "first", [first]).hash
        self.commits[head] = Snapshot({}, {"t": "first"})
        self.branches = {"main": Branch(head, {})}

    def step(self) -> None:
        """Does one thing, in the repository and in the model, and compares both."""
        steps: tuple[Callable[[str], str], ...] = (
            *(self.put,) * 5,
            *(self.delete, self.copy, self.conditional) * 2,
            *(self.commit, self.commit_both) * 2,
            *(self.commit_table, self.merge, self.merge, self.revert, self.reset, self.reset),
            *(self.hard_reset, self.branch, self.drop),
        )
        step = self.random.choice(steps)
        outcome = step(self.random.choice(list(self.branches)))
        name = f"{step.__name__} {outcome}"
        self.done[name] = self.done.get(name, 0) + 1
        self.compare()

    def compare(self) -> None:
        """Compares all that every branch shows with the model."""
        for name, branch in self.branches.items():
            shown = self.shown(branch)
            listed = [one for one in self.files.iterate(name) if isinstance(one, FileInfo)]
            assert [one.path for one in listed] == sorted(shown), name
            read = {one.path: self.files.read(name, one.path) for one in listed}
            assert read == shown, name
            head = self.commits[branch.head].files
            changes = list(self.files.iterate_uncommitted(name))
            differing = [path for path in PATHS if shown.get(path) != head.get(path)]
            paths = [one.path for one in changes if isinstance(one, FileChange)]
            assert paths == differing, name
            entries = self.repository.contents.entries(name, with_content=True).items
            tables = {one.key[0]: where(one.content) for one in entries}
            assert tables == self.commits[branch.head].tables, name
            assert self.repository.references.get(name).hash == branch.head

    def shown(self, branch: Branch) -> dict[str, bytes]:
        found = {**self.commits[branch.head].files, **branch.staged}
        return {path: data for path, data in found.items() if data is not None}

    def new_bytes(self) -> bytes:
        self.written += 1
        return b"%d" % (self.written % 7)

    def put(self, name: str) -> str:
        path, data = self.random.choice(PATHS), self.new_bytes()
        self.files.put(name, path, data)
        self.branches[name].staged[path] = data
        return "done"

    def delete(self, name: str) -> str:
        path, branch = self.random.choice(PATHS), self.branches[name]
        there = path in self.shown(branch)
        assert self.files.delete(name, path) == there
        if there:
            branch.staged[path] = None
        return "done" if there else "absent"

    def copy(self, name: str) -> str:
        source, path = self.random.choice(list(self.branches)), self.random.choice(PATHS)
        data = self.shown(self.branches[source]).get(path)
        to = self.random.choice(PATHS)
        try:
            self.files.copy(name, to, path, source=source)
        except PathNotFound:
            assert data is None
            return "absent"
        assert data is not None
        self.branches[name].staged[to] = data
        return "done"

    def conditional(self, name: str) -> str:
        path, data, branch = self.random.choice(PATHS), self.new_bytes(), self.branches[name]
        there = path in self.shown(branch)
        try:
            self.files.put(name, path, data, if_absent=True)
        except ConditionFailed:
            assert there
            return "refused"
        assert not there
        branch.staged[path] = data
        return "done"

    def commit(self, name: str) -> str:
        branch = self.branches[name]
        files = self.shown(branch)
        same = files == self.commits[branch.head].files
        try:
            made = self.files.commit(name, "files").hash
        except NothingToCommit:
            assert same
            branch.staged.clear()
            return "nothing"
        assert not same
        branch.staged.clear()
        self.move(branch, made, Snapshot(files, self.commits[branch.head].tables))
        return "done"

    def commit_both(self, name: str) -> str:
        branch = self.branches[name]
        files, tables = self.shown(branch), dict(self.commits[branch.head].tables)
        operation = self.table_operation(tables, name)
        made = self.files.commit(name, "both", [operation]).hash
        branch.staged.clear()
        self.move(branch, made, Snapshot(files, tables))
        return "done"

    def commit_table(self, name: str) -> str:
        branch = self.branches[name]
        before = self.commits[branch.head]
        tables = dict(before.tables)
        operation = self.table_operation(tables, name)
        made = self.repository.commits.commit(name, "table", [operation]).hash
        self.move(branch, made, Snapshot(before.files, tables))
        return "done"

    def table_operation(self, tables: dict[str, str], name: str) -> Put | Delete:
        key = self.random.choice(TABLES)
        if key in tables and self.random.random() < 0.3:
            del tables[key]
            return Delete(key=(key,))
        self.written += 1
        location = f"{key}{self.written}"
        content = table(location)
        if key in tables:
            present, _ = self.repository.contents.get(name, (key,))
            content = msgspec.structs.replace(content, id=present.id)
        tables[key] = location
        return Put(key=(key,), content=content)

    def move(self, branch: Branch, made: str, after: Snapshot) -> None:
        self.parents[made] = branch.head
        self.commits[made] = after
        branch.head = made

    def merge(self, name: str) -> str:
        source = self.random.choice(list(self.branches))
        behaviour = self.random.choice(("NORMAL", "NORMAL", "FORCE", "TAKE_TARGET_ON_CONFLICT"))
        head = self.branches[source].head
        made = self.repository.merges.merge(name, head, default=behaviour, conflicts_as_result=True)
        base = self.commits.get(made.common_ancestor or "", Snapshot({}, {}))
        return self.merged(name, made, base, self.commits[head], behaviour)

    def revert(self, name: str) -> str:
        branch = self.branches[name]
        if branch.head not in self.parents:
            return "nothing"
        undone, before = branch.head, self.parents[branch.head]
        made = self.repository.merges.revert(name, [undone], conflicts_as_result=True)
        return self.merged(name, made, self.commits[undone], self.commits[before], "NORMAL")

    def merged(
        self, name: str, made: Merged, base: Snapshot, source: Snapshot, behaviour: str
    ) -> str:
        """Applies the changes from a base to a source, or finds the conflict that was reported."""
        branch = self.branches[name]
        target = self.commits[branch.head]
        files = combined(base.files, source.files, target.files, behaviour)
        tables = combined(base.tables, source.tables, target.tables, behaviour)
        is_conflict = files is None or tables is None
        if files is not None and tables is not None:
            changed = {path for path in PATHS if files.get(path) != target.files.get(path)}
            if made.applied and branch.cleared.intersection(changed).difference(branch.staged):
                self.done["merge over a reset"] = self.done.get("merge over a reset", 0) + 1
            is_conflict = any(
                path in branch.staged and branch.staged[path] != files.get(path) for path in changed
            )
        if not made.successful:
            assert is_conflict, made
            return "conflict"
        assert not is_conflict, made
        assert files is not None
        assert tables is not None
        if not made.applied:
            assert (files, tables) == (target.files, target.tables)
            return "nothing"
        assert made.hash is not None
        self.move(branch, made.hash, Snapshot(files, tables))
        return "done"

    def reset(self, name: str) -> str:
        branch = self.branches[name]
        how = self.random.choice(("all", "prefix", "path"))
        if how == "all":
            self.files.reset(name)
            branch.staged.clear()
        elif how == "prefix":
            self.files.reset(name, prefix="a/")
            self.clear(branch, [path for path in PATHS if path.startswith("a/")])
        else:
            path = self.random.choice(PATHS)
            self.files.reset(name, path=path)
            self.clear(branch, [path])
        return how

    def clear(self, branch: Branch, paths: list[str]) -> None:
        """Nothing is staged afterwards, whatever the head becomes."""
        for path in paths:
            if path in branch.staged:
                del branch.staged[path]
                branch.cleared.add(path)

    def hard_reset(self, name: str) -> str:
        branch, target = self.branches[name], self.random.choice(list(self.commits))
        clean = self.shown(branch) == self.commits[branch.head].files
        discard = self.random.random() < 0.5
        try:
            self.files.hard_reset(name, target, discard_staged=discard)
        except StagedWork:
            assert not clean
            assert not discard
            return "refused"
        assert clean or discard
        branch.staged.clear()
        branch.head = target
        return "done"

    def branch(self, name: str) -> str:
        new = self.random.choice(BRANCHES)
        if new in self.branches:
            return "there"
        self.repository.references.create(new, name)
        self.branches[new] = Branch(self.branches[name].head, {})
        return "done"

    def drop(self, name: str) -> str:
        if name == "main":
            return "never"
        self.repository.references.delete(name)
        del self.branches[name]
        return "done"


def combined(
    base: dict[str, _Value],
    source: dict[str, _Value],
    target: dict[str, _Value],
    behaviour: str,
) -> dict[str, _Value] | None:
    """Merges one universe key by key; None if there is a conflict."""
    merged = dict(target)
    for key in {*base, *source}:
        before, after, mine = base.get(key), source.get(key), target.get(key)
        if before == after or mine == after:
            continue
        if mine != before and behaviour != "FORCE":
            if behaviour == "NORMAL":
                return None
            continue
        if after is None:
            merged.pop(key, None)
        else:
            merged[key] = after
    return merged
