"""The options of a subscriber: the keys of its table in the settings, checked.

Messages name the key and the reason. They never repeat a value, which may be a secret in the wrong
place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from lochan.base.errors import Invalid

_Options = TypeVar("_Options", bound=msgspec.Struct)


def read_options(given: Mapping[str, Any], wanted: type[_Options]) -> _Options:
    """Returns the keys of a subscriber as a struct whose fields are the known keys."""
    fields = {field.name: field for field in msgspec.structs.fields(wanted)}
    for key in given:
        if key not in fields:
            known = ", ".join(sorted(fields)) or "none"
            raise Invalid(f"the key {key!r} is not known; known keys: {known}")
    for name, field in fields.items():
        if field.required and name not in given:
            raise Invalid(f"the key {name!r} is missing")
    try:
        return msgspec.convert(dict(given), wanted)
    except msgspec.ValidationError as error:
        reason, _, place = str(error).partition(" - at `$.")
        if reason.startswith("Invalid enum value"):
            reason = "not one of the values that docs/events.md lists"
        raise Invalid(f"the key {place.rstrip('`')!r}: {reason}") from None
