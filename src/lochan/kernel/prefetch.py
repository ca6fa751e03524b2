"""Reading together what the proposals of a chain would read one after the other.

On a head that this server has published, the needed nodes are in memory. On the head of another
server, each proposal would fetch its own few nodes, a round trip each; while a row is held, all
other writers wait for that. So the keys of all proposals that know their keys are looked up
together, with one round trip for each level.

Nothing is decided here: wrong or missing keys only cost time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from lochan.base.keys import Universe
from lochan.base.limits.storage import NODE_ELEMENTS_TARGET
from lochan.index.node import keys_of
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

    If the new keys overfill the embedded index, it spills into the tree; then the nodes that its
    elements go to are read as well. Only some proposals know their keys.
    """
    keys = {
        key for proposal in proposals if isinstance(proposal, KnowsKeys) for key in proposal.keys
    }
    for universe in Universe:
        index = head.index(universe)
        needed = {key for key in keys if key[0] == universe}
        embedded = index.embedded
        if needed and embedded is not None:
            if len(embedded.suffixes) + len(needed) > NODE_ELEMENTS_TARGET:
                needed.update(keys_of(embedded))
        if needed:
            # Only for its effect: the nodes that it reads stay in memory.
            find_many(nodes, index.root, sorted(needed))
