"""Events as CloudEvents 1.0: the attributes that every receiver knows, around our own JSON.

| attribute | value |
|---|---|
| `id` | the id of the event: the same at each repetition |
| `source` | the repository as a path, behind the address that an operator may choose |
| `type` | `dev.lochan.` and the type, such as `dev.lochan.COMMIT` |
| `subject` | the short name of the reference; left out if the event is about several |
| `time` | when the change was made |
| `traceparent` | the trace of the request that made the change, if it was sampled |
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

import msgspec

from lochan.events.reactions import EventRefused
from lochan.model.events import Event
from lochan.wire.codec import encode, instant
from lochan.wire.events import encode_event

TYPE_PREFIX: Final = "dev.lochan."
STRUCTURED: Final = "application/cloudevents+json; charset=utf-8"
CONTENT_TYPE: Final = "datacontenttype"
"""The attribute that a header without a prefix stands for."""


def attributes_of(event: Event, source: str, traceparent: str = "") -> dict[str, str]:
    """Returns the attributes of an event; `source` stands before the path of the repository."""
    # An attribute that is there has at least one character.
    subject = {"subject": event.reference.name} if event.reference.name else {}
    found = {
        "specversion": "1.0",
        "id": event.id,
        "source": f"{source.rstrip('/')}/r/{quote(event.repository, safe='')}",
        "type": f"{TYPE_PREFIX}{event.type}",
        **subject,
        "time": instant(event.time_us).isoformat().replace("+00:00", "Z"),
        "datacontenttype": "application/json",
    }
    return {**found, "traceparent": traceparent} if traceparent else found


def structured(event: Event, source: str, traceparent: str, bytes_max: int) -> bytes:
    """Returns an event with its attributes as one JSON object of at most so many bytes."""
    attributes = attributes_of(event, source, traceparent)
    left = bytes_max - len(encode({**attributes, "data": None})) + len("null")
    data = data_of(event, left)
    return encode({**attributes, "data": msgspec.Raw(data)})


def binary(
    event: Event, source: str, traceparent: str, bytes_max: int
) -> tuple[dict[str, str], bytes]:
    """Returns the attributes of an event, for headers of a message, and its JSON as the body."""
    attributes = attributes_of(event, source, traceparent)
    size = sum(len(name) + len(value.encode()) for name, value in attributes.items())
    return attributes, data_of(event, bytes_max - size)


def data_of(event: Event, bytes_max: int) -> bytes:
    """Returns the JSON of an event, of which fields are left out until it fits."""
    data = encode_event(event, bytes_max)
    if len(data) > bytes_max:
        raise EventRefused(f"the event has {len(data)} bytes in its shortest form")
    return data
