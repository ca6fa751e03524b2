"""The history that many clients have made together, as a plain model of it.

Every commit is its first parent and its changes, it was made by one acknowledged request, and every
acknowledged request has made one. The ref-log of a branch is the order in which all that took
effect; it has no gap. From it and from the times of the requests follows which heads a branch may
have had at a moment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from lochan.model.commits import LogEntry, Put
from lochan.model.files import FileChange, FileInfo
from lochan.testing.models.history import History
from tests.service.bench import where
from tests.stateful.file_crowd import BRANCHES, COMMITTING, Done, Shared, list_of
from tests.stateful.file_timeline import NEVER
from tests.stateful.history_answers import Difference, require

CARRYING = ("merge", "cherry_pick", "revert")
PLAIN_MOVES = ("create", "delete", "reset")

# Of so many commits one is read as a whole.
WHOLE_ONE_IN = 8


class CrowdHistory:
    """Reads the history of a run; `wrong` lists what differs.

    Keys of the model are `("t", name)` for tables and `("f", path)` for files.
    """

    def __init__(self, system: Any, shared: Shared) -> None:
        self.system = system
        self.done = shared.done
        self.history = History(system.config().empty_hash)
        self.entries: dict[str, LogEntry] = {}
        self.moves: dict[str, list[Any]] = {}
        self.heads: dict[str, Heads] = {}
        self.makers: dict[str, Done] = {}
        self.wrong: list[str] = []

    def read_history(self) -> None:
        """Reads all ref-logs and commits, and compares them with what was acknowledged."""
        for name in sorted(set(BRANCHES)):
            self.moves[name] = list(self.system.references.iterate_log(name))[::-1]
        self.read_commits()
        for done in self.done:
            if done.kind in COMMITTING and not done.refused:
                self.look(str(done), partial(self.find_maker, done))
        for name, moves in self.moves.items():
            self.heads[name] = Heads(moves, self.makers)
            self.look(f"ref-log of {name}", partial(self.check_moves, name))

    def look(self, what: str, check: Callable[[], None]) -> None:
        try:
            check()
        except Difference as error:
            self.wrong.append(f"{error}\n    of {what}")

    def read_commits(self) -> None:
        """Reads every commit of a ref-log or of an answer, with its changes of files."""
        waiting = [move.new for moves in self.moves.values() for move in moves]
        waiting += [move.old for moves in self.moves.values() for move in moves if move.old]
        while waiting:
            start = waiting.pop()
            if start in self.entries or start == self.history.empty:
                continue
            for entry in self.system.history.iterate(f"@{start}", fetch_all=True):
                commit = entry.meta.hash or ""
                if commit in self.entries:
                    break
                self.entries[commit] = entry
                waiting += entry.meta.parents[1:]
        for commit in list(self.entries):
            self.add(commit)

    def add(self, commit: str) -> None:
        """Adds a commit to the model, those that it stands on first."""
        path = [commit]
        while path:
            entry = self.entries.get(path[-1])
            if entry is None or path[-1] in self.history:
                path.pop()
                continue
            missing = [one for one in entry.meta.parents if one not in self.history]
            if missing:
                path += missing
                continue
            name = path.pop()
            operations = self.operations(name, entry)
            made = self.history.add(name, entry.meta.parents, operations, entry.meta.message)
            if len(self.history.commits) % WHOLE_ONE_IN == 0:
                self.look(f"commit {name}", partial(self.check_whole, name, made.content))

    def operations(self, name: str, entry: LogEntry) -> dict[Any, Any]:
        found: dict[Any, Any] = {
            ("t", one.key[0]): where(one.content) if isinstance(one, Put) else None
            for one in entry.operations or ()
        }
        page = self.system.files.diff(f"@{entry.parent}", f"@{name}", limit=100)
        assert page.token is None
        for change in page.items:
            assert isinstance(change, FileChange)
            found["f", change.path] = None if change.after is None else value_of(change.after)
        return found

    def check_whole(self, name: str, content: Mapping[Any, Any]) -> None:
        """A commit is its first parent and its changes."""
        files = {("f", one.path): value_of(one) for one in list_of(self.system, f"@{name}")}
        entries = self.system.contents.iterate(f"@{name}", with_content=True)
        tables = {("t", entry.key[0]): where(entry.content) for entry in entries}
        require({**files, **tables} == dict(content), "content of a commit", files, content)

    def find_maker(self, done: Done) -> None:
        commit = done.answer.hash
        if done.kind in CARRYING and not done.answer.applied:
            return
        require(commit in self.entries, "an acknowledged commit is in no ref-log", commit)
        require(commit not in self.makers, "made by two requests", commit)
        self.makers[commit] = done

    def check_moves(self, name: str) -> None:
        """The ref-log has no gap, and each of its entries was made by one request."""
        head: str | None = None
        seen: set[str] = set()
        asked = Counter(
            (done.kind, done.source if done.kind != "drop" else "")
            for done in self.done
            if done.branch == name
            and done.kind in ("create", "drop", "hard_reset")
            and not done.refused
        )
        for move in self.moves[name]:
            require(move.old == head, "gap in the ref-log", name, move, head)
            head = None if move.kind == "delete" else move.new
            if move.kind in PLAIN_MOVES:
                kind = {"delete": "drop", "reset": "hard_reset"}.get(move.kind, move.kind)
                asked[kind, "" if move.kind == "delete" else move.new] -= 1
                continue
            require(move.new not in seen, "a commit is there twice", move)
            seen.add(move.new)
            maker = self.makers.get(move.new)
            require(maker is not None and maker.branch == name, "a commit without a request", move)
        made = {commit for commit, done in self.makers.items() if done.branch == name}
        require(made <= seen, "acknowledged commits are missing", made - seen)
        if name == "main":
            asked["create", self.moves[name][0].new] += 1
        # To move a branch to where it is makes no entry.
        wrong = {
            key: count
            for key, count in asked.items()
            if count < 0 or (count > 0 and key[0] != "hard_reset")
        }
        require(not wrong, "moves and requests differ", wrong)


class Heads:
    """The heads that a branch had, and the times between which each became one."""

    def __init__(self, moves: list[Any], makers: Mapping[str, Done]) -> None:
        self._heads: list[str | None] = [
            None if move.kind == "delete" else move.new for move in moves
        ]
        # A move that was no commit has the bounds of those around it.
        known = [None if move.kind in PLAIN_MOVES else makers.get(move.new) for move in moves]
        self._earliest = [-1 if one is None else one.start for one in known]
        self._latest = [NEVER if one is None else one.end for one in known]
        for at in range(1, len(moves)):
            self._earliest[at] = max(self._earliest[at], self._earliest[at - 1])
        for at in range(len(moves) - 2, -1, -1):
            self._latest[at] = min(self._latest[at], self._latest[at + 1])

    def met(self, start: int, end: int) -> Iterator[str | None]:
        """Yields the heads that the branch may have had then; None for a time without it."""
        count = len(self._heads)
        for at, head in enumerate(self._heads):
            if self._earliest[at] >= end:
                return
            if at + 1 == count or self._latest[at + 1] > start:
                yield head


def value_of(info: FileInfo) -> str:
    return dict(info.metadata)["w"]
