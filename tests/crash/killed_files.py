"""Clients that stage and commit files on a server that is killed under them, and what is left then.

Every path belongs to one client, which writes one thing after the other; every write has a value of
its own, from which its bytes follow. So what a path may hold after a kill is known: its last write
that was acknowledged, or a later one whose outcome is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from hashlib import sha256
from random import Random
from threading import Lock, Thread
from typing import Any

import msgspec

from lochan.base.errors import LochanError, NothingToCommit, Unknown
from lochan.client import Client
from lochan.model.files import FileChange, FileInfo

BRANCH = "main"

# Larger than what is kept in the store itself, so that it is a block of the place for objects.
LARGE = 20_000


def body_of(value: str) -> bytes:
    """Returns the bytes of a write; one in ten is large."""
    size = LARGE + len(value) if value.endswith("0") else 30
    return f"{value} ".encode() * (1 + size // (len(value) + 1))


class Write(msgspec.Struct):
    """One write: its value, None for a deletion, and its outcome."""

    value: str | None
    outcome: str = "unknown"


class FileJournal:
    """What clients have written and committed, and what they were told."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.paths: dict[str, list[Write]] = {}
        self.commits: dict[str, str] = {}
        self.acknowledged = 0
        self.failures: list[BaseException] = []

    def begin(self, path: str, value: str | None) -> Write:
        write = Write(value)
        with self.lock:
            self.paths.setdefault(path, []).append(write)
        return write

    def settle(self, write: Write, outcome: str) -> None:
        with self.lock:
            write.outcome = outcome
            self.acknowledged += outcome == "acknowledged"

    def counts(self) -> dict[str, int]:
        found = {"acknowledged": 0, "unknown": 0, "refused": 0}
        for writes in self.paths.values():
            for write in writes:
                found[write.outcome] += 1
        return found


