"""A body of the type multipart/form-data, read as it comes: the bytes of one of its fields.

lakeFS clients send an object as the field `content`. Everything before it is passed over, within a
limit; what follows it has to be the end of the form or further fields, and is read to its end, so
that a body that is cut off is never taken for a whole one.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Final

from lochan.base.errors import Invalid
from lochan.base.limits.http import FORM_OVERHEAD_BYTES_MAX
from lochan.transport.body_streams import BodyStream

FIELD: Final = "content"

_BOUNDARY: Final = re.compile(
    r"multipart/form-data\s*;.*?\bboundary=(?:\"([^\"]{1,70})\"|([^\s;]{1,70}))", re.IGNORECASE
)
_NAME: Final = re.compile(rb'content-disposition:[^\r\n]*?\bname="([^"\r\n]*)"', re.IGNORECASE)
_TYPE: Final = re.compile(rb"(?:^|\r\n)content-type:[ \t]*([^\r\n]*)", re.IGNORECASE)
_BLANK: Final = b"\r\n\r\n"


def boundary_of(content_type: str) -> bytes | None:
    """Returns what separates the fields of a form, None if the body is none."""
    if not content_type.lower().startswith("multipart/form-data"):
        return None
    match = _BOUNDARY.match(content_type)
    if match is None:
        raise Invalid("a multipart/form-data body names its boundary")
    return (match[1] or match[2]).encode("latin-1")


class FormField:
    """The field `content` of a form; `open` first, then iterate over its bytes."""

    def __init__(self, body: BodyStream, boundary: bytes) -> None:
        self._body = body
        self._mark = b"\r\n--" + boundary
        # The first mark has no line break before it.
        self._held = b"\r\n"
        self.content_type = ""

    async def open(self) -> None:
        """Reads up to the first byte of the field; Invalid if there is no such field."""
        passed = 0
        while True:
            passed += await self._skip_to(self._mark)
            if await self._starts_with(b"--"):
                raise Invalid(f"the form has no field {FIELD!r}")
            head, length = await self._take_to(_BLANK)
            passed += length
            name = _NAME.search(b"\r\n" + head)
            if name is not None and name[1] == FIELD.encode():
                kind = _TYPE.search(head)
                self.content_type = "" if kind is None else kind[1].strip().decode("latin-1")
                return
            if passed > FORM_OVERHEAD_BYTES_MAX:
                raise Invalid(f"the form has too much before its field {FIELD!r}")

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yields the bytes of the field, and reads the rest of the body."""
        while True:
            at = self._held.find(self._mark)
            if at >= 0:
                if at:
                    yield self._held[:at]
                self._held = self._held[at + len(self._mark) :]
                break
            safe = len(self._held) - len(self._mark)
            if safe > 0:
                yield self._held[:safe]
                self._held = self._held[safe:]
            await self._more()
        await self._finish()

    async def _finish(self) -> None:
        """Reads to the end of the form; Invalid if it has too much behind the field."""
        rest = len(self._held)
        tail = self._held
        while part := await self._body.read():
            rest += len(part)
            tail = (tail + part)[-4 * len(self._mark) - 16 :]
            if rest > FORM_OVERHEAD_BYTES_MAX:
                raise Invalid(f"the form has too much behind its field {FIELD!r}")
        if not tail.rstrip(b"\r\n").endswith(b"--"):
            raise Invalid("the form is cut off: its last boundary is missing")

    async def _more(self) -> None:
        part = await self._body.read()
        if not part:
            raise Invalid("the form is cut off: its last boundary is missing")
        self._held += part

    async def _skip_to(self, mark: bytes) -> int:
        _, length = await self._take_to(mark)
        return length

    async def _take_to(self, mark: bytes) -> tuple[bytes, int]:
        """Returns what is before a mark, which is passed, and how many bytes both have."""
        while (at := self._held.find(mark)) < 0:
            if len(self._held) > FORM_OVERHEAD_BYTES_MAX:
                raise Invalid("the head of a form is too long")
            await self._more()
        found, self._held = self._held[:at], self._held[at + len(mark) :]
        return found, at + len(mark)

    async def _starts_with(self, text: bytes) -> bool:
        while len(self._held) < len(text):
            await self._more()
        return self._held.startswith(text)
