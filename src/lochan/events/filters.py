"""Filters of subscriptions: which events a subscriber gets.

A filter is applied twice. Before a change is queued it is decided from memory whether any of its
events may be accepted: by repository, reference, types, initiators, and by the keys that its
commits list. When the events are made, each is judged exactly, keys and types of contents before
the contents are read.

Patterns have `*` for any number of characters and `?` for one. A key is compared as its elements
joined by dots. The expression is CEL with the variables of access conditions (`rules/conditions`):
`op` is the type of the event, `role` the initiator, `roles`, `repository`, `ref`, and `path`, the
key or the file. An event for which it fails is not accepted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

from lochan.base.errors import Invalid
from lochan.base.keys import SEPARATOR, Universe, file_key, is_record, table_key
from lochan.base.limits.events import EVENT_PATTERNS_MAX
from lochan.events.changes import Change, initiators_of, own_keys_of
from lochan.model import events
from lochan.model.events import Event
from lochan.rules.conditions import Condition, compile_condition

_OF_CONTENT: Final = events.CONTENT_TYPES | events.FILE_TYPES

# Each star may multiply the time of matching by the length of a name.
_STARS_MAX: Final = 3


class EventFilter(msgspec.Struct, frozen=True, kw_only=True):
    """What a subscriber wants; an empty field accepts everything.

    With `keys` or `content_types` no event of a file is accepted unless `file_prefixes` accepts
    it, and the other way round. Events of references and commits are not judged by these three.
    """

    types: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    content_types: tuple[str, ...] = ()
    file_prefixes: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    repositories: tuple[str, ...] = ()
    expression: str = ""


class AnyFilter(Protocol):
    """What decides which events a subscription gets."""

    narrows: bool
    """Whether there are keys that it does not accept."""

    def wanted_types(self, change: Change) -> frozenset[str]:
        """Returns the types of events of a change that may be accepted; empty if none may."""
        ...

    def accepts_repository(self, name: str) -> bool:
        """Returns whether events of a repository may be accepted."""
        ...

    def accepts_reference(self, name: str) -> bool:
        """Returns whether events of a reference may be accepted."""
        ...

    def accepts_key(self, key: bytes) -> bool:
        """Returns whether the filter accepts a stored key, of a content or of a file."""
        ...

    def accepts(self, event: Event) -> bool:
        """Judges an event exactly."""
        ...


class CompiledFilter:
    """A filter that is checked and ready; Invalid if it cannot be."""

    def __init__(self, given: EventFilter) -> None:
        many = max(map(len, (given.types, given.references, given.keys, given.content_types)))
        if max(many, len(given.file_prefixes), len(given.roles)) > EVENT_PATTERNS_MAX:
            raise Invalid(f"a filter has at most {EVENT_PATTERNS_MAX} values of one kind")
        self._given = given
        self.types = frozenset(given.types)
        self._references = _compile(given.references)
        self._keys = _compile(given.keys)
        self._repositories = _compile(given.repositories)
        self._roles = frozenset(given.roles)
        self._prefixes = tuple(b"f" + prefix.encode() for prefix in given.file_prefixes)
        self.narrows = bool(given.keys or given.content_types or given.file_prefixes)
        self._condition: Condition | None = None
        if given.expression:
            self._condition = compile_condition(given.expression)

    def wanted_types(self, change: Change) -> frozenset[str]:
        """Returns the types of events of a change that may be accepted; empty if none may."""
        row = change.row
        if not self.accepts_repository(change.context.description.name):
            return frozenset()
        if not self.accepts_reference(row.name):
            return frozenset()
        found = change.types
        if self.types:
            found &= self.types
        if self._roles and not any(
            self._roles.intersection(one.roles) for one in initiators_of(change)
        ):
            return frozenset()
        if self.narrows and found & _OF_CONTENT:
            own = own_keys_of(change)
            if own is not None and not any(map(self.accepts_key, own)):
                found -= _OF_CONTENT
        return found

    def accepts_repository(self, name: str) -> bool:
        """Returns whether events of a repository may be accepted."""
        return not self._repositories or bool(self._repositories.fullmatch(name))

    def accepts_reference(self, name: str) -> bool:
        """Returns whether events of a reference may be accepted."""
        return not self._references or bool(self._references.fullmatch(name))

    def accepts_key(self, key: bytes) -> bool:
        """Returns whether the filter accepts a stored key, of a content or of a file."""
        if not self.narrows:
            return True
        if key[0] == Universe.FILES:
            return not is_record(key) and bool(self._prefixes) and key.startswith(self._prefixes)
        if not self._given.keys:
            return bool(self._given.content_types)
        return self._keys is None or bool(self._keys.fullmatch(_dotted(key)))

    def accepts(self, event: Event) -> bool:
        """Judges an event exactly."""
        if self.types and event.type not in self.types:
            return False
        if self._roles and not self._roles.intersection(event.roles):
            return False
        if not self.narrows and self._condition is None:
            return True
        key = key_of(event)
        if key is not None and not self.accepts_key(key):
            return False
        types = self._given.content_types
        if types and isinstance(event, events.ContentStored | events.ContentRemoved):
            if event.content_type not in types:
                return False
        return self._condition is None or self._holds(self._condition, event, key)

    def _holds(self, condition: Condition, event: Event, key: bytes | None) -> bool:
        bound = condition.bind(
            {
                "op": event.type,
                "role": event.initiator,
                "roles": event.roles,
                "repository": event.repository,
                "ref": event.reference.name,
            }
        )
        return condition.evaluate(bound, key) is True


class BothFilters:
    """Accepts what two filters accept, such as that of a subscriber and that of an operator."""

    def __init__(self, first: AnyFilter, second: AnyFilter) -> None:
        self._first = first
        self._second = second
        self.narrows = first.narrows or second.narrows

    def wanted_types(self, change: Change) -> frozenset[str]:
        """Returns the types of events of a change that may be accepted by both."""
        found = self._first.wanted_types(change)
        return found & self._second.wanted_types(change) if found else found

    def accepts_repository(self, name: str) -> bool:
        """Returns whether both accept a repository."""
        return self._first.accepts_repository(name) and self._second.accepts_repository(name)

    def accepts_reference(self, name: str) -> bool:
        """Returns whether both accept a reference."""
        return self._first.accepts_reference(name) and self._second.accepts_reference(name)

    def accepts_key(self, key: bytes) -> bool:
        """Returns whether both accept a stored key."""
        return self._first.accepts_key(key) and self._second.accepts_key(key)

    def accepts(self, event: Event) -> bool:
        """Judges an event exactly."""
        return self._first.accepts(event) and self._second.accepts(event)


def key_of(event: Event) -> bytes | None:
    """Returns the stored key that an event is about, None if it is about none."""
    if isinstance(event, events.ContentStored | events.ContentRemoved):
        return table_key(event.key)
    if isinstance(event, events.FileStored | events.FileRemoved):
        return file_key(event.path)
    return None


def _dotted(key: bytes) -> str:
    return key[1:].decode("utf-8", "replace").replace(SEPARATOR, ".")


def _compile(patterns: Sequence[str]) -> re.Pattern[str] | None:
    """Returns one expression for all patterns; few stars in each bound the time of matching."""
    if not patterns:
        return None
    return re.compile("|".join(f"(?:{_translated(pattern)})" for pattern in patterns), re.DOTALL)


def _translated(pattern: str) -> str:
    if pattern.count("*") > _STARS_MAX:
        raise Invalid(f"a pattern has at most {_STARS_MAX} stars")
    parts = re.split(r"(\*+|\?)", pattern)
    return "".join(
        ".*" if part.startswith("*") else "." if part == "?" else re.escape(part) for part in parts
    )
