"""What handlers read from a request besides its body: parameters, headers, the caller."""

from __future__ import annotations

from typing import Final

import msgspec

from lochan.base.errors import Invalid
from lochan.base.limits.requests import BRIEF_KEYS_BYTES_MAX, LOG_PAGE_COMMITS_MAX, PAGE_ENTRIES_MAX
from lochan.faces.params import limit_of
from lochan.model.commits import CommitMeta, ContentKey
from lochan.transport.exchange import Exchange, RequestHeaders
from lochan.wire.keys import key_from_path, optional_key

_PROPERTY: Final = "nessie-commit-property-"


class WriteHeaders(msgspec.Struct, frozen=True):
    """What the headers of a write state; a client sends the same with most of its requests."""

    has_if_match: bool
    has_commit_meta: bool


def write_headers(headers: RequestHeaders) -> WriteHeaders:
    """Reads the headers of a write."""
    return WriteHeaders(
        headers.get("if-match") is not None,
        any(name.startswith(b"nessie-commit-") for name, _ in headers.raw),
    )


def log_limit_of(exchange: Exchange, name: str = "max-records") -> int:
    """Returns the limit of a log, which is always bounded."""
    return min(limit_of(exchange, name) or LOG_PAGE_COMMITS_MAX, LOG_PAGE_COMMITS_MAX)


def fetches_all(exchange: Exchange) -> bool:
    """Returns whether everything is to be fetched (`fetch=ALL`)."""
    text = exchange.request.query.get("fetch")
    if text is None:
        return False
    if text.upper() not in ("ALL", "MINIMAL"):
        raise Invalid(f"the parameter 'fetch' is MINIMAL or ALL: {text[:40]!r}")
    return text.upper() == "ALL"


def filter_of(exchange: Exchange) -> str:
    """Returns the filter's text, empty if there is none."""
    return exchange.request.query.get("filter") or ""


def keys_of(exchange: Exchange) -> tuple[ContentKey, ...]:
    """Returns the keys that are named one by one."""
    return tuple(key_from_path(text) for text in exchange.request.query.all("key") if text)


def key_range_of(
    exchange: Exchange,
) -> tuple[ContentKey | None, ContentKey | None, ContentKey | None]:
    """Returns the first key, the last key and the prefix of a listing."""
    query = exchange.request.query
    return (
        optional_key(query.get("min-key")),
        optional_key(query.get("max-key")),
        optional_key(query.get("prefix-key")),
    )


def is_plain(exchange: Exchange) -> bool:
    """Returns whether reading is brief: nothing is filtered and nothing more than usual fetched."""
    query = exchange.request.query
    return not query.get("filter") and (query.get("fetch") or "").upper() != "ALL"


def names_few_keys(exchange: Exchange) -> bool:
    """Returns whether a body names so few keys that reading them is brief."""
    return len(exchange.request.body) <= BRIEF_KEYS_BYTES_MAX


def is_short_page(exchange: Exchange) -> bool:
    """Returns whether a listing is brief: a bounded page without a filter."""
    if not is_plain(exchange):
        return False
    query = exchange.request.query
    text = query.get("max-records") or query.get("maxRecords") or ""
    return text.isascii() and text.isdigit() and 0 < int(text[:9]) <= PAGE_ENTRIES_MAX


def with_headers(exchange: Exchange, meta: CommitMeta) -> CommitMeta:
    """Adds to the metadata of a commit what the headers contain."""
    headers = exchange.request.headers
    if not headers.derive(write_headers).has_commit_meta:
        return meta
    named: dict[str, tuple[str, ...]] = {}
    for name, value in headers.items():
        if name.startswith(_PROPERTY) and value.strip():
            key = name.removeprefix(_PROPERTY)
            named[key] = (*named.get(key, ()), value.strip())
    messages = [text.strip() for text in headers.all("nessie-commit-message") if text.strip()]
    return msgspec.structs.replace(
        meta,
        message=messages[0] if messages else meta.message,
        authors=(*meta.authors, *_listed(exchange, "nessie-commit-authors")),
        signed_off_by=(*meta.signed_off_by, *_listed(exchange, "nessie-commit-signedoffby")),
        properties=tuple(sorted({**dict(meta.properties), **named}.items())),
    )


def _listed(exchange: Exchange, name: str) -> list[str]:
    values = exchange.request.headers.all(name)
    parts = [part.strip() for value in values for part in value.split(",")]
    return [part for part in parts if part]
