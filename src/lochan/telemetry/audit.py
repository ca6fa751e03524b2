"""The audit log: a line of JSON for each decision on a request, and for each attempt to log in.

A line contains names, addresses and ids, never a secret, a content or a message. It is made by the
thread that decides and written by a thread of its own. No line is dropped: if the file cannot be
written, the writer tries again until it can, and when the queue is full, requests wait for it.
What a server has not written yet is lost if its process is killed.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from queue import Empty, Full, Queue
from threading import Event, Thread
from typing import Any, Final, Literal

import msgspec

from lochan.access.actions import READING
from lochan.access.audit import AuditEvent
from lochan.access.policy import Action
from lochan.base.errors import Invalid
from lochan.base.limits.server import AUDIT_QUEUE_MAX, AUDIT_RETRY_S, DRAIN_TIMEOUT_S
from lochan.base.masks import mask_bytes

Level = Literal["denied", "writes", "all"]
"""Which decisions are written; each level includes the ones before it."""

_LOG: Final = logging.getLogger("lochan.audit")
_OWNER_ONLY: Final = 0o600
_STANDARD_ERROR: Final = 2
_APPEND: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
_READS: Final = READING | {Action.READ_ACCESS, Action.READ_METRICS}

# Lines that are written by one call.
_TOGETHER_MAX: Final = 256

Write = Callable[[bytes], None]

write_bytes: Final = os.write
"""Writes some bytes to a descriptor; tests let it fail."""


class AuditLog:
    """Makes the lines; an `Audit` for the policy of a server."""

    def __init__(self, level: Level, write: Write) -> None:
        self._level = level
        self._write = write

    def wants(self, action: Action, allowed: bool) -> bool:
        """Returns whether a decision is written."""
        if not allowed or self._level == "all":
            return True
        return self._level == "writes" and action not in _READS

    def record(self, event: AuditEvent) -> None:
        """Writes a decision."""
        self._put(
            {
                "event": "decision",
                "principal": event.principal,
                "roles": event.roles,
                "credential": event.credential,
                "origin": event.origin,
                "request": event.trace,
                "action": event.action.value,
                "repository": event.repository,
                "reference": event.reference,
                "keys": event.keys,
                "key_count": event.key_count,
                "allowed": event.allowed,
                "reason": event.reason,
            }
        )

    def record_attempt(
        self,
        event: Literal["authentication", "login", "repository", "setup"],
        *,
        principal: str = "",
        origin: str = "",
        request: str = "",
        route: str = "",
        allowed: bool,
        reason: str = "",
    ) -> None:
        """Writes that credentials were refused, or that a caller has logged in or set up.

        `repository`: that a caller has no right at all in the repository that it names.
        """
        self._put(
            {
                "event": event,
                "principal": principal,
                "origin": origin,
                "request": request,
                "route": route,
                "allowed": allowed,
                "reason": reason,
            }
        )

    def _put(self, fields: dict[str, Any]) -> None:
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._write(encode_line({"time": time, **fields}))


def encode_line(fields: dict[str, Any]) -> bytes:
    """Returns one line of printable ASCII: names cannot forge a line or steer a terminal."""
    line = msgspec.json.encode(fields)
    if not line.isascii():
        line = json.dumps(fields, separators=(",", ":")).encode("ascii")
    return mask_bytes(line.replace(b"\x7f", b"\\u007f")) + b"\n"


class AuditWriter:
    """Appends lines to a file, in a thread; the file is made for its owner only.

    `reopen` lets the file be renamed by a tool that rotates logs. Without a path lines go to
    standard error.
    """

    def __init__(self, path: str = "", queue_max: int = AUDIT_QUEUE_MAX) -> None:
        self._path = path
        self._queue: Queue[bytes | None] = Queue(queue_max)
        self._reopen = Event()
        self._stopping = Event()
        self._file = self._open()
        self._thread = Thread(target=self._serve, name="lochan-audit", daemon=True)
        self._thread.start()

    def write(self, line: bytes) -> None:
        """Takes a line; waits if too many wait already."""
        self._queue.put(line)

    def reopen(self) -> None:
        """Opens the file anew, before the next line is written."""
        self._reopen.set()

    def close(self, timeout_s: float = DRAIN_TIMEOUT_S) -> None:
        """Writes what is left; what cannot be written now is given up, and counted in the log."""
        self._stopping.set()
        with suppress(Full):
            self._queue.put(None, timeout=timeout_s)
        self._thread.join(timeout_s)
        if self._path and not self._thread.is_alive():
            os.close(self._file)

    def _open(self) -> int:
        if not self._path:
            return _STANDARD_ERROR
        try:
            return os.open(self._path, _APPEND, _OWNER_ONLY)
        except OSError as error:
            reason = os.strerror(error.errno or 0)
            raise Invalid(
                f"the file {self._path} of the setting audit_file cannot be written: {reason}"
            ) from None

    def _serve(self) -> None:
        ended = False
        while not ended:
            lines = self._take()
            ended = lines[-1] is None
            if self._reopen.is_set():
                self._reopen.clear()
                self._replace_file()
            rest = memoryview(b"".join(line for line in lines if line is not None))
            while rest:
                rest = rest[self._write_some(rest) :]

    def _take(self) -> list[bytes | None]:
        """Waits for lines; None is the last of all."""
        lines = [self._queue.get()]
        with suppress(Empty):
            while lines[-1] is not None and len(lines) < _TOGETHER_MAX:
                lines.append(self._queue.get_nowait())
        return lines

    def _write_some(self, rest: memoryview) -> int:
        """Returns how many bytes were written, or given up because the server stops."""
        try:
            return write_bytes(self._file, rest)
        except OSError as error:
            reason = os.strerror(error.errno or 0)
            if self._stopping.wait(AUDIT_RETRY_S):
                lost = bytes(rest).count(b"\n")
                _LOG.critical("audit log lost file=%s lines=%d error=%r", self._path, lost, reason)
                return len(rest)
            _LOG.error("audit log not written, trying again file=%s error=%r", self._path, reason)
            return 0

    def _replace_file(self) -> None:
        try:
            opened = self._open()
        except Invalid as error:
            _LOG.error("audit log not reopened error=%r", error.message)
            return
        if opened != self._file:
            os.close(self._file)
            self._file = opened
