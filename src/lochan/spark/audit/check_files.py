"""Files of checks: TOML with one `[[check]]` for each.

    [[check]]
    kind = "not_null"
    table = "shop.orders"
    columns = ["id", "customer"]

Whatever cannot be understood is refused with a sentence that names the file, the check and the
field: a check that was misspelt must never be one that was left out.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import msgspec

from lochan.base.errors import Invalid, LochanError, NotFound
from lochan.base.limits.audits import CHECK_FILE_BYTES_MAX
from lochan.spark.checks import FROM_FILES, Check, Declared, declare

_UNKNOWN: Final = re.compile(r"Object contains unknown field `(.*)`")
_MISSING: Final = re.compile(r"Object missing required field `(.*)`")


def load_checks(given: str | Path | Check | Iterable[Check | str | Path]) -> Declared:
    """Returns declared checks, from a file, from values, or from both."""
    if not isinstance(given, (str, Path, Check, Iterable)):
        raise Invalid(f"checks are a list of checks or of files, not a {type(given).__name__}")
    parts = [given] if isinstance(given, (str, Path, Check)) else list(given)
    found: list[Check] = []
    for part in parts:
        found += read_checks(part) if isinstance(part, (str, Path)) else [part]
    return declare(found)


def read_checks(path: str | Path) -> list[Check]:
    """Returns the checks of a file, in its order."""
    place = Path(path)
    try:
        with place.open("rb") as file:
            data = file.read(CHECK_FILE_BYTES_MAX + 1)
    except FileNotFoundError as error:
        raise NotFound(f"there is no file of checks {place}") from error
    except OSError as error:
        raise Invalid(f"{place}: cannot be read: {error.strerror}") from error
    if len(data) > CHECK_FILE_BYTES_MAX:
        raise Invalid(f"{place}: a file of checks has at most {CHECK_FILE_BYTES_MAX} bytes")
    return parse_checks(data, str(place))


def parse_checks(data: bytes, where: str) -> list[Check]:
    """Returns the checks of a text; `where` is the beginning of error messages."""
    try:
        document = tomllib.loads(data.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise Invalid(f"{where}: no TOML: {error}") from error
    surplus = sorted(document.keys() - {"check"})
    if surplus:
        raise Invalid(f"{where}: unknown field {surplus[0]!r}; a file has only [[check]]")
    tables = document.get("check", [])
    if not isinstance(tables, list) or not tables:
        raise Invalid(f"{where}: declares no check; each is a [[check]]")
    return [_read(each, f"{where}: check {number}") for number, each in enumerate(tables, 1)]


def _read(table: Any, where: str) -> Check:
    if not isinstance(table, dict):
        raise Invalid(f"{where}: is no table; each is a [[check]]")
    kind = table.get("kind")
    if kind is None:
        raise Invalid(f"{where}: field 'kind' is missing")
    if not isinstance(kind, str) or kind not in FROM_FILES:
        raise Invalid(f"{where}: unknown kind {kind!r}; there are {', '.join(FROM_FILES)}")
    try:
        return msgspec.convert(table, FROM_FILES[kind])
    except msgspec.ValidationError as error:
        raise Invalid(f"{where} ({kind}): {_sentence(str(error))}") from error
    except LochanError as error:
        raise Invalid(f"{where}: {error.message}") from error


def _sentence(text: str) -> str:
    """Returns what is wrong in plain words, with the name of the field."""
    if found := _UNKNOWN.search(text):
        return f"unknown field {found[1]!r}"
    if found := _MISSING.search(text):
        return f"field {found[1]!r} is missing"
    problem, _, path = text.partition(" - at `$.")
    field = path.rstrip("`")
    return f"field {field!r}: {problem}" if field else problem
