"""Reading together what the proposals of a chain would read one after the other.

On a head that this server has published, the needed nodes are in memory. On the head of another
server, each proposal would fetch its own few nodes, a round trip each; while a row is held, all
other writers wait for that. The keys of all proposals that can name them are looked up together,
with one round trip for each level.

Nothing is decided here: a wrong hint, or none, costs time only.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from lochan.base.keys import Universe
from lochan.base.limits import NODE_ELEMENTS_TARGET
from lochan.index.node import count_of, keys_of
from lochan.index.read import find_many
from lochan.index.source import NodeSource
from lochan.kernel.views import CommitView


@runtime_checkable
class KnowsKeys(Protocol):
    """A proposal that knows beforehand what its plan will look at."""

    @property
    def keys(self) -> Iterable[bytes]:
        """Keys that it will probably read or change."""
        ...


def read_ahead(nodes: NodeSource, head: CommitView, proposals: Iterable[object]) -> None:
    """Brings the nodes that proposals will need into memory.

    Where the embedded layer will be full before all are in, about as many elements as a node has,
    those are needed as well into which it spills.
    """
    keys = {
        key for proposal in proposals if isinstance(proposal, KnowsKeys) for key in proposal.keys
    }
    for universe in Universe:
        index = head.index(universe)
        chosen = {key for key in keys if key[0] == universe}
        embedded = index.embedded
        if chosen and embedded is not None:
            if count_of(embedded) + len(chosen) > NODE_ELEMENTS_TARGET:
                chosen.update(keys_of(embedded))
        find_many(nodes, index.root, sorted(chosen))
