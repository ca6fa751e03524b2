"""What a refusal may show: keys that a caller may not read are in no message and in no conflict.

A caller that may write a key need not be allowed to read it, and what prevents a write may lie in
keys that it may not read. Then the refusal is Denied, and names nothing. A parent that may not be
read looks absent; its name is a part of a key that the caller has named or may read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from lochan.base.errors import Denied
from lochan.base.keys import Universe, is_record, prefix_end, table_key
from lochan.base.limits.requests import NAMESPACE_KEYS_LOOKED_AT_MAX
from lochan.catalog.conflicts import NAMESPACE_NOT_EMPTY, NOT_A_NAMESPACE
from lochan.catalog.namespaces import BELOW, namespace_absent
from lochan.kernel.build import Head
from lochan.model.results import ContentConflict

Readable = Callable[[bytes], bool]
"""Returns whether the caller may read a key in the branch that it writes."""


def hidden_refusal() -> Denied:
    """Returns the refusal of a write for a reason that the caller may not see."""
    return Denied(
        "nothing was written: what prevents it is in keys that you may not read; "
        "ask for the right to read them"
    )


def hides_some(keys: Iterable[bytes], readable: Readable | None) -> bool:
    """Returns whether the caller may not read some of the keys; None reads all keys."""
    return readable is not None and not all(readable(key) for key in keys if not is_record(key))


def shown_conflicts(
    conflicts: Sequence[ContentConflict],
    readable: Readable | None,
    head: Head,
    staged: Mapping[bytes, bytes | None],
) -> list[ContentConflict]:
    """Returns conflicts with the rules of namespaces as a caller may see them.

    A namespace that is not empty is reported only if the caller may read a key that it contains.
    """
    if readable is None:
        return list(conflicts)
    return [_shown(one, readable, head, staged) for one in conflicts]


def _shown(
    conflict: ContentConflict, readable: Readable, head: Head, staged: Mapping[bytes, bytes | None]
) -> ContentConflict:
    if conflict.key is None:
        return conflict
    key = bytes(table_key(conflict.key))
    if conflict.kind == NOT_A_NAMESPACE and not readable(key):
        return namespace_absent(key)
    if conflict.kind == NAMESPACE_NOT_EMPTY and not _has_readable(key, readable, head, staged):
        raise hidden_refusal()
    return conflict


def _has_readable(
    namespace: bytes, readable: Readable, head: Head, staged: Mapping[bytes, bytes | None]
) -> bool:
    """Returns whether a key that stays in a namespace may be read; looks at some keys only."""
    start = namespace + BELOW
    kept = [key for key, element in staged.items() if element is not None]
    if any(key.startswith(start) and readable(key) for key in kept):
        return True
    end = prefix_end(start)
    page = head.page(Universe.TABLES, start, end, NAMESPACE_KEYS_LOOKED_AT_MAX)
    return any(key not in staged and readable(key) for key, _ in page)
