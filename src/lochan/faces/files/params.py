"""What handlers of files read from a request: branch, path, conditions, and the caller."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lochan.access.policy import Call
from lochan.base.errors import Invalid
from lochan.faces.calls import write_call
from lochan.model.files import FileMetadata, WriteCondition
from lochan.model.specs import ReferenceSpec, parse_name, parse_path
from lochan.transport.exchange import Exchange, RequestHeaders
from lochan.wire.file_headers import (
    CONTENT_TYPE,
    IF_MATCH,
    IF_SHA256,
    METADATA,
    read_condition,
)
from lochan.wire.files import ConditionIn

SIZE: Final = "lochan-size"
"""The size of a body that is sent in chunks, if its sender knows it."""

# What makes two uploads to one path the same request, beside their bytes, which come later.
_OF_UPLOADS: Final = (
    "content-length",
    "content-type",
    "content-md5",
    "content-digest",
    "if-match",
    "if-none-match",
    IF_SHA256,
    IF_MATCH,
    CONTENT_TYPE,
    METADATA,
    SIZE,
)


def spec_of(exchange: Exchange, name: str = "ref") -> ReferenceSpec:
    """Returns the specification in the path that is to be read."""
    spec = parse_path(exchange.params[name])
    if spec.name is None and spec.hash is None:
        raise Invalid("a reference begins with a name or a hash, before any step")
    return spec


def branch_of(exchange: Exchange) -> str:
    """Returns the branch in the path that is to be written."""
    return parse_name(exchange.params["ref"])


def path_of(exchange: Exchange) -> str:
    """Returns the path of the file that a request names."""
    path = exchange.request.query.get("path")
    if path is None:
        raise Invalid("the parameter 'path' is missing: it names the file")
    return path


def text_of(exchange: Exchange, name: str) -> str:
    """Returns a parameter, empty if there is none."""
    return exchange.request.query.get(name) or ""


def condition_of(exchange: Exchange) -> WriteCondition:
    """Returns what a writer demands, from the headers."""
    return exchange.request.headers.derive(_read_condition)


def _read_condition(headers: RequestHeaders) -> WriteCondition:
    return read_condition(headers.all)


def condition_in(condition: ConditionIn) -> WriteCondition:
    """Returns what a writer demands, from a body."""
    return WriteCondition(
        if_absent=condition.if_absent,
        if_match=condition.if_match,
        if_sha256=condition.if_sha256,
    )


def metadata_in(metadata: dict[str, str] | None) -> FileMetadata | None:
    """Returns the metadata of a body, None if it has none."""
    return None if metadata is None else tuple(sorted(metadata.items()))


def upload_call(exchange: Exchange) -> Call:
    """Returns the caller of a write whose headers are part of it."""
    return write_call(exchange, exchange.request.headers.derive(_read_stated))


def _read_stated(headers: RequestHeaders) -> Sequence[bytes]:
    return [
        f"{name}:{value}".encode("latin-1") for name in _OF_UPLOADS for value in headers.all(name)
    ]
