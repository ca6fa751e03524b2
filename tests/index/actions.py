"""The five actions of the source document, computed from what an index stores.

Stored elements are only put or remove, so that the next commit can splice them unchanged. Which of
them belong to the commit itself is known from the commit's own keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from enum import Enum

import msgspec

from lochan.codec.elements import is_remove
from lochan.index.layers import Index
from lochan.index.node import items_of
from lochan.index.read import find_many, iterate
from lochan.index.source import NodeSource


class Action(Enum):
    """What an element means for its key, seen from one commit."""

    ADD = "ADD"
    REMOVE = "REMOVE"
    INCREMENTAL_ADD = "INCREMENTAL_ADD"
    INCREMENTAL_REMOVE = "INCREMENTAL_REMOVE"
    NONE = "NONE"


class ActionElement(msgspec.Struct, frozen=True, gc=False):
    """A key with its action; `element` is None for removals."""

    key: bytes
    action: Action
    element: bytes | None


def embedded_actions(index: Index, own: Set[bytes]) -> Iterator[ActionElement]:
    """Yields the embedded layer as the seed's incremental index."""
    if index.embedded is None:
        return
    for key, element in items_of(index.embedded):
        if is_remove(element):
            action = Action.REMOVE if key in own else Action.INCREMENTAL_REMOVE
            yield ActionElement(key, action, None)
        else:
            action = Action.ADD if key in own else Action.INCREMENTAL_ADD
            yield ActionElement(key, action, element)


def own_actions(source: NodeSource, index: Index, own: Set[bytes]) -> list[ActionElement]:
    """Returns the commit's own operations, also those that were spilled at once."""
    found = [item for item in embedded_actions(index, own) if item.key in own]
    spilled = sorted(own - {item.key for item in found})
    for key, element in zip(spilled, find_many(source, index.root, spilled), strict=True):
        action = Action.REMOVE if element is None else Action.ADD
        found.append(ActionElement(key, action, element))
    return sorted(found, key=lambda item: item.key)


def tree_actions(source: NodeSource, index: Index) -> Iterator[ActionElement]:
    """Yields the tree as the seed's reference index: existing keys only, all NONE."""
    for key, element in iterate(source, index.root):
        yield ActionElement(key, Action.NONE, element)
