"""Texts that must not be shown: tokens, passwords, keys."""

from __future__ import annotations

from hmac import compare_digest
from typing import Final, NoReturn

MASK: Final = "***"
"""What is shown in place of a secret."""


class Secret:
    """A text that shows itself as `***` wherever it is printed, formatted or logged.

    `reveal` returns the text, for the one place that sends or checks it. Encoders (JSON,
    MessagePack, pickle) refuse it: a masked secret in a request or in a file would be taken for the
    secret itself. It is not a `str`, because functions written in C would then compare or send the
    mask. Equality takes the same time wherever two secrets of one length differ.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Returns the text itself."""
        return self._text

    def __repr__(self) -> str:
        return MASK

    def __str__(self) -> str:
        return MASK

    def __format__(self, spec: str) -> str:
        return format(MASK, spec)

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return compare_digest(_raw(self._text), _raw(other._text))

    def __hash__(self) -> int:
        return hash((Secret, self._text))

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not pickled; pass on what reveal() returns, where it is safe")


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
