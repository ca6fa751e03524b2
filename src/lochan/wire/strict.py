"""JSON about rights: read only if it means the same to every reader.

A document that names a field twice means one thing to a reader that takes the first and another to
one that takes the last, so a policy could be reviewed as one and stored as the other. Such
documents are refused, and so are unknown fields (`forbid_unknown_fields` of the shapes).
"""

from __future__ import annotations

import json
from typing import Any

from lochan.base.errors import Invalid
from lochan.wire.codec import Reader


class StrictReader:
    """Decodes one type of value from JSON without repeated names."""

    __slots__ = ("_read",)

    def __init__(self, of: Any) -> None:
        self._read = Reader(of)

    def __call__(self, body: bytes) -> Any:
        """Returns the value; Invalid names what is wrong and where."""
        value = self._read(body)
        check_unique_names(body)
        return value


def check_unique_names(body: bytes) -> None:
    """Refuses a JSON document in which an object has two fields of one name."""
    try:
        # The document was read as UTF-8 before; the decoder here would guess.
        json.loads(body.decode("utf-8"), object_pairs_hook=_check_pairs)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"The request body is not JSON: {error}") from None


def _check_pairs(pairs: list[tuple[str, Any]]) -> None:
    """Refuses repeated names; the values are not kept."""
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            raise Invalid(f"The request body is ambiguous: it names the field {name[:80]!r} twice.")
        seen.add(name)
