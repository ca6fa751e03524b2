"""Events as lines: in the log of the process, or in a file with one JSON object for each."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from lochan.base.errors import Invalid
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


def open_log(argument: str) -> LogSubscriber:
    """The entry point `log`; it takes no argument."""
    if argument:
        raise Invalid("the subscriber `log` takes no argument")
    return LogSubscriber()


def open_json_lines(argument: str) -> JsonLinesSubscriber:
    """The entry point `json-lines`; the argument is the path of a file."""
    if not argument:
        raise Invalid("the subscriber `json-lines` needs a file: json-lines=PATH")
    return JsonLinesSubscriber(Path(argument))
