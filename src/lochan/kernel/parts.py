"""What the kernel's algorithms work with, put together once for each repository."""

from __future__ import annotations

from lochan.base.ids import InstanceId
from lochan.base.limits import COMMIT_CACHE_BYTES_MAX, NODE_CACHE_BYTES_MAX
from lochan.base.ports import Chance, Clock, Waiting
from lochan.codec.rows import Description
from lochan.index.boundary import BoundaryRule
from lochan.index.source import CachedNodes
from lochan.kernel.moves import MoveLog
from lochan.kernel.views import Views
from lochan.kv.store import Store
from lochan.persist.objects import Objects
from lochan.persist.references import References


class Parts:
    """The rooms below and the ports, for one repository on one server."""

    def __init__(
        self,
        store: Store,
        instance: InstanceId,
        description: Description,
        clock: Clock,
        chance: Chance,
        waiting: Waiting,
        *,
        commit_cache_bytes: int = COMMIT_CACHE_BYTES_MAX,
        node_cache_bytes: int = NODE_CACHE_BYTES_MAX,
    ) -> None:
        self.store = store
        self.instance = instance
        self.description = description
        self.clock = clock
        self.chance = chance
        self.waiting = waiting
        self.objects = Objects(store, instance, clock)
        self.references = References(store, instance)
        self.moves = MoveLog(store, instance)
        self.views = Views(self.objects, commit_cache_bytes)
        self.nodes = CachedNodes(self.objects, node_cache_bytes)
        self.rule = BoundaryRule(description.boundary_seed)
