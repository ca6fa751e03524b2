"""Which subscribers a server has, read from its settings.

The setting `subscribers` is a table: a name for each subscriber, and its keys. The keys of
`SubscriberKeys` mean the same for every type, and are checked before anything is opened. All others
are options of the type, which checks them itself when the subscriber is registered: a package that
cannot be used never stops a server.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from lochan.assembly.plugins import load_plugin
from lochan.base.errors import Invalid
from lochan.base.limits.events import (
    EVENT_AGE_S_CEILING,
    EVENT_ATTEMPTS_CEILING,
    EVENT_BREAKER_MS_CEILING,
    EVENT_CALL_MS_CEILING,
    EVENT_POLL_MS_CEILING,
    EVENT_QUEUE_CEILING,
    EVENT_SUBSCRIPTIONS_MAX,
)
from lochan.events.filters import CompiledFilter, EventFilter
from lochan.events.options import read_options
from lochan.events.subscribers import (
    DeliveryOptions,
    DropPolicy,
    Subscriber,
    SubscriberFactory,
)
from lochan.model.events import EVENT_TYPES

SUBSCRIBER_GROUP: Final = "lochan.subscribers"

LoadSubscriber = Callable[[], Subscriber]

# It is a label of metrics, a field of logs and a part of rows.
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")

_FILTER_KEYS: Final = EventFilter.__struct_fields__

_DURABLE_KEYS: Final = ("poll_ms", "age_s_max")


class SubscriberKeys(msgspec.Struct, frozen=True, kw_only=True):
    """The keys that every type of subscriber has."""

    type: str
    delivery: Literal["at-most-once", "at-least-once"] = "at-most-once"
    identity: str = ""
    types: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    content_types: tuple[str, ...] = ()
    file_prefixes: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    repositories: tuple[str, ...] = ()
    expression: str = ""
    queue_max: Annotated[int, Meta(ge=1, le=EVENT_QUEUE_CEILING)] | None = None
    drop: DropPolicy | None = None
    attempts_max: Annotated[int, Meta(ge=1, le=EVENT_ATTEMPTS_CEILING)] | None = None
    call_ms_max: Annotated[int, Meta(ge=1, le=EVENT_CALL_MS_CEILING)] | None = None
    breaker_ms: Annotated[int, Meta(ge=1, le=EVENT_BREAKER_MS_CEILING)] | None = None
    poll_ms: Annotated[int, Meta(ge=1, le=EVENT_POLL_MS_CEILING)] | None = None
    age_s_max: Annotated[int, Meta(ge=1, le=EVENT_AGE_S_CEILING)] | None = None


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """A subscriber that is to be registered: how it is loaded, and what an operator chose for it.

    What the subscriber chooses itself is narrowed by `filter` and replaced by `chosen`, the values
    of `DeliveryOptions` that the settings have.
    """

    name: str
    load: LoadSubscriber
    filter: EventFilter = EventFilter()
    chosen: Mapping[str, Any] = msgspec.field(default_factory=dict)
    is_at_least_once: bool = False
    identity: str = ""

    def options(self, given: DeliveryOptions | None, subscription: str) -> DeliveryOptions:
        """Returns the options of a subscription; its cursor has the name of the subscription."""
        options = msgspec.structs.replace(given or DeliveryOptions(), **self.chosen)
        if self.is_at_least_once:
            return msgspec.structs.replace(options, cursor=subscription)
        return options


def read_subscribers(tables: Mapping[str, Mapping[str, Any]]) -> list[Registration]:
    """Returns what the setting `subscribers` asks for; Invalid names the subscriber and the key."""
    if len(tables) > EVENT_SUBSCRIPTIONS_MAX:
        raise Invalid(f"there are at most {EVENT_SUBSCRIPTIONS_MAX} subscribers")
    return [_read_subscriber(name, table) for name, table in tables.items()]


def _read_subscriber(name: str, table: Mapping[str, Any]) -> Registration:
    if not _NAME.fullmatch(name):
        raise Invalid(
            f"a subscriber cannot have the name {name!r}: use up to 64 of a-z, 0-9, _ and -, "
            "beginning with a letter or a digit"
        )
    common = {key: value for key, value in table.items() if key in SubscriberKeys.__struct_fields__}
    own = {key: value for key, value in table.items() if key not in common}
    try:
        keys = read_options(common, SubscriberKeys)
        wanted = EventFilter(**{key: getattr(keys, key) for key in _FILTER_KEYS})
        CompiledFilter(wanted)
        _check_types(keys)
        _check_available(keys)
    except Invalid as error:
        raise Invalid(f"the subscriber {name!r}: {error.message}") from None
    chosen = {
        key: value
        for key in DeliveryOptions.__struct_fields__
        if (value := getattr(keys, key, None)) is not None
    }
    return Registration(
        name=name,
        load=partial(_load, keys.type, own),
        filter=wanted,
        chosen=chosen,
        is_at_least_once=keys.delivery == "at-least-once",
        identity=keys.identity,
    )


def _check_types(keys: SubscriberKeys) -> None:
    unknown = sorted(set(keys.types) - EVENT_TYPES)
    if unknown:
        known = ", ".join(sorted(EVENT_TYPES))
        raise Invalid(f"the key 'types': there is no type {unknown[0]!r}; there are {known}")


def _check_available(keys: SubscriberKeys) -> None:
    """Refuses what would promise more than is done, and keys without an effect."""
    without = ("queue_max", "drop") if keys.delivery == "at-least-once" else _DURABLE_KEYS
    for key in without:
        if getattr(keys, key) is not None:
            raise Invalid(
                f"the key {key!r} has no meaning with delivery {keys.delivery}; leave it out, or "
                "choose the other 'delivery'"
            )


def _load(type_name: str, own: Mapping[str, Any]) -> Subscriber:
    """Makes a subscriber of a type, with the keys that are its own."""
    factory: SubscriberFactory = load_plugin(SUBSCRIBER_GROUP, "subscriber", type_name)
    try:
        return factory(own)
    except Invalid as error:
        raise Invalid(f"the type {type_name!r}: {error.message}") from error
