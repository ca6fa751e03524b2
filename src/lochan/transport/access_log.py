"""One line for each request. Names of users, tokens and bodies never appear in it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Literal

import msgspec

from lochan.base.masks import mask_bytes
from lochan.transport.observers import Finished

Write = Callable[[str], object]


class AccessLog:
    """Writes lines as text for people or as JSON for machines."""

    def __init__(self, form: Literal["text", "json"], write: Write = sys.stderr.write) -> None:
        self._form = form
        self._write = write

    def finished(self, done: Finished) -> None:
        """Writes the line of a request."""
        when = datetime.now(UTC).isoformat(timespec="milliseconds")
        milliseconds = done.duration_ns / 1e6
        # Only printable ASCII passes the checks of a request, so a path cannot forge a line.
        path = mask_bytes(done.path).decode("ascii", "backslashreplace")
        if self._form == "json":
            line = {
                "time": when,
                "id": done.request_id,
                "method": done.method,
                "path": path,
                "route": done.route,
                "repository": done.repository,
                "status": done.status,
                "bytes_in": done.bytes_in,
                "bytes_out": done.bytes_out,
                "ms": round(milliseconds, 3),
            }
            self._write(msgspec.json.encode(line).decode() + "\n")
        else:
            self._write(
                f"{when} {done.status} {done.method} {path} {milliseconds:.3f}ms "
                f"{done.bytes_out}B {done.request_id}\n"
            )
