"""The one operation of events, at `/events/v1`: a stream that can be resumed."""

from __future__ import annotations

from typing import Final

from lochan.access.policy import Action
from lochan.wire.operations import ApiOperation

EVENTS_PREFIX: Final = "/events/v1"

OPERATIONS_EVENTS: Final = (
    ApiOperation(
        "followEvents",
        "GET",
        "",
        "Sends the changes of references as server-sent events, as they happen.",
        parameters=(
            *("events-reference", "events-type", "events-key", "content-type", "file-prefixes"),
            *("from", "Last-Event-ID", "since", "follow"),
        ),
        beyond=True,
        action=Action.READ_LOG,
        events_out=True,
    ),
)
