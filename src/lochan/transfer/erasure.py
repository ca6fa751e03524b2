"""Erasing a deleted repository: every row that its instance has in the store.

The steps, and what a kill after each leaves:

1. Delete the repository, unless that was done (`kernel/repository.py`). (A deleted repository,
   listed as such; its rows are unreachable.)
2. Drop the partitions of its instance. (Some of them.)
3. When servers that had it open have noticed the deletion, and a walk of the instance finds
   nothing any more, remove it from the list of deleted repositories. (Nothing.)

Each call does a bounded part of that, and any later call goes on: `erase_some` returns whether the
erasure has ended. The bytes of files in blocks are not rows, and stay.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Final

from lochan.base.errors import Conflict, Invalid, NotFound
from lochan.base.ids import InstanceId
from lochan.base.limits.maintenance import COPY_PAGE_ROWS_FIRST, ERASE_PAGES_MAX
from lochan.base.ports import Clock
from lochan.codec.rows import DELETED_FORM, DeletedRow
from lochan.kernel.repository import (
    DELETED_PLACE,
    INSTANCES_PLACE,
    REPOSITORIES_PLACE,
    read_instance,
)
from lochan.kv.store import Store
from lochan.model.stores import EraseStep
from lochan.transfer.places import row_places, rows_of
from lochan.transfer.retried import Retried, RetriedSource
from lochan.transfer.sources import RowSource, StoreSource, find_row

_TOKEN_DIGITS: Final = 16


def erase_token(instance: InstanceId) -> str:
    """Returns the word that confirms an erasure: it fits one instance, whatever its name is."""
    return sha256(b"erase\0" + instance).hexdigest()[:_TOKEN_DIGITS]


def plan_erasure(source: RowSource, name: str) -> EraseStep:
    """Returns the token of a repository, or of one of that name that was deleted; erases nothing.

    NotFound if there is neither.
    """
    listed = find_row(source, REPOSITORIES_PLACE, name.encode())
    if listed is not None:
        return EraseStep(name, erase_token(read_instance(listed)))
    for deleted in list_deleted(source):
        if deleted.name == name:
            return EraseStep(name, erase_token(InstanceId(deleted.instance)))
    raise NotFound(f"there is no repository {name!r}, and none of that name was deleted")


def list_deleted(source: RowSource) -> list[DeletedRow]:
    """Returns the repositories that were deleted and are not erased, in no order of names."""
    rows = [DELETED_FORM.decode(entry.value) for entry in rows_of(source, DELETED_PLACE)]
    return [row for row in rows if not _is_listed(source, row)]


def erase_some(
    store: Store,
    clock: Clock,
    retried: Retried,
    name: str,
    token: str,
    delete: Callable[[str], None],
    *,
    position: str = "",
    grace_s: int,
) -> EraseStep:
    """Does a part of an erasure; `delete` deletes a repository by its name.

    `position` is that of the step before. `grace_s` is how long after its deletion it may still be
    written; 0 if no other process has the store open.

    Conflict if the token is not that of the repository, or of a deleted one of that name.
    """
    source = RetriedSource(StoreSource(store), retried)
    listed = find_row(source, REPOSITORIES_PLACE, name.encode())
    if listed is not None and erase_token(read_instance(listed)) == token:
        delete(name)
    deleted = [row for row in list_deleted(source) if row.name == name]
    for row in deleted:
        instance = InstanceId(row.instance)
        if erase_token(instance) == token:
            return _erase_deleted(store, clock, retried, row, grace_s, position)
    if listed is None and not deleted:
        # Nothing of that name is left: an earlier call has ended it, and its reply was lost.
        return EraseStep(name, token, done=True)
    raise Conflict(
        f"the token is not that of the repository {name!r}, which may be another one by now; run "
        "the command without --token to get it"
    )


def _erase_deleted(
    store: Store,
    clock: Clock,
    retried: Retried,
    row: DeletedRow,
    grace_s: int,
    position: str,
) -> EraseStep:
    """Steps 2 and 3. The last walk has to begin after the grace, and to find nothing."""
    instance = InstanceId(row.instance)
    token = erase_token(instance)
    left_ms = grace_s * 1_000 - max(clock.now_us() - row.deleted_us, 0) // 1_000
    is_last, cursor = _read_position(position) if position else (left_ms <= 0, b"")
    dropped, further = _drop_pages(store, instance, retried, cursor, ERASE_PAGES_MAX)
    is_last = is_last and not dropped
    if further is not None:
        return EraseStep(row.name, token, dropped, position=f"{is_last:d}{further.hex()}")
    if not is_last:
        return EraseStep(row.name, token, dropped, wait_ms=0 if dropped else max(left_ms, 0))
    # A crash after the repository was deleted may have left its row there.
    retried.call(store.delete, INSTANCES_PLACE, instance)
    retried.call(store.delete, DELETED_PLACE, instance)
    retried.call(store.flush, store.epoch())
    return EraseStep(row.name, token, done=True)


def drop_instance(store: Store, instance: InstanceId, retried: Retried) -> None:
    """Drops all partitions of an instance to which nothing is written any more."""
    cursor: bytes | None = b""
    while cursor is not None:
        _, cursor = _drop_pages(store, instance, retried, cursor, ERASE_PAGES_MAX)


def _drop_pages(
    store: Store, instance: InstanceId, retried: Retried, cursor: bytes, pages_max: int
) -> tuple[int, bytes | None]:
    """Drops what some pages of a walk find; returns how many partitions, and the next cursor."""
    source = RetriedSource(StoreSource(store), retried)
    dropped = set()
    if not cursor:
        # A store that cannot walk finds objects and key packs only.
        for place in list(row_places(source, instance)):
            if next(rows_of(source, place), None) is not None:
                retried.call(store.drop_partition, place)
                dropped.add(place)
    further: bytes | None = cursor
    for _ in range(pages_max):
        page = source.walk(bytes(instance), further or b"", COPY_PAGE_ROWS_FIRST)
        for place in dict.fromkeys(place for place, _ in page.rows):
            if place not in dropped:
                retried.call(store.drop_partition, place)
                dropped.add(place)
        further = page.next_cursor
        if further is None:
            break
    return len(dropped), further


def _read_position(position: str) -> tuple[bool, bytes]:
    try:
        if position[0] not in "01":
            raise ValueError
        return position[0] == "1", bytes.fromhex(position[1:])
    except ValueError:
        raise Invalid("the position is not one of an erasure") from None


def _is_listed(source: RowSource, row: DeletedRow) -> bool:
    listed = find_row(source, REPOSITORIES_PLACE, row.name.encode())
    return listed is not None and read_instance(listed) == row.instance
