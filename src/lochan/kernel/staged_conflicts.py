"""Staged files that a merge would change below them.

What is staged on a branch hides what its head has. So a merge that changes a file which is staged
would not be seen, and the next commit would undo it: that is a conflict, as with a file that both
sides have committed. Files that are staged after the merge was planned come later, and hide it
rightly.
"""

from __future__ import annotations

from collections.abc import Iterable

from lochan.base.errors import KeysConflict
from lochan.base.keys import Universe, is_record, ordered
from lochan.codec.elements import is_remove, same_state
from lochan.kernel.build import Head
from lochan.kernel.plan import Operation
from lochan.persist.staged import tokens_of


def find_staged(head: Head, operations: Iterable[Operation]) -> list[tuple[bytes, bytes | None]]:
    """Returns the keys of files that are staged differently, with what is staged there."""
    wanted = {
        one.key: one.element
        for one in operations
        if one.key[0] == Universe.FILES and not is_record(one.key)
    }
    records = head.records
    if records is None or not wanted:
        return []
    tokens = [token for token in tokens_of(head.row) if not records.is_empty(token)]
    keys = ordered(wanted)
    found: dict[bytes, bytes] = {}
    for layer in reversed(records.fetch(tokens, keys) if tokens else []):
        found.update((entry.key, entry.value) for entry in layer if entry is not None)
    states = [(key, None if is_remove(found[key]) else found[key]) for key in keys if key in found]
    return [(key, staged) for key, staged in states if not same_state(key, staged, wanted[key])]


def staged_conflict(details: tuple[object, ...]) -> KeysConflict:
    """Returns the error that reports them."""
    count = "1 file is" if len(details) == 1 else f"{len(details)} files are"
    return KeysConflict(
        f"{count} staged on the branch and would be changed below; commit or reset first", details
    )
