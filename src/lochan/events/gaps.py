"""Makes the event that names what a subscriber does not get, although delivery is at least once."""

from __future__ import annotations

from lochan.base.names import RefName
from lochan.codec.cursors import ReplayPosition
from lochan.codec.rows import ReferenceRow
from lochan.events.builder import reference_of
from lochan.events.cursor import Missed, RepositoryCursor, missed_of
from lochan.events.ids import event_id, joined
from lochan.model.events import GAP, EventReference, GapFound

_SEVERAL = EventReference("", "/refs", "", 0)


def gap_of_age(cursor: RepositoryCursor, missed: Missed, sent_by: str) -> GapFound:
    """Returns the event of a cursor that is given up because of its age."""
    context, row = cursor.context, cursor.row
    facts = (context.instance, row.subscriber.encode(), row.generation)
    return GapFound(
        id=event_id(joined(*facts, GAP.encode())),
        type=GAP,
        time_us=context.clock.now_us(),
        sent_by=sent_by,
        initiator="",
        roles=(),
        repository=context.description.name,
        reference=_SEVERAL,
        version=0,
        operation="",
        cause="age",
        since_us=row.complete_us,
        missed=missed.listed,
        missed_left_out=missed.left_out,
    )


def gap_of_history(
    cursor: RepositoryCursor,
    name: RefName,
    at: ReplayPosition,
    row: ReferenceRow | None,
    sent_by: str,
) -> GapFound:
    """Returns the event of one reference whose history behind a position cannot be read."""
    context, known = cursor.context, cursor.row
    place = (at.incarnation.to_bytes(8, "big"), at.version.to_bytes(8, "big"), at.pointer)
    facts = (context.instance, known.subscriber.encode(), name.encode(), *place)
    named = EventReference(name, "", "", at.incarnation) if row is None else reference_of(row)
    return GapFound(
        id=event_id(joined(*facts, GAP.encode())),
        type=GAP,
        time_us=context.clock.now_us(),
        sent_by=sent_by,
        initiator="",
        roles=(),
        repository=context.description.name,
        reference=named,
        version=0,
        operation="",
        cause="history",
        since_us=known.complete_us,
        missed=(missed_of(name, at, row),),
    )
