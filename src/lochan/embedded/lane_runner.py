"""How the methods of an embedded repository do their work: in lanes, and durably."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator
from threading import Lock
from typing import Final, TypeVar

from lochan.base.errors import LochanError
from lochan.base.limits import EMBEDDED_SWEEP_ROWS, EMBEDDED_SWEEP_WRITES, LANES_MAX
from lochan.base.names import RefName
from lochan.kernel.publish import Settled
from lochan.kv.store import Store
from lochan.model.requests import DEFAULT_BRANCH
from lochan.model.results import Page
from lochan.model.specs import ReferenceSpec, parse_on_reference
from lochan.process import after_fork
from lochan.service.calls import Call
from lochan.service.pending_writes import PendingWrite
from lochan.service.repository import Repository
from lochan.service.sweeps import RepositorySweep
from lochan.system import ThreadLane

_Result = TypeVar("_Result")
_Item = TypeVar("_Item")
_LOG: Final = logging.getLogger("lochan.sweeps")


class LaneRunner:
    """Does the writes of one repository: on the lane of their branch, durable when it returns."""

    def __init__(self, store: Store, repository: Repository, who: str) -> None:
        self.repository = repository
        self.call = Call(who)
        self._store = store
        self._begin()
        after_fork(self, LaneRunner._begin)

    def _begin(self) -> None:
        """Starts with no lane; those of a parent may be driven by threads that a fork lacks."""
        self._lanes: OrderedDict[RefName, ThreadLane] = OrderedDict()
        self._lock = Lock()
        self._sweep = RepositorySweep(self.repository)
        self._sweeping = Lock()
        self._writes = 0

    def durably(self, write: Callable[[], _Result]) -> _Result:
        """Returns what a write gives, when it is on disk."""
        try:
            written = write()
            self._sweep_now_and_then()
            return written
        finally:
            # Also after a refusal: what a write left, and what it saw of others, must stay.
            self._store.flush(self._store.epoch())

    def on_lane(self, prepare: Callable[[], PendingWrite[_Result]]) -> _Result:
        """Publishes what a use case has prepared."""
        return self.durably(lambda: self._publish(prepare()))

    def _sweep_now_and_then(self) -> None:
        """Sweeps after the first write and then after each so many; one thread at a time."""
        self._writes += 1
        if self._writes % EMBEDDED_SWEEP_WRITES == 1 and self._sweeping.acquire(blocking=False):
            try:
                self._sweep.turn(EMBEDDED_SWEEP_ROWS)
            except LochanError as error:
                # The write was done; what could not be swept is for the next time.
                _LOG.warning("sweep failed error=%s", error.kind)
            finally:
                self._sweeping.release()

    def _publish(self, prepared: PendingWrite[_Result]) -> _Result:
        settled: Settled
        if prepared.dry_run:
            publisher = self.repository.publisher(prepared.branch)
            (settled,) = publisher.preview([prepared.proposal])
        else:
            try:
                settled = self._lane(prepared.branch).commit(prepared.proposal)
            except LochanError as error:
                settled = error
        return prepared.finish(settled)

    def _lane(self, branch: RefName) -> ThreadLane:
        with self._lock:
            lane = self._lanes.pop(branch, None)
            if lane is None:
                lane = ThreadLane(self.repository.publisher(branch))
            self._lanes[branch] = lane
            # One that is forgotten while somebody uses it costs a lost swap, nothing else.
            if len(self._lanes) > LANES_MAX:
                self._lanes.popitem(last=False)
            return lane

    def target(self, branch: str, expected: str | None) -> tuple[str, ReferenceSpec]:
        """Returns the branch by its name, and what its writer expects: by default its head."""
        name = self.repository.info.default_branch if branch == DEFAULT_BRANCH else branch
        if expected is None:
            return name, ReferenceSpec(None, self.repository.references.get(name).hash)
        return name, parse_on_reference(None, expected)


class Group:
    """Methods of one kind, on one repository."""

    def __init__(self, doing: LaneRunner) -> None:
        self._doing = doing
        self._service = doing.repository
        self._call = doing.call


def all_of(ask: Callable[[str | None], Page[_Item]]) -> Iterator[_Item]:
    """Yields the items of all pages."""
    token: str | None = None
    while True:
        page = ask(token)
        yield from page.items
        if page.token is None:
            return
        token = page.token
