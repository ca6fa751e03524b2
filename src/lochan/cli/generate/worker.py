"""One worker of a run: for each commit it reads the keys, creates missing namespaces, commits.

Several workers may write the same keys; one that loses reads again, a bounded number of times. They
share a progress, which hands out the commits and counts the results, in all and by tenths.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Event, Lock
from typing import TYPE_CHECKING, Final

import msgspec

from lochan.base.errors import AlreadyExists, Conflict, LochanError
from lochan.base.limits.client import GENERATE_ATTEMPTS_MAX
from lochan.base.ports import Clock
from lochan.cli.generate.plan import Plan, Step, make_content
from lochan.model.commits import CommitMeta, ContentKey, Operation, Put
from lochan.model.contents import Namespace

if TYPE_CHECKING:
    from lochan.cli.command_context import Catalog

_TENTHS: Final = 10


class Decile(msgspec.Struct, frozen=True, rename="camel"):
    """One tenth of a run."""

    decile: int
    commits: int
    seconds: float
    commits_per_second: float


class Summary(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The results of a run."""

    commits: int
    puts: int
    namespaces: int
    tags: int
    conflicts: int
    errors: int
    workers: int
    seconds: float
    commits_per_second: float
    deciles: tuple[Decile, ...]


class Progress:
    """Hands out the numbers of commits and counts their results; used by many threads.

    Once `stopped` is set, no more commits are handed out; workers that wait for their turn wait on
    it.
    """

    def __init__(self, clock: Clock, commits: int) -> None:
        self._clock = clock
        self._commits = commits
        self._lock = Lock()
        self._next = 0
        self._counts: Counter[str] = Counter()
        self._decile_ends: list[tuple[int, int]] = []
        self._started_ns = clock.monotonic_ns()
        self.failure: LochanError | None = None
        self.stopped = Event()

    @property
    def done(self) -> int:
        """The number of commits made so far."""
        return self._counts["commits"]

    def next_number(self) -> int | None:
        """Returns the next commit; None when all are handed out or the run was stopped."""
        with self._lock:
            if self.stopped.is_set() or self._next == self._commits:
                return None
            self._next += 1
            return self._next - 1

    def due_in_s(self, number: int, duration_s: float) -> float:
        """Returns how long commit `number` has to wait in a run of that duration."""
        elapsed_s = (self._clock.monotonic_ns() - self._started_ns) / 1e9
        return max(0.0, number * duration_s / self._commits - elapsed_s)

    def count(self, **counts: int) -> None:
        """Adds to the counts of the summary, by their names."""
        with self._lock:
            self._counts.update(counts)
            is_commit = "commits" in counts
            if is_commit and self.done * _TENTHS // self._commits > len(self._decile_ends):
                self._decile_ends.append((self.done, self._clock.monotonic_ns()))

    def fail(self, error: LochanError, *, continues: bool) -> None:
        """Counts a commit that failed; stops the run unless it continues on errors."""
        with self._lock:
            self._counts["errors"] += 1
            if not continues:
                self.failure = self.failure or error
                self.stopped.set()

    def summary(self, workers: int) -> Summary:
        """Returns the results so far."""
        with self._lock:
            seconds = (self._clock.monotonic_ns() - self._started_ns) / 1e9
            names = ("commits", "puts", "namespaces", "tags", "conflicts", "errors")
            return Summary(
                **{name: self._counts[name] for name in names},
                workers=workers,
                seconds=round(seconds, 3),
                commits_per_second=_rate(self.done, seconds),
                deciles=tuple(self._deciles()),
            )

    def _deciles(self) -> list[Decile]:
        deciles = []
        before, since_ns = 0, self._started_ns
        for number, (done, end_ns) in enumerate(self._decile_ends, 1):
            seconds = (end_ns - since_ns) / 1e9
            count = done - before
            deciles.append(Decile(number, count, round(seconds, 3), _rate(count, seconds)))
            before, since_ns = done, end_ns
        return deciles


def _rate(count: int, seconds: float) -> float:
    return round(count / seconds, 1) if seconds > 0 else 0.0


class Worker:
    """Makes commits until none is left."""

    def __init__(
        self,
        catalog: Catalog,
        plan: Plan,
        branches: Sequence[str],
        progress: Progress,
        *,
        duration_s: float,
        continue_on_error: bool,
        sleep: Callable[[float], object],
    ) -> None:
        self._catalog = catalog
        self._plan = plan
        self._branches = branches
        self._progress = progress
        self._duration_s = duration_s
        self._continue_on_error = continue_on_error
        self._sleep = sleep
        self._existing_namespaces: set[tuple[str, ContentKey]] = set()

    def run(self) -> None:
        """Makes commits until the progress hands out no more."""
        while (number := self._progress.next_number()) is not None:
            pause_s = self._progress.due_in_s(number, self._duration_s)
            if pause_s > 0:
                self._sleep(pause_s)
                if self._progress.stopped.is_set():
                    return
            try:
                self._make(self._plan.step(number))
            except LochanError as error:
                self._progress.fail(error, continues=self._continue_on_error)

    def _make(self, step: Step) -> None:
        branch = self._branches[step.branch]
        head = self._commit_with_retries(branch, step)
        if step.tagged:
            self._tag(f"generated-tag-{step.number}", f"{branch}@{head}")

    def _commit_with_retries(self, branch: str, step: Step) -> str:
        attempts = 1
        while True:
            try:
                return self._commit(branch, step)
            except Conflict:
                if attempts == GENERATE_ATTEMPTS_MAX:
                    raise
                attempts += 1
                self._progress.count(conflicts=1)

    def _commit(self, branch: str, step: Step) -> str:
        parents = {key[:length] for key in step.keys for length in range(1, len(key))}
        unknown = sorted(key for key in parents if (branch, key) not in self._existing_namespaces)
        contents, reference = self._catalog.contents.get_many(branch, [*unknown, *step.keys])
        present = dict(contents)
        missing = [key for key in unknown if key not in present]
        options = self._plan.options
        operations: list[Operation] = [
            Put(key=key, content=Namespace(elements=key)) for key in missing
        ]
        operations += [
            Put(key=key, content=make_content(options.kind, key, step.number, present.get(key)))
            for key in step.keys
        ]
        message = options.message.replace("{number}", str(step.number))
        meta = CommitMeta(message=message, authors=(options.author,))
        committed = self._catalog.commits.commit(branch, meta, operations, expected=reference.hash)
        self._existing_namespaces.update((branch, key) for key in unknown)
        self._progress.count(commits=1, puts=len(step.keys), namespaces=len(missing))
        return committed.hash

    def _tag(self, name: str, source: str) -> None:
        # An earlier run with the same seed may have created it.
        with suppress(AlreadyExists):
            self._catalog.references.create(name, source, kind="TAG")
            self._progress.count(tags=1)


def make_branches(catalog: Catalog, default: str, count: int) -> list[str]:
    """Returns the branches of a run: the default one, and others that are created from it."""
    first = catalog.references.get(default)
    names = [first.name or default]
    for number in range(1, count):
        name = f"generated-{number}"
        # An earlier run may have created it; this run continues there.
        with suppress(AlreadyExists):
            catalog.references.create(name, f"{first.name}@{first.hash}")
        names.append(name)
    return names
