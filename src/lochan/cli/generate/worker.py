"""One worker of a run: for each commit it reads the keys, creates missing namespaces, commits.

Several workers may write the same keys; one that loses reads again, a bounded number of times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from lochan.base.errors import AlreadyExists, Conflict, LochanError
from lochan.base.limits.client import GENERATE_ATTEMPTS_MAX
from lochan.cli.generate.plan import Plan, Step, make_content
from lochan.cli.generate.progress import Progress
from lochan.model.commits import CommitMeta, ContentKey, Operation, Put
from lochan.model.contents import Namespace

if TYPE_CHECKING:
    from lochan.cli.command_context import Catalog


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
