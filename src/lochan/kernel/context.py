"""What the kernel's algorithms work with, built once for each open repository."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from lochan.base.errors import Unknown
from lochan.base.ids import InstanceId
from lochan.base.limits.storage import KEY_PACK_COMMITS
from lochan.base.ports import Clock, Random, Waiting
from lochan.codec.rows import Description
from lochan.index.boundary import BoundaryRule
from lochan.index.source import CachedNodes
from lochan.kernel.key_packs import KeyLines, KeyPacks
from lochan.kernel.moves import MoveLog
from lochan.kernel.settled import SettledObserver
from lochan.kernel.views import Views
from lochan.kv.store import Store
from lochan.persist.cache import BoundedCache, Caches
from lochan.persist.key_packs import KeyPackRows
from lochan.persist.objects import Objects
from lochan.persist.references import References
from lochan.persist.retry import Retry, RetryPolicy
from lochan.persist.staged import StagedRecords


class Tuning(msgspec.Struct, frozen=True):
    """What all repositories of a server have in common: memory, retries, sizes of key packs."""

    caches: Caches = msgspec.field(default_factory=Caches)
    retry_policy: RetryPolicy = RetryPolicy()
    key_pack_commits: int = KEY_PACK_COMMITS
    observer: SettledObserver | None = None
    """Gets every change of a reference, None if there is no subscriber."""


class RepositoryContext:
    """Objects, rows, caches and ports of one repository on one server."""

    def __init__(
        self,
        store: Store,
        instance: InstanceId,
        description: Description,
        clock: Clock,
        random: Random,
        waiting: Waiting,
        *,
        tuning: Tuning | None = None,
    ) -> None:
        self.store = store
        self.instance = instance
        self.description = description
        self.clock = clock
        self.random = random
        self.waiting = waiting
        tuning = tuning or Tuning()
        self.observer = tuning.observer
        self._retry_policy = tuning.retry_policy
        self._retry_policy_for_steps = tuning.retry_policy.for_steps()
        self.objects = Objects(store, instance, clock)
        self.references = References(store, instance)
        self.staged = StagedRecords(store, instance)
        self.moves = MoveLog(store, instance)
        self.views = Views(self.objects, tuning.caches)
        self.key_lines = KeyLines(self.objects, self.views, tuning.caches)
        self.key_packs = KeyPacks(
            self.key_lines,
            KeyPackRows(store, instance),
            tuning.caches,
            tuning.key_pack_commits,
        )
        self.values: BoundedCache[bytes] = tuning.caches.values.cache(len)
        self.nodes = CachedNodes(self.objects, tuning.caches)
        self.rule = BoundaryRule(description.boundary_seed)

    def retry(self) -> Retry:
        """Returns the retries of one commit."""
        return Retry(self.clock, self.random, self.waiting, self._retry_policy)

    def retry_steps(self) -> Retry:
        """Returns the retries of an operation of several steps."""
        return Retry(self.clock, self.random, self.waiting, self._retry_policy_for_steps)

    def repeat(self, write: Callable[[], None]) -> None:
        """Does an idempotent write, and does it again after a lost reply."""
        retry = self.retry_steps()
        while True:
            try:
                return write()
            except Unknown:
                retry.again()
