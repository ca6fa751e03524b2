"""JSON of other parties, read so that it has one meaning.

Most readers take the last of two members with one name. A reader that takes the first sees another
document, and what was checked is not what is used.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn


def parse_object(raw: bytes) -> dict[str, Any] | None:
    """Returns a JSON object; None for anything else, also for two members with one name."""
    try:
        parsed = json.loads(
            raw.decode("utf-8"), object_pairs_hook=_members, parse_constant=_no_constant
        )
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("two members have one name")
    return members


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
