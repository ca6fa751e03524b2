"""Reading of JSON that others wrote: each value is asked for by name and kind, or refused.

Everything above works on plain dictionaries with the names of the Iceberg format. What comes in
may be anything, so no field is touched but through these functions: they raise Invalid with a
sentence that names the place. What they never show is the value itself, which may be huge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from lochan.base.errors import Invalid, TooLarge
from lochan.base.pipeline_limits import (
    ICEBERG_DEPTH_MAX,
    ICEBERG_REQUESTS_MAX,
    ICEBERG_VALUES_MAX,
)

Json: TypeAlias = dict[str, Any]
"""An object of JSON; its fields are those of the Iceberg specification."""

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1

_KINDS: Final[dict[type, str]] = {
    bool: "a truth value",
    int: "a number",
    float: "a number with a fraction",
    str: "a text",
    list: "a list",
    dict: "an object",
    type(None): "null",
}


def kind_of(value: object) -> str:
    """Returns what kind of JSON a value is, in words."""
    return _KINDS.get(type(value), "something that JSON does not know")


def check_bounds(value: object, what: str) -> None:
    """Raises Invalid or TooLarge unless the value is nested and large within limits.

    It goes down level by level, so the depth of the data is never that of our own calls.
    """
    level: list[Any] = [value]
    seen = 0
    for _ in range(ICEBERG_DEPTH_MAX):
        below: list[Any] = []
        for each in level:
            if type(each) is dict:
                below += [one for one in each.values() if type(one) in (dict, list)]
            elif type(each) is list:
                below += [one for one in each if type(one) in (dict, list)]
            if len(below) + seen > ICEBERG_VALUES_MAX:
                raise TooLarge(f"{what}: more than {ICEBERG_VALUES_MAX} objects and lists")
        if not below:
            return
        seen += len(below)
        level = below
    raise Invalid(f"{what}: nested deeper than {ICEBERG_DEPTH_MAX} levels")


def as_object(value: object, what: str) -> Json:
    """Returns a value that must be an object with texts as names."""
    if type(value) is not dict:
        raise Invalid(f"{what} must be an object, not {kind_of(value)}")
    for name in value:
        if type(name) is not str:
            raise Invalid(f"{what} has a name that is {kind_of(name)}, not a text")
    return value


def as_objects(value: object, what: str) -> list[Json]:
    """Returns a value that must be a list of objects."""
    if type(value) is not list:
        raise Invalid(f"{what} must be a list, not {kind_of(value)}")
    return [as_object(each, f"an element of {what}") for each in value]


def as_requests(value: Sequence[Any], what: str) -> list[Json]:
    """Returns the requirements or the updates of a request, bounded and each an object."""
    if not isinstance(value, (list, tuple)):
        raise Invalid(f"{what}s must be a list, not {kind_of(value)}")
    if len(value) > ICEBERG_REQUESTS_MAX:
        raise TooLarge(f"{what}s: more than {ICEBERG_REQUESTS_MAX}")
    found = list(value)
    check_bounds(found, f"{what}s")
    return [as_object(each, f"{what} {number}") for number, each in enumerate(found, 1)]


def without_names(of: Json, names: frozenset[str]) -> Json:
    """Returns the fields of other names that are not null."""
    return {name: one for name, one in of.items() if name not in names and one is not None}


def _present(of: Json, name: str, what: str) -> Any:
    value = of.get(name)
    if value is None:
        raise Invalid(f"{what}: {name!r} is missing")
    return value


def get_object(of: Json, name: str, what: str) -> Json:
    """Returns a field that must be an object."""
    return as_object(_present(of, name, what), f"{what}: {name!r}")


def get_objects(of: Json, name: str, what: str) -> list[Json]:
    """Returns a field that must be a list of objects."""
    return as_objects(_present(of, name, what), f"{what}: {name!r}")


def find_objects(of: Json, name: str, what: str) -> list[Json]:
    """Returns a field that is a list of objects, a new empty list where it is missing."""
    return [] if of.get(name) is None else get_objects(of, name, what)


def get_text(of: Json, name: str, what: str) -> str:
    """Returns a field that must be a text which is not empty."""
    value = _present(of, name, what)
    if type(value) is not str:
        raise Invalid(f"{what}: {name!r} must be a text, not {kind_of(value)}")
    if not value:
        raise Invalid(f"{what}: {name!r} is empty")
    return value


def get_texts(of: Json, name: str, what: str) -> list[str]:
    """Returns a field that must be a list of texts."""
    value = _present(of, name, what)
    if type(value) is not list or any(type(each) is not str for each in value):
        raise Invalid(f"{what}: {name!r} must be a list of texts")
    return list(value)


def get_text_map(of: Json, name: str, what: str) -> dict[str, str]:
    """Returns a field that must be an object of texts."""
    return as_text_map(_present(of, name, what), f"{what}: {name!r}")


def find_text_map(of: Json, name: str, what: str) -> dict[str, str]:
    """Returns a field that is an object of texts, a new empty one where it is missing."""
    return {} if of.get(name) is None else get_text_map(of, name, what)


def as_text_map(value: Mapping[Any, Any], what: str) -> dict[str, str]:
    """Returns a value that must be an object of texts."""
    if not isinstance(value, Mapping):
        raise Invalid(f"{what} must be an object, not {kind_of(value)}")
    for name, one in value.items():
        if type(name) is not str or type(one) is not str:
            raise Invalid(f"{what} must hold texts only, not {kind_of(one)}")
    return dict(value)


def get_flag(of: Json, name: str, what: str) -> bool:
    """Returns a field that must be true or false."""
    value = _present(of, name, what)
    if type(value) is not bool:
        raise Invalid(f"{what}: {name!r} must be true or false, not {kind_of(value)}")
    return value


def get_int(of: Json, name: str, what: str, *, low: int = -INT_MAX - 1) -> int:
    """Returns a field that must be a number of 32 bits."""
    return _number(_present(of, name, what), f"{what}: {name!r}", low, INT_MAX)


def find_int(of: Json, name: str, what: str) -> int | None:
    """Returns a field that is a number of 32 bits, None where it is missing."""
    return None if of.get(name) is None else get_int(of, name, what)


def get_long(of: Json, name: str, what: str, *, low: int = -LONG_MAX - 1) -> int:
    """Returns a field that must be a number of 64 bits."""
    return _number(_present(of, name, what), f"{what}: {name!r}", low, LONG_MAX)


def find_long(of: Json, name: str, what: str, *, low: int = -LONG_MAX - 1) -> int | None:
    """Returns a field that is a number of 64 bits, None where it is missing."""
    return None if of.get(name) is None else get_long(of, name, what, low=low)


def get_ints(of: Json, name: str, what: str) -> list[int]:
    """Returns a field that must be a list of numbers of 32 bits."""
    return _numbers(_present(of, name, what), f"{what}: {name!r}", INT_MAX)


def get_longs(of: Json, name: str, what: str) -> list[int]:
    """Returns a field that must be a list of numbers of 64 bits."""
    return _numbers(_present(of, name, what), f"{what}: {name!r}", LONG_MAX)


def _numbers(value: object, what: str, high: int) -> list[int]:
    if type(value) is not list:
        raise Invalid(f"{what} must be a list, not {kind_of(value)}")
    return [_number(each, f"an element of {what}", -high - 1, high) for each in value]


def _number(value: object, what: str, low: int, high: int) -> int:
    # A truth value is a number to Python, and to nobody else.
    if type(value) is not int:
        raise Invalid(f"{what} must be a whole number, not {kind_of(value)}")
    if not low <= value <= high:
        raise Invalid(f"{what} must be between {low} and {high}")
    return value


def check_time(now_ms: int) -> int:
    """Returns the present time, or raises Invalid if it is none."""
    return _number(now_ms, "the present time", 0, LONG_MAX)
