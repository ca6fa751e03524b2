"""Signing keys from a file, which is read again when it has changed.

A file that cannot be read, or not understood, changes nothing: the last good keys are used for a
bounded time, and the log states the reason. To withdraw a key, write a file without it.
"""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path
from typing import Final

from lochan.access.signing_keys import SigningKey, parse_key_set
from lochan.base.errors import Invalid
from lochan.base.limits.credentials import KEY_FILE_CHECK_MS, KEY_SET_BYTES_MAX
from lochan.base.ports import Clock
from lochan.identity.known_keys import NS_PER_MS, KnownKeys, check_known, find_known

_LOG: Final = logging.getLogger("lochan.identity")

_Version = tuple[int, int, int, int]


class KeyFile:
    """A source of keys; for any number of threads. Invalid if the file cannot be used at first."""

    def __init__(self, path: str | Path, clock: Clock) -> None:
        self._path = Path(path).absolute()
        self._clock = clock
        self._checked_ns = clock.monotonic_ns()
        self._version: _Version | None = None
        self._known = self._read()

    def find_key(self, key_id: str) -> SigningKey | None:
        """Returns the key with an id, None if the file has none."""
        now_ns = self._clock.monotonic_ns()
        if now_ns - self._checked_ns >= KEY_FILE_CHECK_MS * NS_PER_MS:
            self._checked_ns = now_ns
            self._reload()
        check_known(self._known, self._clock, str(self._path))
        return find_known(self._known, key_id, self._clock)

    def _reload(self) -> None:
        try:
            self._known = self._read()
        except Invalid as error:
            _LOG.error("signing keys not reloaded file=%s reason=%r", self._path, error.message)

    def _read(self) -> KnownKeys:
        """Returns the keys of the file; those of before if it has not changed."""
        began_ns = self._clock.monotonic_ns()
        try:
            version = self._version_now()
            if version == self._version:
                return KnownKeys(self._known.keys, began_ns)
            with self._path.open("rb") as file:
                raw = file.read(KEY_SET_BYTES_MAX + 1)
        except OSError as error:
            reason = os.strerror(error.errno or 0)
            raise Invalid(
                f"the file of signing keys {self._path} cannot be read: {reason}"
            ) from None
        try:
            keys = parse_key_set(raw)
        except Invalid as error:
            raise Invalid(f"the file of signing keys {self._path}: {error.message}") from None
        # Only now: a file that was read while it was written is read again.
        self._version = version
        _LOG.info("signing keys read file=%s keys=%d", self._path, len(keys.keys))
        return KnownKeys(keys, began_ns)

    def _version_now(self) -> _Version:
        found = self._path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise Invalid(f"the file of signing keys {self._path} is no file")
        return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size
