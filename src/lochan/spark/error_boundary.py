"""The boundary of the public API: wrong arguments and errors of libraries become LochanErrors.

A public function of this package raises a LochanError, whose class determines how to react, or a
TypeError where Python itself refuses a call. Errors of Spark about the user's own frame or session
are not changed. The error of a library is the `__cause__` of ours.
"""

from __future__ import annotations

import inspect
import os
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar
from urllib.parse import unquote, urlsplit

import msgspec
import pyarrow as pa
from py4j.protocol import Py4JError, Py4JNetworkError  # type: ignore[import-untyped]
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError
from pyiceberg import exceptions as iceberg
from pyiceberg.expressions import BooleanExpression
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from lochan.base.errors import (
    AlreadyExists,
    Conflict,
    ContentNotFound,
    Invalid,
    LochanError,
    NamespaceNotFound,
    StoreClosed,
    Unavailable,
    Unknown,
)
from lochan.spark.audit.findings import redacted
from lochan.spark.session import is_session

_P = ParamSpec("_P")
_R = TypeVar("_R")

# What the modules of pyiceberg raise, all of it straight below Exception.
_PYICEBERG: Final = tuple(
    item
    for _, item in inspect.getmembers(iceberg, inspect.isclass)
    if issubclass(item, Exception) and item.__module__ == iceberg.__name__
)

# The message of a client of httpx that was closed.
_CLOSED: Final = "client has been closed"

_REACTIONS: Final[Mapping[type[Exception], type[LochanError]]] = {
    iceberg.CommitFailedException: Conflict,
    iceberg.CommitStateUnknownException: Unknown,
    iceberg.NoSuchTableError: ContentNotFound,
    iceberg.NoSuchViewError: ContentNotFound,
    iceberg.NoSuchNamespaceError: NamespaceNotFound,
    iceberg.TableAlreadyExistsError: AlreadyExists,
    iceberg.NamespaceAlreadyExistsError: AlreadyExists,
}

_NO_SESSION: Final = "the Spark session does not answer, start another: {}"

_NOT_REACHED: Final = (
    "files cannot be read or written: {}; check that the warehouse exists and that this process "
    "and the executors may write to it"
)

_NOT_UNDERSTOOD: Final = "what was given cannot be understood: {}"

# The first kind that an error is of decides; an error of ours has the message with its text.
_TRANSLATIONS: Final[Mapping[type[Exception], tuple[type[LochanError], str]]] = {
    Py4JNetworkError: (Unavailable, _NO_SESSION),
    pa.ArrowException: (Invalid, "rows or files that Arrow cannot take: {}"),
    ConnectionError: (Unavailable, _NO_SESSION),
    OSError: (Unavailable, _NOT_REACHED),
    ValidationError: (Invalid, _NOT_UNDERSTOOD),
    PydanticSerializationError: (Invalid, _NOT_UNDERSTOOD),
    msgspec.MsgspecError: (Invalid, _NOT_UNDERSTOOD),
    ValueError: (Invalid, "{}"),
    ArithmeticError: (Invalid, "{}"),
}


def error_boundary(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Wraps a public function or method: checks simple arguments and translates errors."""
    signature = inspect.signature(function)
    checks = {
        name: _CHECKS[item.annotation]
        for name, item in signature.parameters.items()
        if item.annotation in _CHECKS
    }

    @wraps(function)
    def call(*given: _P.args, **named: _P.kwargs) -> _R:
        for name, value in signature.bind(*given, **named).arguments.items():
            if name in checks:
                expected, is_right = checks[name]
                if not is_right(value):
                    # Without the value: it may be anything, also a secret in the wrong place.
                    found = "None" if value is None else f"a {type(value).__name__}"
                    raise Invalid(f"{name} is {expected}, not {found}")
        with translated_errors():
            return function(*given, **named)

    return call


@contextmanager
def translated_errors() -> Iterator[None]:
    """Raises a LochanError for an error that a library raises inside the block."""
    try:
        yield
    except LochanError:
        raise
    except _PYICEBERG as error:
        reaction = next(
            (_REACTIONS[kind] for kind in type(error).__mro__ if kind in _REACTIONS), Invalid
        )
        raise reaction(_error_text(error)) from error
    except tuple(_TRANSLATIONS) as error:
        kind = next(kind for kind in _TRANSLATIONS if isinstance(error, kind))
        reaction, message = _TRANSLATIONS[kind]
        raise reaction(message.format(_error_text(error))) from error
    except RuntimeError as error:
        if _CLOSED in str(error):
            raise StoreClosed("this lake is closed; open another one") from error
        if not isinstance(error, NotImplementedError):
            raise
        raise Invalid(_error_text(error)) from error


@contextmanager
def explained_write_errors(location: str) -> Iterator[None]:
    """Raises Unavailable for an error of Spark in the block if the location cannot be written."""
    try:
        yield
    except (PySparkException, Py4JError, OSError) as error:
        if problem := _hindrance(location):
            raise Unavailable(
                f"nothing can be written to the warehouse {location}: {problem}; repair that, or "
                "open the lake with another warehouse"
            ) from error
        raise


def _hindrance(location: str) -> str:
    """Returns why a directory cannot be written; '' if it can, or if it is no directory."""
    parts = urlsplit(location)
    if parts.scheme not in ("", "file"):
        return ""
    place = Path(unquote(parts.path))
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir():
        return f"{place} is not a directory"
    if not os.access(place, os.W_OK | os.X_OK):
        return f"this process may not write to {place}"
    return "" if shutil.disk_usage(place).free else f"the disk of {place} is full"


def _error_text(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    return redacted(text)


def _is_text(value: object) -> bool:
    if not isinstance(value, str) or "\0" in value:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _are_texts(value: object) -> bool:
    if isinstance(value, str):
        # A text instead of a list is refused where it is used, with what to write instead.
        return _is_text(value)
    if isinstance(value, (bytes, Mapping)) or not isinstance(value, Collection):
        return False
    return all(_is_text(item) for item in value)


def _is_mapping(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        _is_text(item) for pair in value.items() for item in pair
    )


def _or_none(check: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: value is None or check(value)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_Check = tuple[str, Callable[[Any], bool]]

# By annotation, as it is written in the signatures of this package.
_CHECKS: Final[Mapping[str, _Check]] = {
    "str": ("a text", _is_text),
    "str | None": ("a text", _or_none(_is_text)),
    "str | BooleanExpression | None": (
        "a text, or an expression of pyiceberg",
        lambda value: value is None or _is_text(value) or isinstance(value, BooleanExpression),
    ),
    "bool": ("True or False", lambda value: isinstance(value, bool)),
    "int | None": ("a whole number", _or_none(_is_whole)),
    "float": ("a number", lambda value: isinstance(value, float) or _is_whole(value)),
    "Sequence[str]": ("a list of texts", _are_texts),
    "Sequence[str] | None": ("a list of texts", _or_none(_are_texts)),
    "Mapping[str, str] | None": ("a dict of texts", _or_none(_is_mapping)),
    "DataFrame": ("a frame of Spark", lambda value: isinstance(value, DataFrame)),
    "DataStreamWriter": (
        "what writes a stream, frame.writeStream…",
        lambda value: callable(getattr(value, "start", None)),
    ),
    "Progress | None": ("a function", _or_none(callable)),
    "SparkSession": ("a session of Spark", is_session),
}
