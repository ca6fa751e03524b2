"""The rules of namespaces, checked on a head plus what a commit does to it.

Every parent of a new key must exist and be a namespace; a namespace goes only when nothing is left
below it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from lochan.base.keys import Key, Universe, prefix_end, table_elements
from lochan.catalog.conflicts import (
    NAMESPACE_ABSENT,
    NAMESPACE_NOT_EMPTY,
    NOT_A_NAMESPACE,
    text_of,
)
from lochan.catalog.contents import payload_at
from lochan.catalog.types import NAMESPACE_PAYLOAD
from lochan.kernel.build import Head
from lochan.model.results import ContentConflict

BELOW: Final = b"\x01"
"""Between a namespace and the names of what is in it."""


def is_namespace(element: bytes | None) -> bool:
    """Returns whether an element is that of a namespace."""
    return element is not None and payload_at(element) == NAMESPACE_PAYLOAD


def parents_of(key: bytes) -> list[bytes]:
    """Returns the keys of all namespaces that a table's key lies in, outermost first."""
    parents = []
    at = key.find(BELOW)
    while at >= 0:
        parents.append(key[:at])
        at = key.find(BELOW, at + 1)
    return parents


def namespaces_of(keys: Iterable[bytes]) -> set[bytes]:
    """Returns the keys of all namespaces that any of the keys lies in; most share theirs."""
    found: set[bytes] = set()
    for key in keys:
        parent = key.rpartition(BELOW)[0]
        while parent and parent not in found:
            found.add(parent)
            parent = parent.rpartition(BELOW)[0]
    return found


def check_parents(
    keys: Iterable[bytes],
    staged: Mapping[bytes, bytes | None],
    current: Mapping[bytes, bytes | None],
) -> list[ContentConflict]:
    """Returns which namespaces new keys lack; `staged` is what the commit puts (None: removes)."""
    missing: dict[bytes, ContentConflict] = {}
    checked: set[bytes] = set()
    for key in keys:
        if key.rpartition(BELOW)[0] in checked:
            continue
        for parent in parents_of(key):
            if parent in checked:
                continue
            checked.add(parent)
            element = staged[parent] if parent in staged else current[parent]
            if is_namespace(element):
                continue
            if element is None:
                missing[parent] = namespace_absent(parent)
                continue
            elements = table_elements(Key(parent))
            words = f"expecting the key '{text_of(elements)}' to be a namespace, but is not"
            missing[parent] = ContentConflict(NOT_A_NAMESPACE, elements, words)
    return list(missing.values())


def namespace_absent(namespace: bytes) -> ContentConflict:
    """Returns the conflict of a key whose namespace does not exist."""
    elements = table_elements(Key(namespace))
    words = f"namespace '{text_of(elements)}' must exist"
    return ContentConflict(NAMESPACE_ABSENT, elements, words)


def check_left_empty(
    head: Head,
    removed: Iterable[bytes],
    staged: Mapping[bytes, bytes | None],
) -> list[ContentConflict]:
    """Returns which of the removed namespaces still contain keys after the commit."""
    found = []
    puts = sorted(key for key, element in staged.items() if element is not None)
    gone = {key for key, element in staged.items() if element is None}
    for namespace in removed:
        start = namespace + BELOW
        inside = any(key.startswith(start) for key in puts)
        if inside or _holds_more(head, start, gone):
            elements = table_elements(Key(namespace))
            words = f"namespace '{text_of(elements)}' is not empty"
            found.append(ContentConflict(NAMESPACE_NOT_EMPTY, elements, words))
    return found


def _holds_more(head: Head, start: bytes, gone: set[bytes]) -> bool:
    """Returns whether a key of the range stays; reads at most one key more than are removed."""
    limit = 1 + sum(1 for key in gone if key.startswith(start))
    page = head.page(Universe.TABLES, start, prefix_end(start), limit)
    return any(key not in gone for key, _ in page)
