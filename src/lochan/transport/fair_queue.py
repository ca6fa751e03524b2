"""A queue in which owners take turns: one that has put in much does not delay the others."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Final, Generic, TypeVar

_Item = TypeVar("_Item")

# First turns of owners, one after the other, before an owner that had its first one has another.
_FIRST_TURNS_MAX: Final = 4


class FairQueue(Generic[_Item]):
    """Items of one owner leave in the order in which they came; owners take turns, item by item.

    An owner that had nothing inside has its first turn before those that had theirs: its only item
    does not wait for all owners with many. These get every fifth turn at least.

    With one owner it is a plain queue. Adding and taking cost the same, however many owners and
    items there are. It has no lock.
    """

    def __init__(self) -> None:
        self._owners: dict[str, deque[_Item]] = {}
        # Those that wait for their first turn, and those that had one; each is in one of them.
        self._new: OrderedDict[str, None] = OrderedDict()
        self._served: OrderedDict[str, None] = OrderedDict()
        self._first_turns = 0
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, owner: str, item: _Item) -> None:
        """Appends an item."""
        self._count += 1
        items = self._owners.get(owner)
        if items is None:
            self._owners[owner] = deque((item,))
            self._new[owner] = None
        else:
            items.append(item)

    def pop(self) -> _Item:
        """Takes the next item of the owner whose turn it is; it must not be empty."""
        if self._new and (self._first_turns < _FIRST_TURNS_MAX or not self._served):
            self._first_turns += 1
            owner, _ = self._new.popitem(last=False)
        else:
            self._first_turns = 0
            owner, _ = self._served.popitem(last=False)
        items = self._owners[owner]
        item = items.popleft()
        self._count -= 1
        if items:
            self._served[owner] = None
        else:
            del self._owners[owner]
        return item

    def remove(self, owner: str, item: _Item) -> None:
        """Removes an item that waits; takes as long as its owner has items."""
        items = self._owners[owner]
        items.remove(item)
        self._count -= 1
        if not items:
            del self._owners[owner]
            self._new.pop(owner, None)
            self._served.pop(owner, None)

    def has(self, owner: str) -> bool:
        """Returns whether something of an owner waits."""
        return owner in self._owners
