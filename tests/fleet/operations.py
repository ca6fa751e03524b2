"""Clients of one or more servers, and a record of every request with its outcome.

Each client takes the next server after a reply that states an outage, as a load balancer would.
A request is sent once. Its outcome is what the reply states: done, refused (also 503: nothing
happened), or unknown (504, or a connection that broke).

- Table keys, files and own references belong to one client each. After an unknown outcome the
  client leaves that name alone, because the request may still take effect.
- The table `shared` and the references TURNS are changed by all clients.
- Merges and transplants go between all branches, in both directions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from threading import Condition
from time import monotonic_ns
from typing import Any, Final

import msgspec

from lochan.base.errors import (
    Bug,
    Corrupt,
    Exhausted,
    LochanError,
    NotFound,
    Unavailable,
    Unknown,
)
from lochan.model.commits import Put
from tests.fleet.files_record import FileRecord
from tests.linearity.chain import Outcome
from tests.service.bench import table, where

BRANCHES: Final = ("main", "work-0", "work-1")
SHARED: Final = "shared"
TURNS: Final = ("turn-0", "turn-1")
SLOTS: Final = 4
NEVER: Final = float("inf")


class Operation(msgspec.Struct, kw_only=True):
    """One request: `name` is the message of the commit that it makes, "" for a read of the head."""

    kind: str
    branch: str
    name: str = ""
    began: float = 0.0
    settled: float = NEVER
    outcome: Outcome = Outcome.UNKNOWN
    error: str = ""
    reply: str = ""
    expected: str = ""
    source: str = ""
    puts: dict[str, str] = {}

    @property
    def writes(self) -> bool:
        return self.kind != "head"


class Recorded:
    """Everything that the clients of one run have done; safe for threads."""

    def __init__(self) -> None:
        self.changed = Condition()
        self.operations: list[Operation] = []
        self.files: dict[tuple[str, str], FileRecord] = {}
        self.base = ""
        self.acknowledged = 0
        self.outages: dict[int, int] = {}
        """By client: its requests that met an outage."""

        self.writes: dict[int, int] = {}
        """By client: its acknowledged writes."""

        self.wrong: list[str] = []
        self.ending = False

    def note(self, client: int, one: Operation, *, outage: bool) -> None:
        with self.changed:
            self.operations.append(one)
            self.outages[client] = self.outages.get(client, 0) + outage
            if one.outcome is Outcome.ACKNOWLEDGED and one.writes:
                self.acknowledged += 1
                self.writes[client] = self.writes.get(client, 0) + 1
            self.changed.notify_all()

    def fail(self, sentence: str) -> None:
        with self.changed:
            self.wrong.append(sentence)
            self.changed.notify_all()


class FleetClient:
    """One client; `systems` are the servers that it knows."""

    pause_s = 0.2
    """After a request that met an outage."""

    def __init__(self, systems: Sequence[Any], recorded: Recorded, number: int, seed: int) -> None:
        self.systems = systems
        self.recorded = recorded
        self.number = number
        self.pick = Random(seed * 1_000 + number)
        self._at = number % len(systems)
        self._count = 0
        self._spoiled = 0
        self._heads: dict[str, str] = {}
        self._slots: dict[tuple[str, int], tuple[str, str | None]] = {}
        """By branch and slot: the key of a table, and the id of its content."""

        self._paths: dict[tuple[str, int], str] = {}
        self._own: list[tuple[str, str]] = []
        self._unused = ""
        """A commit of this client that no reference was created at."""

    @property
    def system(self) -> Any:
        return self.systems[self._at]

    def run(self) -> None:
        """Sends requests until the run ends; an error of no promised kind is a finding."""
        try:
            while not self.recorded.ending:
                self.step()
        except Exception as error:
            self.recorded.fail(f"client {self.number}: {type(error).__name__}: {error}")

    def step(self) -> None:
        """Sends one request, or a read and the request that follows from it."""
        self._count += 1
        kind = self.pick.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        getattr(self, kind)(self.pick.choice(BRANCHES))

    def attempt(self, one: Operation, call: Callable[[], Any]) -> Any:
        """Sends a request and records its outcome; returns the answer, None if it has none."""
        outage = False
        answer = None
        one.began = monotonic_ns()
        try:
            answer = self.send(one, call)
        except Unknown as error:
            outage, one.error = True, str(error)
        except (Bug, Corrupt) as error:
            self.recorded.fail(f"{one.kind} on {one.branch}: {type(error).__name__}: {error}")
        except LochanError as error:
            outage = isinstance(error, (Unavailable, Exhausted))
            one.outcome, one.error = Outcome.REFUSED, f"{type(error).__name__}: {error}"
            one.settled = monotonic_ns()
        else:
            one.outcome, one.settled = Outcome.ACKNOWLEDGED, monotonic_ns()
            one.reply = getattr(answer, "hash", None) or ""
        self.recorded.note(self.number, one, outage=outage)
        if outage:
            self._at = (self._at + 1) % len(self.systems)
            with self.recorded.changed:
                self.recorded.changed.wait_for(lambda: self.recorded.ending, self.pause_s)
        return answer

    def send(self, one: Operation, call: Callable[[], Any]) -> Any:
        """Sends the request; tests of the checker replace this by what is wrong."""
        del one
        return call()

    def new_name(self) -> str:
        return f"{self.number}.{self._count}"

    # Reads.

    def head(self, branch: str) -> str | None:
        one = Operation(kind="head", branch=branch)
        answer = self.attempt(one, lambda: self.system.references.get(branch))
        if answer is None:
            return None
        self._heads[branch] = answer.hash
        return str(answer.hash)

    # Tables.

    def commit(self, branch: str) -> None:
        """Puts one of the client's own tables."""
        at = (branch, self.pick.randrange(SLOTS))
        key, content_id = self._slots.setdefault(at, (self._fresh(f"t-{branch}"), None))
        one = Operation(kind="commit", branch=branch, name=self.new_name(), puts={})
        one.puts = {key: one.name}
        put = Put(key=(key,), content=table(one.name, content_id))
        answer = self.attempt(one, lambda: self.system.commits.commit(branch, one.name, [put]))
        if answer is not None:
            for added in answer.added:
                self._slots[at] = (key, added.content_id)
            self._unused = one.reply
        elif one.outcome is Outcome.UNKNOWN:
            del self._slots[at]

    def share(self, branch: str) -> None:
        """Puts the table that all share, on the head that the client has read."""
        expected = self.head(branch)
        if expected is None:
            return
        try:
            found = self.system.contents.get(f"@{expected}", (SHARED,))[0]
        except LochanError:
            return
        one = Operation(kind="commit", branch=branch, name=self.new_name(), expected=expected)
        one.puts = {SHARED: one.name}
        put = Put(key=(SHARED,), content=table(one.name, found.id))
        self.attempt(
            one, lambda: self.system.commits.commit(branch, one.name, [put], expected=expected)
        )

    # What carries changes.

    def merge(self, branch: str) -> None:
        source = self._heads.get(self._other(branch)) or self.head(self._other(branch))
        if source is None:
            return
        one = Operation(kind="merge", branch=branch, name=self.new_name(), source=source)
        self._carry(one, lambda: self.system.merges.merge(branch, f"@{source}", one.name))

    def transplant(self, branch: str) -> None:
        other = self._other(branch)
        try:
            entries = self.system.history.log(other, 3).items
        except LochanError:
            return
        source = self.pick.choice([entry.meta.hash for entry in entries])
        one = Operation(kind="transplant", branch=branch, name=self.new_name(), source=source)
        self._carry(one, lambda: self.system.merges.transplant(branch, other, [source], one.name))

    def _carry(self, one: Operation, call: Callable[[], Any]) -> None:
        answer = self.attempt(one, call)
        if answer is not None and not answer.applied:
            # There was nothing to carry: the reply states where the branch was.
            one.kind, one.name, one.reply = "head", "", answer.effective_target

    def _other(self, branch: str) -> str:
        return self.pick.choice([one for one in BRANCHES if one != branch])

    # Files.

    def put_file(self, branch: str) -> None:
        """Stages one of the client's own files."""
        at = (branch, self.pick.randrange(SLOTS))
        path = self._paths.setdefault(at, self._fresh(f"f/{branch}"))
        record = self.recorded.files.setdefault((branch, path), FileRecord())
        one = Operation(kind="file", branch=branch, name=path)
        value = self.new_name()
        record.begin(value)
        body = value.encode()
        self.attempt(one, lambda: self.system.files.put(branch, path, body))
        one.reply = ""
        record.settle(value, one.outcome)
        if one.outcome is Outcome.UNKNOWN:
            del self._paths[at]

    def read_file(self, branch: str) -> None:
        """Reads one of the client's own files: nobody else writes it."""
        known = [path for (name, _), path in self._paths.items() if name == branch]
        if not known:
            return
        path = self.pick.choice(known)
        record = self.recorded.files[branch, path]
        try:
            value = self.system.files.read(branch, path).decode()
        except NotFound:
            value = None
        except LochanError:
            return
        wrong = record.wrong(value)
        if wrong:
            self.recorded.fail(f"{path} on {branch}: {wrong}")

    def commit_files(self, branch: str) -> None:
        one = Operation(kind="files", branch=branch, name=self.new_name())
        self.attempt(one, lambda: self.system.files.commit(branch, one.name))

    # References.

    def create(self, branch: str) -> None:
        """Creates a reference of the client's own."""
        name = f"own-{self.number}-{self._count}"
        source = self._heads.get(branch) or self.recorded.base
        one = Operation(kind="create", branch=name, name=self.new_name(), source=source)
        if self.attempt(one, lambda: self.system.references.create(name, f"@{source}")):
            self._own.append((name, source))

    def drop(self, branch: str) -> None:
        """Deletes a reference of the client's own."""
        if not self._own:
            return
        name, source = self._own.pop(self.pick.randrange(len(self._own)))
        one = Operation(kind="delete", branch=name, name=self.new_name(), source=source)
        self.attempt(one, lambda: self.system.references.delete(name))
        if one.outcome is Outcome.REFUSED:
            self._own.append((name, source))

    def take_turn(self, branch: str) -> None:
        """Creates a reference that all want, at a commit that no other request names."""
        del branch
        if not self._unused:
            return
        source, self._unused = self._unused, ""
        name = self.pick.choice(TURNS)
        one = Operation(kind="create", branch=name, name=self.new_name(), source=source)
        self.attempt(one, lambda: self.system.references.create(name, f"@{source}"))

    def end_turn(self, branch: str) -> None:
        """Deletes a reference that all want, as it was read."""
        del branch
        name = self.pick.choice(TURNS)
        try:
            source = self.system.references.get(name).hash
        except LochanError:
            return
        one = Operation(kind="delete", branch=name, name=self.new_name(), source=source)
        self.attempt(one, lambda: self.system.references.delete(name, expected=source))

    def _fresh(self, start: str) -> str:
        self._spoiled += 1
        return f"{start}-{self.number}-{self._spoiled}"


WEIGHTS: Final = {
    "commit": 40,
    "share": 8,
    "merge": 8,
    "transplant": 4,
    "put_file": 14,
    "read_file": 6,
    "commit_files": 7,
    "head": 5,
    "create": 3,
    "drop": 2,
    "take_turn": 3,
    "end_turn": 3,
}


def prepare(system: Any) -> Recorded:
    """Makes the first commit and the branches."""
    recorded = Recorded()
    put = Put(key=(SHARED,), content=table("first"))
    recorded.base = system.commits.commit("main", "first", [put]).hash
    for branch in BRANCHES[1:]:
        system.references.create(branch, f"@{recorded.base}")
    return recorded


def location(operation: Any) -> str | None:
    """Returns what a recorded operation of a commit puts, None for a removal."""
    return where(operation.content) if isinstance(operation, Put) else None
