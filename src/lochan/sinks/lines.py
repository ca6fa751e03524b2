"""Events as lines: in the log of the process, or in a file with one JSON object for each."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from lochan.events.options import read_options
from lochan.events.subscribers import EventListener, Registrar
from lochan.model.events import Event
from lochan.wire.events import encode_event

_LOG: Final = logging.getLogger("lochan.events")


class LogSubscriber(EventListener):
    """Writes a line with names and ids to the log for each event; no contents."""

    def register(self, registrar: Registrar) -> None:
        """Subscribes to everything."""
        registrar.subscribe(self)

    def on_event(self, event: Event) -> None:
        """Writes one line."""
        _LOG.info(
            "event type=%s id=%s repository=%s reference=%s",
            event.type,
            event.id,
            event.repository,
            event.reference.name,
        )


class JsonLinesSubscriber(EventListener):
    """Appends each event to a file, as one JSON object on a line of its own."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def register(self, registrar: Registrar) -> None:
        """Opens the file, so that one that cannot be written is reported at the start."""
        self._file = self._path.open("ab")
        registrar.subscribe(self)

    def on_event(self, event: Event) -> None:
        """Writes one line; it is in the file when the call returns."""
        self._file.write(encode_event(event) + b"\n")
        self._file.flush()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


class LogOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The type `log` has no keys of its own."""


class JsonLinesOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The keys of the type `json-lines`."""

    path: str


def open_log(given: Mapping[str, Any]) -> LogSubscriber:
    """The type `log`."""
    read_options(given, LogOptions)
    return LogSubscriber()


def open_json_lines(given: Mapping[str, Any]) -> JsonLinesSubscriber:
    """The type `json-lines`."""
    return JsonLinesSubscriber(Path(read_options(given, JsonLinesOptions).path))
