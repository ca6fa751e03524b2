"""Size and checksums of bytes that pass, compared with what the sender states."""

from __future__ import annotations

import re
from hashlib import md5, sha256
from typing import Final

from lochan.base.errors import BytesDiffer, Invalid

_SHA256: Final = re.compile(r"[0-9a-f]{64}\Z")
_MD5: Final = re.compile(r"[0-9a-f]{32}\Z")


class Digests:
    """Counts and hashes; MD5 only because S3's clients expect it as the ETag."""

    __slots__ = ("_md5", "_sha256", "size")

    def __init__(self) -> None:
        self.size = 0
        self._sha256 = sha256()
        self._md5 = md5(usedforsecurity=False)

    def update(self, piece: bytes | memoryview) -> None:
        """Takes the next bytes."""
        self.size += len(piece)
        self._sha256.update(piece)
        self._md5.update(piece)

    @property
    def sha256(self) -> str:
        """The SHA-256 of all bytes so far, in hex."""
        return self._sha256.hexdigest()

    @property
    def md5(self) -> str:
        """The MD5 of all bytes so far, in hex."""
        return self._md5.hexdigest()

    @property
    def md5_bytes(self) -> bytes:
        """The MD5 of all bytes so far."""
        return self._md5.digest()

    def check(self, size: int | None, stated_sha256: str | None, stated_md5: str | None) -> None:
        """Raises BytesDiffer unless the bytes are what the sender states."""
        if size is not None and self.size != size:
            raise BytesDiffer(f"{self.size} bytes came, {size} were stated; nothing was stored")
        stated = (
            ("SHA-256", _SHA256, stated_sha256, self.sha256),
            ("MD5", _MD5, stated_md5, self.md5),
        )
        for name, form, theirs, ours in stated:
            if theirs is None:
                continue
            if not form.match(theirs):
                raise Invalid(f"a {name} is written in small hexadecimal digits")
            if theirs != ours:
                raise BytesDiffer(
                    f"the bytes have the {name} {ours}, but {theirs} was stated: not stored",
                    name.replace("-", "").lower(),
                )
