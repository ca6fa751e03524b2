"""Staged files that a merge or a move would change below them.

What is staged on a branch hides what its head has. So a merge that changes a file which is staged
would not be seen, and the next commit would undo it: that is a conflict, as with a file that both
sides have committed. The same holds for a fast-forward and a rebase, which bring the commits of
another branch, too. Files that are staged after it was planned come later, and hide it rightly.
What a reset has cleared is not staged: the merged file shows there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from lochan.base.errors import KeysConflict
from lochan.base.ids import StagingToken
from lochan.base.keys import Universe, is_record, ordered
from lochan.base.limits.staging import STAGED_RECORDS_READ
from lochan.codec.elements import is_remove, same_state
from lochan.codec.rows import ReferenceRow
from lochan.index.source import NodeSource
from lochan.kernel.build import Head
from lochan.kernel.changes import diff_commits
from lochan.kernel.merge_choices import MergeConflict
from lochan.kernel.plan import Operation
from lochan.kernel.views import CommitView
from lochan.persist.staged import StagedRecords, is_cleared, tokens_of


def check_planned(head: Head, operations: Iterable[Operation]) -> None:
    """Raises KeysConflict if operations on a head change files that are staged differently."""
    if head.records is None:
        return
    wanted = {one.key: one.element for one in operations if _is_file(one.key)}
    tokens = _used_tokens(head.records, head.row) if wanted else []
    if tokens:
        _raise_any(_find_hidden(head.records, tokens, wanted))


def check_moved(
    records: StagedRecords,
    nodes: NodeSource,
    row: ReferenceRow,
    before: CommitView,
    after: CommitView,
) -> None:
    """Raises KeysConflict if files that two heads have differently are staged in another way."""
    tokens = _used_tokens(records, row)
    if not tokens:
        return
    differences = diff_commits(nodes, before, after)
    changed = ((one.key, one.right) for one in differences if _is_file(one.key))
    found: list[MergeConflict] = []
    while wanted := dict(islice(changed, STAGED_RECORDS_READ)):
        found += _find_hidden(records, tokens, wanted)
    _raise_any(found)


def _is_file(key: bytes) -> bool:
    return key[0] == Universe.FILES and not is_record(key)


def _used_tokens(records: StagedRecords, row: ReferenceRow) -> list[StagingToken]:
    return [token for token in tokens_of(row) if not records.is_empty(token)]


def _find_hidden(
    records: StagedRecords, tokens: Sequence[StagingToken], wanted: Mapping[bytes, bytes | None]
) -> list[MergeConflict]:
    """Returns the files that are staged in another way than they are wanted below."""
    keys = ordered(wanted)
    found: dict[bytes, bytes] = {}
    for layer in reversed(records.fetch(tokens, keys)):
        found.update((entry.key, entry.value) for entry in layer if entry is not None)
    counting = [key for key in keys if key in found and not is_cleared(found[key])]
    states = [(key, None if is_remove(found[key]) else found[key]) for key in counting]
    return [
        MergeConflict(key, None, wanted[key], staged, None)
        for key, staged in states
        if not same_state(key, staged, wanted[key])
    ]


def _raise_any(conflicts: Sequence[MergeConflict]) -> None:
    if conflicts:
        count = "1 file is" if len(conflicts) == 1 else f"{len(conflicts)} files are"
        text = f"{count} staged on the branch and would be changed below; commit or reset first"
        raise KeysConflict(text, tuple(conflicts))
