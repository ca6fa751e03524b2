"""What is made again from a store, and its events."""

from __future__ import annotations

from collections.abc import Sequence

from lochan.base.names import REFS_NAME, RefName
from lochan.catalog.types import ContentTypes
from lochan.codec.cursors import ReplayPosition
from lochan.codec.rows import ReferenceRow
from lochan.embedded import Embedded
from lochan.events.builder import EventBuilder
from lochan.events.replay import Replayed, before_all, replay
from lochan.kernel.context import RepositoryContext
from lochan.model.events import EVENT_TYPES, Event

# Far more than it takes, for a machine that does other things too.
DRAIN_MS = 120_000


def context_of(repository: Embedded) -> RepositoryContext:
    return repository._repository.context


def delivered(repository: Embedded) -> None:
    """Delivers what is queued, and no more after that."""
    assert repository._events is not None
    repository._events.close(DRAIN_MS)


def row_of(context: RepositoryContext, name: str) -> ReferenceRow:
    found = context.references.fetch(name)
    assert found is not None
    return found.row


def changes(
    context: RepositoryContext, name: str, after: ReplayPosition | None = None
) -> list[Replayed]:
    found = context.references.fetch(name)
    row = None if found is None else found.row
    return list(replay(context, RefName(name), after or before_all(), row))


def events_of(replayed: Sequence[Replayed]) -> list[Event]:
    builder = EventBuilder(ContentTypes(), "again")
    return [
        event
        for one in replayed
        for event in builder.build(one.change, EVENT_TYPES, lambda _: True)
    ]


def all_names(context: RepositoryContext, also: Sequence[str] = ()) -> list[str]:
    rows = context.references.scan(b"", 1_000).rows
    return sorted({one.row.name for one in rows if one.row.name != REFS_NAME} | set(also))


def ids_by_name(found: Sequence[Event]) -> dict[str, list[str]]:
    ids: dict[str, list[str]] = {}
    for event in found:
        ids.setdefault(event.reference.name, []).append(event.id)
    return ids
