"""A correct run has no finding; a system that breaks one promise is found."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from lochan.base.errors import Unavailable, Unknown
from lochan.embedded import open_repository
from lochan.model.commits import Put
from tests.fleet.check import FleetCheck
from tests.fleet.operations import FleetClient, Operation, prepare
from tests.fleet.runs import running, wait_for_writes
from tests.profile import counted
from tests.service.bench import table

CLIENTS = 4
WRITES = counted(500, 4_000)


class Wrong(FleetClient):
    """A client whose system breaks a promise at every third request of some kinds."""

    kinds: tuple[str, ...] = ("commit",)
    pause_s = 0.0
    _numbers = count(1)

    def send(self, one: Operation, call: Callable[[], Any]) -> Any:
        if one.kind in self.kinds and not next(self._numbers) % 3:
            return self.mistreat(one, call)
        return call()

    def mistreat(self, one: Operation, call: Callable[[], Any]) -> Any:
        raise NotImplementedError

    def put(self, one: Operation, key: str) -> None:
        """Makes a commit in the name of a request."""
        put = Put(key=(f"{key}-{one.name}",), content=table(key))
        self.system.commits.commit(one.branch, one.name, [put])


class LosesCommits(Wrong):
    """Acknowledges what it has not done."""

    def mistreat(self, one: Operation, call: Callable[[], Any]) -> Any:
        return SimpleNamespace(hash=self.system.references.get(one.branch).hash, added=())


class LosesFiles(Wrong):
    kinds = ("file",)

    def mistreat(self, one: Operation, call: Callable[[], Any]) -> Any:
        return None


class LosesReferences(Wrong):
    kinds = ("create",)

    def mistreat(self, one: Operation, call: Callable[[], Any]) -> Any:
        return self.system.references.get("main")


class KeepsDeletedReferences(Wrong):
    kinds = ("delete",)

    def mistreat(self, one: Operation, call: Callable[[], Any]) -> Any:
        return self.system.references.get("main")


class DoesTwice(Wrong):
    """Sends a write whose outcome is unknown again, as another request."""

    kinds = ("transplant", "merge", "files")

    def mistreat(self, one: Operation, call: Callable[[], Any]) -> Any:
        self.put(one, "once")
        self.put(one, "twice")
        raise Unknown("it is unknown")


class RefusesAfterwards(Wrong):
    """States that nothing happened after it has happened: the phantom of a 503."""

    def mistreat(self, one: Operation, call: Callable[[], Any]) -> Any:
        call()
        raise Unavailable("nothing happened")


class RefusesFilesAfterwards(RefusesAfterwards):
    kinds = ("file",)


class RefusesReferencesAfterwards(RefusesAfterwards):
    kinds = ("create", "delete")


class ReadsBehind(Wrong):
    """Returns a head that another one has replaced."""

    kinds = ("head",)

    def mistreat(self, one: Operation, call: Callable[[], Any]) -> Any:
        entries = self.system.history.log(one.branch, 20).items
        return SimpleNamespace(hash=entries[-1].meta.hash)


class MergesToo(Wrong):
    """Makes a merge change one more table."""

    kinds = ("merge",)

    def mistreat(self, one: Operation, call: Callable[[], Any]) -> Any:
        self.put(one, "more")
        raise Unknown("it is unknown")


MUTANTS = {
    LosesCommits: "was acknowledged and is lost",
    LosesFiles: "may hold",
    LosesReferences: "is at",
    KeepsDeletedReferences: "is at",
    DoesTwice: "was applied twice",
    RefusesAfterwards: "was refused and is in the chain",
    RefusesFilesAfterwards: "whose write was refused",
    RefusesReferencesAfterwards: "is at",
    ReadsBehind: "began after",
    MergesToo: "changed",
}


def checked(make: Any, seed: int) -> FleetCheck:
    """Runs clients on one repository in memory and compares everything."""
    with open_repository("memory:") as repository:
        recorded = prepare(repository)
        with running([repository], recorded, CLIENTS, seed, make):
            try:
                wait_for_writes(recorded, WRITES)
            except AssertionError:
                # A client may find what is wrong while it runs.
                assert recorded.wrong
        check = FleetCheck(repository, recorded)
        check.run()
    return check


@pytest.mark.parametrize("seed", range(counted(1, 10)))
def test_a_correct_run_has_no_finding(seed: int, record_property: Any) -> None:
    check = checked(FleetClient, seed)
    assert not check.wrong, check.wrong[:5]
    kinds = {one.kind for one in check.recorded.operations}
    assert kinds >= {"commit", "merge", "transplant", "file", "files", "create", "delete", "head"}
    record_property("counted", f"fleet, threads in memory: {check.summary()}")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: one.__name__)
def test_what_breaks_a_promise_is_found(mutant: type[Wrong]) -> None:
    check = checked(mutant, 1)
    assert any(MUTANTS[mutant] in one for one in check.wrong), check.wrong[:5]
