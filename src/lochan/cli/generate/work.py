"""What one worker does for each commit: read the keys, make missing namespaces, commit.

Several workers meet on the same keys; whoever is slower reads again, a bounded number of times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from lochan.base.errors import AlreadyExists, Conflict, LochanError
from lochan.base.limits import GENERATE_ATTEMPTS_MAX
from lochan.cli.generate.plan import Plan, Step, make_content
from lochan.cli.generate.tally import Tally
from lochan.model.commits import CommitMeta, ContentKey, Operation, Put
from lochan.model.contents import Namespace

if TYPE_CHECKING:
    from lochan.client import Client
    from lochan.embedded import Embedded

    Catalog = Client | Embedded


class Worker:
    """Makes commits until there are no more to make."""

    def __init__(
        self,
        catalog: Catalog,
        plan: Plan,
        branches: Sequence[str],
        tally: Tally,
        *,
        duration_s: float,
        continue_on_error: bool,
        sleep: Callable[[float], None],
    ) -> None:
        self._catalog = catalog
        self._plan = plan
        self._branches = branches
        self._tally = tally
        self._duration_s = duration_s
        self._continue_on_error = continue_on_error
        self._sleep = sleep
        self._known: set[tuple[str, ContentKey]] = set()

    def run(self) -> None:
        """Works until nothing is left."""
        while (number := self._tally.next_number()) is not None:
            pause_s = self._tally.due_in_s(number, self._duration_s)
            if pause_s > 0:
                self._sleep(pause_s)
                if self._tally.is_stopped:
                    return
            try:
                self._make(self._plan.step(number))
            except LochanError as error:
                self._tally.failed(error, go_on=self._continue_on_error)

    def _make(self, step: Step) -> None:
        branch = self._branches[step.branch]
        made = self._commit_at_last(branch, step)
        if step.tagged:
            self._tag(f"generated-tag-{step.number}", f"{branch}@{made}")

    def _commit_at_last(self, branch: str, step: Step) -> str:
        attempts = 1
        while True:
            try:
                return self._commit(branch, step)
            except Conflict:
                if attempts == GENERATE_ATTEMPTS_MAX:
                    raise
                attempts += 1
                self._tally.conflicted()

    def _commit(self, branch: str, step: Step) -> str:
        parents = {key[:length] for key in step.keys for length in range(1, len(key))}
        unknown = sorted(one for one in parents if (branch, one) not in self._known)
        there, reference = self._catalog.contents.get_many(branch, [*unknown, *step.keys])
        known = dict(there)
        missing = [one for one in unknown if one not in known]
        operations: list[Operation] = [
            Put(key=one, content=Namespace(elements=one)) for one in missing
        ]
        kind = self._plan.wish.kind
        operations += [
            Put(key=key, content=make_content(kind, key, step.number, known.get(key)))
            for key in step.keys
        ]
        wish = self._plan.wish
        text = wish.message.replace("{number}", str(step.number))
        meta = CommitMeta(message=text, authors=(wish.author,))
        done = self._catalog.commits.commit(branch, meta, operations, expected=reference.hash)
        self._known.update((branch, one) for one in unknown)
        self._tally.committed(len(step.keys), len(missing))
        return done.hash

    def _tag(self, name: str, source: str) -> None:
        try:
            self._catalog.references.create(name, source, kind="TAG")
        except AlreadyExists:
            # An earlier run with the same seed has made it.
            return
        self._tally.tagged()


def make_branches(catalog: Catalog, default: str, count: int) -> list[str]:
    """Returns the branches to work on: the default one, and others made from it if missing."""
    first = catalog.references.get(default)
    names = [first.name or default]
    for number in range(1, count):
        name = f"generated-{number}"
        # An earlier run may have made it; this one goes on there.
        with suppress(AlreadyExists):
            catalog.references.create(name, f"{first.name}@{first.hash}")
        names.append(name)
    return names