class Life:
    """The clients of one life of the server."""

    def __init__(
        self, journal: FileJournal, number: int, enough: int, kill: Callable[[], None]
    ) -> None:
        self.journal = journal
        self.number = number
        self._wanted = journal.acknowledged + enough
        self._kill = kill
        self._lock = Lock()
        self.over = False

    def end_if_enough(self) -> None:
        """Kills the server when enough was acknowledged, with the requests of others under way."""
        with self._lock:
            if self.over or self.journal.acknowledged < self._wanted:
                return
            self.over = True
            self._kill()

    def run(self, url: str, writers: int, seed: int) -> None:
        """Returns when every client has lost the server."""
        with ExitStack() as stack:
            opened = [stack.enter_context(Client(url, attempts_max=1)) for _ in range(writers + 2)]
            acts = [self._write] * writers + [self._commit] * 2
            threads = [
                Thread(target=self._guarded, args=(act, client, who, Random(seed * 100 + who)))
                for who, (act, client) in enumerate(zip(acts, opened, strict=True))
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        if self.journal.failures:
            raise self.journal.failures[0]

    def _guarded(self, act: Callable[..., None], *given: Any) -> None:
        try:
            act(*given)
        except LochanError as error:
            if not self.over:
                self.journal.failures.append(error)
                self.over = True
                self._kill()
        except BaseException as error:
            self.journal.failures.append(error)
            self.over = True
            self._kill()

    def _write(self, client: Client, who: int, random: Random) -> None:
        own = f"own/{who}"
        written: list[str] = []
        for number in range(1_000_000):
            value: str | None = f"{self.number}.{who}.{number}"
            path, turn = f"{self.number}/{who}/{number}", random.random()
            if turn < 0.15:
                path = own
            elif turn < 0.25 and written:
                path, value = random.choice(written), None
            write = self.journal.begin(path, value)
            try:
                if value is None:
                    client.files.delete(BRANCH, path)
                else:
                    client.files.put(BRANCH, path, body_of(value), metadata={"w": value})
            except LochanError as error:
                # Only Unknown may have had an effect.
                self.journal.settle(write, "unknown" if isinstance(error, Unknown) else "refused")
                raise
            self.journal.settle(write, "acknowledged")
            if value is not None and path != own:
                written.append(path)
            self.end_if_enough()

    def _commit(self, client: Client, who: int, random: Random) -> None:
        for number in range(1_000_000):
            message = f"life {self.number} client {who} number {number}"
            self.journal.commits[message] = "unknown"
            try:
                made = client.files.commit(BRANCH, message)
            except NothingToCommit:
                self.journal.commits[message] = "refused"
            except LochanError as error:
                unknown = isinstance(error, Unknown)
                self.journal.commits[message] = "unknown" if unknown else "refused"
                raise
            else:
                self.journal.commits[message] = made.hash


class Remains:
    """What the branch says after kills; `look` reads what is new and compares everything."""

    def __init__(self, journal: FileJournal) -> None:
        self._journal = journal
        self._seen = ""
        self._messages: dict[str, str] = {}
        self._changes: dict[str, list[str | None]] = {}

    def look(self, client: Client, random: Random) -> None:
        self._read_history(client)
        self._check_commits()
        shown = {one.path: one for one in client.files.iterate(BRANCH) if isinstance(one, FileInfo)}
        staged = {
            one.path: one
            for one in client.files.iterate_uncommitted(BRANCH)
            if isinstance(one, FileChange)
        }
        assert shown.keys() <= self._journal.paths.keys(), "a file that was never written"
        for path, writes in self._journal.paths.items():
            self._check_path(path, writes, shown.get(path), staged.get(path))
        doubtful = [path for path, writes in self._journal.paths.items() if is_doubtful(writes)]
        large = [path for path, one in shown.items() if one.size >= LARGE]
        looked_at = random.sample(large, min(40, len(large)))
        for path in {*doubtful, *looked_at} & shown.keys():
            value = dict(shown[path].metadata)["w"]
            assert client.files.read(BRANCH, path) == body_of(value), f"{path} is not whole"

    def _read_history(self, client: Client) -> None:
        new: list[tuple[str, str, str]] = []
        for entry in client.history.iterate(BRANCH):
            if entry.meta.hash == self._seen:
                break
            new.append((entry.meta.hash or "", entry.parent, entry.meta.message))
        else:
            assert not self._seen, f"{self._seen} is no longer in the history"
        for commit, parent, message in new[::-1]:
            assert message not in self._messages, f"{message} was committed twice"
            self._messages[message] = commit
            for change in client.files.iterate_diff(f"@{parent}", f"@{commit}"):
                assert isinstance(change, FileChange)
                value = None if change.after is None else dict(change.after.metadata)["w"]
                self._changes.setdefault(change.path, []).append(value)
            self._seen = commit

    def _check_commits(self) -> None:
        told = self._journal.commits
        assert self._messages.keys() <= told.keys(), "a commit that nobody made"
        for message, outcome in told.items():
            if outcome == "refused":
                assert message not in self._messages, f"{message} was refused and is there"
            elif outcome != "unknown":
                assert self._messages.get(message) == outcome, f"{message} is lost"

    def _check_path(
        self, path: str, writes: list[Write], info: FileInfo | None, staged: FileChange | None
    ) -> None:
        value = None if info is None else dict(info.metadata)["w"]
        possible = list(last_values(writes))
        assert value in possible, f"{path} has {value!r}, not one of {possible}"
        if info is not None and value is not None:
            body = body_of(value)
            assert info.size == len(body), f"{path} is not whole"
            assert info.sha256 == sha256(body).hexdigest(), f"{path} is not whole"
        changes = list(self._changes.get(path, ()))
        if staged is not None:
            changes.append(value)
        assert changes[-1:] == [value] or (value is None and not changes), f"{path}: {changes}"
        order = iter(write.value for write in writes if write.outcome != "refused")
        for one in changes:
            # What is left of the iterator is what was written later.
            assert one in order, f"{path}: {one!r} is twice in {changes}, or out of order"


def last_values(writes: list[Write]) -> Iterator[str | None]:
    """Yields what a path may hold: its last acknowledged write, or a later unknown one."""
    for write in reversed(writes):
        if write.outcome == "refused":
            continue
        yield write.value
        if write.outcome == "acknowledged":
            return
    yield None


def is_doubtful(writes: list[Write]) -> bool:
    return any(write.outcome == "unknown" for write in writes)
