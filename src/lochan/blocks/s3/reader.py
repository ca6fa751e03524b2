"""Reads from S3: exactly the requested bytes, resumed where a connection was cut, or an error."""

from __future__ import annotations

import re
from collections.abc import Iterator
from threading import BoundedSemaphore
from typing import Any, Final

from lochan.base.errors import Corrupt, NotFound, StoreForked
from lochan.base.limits.blocks import BLOCK_PIECE_BYTES, S3_ATTEMPTS_MAX
from lochan.blocks.s3.failures import unavailable
from lochan.blocks.s3.objects import GONE, S3Objects, etag_of
from lochan.process import FORK_ADVICE, after_fork, never_destroy
from lochan.staging.block_store import changed_import

_RANGE: Final = re.compile(r"bytes (\d+)-(\d+)/(\d+)\Z")
_CHANGED: Final = frozenset({"PreconditionFailed", "412"})
_OUTSIDE: Final = frozenset({"InvalidRange", "416"})


class S3Reader:
    """Yields [start, end) of an object that must have this size; holds a slot while it is open.

    A read that was cut goes on with a new request from where it stopped, on condition that the
    object is still the same; it gives up after some requests that brought nothing.
    """

    def __init__(
        self, objects: S3Objects, key: str, start: int, end: int, *, size: int, etag: str
    ) -> None:
        self._objects = objects
        self._key = key
        self._position = start
        self._end = end
        self._size = size
        self._etag = etag
        # Foreign objects are read with the etag of their entry, and may be deleted by their owner.
        self._foreign = bool(etag)
        self._forked = False
        self._body: Any = None
        self._slot: BoundedSemaphore | None = None
        if start == end:
            self._check_empty()
            return
        self._slot = objects.client.take_slot()
        try:
            self._open()
        except BaseException:
            self.close()
            raise
        after_fork(self, S3Reader._in_child)

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        if self._forked:
            raise StoreForked(f"this read belongs to the parent process; {FORK_ADVICE}")
        if self._position == self._end or self._slot is None:
            self.close()
            raise StopIteration
        try:
            piece = self._read()
        except BaseException:
            self.close()
            raise
        self._position += len(piece)
        if self._position == self._end:
            self.close()
        return piece

    def close(self) -> None:
        """Ends the request and frees its slot; idempotent."""
        if self._forked:
            return
        body, self._body = self._body, None
        if body is not None:
            body.close()
        slot, self._slot = self._slot, None
        if slot is not None:
            slot.release()

    def __del__(self) -> None:
        self.close()

    def _in_child(self) -> None:
        """Leaves the connection to the parent; the slots of a child are its own."""
        self._forked = True
        if self._body is not None:
            never_destroy(self._body)

    def _read(self) -> bytes:
        from botocore.exceptions import BotoCoreError, HTTPClientError

        wanted = min(BLOCK_PIECE_BYTES, self._end - self._position)
        reason = "it ended early"
        for _ in range(S3_ATTEMPTS_MAX):
            try:
                if self._body is None:
                    self._open()
                piece: bytes = self._body.read(wanted)
            except (BotoCoreError, HTTPClientError, OSError) as error:
                reason, piece = f"{type(error).__name__} {error}"[:300], b""
            if piece:
                return piece
            body, self._body = self._body, None
            if body is not None:
                body.close()
        raise unavailable(
            f"reading {self._key} from S3 stopped at byte {self._position} of {self._end}: {reason}"
        )

    def _open(self) -> None:
        """Requests the rest of the range and checks that the object is the expected one."""
        condition: dict[str, Any] = {"IfMatch": f'"{self._etag}"'} if self._etag else {}
        answer = self._objects.client.call_in_slot(
            "get_object",
            absent=GONE | _CHANGED | _OUTSIDE,
            Bucket=self._objects.bucket,
            Key=self._key,
            Range=f"bytes={self._position}-{self._end - 1}",
            **condition,
        )
        if answer is None:
            self._explain()
            return
        self._body = answer["Body"]
        self._etag = etag_of(answer)
        found = _RANGE.match(answer.get("ContentRange", ""))
        if found is None:
            raise unavailable(f"S3 answered a range of {self._key} without stating which")
        first, last, size = map(int, found.groups())
        self._check_size(size)
        if (first, last + 1) != (self._position, self._end):
            raise unavailable(f"S3 answered bytes {first} to {last} of {self._key}, not the range")

    def _explain(self) -> None:
        """Finds out why there is no such range; always raises."""
        # The request that finds it out needs the slot of this one.
        self.close()
        self._check_empty()
        raise unavailable(f"S3 refused a range of {self._key} that exists")

    def _check_empty(self) -> None:
        """Raises unless the object exists with the expected size and etag."""
        head = self._objects.head(self._key)
        if head is None:
            if self._foreign:
                raise NotFound(f"the object {self._key} no longer exists")
            raise Corrupt(f"the block {self._key} is missing", missing=True)
        self._check_size(head.size)
        if self._etag and head.etag != self._etag:
            raise changed_import(f"the object {self._key} was changed after it was imported")

    def _check_size(self, size: int) -> None:
        if size != self._size:
            text = f"{self._key} has {size} bytes, its entry states {self._size}"
            raise changed_import(text) if self._foreign else Corrupt(text)
