"""Typed access to JSON from outside: each field is read by name and type, or refused.

The package works on plain dictionaries with the field names of the Iceberg format. Input may be
anything, so every field is read through these functions: they raise Invalid with a message that
begins with `label`, the name of the place. They never show the value itself, which may be huge.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from lochan.base.errors import Invalid, TooLarge
from lochan.base.limits.iceberg import ICEBERG_DEPTH_MAX, ICEBERG_REQUESTS_MAX, ICEBERG_VALUES_MAX

Json: TypeAlias = dict[str, Any]
"""A JSON object; its fields are those of the Iceberg specification."""

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1

_Value = TypeVar("_Value")


def check_bounds(value: object, label: str) -> None:
    """Raises Invalid or TooLarge if a value is nested too deep or has too many parts.

    It descends level by level, so deep data does not lead to deep calls.
    """
    level: list[Any] = [value]
    seen = 0
    for _ in range(ICEBERG_DEPTH_MAX):
        below: list[Any] = []
        for each in level:
            if type(each) is dict:
                below += [child for child in each.values() if type(child) in (dict, list)]
            elif type(each) is list:
                below += [child for child in each if type(child) in (dict, list)]
            if len(below) + seen > ICEBERG_VALUES_MAX:
                raise TooLarge(f"{label}: more than {ICEBERG_VALUES_MAX} objects and lists")
        if not below:
            return
        seen += len(below)
        level = below
    raise Invalid(f"{label}: nested deeper than {ICEBERG_DEPTH_MAX} levels")


def as_object(value: object, label: str) -> Json:
    """Returns a value that must be an object with texts as names."""
    if type(value) is not dict:
        raise Invalid(f"{label} must be an object, not {type(value).__name__}")
    for name in value:
        if type(name) is not str:
            raise Invalid(f"{label} has a name that is {type(name).__name__}, not a text")
    return value


def as_requests(
    value: Sequence[Any], kind: str, name: str, known: Collection[str], of: str
) -> list[tuple[str, Json]]:
    """Returns the updates or requirements of a request, each with the word that names it.

    `name` is the field that holds the word, `known` the words that are allowed.
    """
    if not isinstance(value, (list, tuple)):
        raise Invalid(f"{kind}s must be a list, not {type(value).__name__}")
    if len(value) > ICEBERG_REQUESTS_MAX:
        raise TooLarge(f"{kind}s: more than {ICEBERG_REQUESTS_MAX}")
    check_bounds(list(value), f"{kind}s")
    requests = []
    for number, each in enumerate(value, 1):
        request = as_object(each, f"{kind} {number}")
        word = get_text(request, name, f"{kind} {number}").lower()
        if word not in known:
            raise Invalid(f"{kind} {number}: there is no {kind} {word[:100]!r} of {of}")
        requests.append((word, request))
    return requests


def without_names(of: Json, names: frozenset[str]) -> Json:
    """Returns the fields with other names whose values are not null."""
    return {name: each for name, each in of.items() if name not in names and each is not None}


def _present(of: Json, name: str, label: str) -> Any:
    value = of.get(name)
    if value is None:
        raise Invalid(f"{label}: {name!r} is missing")
    return value


def _converted(value: object, kind: type[_Value], label: str) -> _Value:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise Invalid(f"{label}: {error}") from None


def find(
    read: Callable[..., _Value], of: Json, name: str, label: str, **options: int
) -> _Value | None:
    """Returns a field that `read` reads, None if it is missing or null."""
    return None if of.get(name) is None else read(of, name, label, **options)


def get_object(of: Json, name: str, label: str) -> Json:
    """Returns a field that must be an object."""
    return as_object(_present(of, name, label), f"{label}: {name!r}")


def get_objects(of: Json, name: str, label: str) -> list[Json]:
    """Returns a field that must be a list of objects, as a new list."""
    place = f"{label}: {name!r}"
    return [as_object(each, f"an element of {place}") for each in _list(of, name, label)]


def _list(of: Json, name: str, label: str) -> list[Any]:
    value = _present(of, name, label)
    if type(value) is not list:
        raise Invalid(f"{label}: {name!r} must be a list, not {type(value).__name__}")
    return value


def get_text(of: Json, name: str, label: str) -> str:
    """Returns a field that must be a text which is not empty."""
    text = _converted(_present(of, name, label), str, f"{label}: {name!r}")
    if not text:
        raise Invalid(f"{label}: {name!r} is empty")
    return text


def get_texts(of: Json, name: str, label: str) -> list[str]:
    """Returns a field that must be a list of texts."""
    return _converted(_list(of, name, label), list[str], f"{label}: {name!r}")


def get_text_map(of: Json, name: str, label: str) -> dict[str, str]:
    """Returns a field that must be an object of texts."""
    return as_text_map(_present(of, name, label), f"{label}: {name!r}")


def as_text_map(value: Mapping[Any, Any], label: str) -> dict[str, str]:
    """Returns a value that must be an object of texts, as a new one."""
    return _converted(value, dict[str, str], label)


def get_flag(of: Json, name: str, label: str) -> bool:
    """Returns a field that must be true or false."""
    return _converted(_present(of, name, label), bool, f"{label}: {name!r}")


def get_int(of: Json, name: str, label: str, *, low: int = -INT_MAX - 1) -> int:
    """Returns a field that must be a number of 32 bits."""
    return _number(_present(of, name, label), f"{label}: {name!r}", low, INT_MAX)


def get_long(of: Json, name: str, label: str, *, low: int = -LONG_MAX - 1) -> int:
    """Returns a field that must be a number of 64 bits."""
    return _number(_present(of, name, label), f"{label}: {name!r}", low, LONG_MAX)


def get_numbers(of: Json, name: str, label: str, high: int) -> list[int]:
    """Returns a field that must be a list of numbers up to `high`, INT_MAX or LONG_MAX."""
    place = f"an element of {label}: {name!r}"
    return [_number(each, place, -high - 1, high) for each in _list(of, name, label)]


def _number(value: object, label: str, low: int, high: int) -> int:
    # In Python true and false are numbers, in JSON they are not.
    if type(value) is not int:
        raise Invalid(f"{label} must be a whole number, not {type(value).__name__}")
    if not low <= value <= high:
        raise Invalid(f"{label} must be between {low} and {high}")
    return value


def check_time(now_ms: int) -> int:
    """Returns the current time; Invalid if it is out of range."""
    return _number(now_ms, "the current time", 0, LONG_MAX)


def limit_of(properties: dict[str, str], name: str) -> int | None:
    """Returns a property that is a number of entries to keep; None if it is not a number."""
    text = properties.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
