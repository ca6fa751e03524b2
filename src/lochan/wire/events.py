"""Events as JSON: one shape for webhooks, brokers, files of lines, the stream and the client.

The fields are those of `model.events` in camel case; times are instants with their zone, without
the suffix of the unit. Keys, contents, files and the meta of commits have the shapes that they have
in version 2 of the API. An event that is too large for a receiver is sent without its largest
fields, whose names it has in `leftOut`; of the operations of a commit as many are listed as fit,
and the rest is counted in `operationsLeftOut`.

A reader accepts types and fields that it does not know: `event_in` returns an `OtherEvent`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, get_type_hints

import msgspec

from lochan.base.errors import Invalid
from lochan.model.events import (
    EVENT_CLASSES,
    CommitMade,
    Event,
    EventReference,
    MissedChanges,
    OperationSummary,
    OtherEvent,
)
from lochan.wire.codec import Instant, convert, encode, instant, micros
from lochan.wire.contents import content_in, content_out
from lochan.wire.files import FileJson, file_in, file_out
from lochan.wire.keys import KeyJson
from lochan.wire.metas import CommitMetaV2, meta_in, meta_v2

LEFT_OUT: Final = "leftOut"

# What identifies an event and says where it happened is never left out.
_KEPT: Final = {
    "id",
    "type",
    "time",
    "sentBy",
    "initiator",
    "repository",
    "reference",
    "version",
    "operation",
    "hash",
    "hashBefore",
    "hashAfter",
    "commitTime",
    "contentType",
    "cause",
    "since",
    LEFT_OUT,
}


class EventReferenceJson(msgspec.Struct, frozen=True, rename="camel"):
    """A branch or a tag of an event."""

    type: str
    name: str
    full_name: str
    incarnation: int


class OperationJson(msgspec.Struct, frozen=True, omit_defaults=True):
    """An operation of a commit without its content."""

    type: str
    key: KeyJson | None = None
    path: str = ""


class MissedJson(msgspec.Struct, frozen=True, rename="camel"):
    """A reference of a gap."""

    name: str
    incarnation_before: int
    hash_before: str
    incarnation_after: int
    hash_after: str


class _Field(msgspec.Struct, frozen=True):
    """How a field of the model is written and read: its name, its type there, both directions."""

    name: str
    of: Any
    out: Callable[[Any], Any]
    back: Callable[[Any], Any]


def _same(value: Any) -> Any:
    return value


def _reference_out(reference: EventReference) -> EventReferenceJson:
    return EventReferenceJson(
        reference.kind, reference.name, reference.full_name, reference.incarnation
    )


def _reference_in(sent: EventReferenceJson) -> EventReference:
    return EventReference(sent.name, sent.full_name, sent.type, sent.incarnation)


def _operations_out(operations: tuple[OperationSummary, ...]) -> tuple[OperationJson, ...]:
    return tuple(
        OperationJson(one.kind, KeyJson(one.key) if one.key else None, one.path)
        for one in operations
    )


def _operations_in(sent: tuple[OperationJson, ...]) -> tuple[OperationSummary, ...]:
    return tuple(
        OperationSummary(one.type, () if one.key is None else one.key.elements, one.path)
        for one in sent
    )


def _missed_out(missed: tuple[MissedChanges, ...]) -> tuple[MissedJson, ...]:
    return tuple(msgspec.convert(one, MissedJson, from_attributes=True) for one in missed)


def _missed_in(sent: tuple[MissedJson, ...]) -> tuple[MissedChanges, ...]:
    return tuple(msgspec.convert(one, MissedChanges, from_attributes=True) for one in sent)


_SPECIAL: Final = {
    "time_us": _Field("time", Instant, instant, micros),
    "commit_time_us": _Field("commitTime", Instant, instant, micros),
    "since_us": _Field("since", Instant, instant, micros),
    "missed": _Field("missed", tuple[MissedJson, ...], _missed_out, _missed_in),
    "reference": _Field("reference", EventReferenceJson, _reference_out, _reference_in),
    "meta": _Field("meta", CommitMetaV2, meta_v2, meta_in),
    "operations": _Field("operations", tuple[OperationJson, ...], _operations_out, _operations_in),
    "key": _Field("key", KeyJson, KeyJson, lambda sent: sent.elements),
    "content": _Field("content", Any, content_out, content_in),
    "file": _Field("file", FileJson, file_out, file_in),
}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def _fields_of(kind: type[Event]) -> dict[str, _Field]:
    hints = get_type_hints(kind)
    return {
        name: _SPECIAL.get(name) or _Field(_camel(name), hints[name], _same, _same)
        for name in kind.__struct_fields__
    }


_EVERY_CLASS: Final[tuple[type[Event], ...]] = (Event, *EVENT_CLASSES.values())
_FIELDS: Final = {kind: _fields_of(kind) for kind in _EVERY_CLASS}
_COMMON: Final = frozenset(field.name for field in _FIELDS[Event].values())


def event_out(event: Event) -> dict[str, Any]:
    """Returns an event as JSON."""
    if isinstance(event, OtherEvent):
        common = {one.name: one.out(getattr(event, name)) for name, one in _FIELDS[Event].items()}
        return {**common, **event.fields}
    return {one.name: one.out(getattr(event, name)) for name, one in _FIELDS[type(event)].items()}


def event_in(sent: Any) -> Event:
    """Returns the event that decoded JSON describes; Invalid names what is missing."""
    if not isinstance(sent, dict):
        raise Invalid("event: an event is an object")
    kind = EVENT_CLASSES.get(str(sent.get("type")))
    if kind is None or LEFT_OUT in sent:
        rest = {name: value for name, value in sent.items() if name not in _COMMON}
        return OtherEvent(**_read(Event, sent), fields=rest)
    return kind(**_read(kind, sent))


def _read(kind: type[Event], sent: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values of the fields of a class; fields that it does not have are left aside."""
    found: dict[str, Any] = {}
    for name, field in _FIELDS[kind].items():
        if field.name not in sent:
            raise Invalid(f"event: the field `{field.name}` is missing")
        where = f"event.{field.name}"
        found[name] = field.back(convert(sent[field.name], field.of, where))
    return found


