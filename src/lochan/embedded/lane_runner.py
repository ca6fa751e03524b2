"""Runs requests in this process: reads directly, writes in the lane of their branch and durably."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from threading import Lock
from typing import Final, TypeVar

from lochan.access.policy import Call
from lochan.base.errors import LochanError
from lochan.base.limits.maintenance import EMBEDDED_SWEEP_ROWS, EMBEDDED_SWEEP_WRITES
from lochan.base.limits.server import LANES_MAX
from lochan.base.names import RefName
from lochan.client.methods import BlockingRunner
from lochan.embedded.access import ACCESS_READS, ACCESS_WRITES, StoreAccess
from lochan.embedded.use_cases import READS, WRITES
from lochan.kernel.preparation import Preparation, publish_prepared
from lochan.kernel.publish import Proposal, Settled
from lochan.kv.store import Store
from lochan.model.requests import RepositoryRequest
from lochan.process import after_fork
from lochan.service.pending_writes import PendingWrite
from lochan.service.repository import Repository
from lochan.service.sweeps import RepositorySweep
from lochan.system import ThreadLane

_Result = TypeVar("_Result")
_LOG: Final = logging.getLogger("lochan.sweeps")


class LaneRunner(BlockingRunner):
    """Runs the requests of one repository; a write is durable when its call returns."""

    def __init__(self, store: Store, repository: Repository, who: str, access: StoreAccess) -> None:
        self._repository = repository
        self._access = access
        self._call = Call(who, repository=repository.name)
        self._store = store
        self._begin()
        after_fork(self, LaneRunner._begin)

    def _begin(self) -> None:
        """Starts without lanes: after a fork, no thread would run those of the parent process."""
        self._lanes: OrderedDict[RefName, ThreadLane] = OrderedDict()
        self._lock = Lock()
        self._sweep = RepositorySweep(self._repository)
        self._sweeping = Lock()
        self._writes = 0

    def run(self, request: RepositoryRequest[_Result]) -> _Result:
        """Returns the result of a request."""
        result: _Result
        kind = type(request)
        if kind in READS:
            result = READS[kind](self._repository, self._call, request)
        elif kind in WRITES:
            write = WRITES[kind]
            result = self.durably(
                lambda: self.publish(write(self._repository, self._call, request))
            )
        elif kind in ACCESS_READS:
            control = self._access.control(kind)
            result = ACCESS_READS[kind](control, self._call, request)
        else:
            control = self._access.control(kind)
            result = self.durably(lambda: ACCESS_WRITES[kind](control, self._call, request))
        return result

    def durably(self, write: Callable[[], _Result]) -> _Result:
        """Returns the result of a write when it is on disk."""
        try:
            result = write()
            self._sweep_at_intervals()
            return result
        finally:
            # Also after an error: what the write stored, and what it read of others, must stay.
            self._store.flush(self._store.epoch())

    def publish(self, prepared: PendingWrite[_Result] | _Result) -> _Result:
        """Publishes a pending write in the lane of its branch; returns any other value as it is."""
        if not isinstance(prepared, PendingWrite):
            return prepared
        settled: Settled
        if prepared.dry_run:
            publisher = self._repository.publisher(prepared.branch)
            (settled,) = publisher.preview([prepared.proposal])
        elif prepared.is_long:
            publisher = self._repository.publisher(prepared.branch)
            preparation = Preparation(publisher, prepared.proposal)
            settled = publish_prepared(preparation, partial(self._offer, prepared.branch))
        else:
            settled = self._offer(prepared.branch, prepared.proposal)
        result: _Result = prepared.finish(settled)
        return result

    def _offer(self, branch: RefName, proposal: Proposal) -> Settled:
        """Waits for the lane of a branch; returns what became of the proposal there."""
        try:
            return self._lane(branch).commit(proposal)
        except LochanError as error:
            return error

    def _sweep_at_intervals(self) -> None:
        """Sweeps after the first write and then after each so many; one thread at a time."""
        self._writes += 1
        if self._writes % EMBEDDED_SWEEP_WRITES == 1 and self._sweeping.acquire(blocking=False):
            try:
                self._sweep.turn(EMBEDDED_SWEEP_ROWS)
            except LochanError as error:
                # The write has succeeded; the next sweep tries again.
                _LOG.warning("sweep failed error=%s", error.kind)
            finally:
                self._sweeping.release()

    def _lane(self, branch: RefName) -> ThreadLane:
        with self._lock:
            lane = self._lanes.pop(branch, None)
            if lane is None:
                lane = ThreadLane(self._repository.publisher(branch))
            self._lanes[branch] = lane
            # A lane that is dropped while a thread uses it costs a lost swap, nothing else.
            if len(self._lanes) > LANES_MAX:
                self._lanes.popitem(last=False)
            return lane
