"""Random histories of files whose key packs come, go and are damaged, and a plain search of them.

Shared by the tests of logs by path; holds no test of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from random import Random
from typing import Any

from lochan.base.errors import Conflict, Invalid, NothingToCommit, StagedWork
from lochan.kv.store import Entry, Kind, Partition, Store, partition
from lochan.model.commits import CommitMeta
from lochan.model.requests import RevertRequest, TransplantRequest
from lochan.model.specs import ReferenceSpec, parse_spec
from lochan.persist.rows import scan_all
from tests.service.bench import ME, Bench, new

PATHS = ("a", "a/1", "a/1/x", "a/2", "ab", "b", "b/1", "c")
PREFIXES = ("", "a", "a/", "a/1", "b", "c/", "zz")
BRANCHES = ("main", "side", "third")
REFUSALS = (Conflict, Invalid, NothingToCommit, StagedWork)

Tree = dict[str, bytes]


def pack_rows(bench: Bench) -> Iterator[tuple[Partition, Entry]]:
    """All key packs that are stored."""
    base = partition(bench.repository.context.instance, Kind.KEY_PACKS)
    for first in range(256):
        place = Partition(base + bytes((first,)))
        for entry in scan_all(bench.store, place):
            yield place, entry


class KeyLogWorld:
    """One repository, and what a plain search needs of it: the files of each commit."""

    def __init__(self, seed: int, store: Store | None = None) -> None:
        self.pick = Random(seed)
        self.bench = Bench(store, seed=seed, key_pack_commits=self.pick.choice((2, 3, 4, 7)))
        self.bench.put(PATHS[0], b"0")
        self.bench.commit_files("main", "first")
        self.bench.branch("side")
        self.bench.branch("third")
        self._trees: dict[str, Tree] = {}
        self._tables = 0

    def step(self) -> None:
        """Changes a branch in a random way; a refusal is fine."""
        does: Sequence[Any] = (self.put_some, self.chain, self.carry, self.undo, self.move)
        (do,) = self.pick.choices(does, (8, 2, 3, 2, 1))
        with suppress(*REFUSALS):
            do(self.pick.choice(BRANCHES))

    def put_some(self, branch: str) -> None:
        pick = self.pick
        for path in pick.sample(PATHS, pick.choice((1, 1, 2, 5))):
            if pick.random() < 0.3:
                self.bench.files.delete(ME, branch, path)
            else:
                self.bench.put(path, pick.choice((b"1", b"2")), branch)
        self.bench.commit_files(branch, "files")

    def chain(self, branch: str) -> None:
        """Some commits of tables by one write."""
        writes = []
        for _ in range(self.pick.randrange(1, 6)):
            self._tables += 1
            put = new(f"t{self._tables}")
            writes.append(
                self.bench.commits.commit(ME, branch, None, CommitMeta(message="table"), [put])
            )
        self.bench.run_together(*writes)

    def carry(self, branch: str) -> None:
        source = self.pick.choice(BRANCHES)
        if self.pick.random() < 0.7:
            self.bench.merge(source, branch, default="FORCE", squash=self.pick.random() < 0.5)
            return
        picked = ReferenceSpec(None, self.pick.choice(self.line(source)))
        ask = TransplantRequest(
            branch=branch, expected=None, source=source, hashes=(picked,), default="FORCE"
        )
        self.bench.run(self.bench.merges.cherry_pick(ME, ask))

    def undo(self, branch: str) -> None:
        undone = ReferenceSpec(None, self.pick.choice(self.line(branch)[:3]))
        ask = RevertRequest(branch=branch, expected=None, hashes=(undone,))
        self.bench.run(self.bench.merges.revert(ME, ask))

    def move(self, branch: str) -> None:
        """A reset to an older commit, or to a commit of another branch."""
        target = parse_spec(self.pick.choice(self.line(self.pick.choice(BRANCHES))[:4]))
        self.bench.repository.resets.hard_reset(ME, branch, target, discard_staged=True)
        self.bench._publishers.clear()

    def disturb(self) -> None:
        """Builds packs, removes one, or damages one."""
        pick = self.pick
        if pick.random() < 0.6:
            self.bench.repository.context.key_packs.build_due(pick.randrange(1, 9))
        stored = [one for one in pack_rows(self.bench) if one[1].value]
        if stored and pick.random() < 0.3:
            place, entry = pick.choice(stored)
            raw = bytearray(entry.value)
            raw[pick.randrange(len(raw))] ^= 1 << pick.randrange(8)
            damages = (bytes(raw), b"", entry.value[: pick.randrange(len(raw))], b"\x90nothing")
            if pick.random() < 0.3:
                self.bench.store.delete(place, entry.key)
            else:
                self.bench.store.put_many([(place, entry.key, pick.choice(damages))])

    def line(self, branch: str) -> list[str]:
        """A branch's commits along first parents, newest first."""
        return [entry.meta.hash or "" for entry in self.bench.log(branch)]

    def expected(
        self, branch: str, paths: Sequence[str], prefixes: Sequence[str], last: str | None
    ) -> list[str]:
        """The plain search: commits whose files differ from those of their first parent."""
        line = self.line(branch)
        found = []
        for commit, parent in zip(line, [*line[1:], None], strict=True):
            before, after = self.tree(parent), self.tree(commit)
            differing = [path for path in PATHS if before.get(path) != after.get(path)]
            if any(path in paths or path.startswith(tuple(prefixes)) for path in differing):
                found.append(commit)
            if commit == last:
                break
        return found

    def tree(self, commit: str | None) -> Tree:
        if commit is None:
            return {}
        if commit not in self._trees:
            self._trees[commit] = self.bench.tree(commit)
        return self._trees[commit]

    def search(self) -> tuple[list[str], list[str]]:
        """A random log by pages, each of a warm or a cold server; and what the plain search has."""
        pick = self.pick
        branch = pick.choice(BRANCHES)
        paths = pick.sample(PATHS, pick.randrange(3))
        prefixes = pick.sample(PREFIXES, pick.randrange(0 if paths else 1, 3))
        last = pick.choice(self.line(branch)) if pick.random() < 0.3 else None
        expected = self.expected(branch, paths, prefixes, last)
        found: list[str] = []
        token = None
        for _ in range(1_000):
            server = pick.choice((self.bench, self.bench.again()))
            page = server.repository.file_history.log(
                ME,
                parse_spec(branch),
                paths,
                prefixes,
                pick.randrange(1, 5),
                token,
                limit_hash=None if last is None else parse_spec(last),
            )
            found += [entry.meta.hash or "" for entry in page.items]
            token = page.token
            if token is None:
                return found, expected
            if pick.random() < 0.3:
                # Another server has found packs missing.
                server.repository.context.key_packs.build_due()
                self.disturb()
        raise AssertionError("the log has no end")