def encode_event(event: Event, bytes_max: int | None = None, without: Sequence[str] = ()) -> bytes:
    """Returns the bytes of an event, of at most `bytes_max` if they can be that few.

    What identifies the event is sent whatever its size is. `without` names fields of the model that
    its receiver may not see.
    """
    body = encode(_shown(event, without))
    if bytes_max is None or len(body) <= bytes_max:
        return body
    if isinstance(event, CommitMade) and event.operations:
        body = _with_fewer_operations(event, bytes_max, without)
        if len(body) <= bytes_max:
            return body
        event = _without_operations(event, 0)
    shown = _shown(event, without)
    left_out: list[str] = shown.get(LEFT_OUT, [])
    sizes = {name: len(encode(value)) for name, value in shown.items() if name not in _KEPT}
    for name in sorted(sizes, key=lambda name: (-sizes[name], name)):
        del shown[name]
        left_out.append(name)
        shown[LEFT_OUT] = left_out
        body = encode(shown)
        if len(body) <= bytes_max:
            break
    return body


def _shown(event: Event, without: Sequence[str]) -> dict[str, Any]:
    """Returns an event as JSON without the fields that its receiver may not see."""
    shown = event_out(event)
    if without:
        names = [_FIELDS[type(event)][name].name for name in without]
        for name in names:
            del shown[name]
        shown[LEFT_OUT] = names
    return shown


def _with_fewer_operations(event: CommitMade, bytes_max: int, without: Sequence[str]) -> bytes:
    """Lists as many operations as fit: the largest number is searched by halves."""
    fits, too_many = 0, len(event.operations)
    body = encode(_shown(_without_operations(event, 0), without))
    while too_many - fits > 1:
        middle = (fits + too_many) // 2
        tried = encode(_shown(_without_operations(event, middle), without))
        if len(tried) <= bytes_max:
            fits, body = middle, tried
        else:
            too_many = middle
    return body


def _without_operations(event: CommitMade, kept: int) -> CommitMade:
    return msgspec.structs.replace(
        event,
        operations=event.operations[:kept],
        operations_left_out=event.operations_left_out + len(event.operations) - kept,
    )
