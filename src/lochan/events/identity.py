"""What a subscriber with an identity gets: what that user may read, and nothing else.

An event needs the right to read the log of its reference. One of a key or of a file needs the right
to read that key too, and to read its content if the event shows it. A commit lists the operations
on keys that may be read, and does not count what it does not list. A merge or transplant names its
source if that may be viewed. Messages are those of the log (`docs/security.md`).

Rights are those at the time of delivery. Of a user that does not exist they are not known: then no
event is delivered, and the status says why.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from lochan.access.policy import Action, KeyRight, Principal, Rights
from lochan.base.keys import file_key, table_key
from lochan.events.changes import Change
from lochan.events.filters import key_of
from lochan.events.reactions import ReceiverRefused
from lochan.events.subscribers import EventListener, hand_over
from lochan.model import events
from lochan.model.events import Event, OperationSummary

FindUser = Callable[[str], Principal | None]
"""Returns a user with its present rights, None if there is none; may read the store."""

_SHOWS_CONTENT: Final = frozenset({events.CONTENT_STORED, events.FILE_STORED})


class SubscriberIdentity:
    """A user by its name, and what it may see at the moment."""

    def __init__(self, user: str, find_user: FindUser) -> None:
        self._user = user
        self._find_user = find_user

    def rights(self) -> Rights | None:
        """Returns what the user may do; None if there is no such user."""
        found = self._find_user(self._user)
        return None if found is None else found.rights

    def refusal(self) -> ReceiverRefused:
        """Returns why nothing is delivered: an operator can create the user, or name another."""
        return ReceiverRefused(f"there is no user {self._user!r}, whose rights bound what it gets")


class VisibleEvents:
    """A filter that accepts what an identity may see, also in part; all while it is not known."""

    narrows = False

    def __init__(self, identity: SubscriberIdentity) -> None:
        self._identity = identity

    def wanted_types(self, change: Change) -> frozenset[str]:
        """Returns all types of a change: rights are those at the time of delivery."""
        return change.types

    def accepts_repository(self, name: str) -> bool:  # noqa: ARG002 - the same
        """Returns True."""
        return True

    def accepts_reference(self, name: str) -> bool:  # noqa: ARG002 - the same
        """Returns True."""
        return True

    def accepts_key(self, key: bytes) -> bool:  # noqa: ARG002 - the same
        """Returns True."""
        return True

    def accepts(self, event: Event) -> bool:
        """Returns whether anything of an event may be seen."""
        rights = self._identity.rights()
        return rights is None or shown_to(rights, event) is not None


class BoundedListener(EventListener):
    """Hands over what an identity may see of each event."""

    def __init__(self, listener: EventListener, identity: SubscriberIdentity) -> None:
        self._listener = listener
        self._identity = identity

    def on_event(self, event: Event) -> None:
        """Hands an event over; one that may not be seen any more is left out."""
        rights = self._identity.rights()
        if rights is None:
            raise self._identity.refusal()
        shown = shown_to(rights, event)
        if shown is not None:
            hand_over(self._listener, shown)

    def close(self) -> None:
        """Closes the listener."""
        self._listener.close()


def shown_to(rights: Rights, event: Event) -> Event | None:
    """Returns an event as someone with these rights sees it; None if it may not be seen."""
    repository, reference = event.repository, event.reference.name
    if isinstance(event, events.GapFound):
        return _with_missed(rights, event)
    if not rights.allows(Action.READ_LOG, repository, reference):
        return None
    key = key_of(event)
    if key is not None:
        shows = event.type in _SHOWS_CONTENT
        needed = Action.READ_CONTENT if shows else Action.READ_ENTRIES
        return event if _covers(rights.key_right(needed, repository, reference), key) else None
    if isinstance(event, events.CommitMade):
        return _with_operations(event, rights.key_right(Action.READ_ENTRIES, repository, reference))
    if isinstance(event, events.MergeMade | events.TransplantMade):
        # A source is named by itself, or with a commit behind its name.
        source = event.source.partition("@")[0] or None
        if not rights.allows(Action.VIEW_REFERENCE, repository, source):
            return _without_source(event)
        return event
    # A type that is not judged here is not shown.
    return event if event.type in events.REFERENCE_TYPES else None


def _with_operations(event: events.CommitMade, right: KeyRight | None) -> Event:
    """Leaves out operations on keys that may not be read; how many are not listed counts those."""
    if right is None:
        return event
    listed = tuple([one for one in event.operations if right.covers(_key_of(one))])
    return msgspec.structs.replace(event, operations=listed, operations_left_out=0)


def _with_missed(rights: Rights, event: events.GapFound) -> Event | None:
    """Leaves out references of which nothing would have been shown."""
    repository = event.repository
    missed = tuple(
        [one for one in event.missed if rights.allows(Action.READ_LOG, repository, one.name)]
    )
    if not missed and not (rights.sees(repository) and not event.reference.name):
        return None
    # Those that are not listed are counted for who may read the log of every reference.
    left_out = event.missed_left_out if rights.allows(Action.READ_LOG, repository) else 0
    return msgspec.structs.replace(event, missed=missed, missed_left_out=left_out)


def _without_source(event: events.MergeMade | events.TransplantMade) -> Event:
    if isinstance(event, events.TransplantMade):
        return msgspec.structs.replace(event, source="")
    return msgspec.structs.replace(event, source="", source_hash="", common_ancestor="")


def _covers(right: KeyRight | None, key: bytes) -> bool:
    return right is None or right.covers(key)


def _key_of(one: OperationSummary) -> bytes:
    return bytes(table_key(one.key) if one.key else file_key(one.path))
