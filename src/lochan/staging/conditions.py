"""What a staged write may demand of the file that it replaces."""

from __future__ import annotations

from typing import Final, Protocol

import msgspec

from lochan.codec.elements import decode_file


class Condition(Protocol):
    """Decides on the element of the file that is there, None if there is none."""

    def holds(self, element: bytes | None) -> bool:
        """Returns whether the write may be done."""
        ...

    @property
    def text(self) -> str:
        """What is demanded, for a message."""
        ...


class Always(msgspec.Struct, frozen=True):
    """No condition."""

    text: str = "anything"

    def holds(self, element: bytes | None) -> bool:  # noqa: ARG002 - the protocol has it
        """Returns True."""
        return True


class IfAbsent(msgspec.Struct, frozen=True):
    """There is no file yet."""

    text: str = "no file"

    def holds(self, element: bytes | None) -> bool:
        """Returns whether there is none."""
        return element is None


class IfMatches(msgspec.Struct, frozen=True):
    """There is a file with this ETag and this SHA-256; an empty one is not compared."""

    etag: str = ""
    sha256: bytes = b""

    @property
    def text(self) -> str:
        """What is demanded, for a message."""
        wanted = [f"the ETag {self.etag}"] if self.etag else []
        wanted += [f"the SHA-256 {self.sha256.hex()}"] if self.sha256 else []
        return "a file with " + " and ".join(wanted) if wanted else "a file"

    def holds(self, element: bytes | None) -> bool:
        """Returns whether the file is there and has them."""
        if element is None:
            return False
        entry = decode_file(element)
        return self.etag in ("", entry.etag) and self.sha256 in (b"", entry.sha256)


ALWAYS: Final = Always()
