"""Listings of objects, versions 1 and 2: files below a reference, or branches.

A prefix without `/` names no reference yet: then the branches whose names begin with it are the
common prefixes of the answer, whatever the delimiter is.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from functools import partial
from typing import Final
from urllib.parse import quote

import msgspec

from lochan.base.errors import Exhausted, Invalid, ReferenceNotFound, Refusal
from lochan.base.limits.requests import PAGE_ENTRIES_MAX
from lochan.faces.calls import read_call
from lochan.faces.s3.answers import answer, quoted, xml_time
from lochan.faces.s3.targets import decode_ref, encode_ref
from lochan.kernel.tags import BRANCH
from lochan.model.files import FileInfo, FileItem
from lochan.model.specs import parse_spec
from lochan.transport.exchange import Exchange, LongWork, Request, Response
from lochan.wire.s3_xml import Field, nested

_OWNER: Final[list[Field]] = [("ID", "lochan"), ("DisplayName", "lochan")]
_NUMBER_MAX: Final = 2**31 - 1

# Pages that are read for one answer: each may be empty, because of files that the caller may not
# see or that were deleted.
_PAGES_MAX: Final = 50


class _Query(msgspec.Struct, frozen=True):
    """What a listing is of; `start` is where it begins: a key after which, or a token."""

    prefix: str
    delimiter: str
    after: str
    token: str
    limit: int
    encodes: bool


class _Found(msgspec.Struct, frozen=True):
    """One page: files and common prefixes by their keys, and where the next begins."""

    items: list[tuple[str, FileInfo | None]]
    next_token: str = ""

    @property
    def last(self) -> str:
        """The last key or prefix."""
        return self.items[-1][0] if self.items else ""


_Show = Callable[[_Found], Response]

# Reads one page from a token on; an empty one is the beginning.
_ReadPage = Callable[[str], _Found]


def list_objects(exchange: Exchange) -> Response | LongWork:
    """Lists by version 1: the next page begins after a key."""
    request = exchange.request
    marker = request.query.get("marker") or ""
    query = _read(request, marker, "")
    text = _shower(query)

    def show(found: _Found) -> Response:
        if found.next_token and not found.items:
            # The next page begins after the last key of this one, and there is none.
            raise Exhausted("a page of a listing has nothing to show after many reads")
        fields: list[Field] = [
            ("Name", exchange.repository.name),
            ("Prefix", text(query.prefix)),
            ("Marker", text(marker)),
            ("NextMarker", text(found.last) if found.next_token else None),
            *_fields(query, found, owner=True),
        ]
        return answer("ListBucketResult", fields)

    return _list(exchange, query, show)


def list_objects_v2(exchange: Exchange) -> Response | LongWork:
    """Lists by version 2: the next page begins at a token, and a page may show nothing."""
    request = exchange.request
    start_after = request.query.get("start-after") or ""
    token = request.query.get("continuation-token")
    if token == "":
        raise Refusal("The continuation token provided is incorrect", 400, "InvalidArgument")
    query = _read(request, *(_read_token(token) if token else (start_after, "")))
    text = _shower(query)

    def show(found: _Found) -> Response:
        further = _make_token(query.after, found) if found.next_token else None
        fields: list[Field] = [
            ("Name", exchange.repository.name),
            ("Prefix", text(query.prefix)),
            ("StartAfter", text(start_after) if start_after else None),
            ("ContinuationToken", token),
            ("NextContinuationToken", further),
            ("KeyCount", len(found.items)),
            *_fields(query, found, owner=request.query.get("fetch-owner") == "true"),
        ]
        return answer("ListBucketResult", fields)

    return _list(exchange, query, show)


def passes_few_files(exchange: Exchange) -> bool:
    """Returns whether a listing passes few deleted files, as far as the server knows."""
    ref, _, _ = (exchange.request.query.get("prefix") or "").partition("/")
    return exchange.repository.lists_briefly(decode_ref(ref))


def _fields(query: _Query, found: _Found, *, owner: bool) -> list[Field]:
    show = _shower(query)
    fields: list[Field] = [
        ("MaxKeys", query.limit),
        ("Delimiter", show(query.delimiter) if query.delimiter else None),
        ("IsTruncated", bool(found.next_token)),
        ("EncodingType", "url" if query.encodes else None),
    ]
    for key, info in found.items:
        if info is None:
            fields.append(("CommonPrefixes", nested([("Prefix", show(key))])))
            continue
        shown: list[Field] = [
            ("Key", show(key)),
            ("LastModified", xml_time(info.modified_us)),
            ("ETag", quoted(info.etag)),
            ("Size", info.size),
            ("StorageClass", "STANDARD"),
        ]
        if owner:
            shown.append(("Owner", nested(_OWNER)))
        fields.append(("Contents", nested(shown)))
    return fields


def _list(exchange: Exchange, query: _Query, show: _Show) -> Response | LongWork:
    if not query.limit:
        exchange.repository.describe(read_call(exchange))
        return show(_Found([]))
    ref, slash, prefix = query.prefix.partition("/")
    read = partial(_files, exchange, query, ref, prefix) if slash else _branches(exchange, query)
    found = read(query.token)
    if found.items or not found.next_token:
        return show(found)
    return LongWork(lambda: show(_find_further(read, found)))


def _find_further(read: _ReadPage, found: _Found) -> _Found:
    """Reads pages until one shows something, but not for ever; the first one was read."""
    for _ in range(_PAGES_MAX):
        if found.items or not found.next_token:
            break
        found = read(found.next_token)
    return found


def _files(exchange: Exchange, query: _Query, ref: str, prefix: str, token: str) -> _Found:
    """Returns a page of the files of a reference; one that does not exist has none."""
    exchange.repository.describe(read_call(exchange))
    head = f"{ref}/"
    after = query.after
    if after and not after.startswith(head):
        if after > head:
            return _Found([])
        after = ""
    try:
        spec = parse_spec(decode_ref(ref))
    except Invalid:
        return _Found([])
    try:
        page = exchange.repository.file_listings.list(
            read_call(exchange),
            spec,
            prefix,
            query.delimiter,
            after[len(head) :],
            min(query.limit, PAGE_ENTRIES_MAX),
            token or None,
        )
    except ReferenceNotFound:
        return _Found([])
    return _Found([_item(head, one) for one in page.items], page.token or "")


def _item(head: str, item: FileItem) -> tuple[str, FileInfo | None]:
    return head + item.path, item if isinstance(item, FileInfo) else None


def _branches(exchange: Exchange, query: _Query) -> _ReadPage:
    """Reads branches as common prefixes, in the order of their names."""
    references, prefix = exchange.repository.references, decode_ref(query.prefix)
    after = decode_ref(query.after.rstrip("/"))

    def read(token: str) -> _Found:
        page = references.list(
            read_call(exchange), query.limit, token or None, prefix=prefix, after=after
        )
        names = [encode_ref(each.name) for each in page.items if each.kind == BRANCH and each.name]
        return _Found([(f"{name}/", None) for name in names], page.token or "")

    return read


def _read(request: Request, after: str, token: str) -> _Query:
    query = request.query
    encoding = query.get("encoding-type")
    if encoding not in (None, "url"):
        raise Refusal("Invalid Encoding Method specified in Request", 400, "InvalidArgument")
    return _Query(
        query.get("prefix") or "",
        query.get("delimiter") or "",
        after,
        token,
        read_limit(request, "max-keys"),
        encoding == "url",
    )


def read_limit(request: Request, name: str) -> int:
    """Returns how many entries a page has, at most 1,000."""
    text = request.query.get(name)
    if not text:
        return PAGE_ENTRIES_MAX
    if not (text.isascii() and text.isdigit()) or int(text[:12]) > _NUMBER_MAX:
        raise Refusal(f"Provided {name} not an integer or within range", 400, "InvalidArgument")
    return min(int(text), PAGE_ENTRIES_MAX)


class _Plain:
    """Shows texts as they are."""

    def __call__(self, text: str) -> str:
        return text


class _Encoding:
    """Shows texts percent-encoded, so that XML can have all of them."""

    def __call__(self, text: str) -> str:
        return quote(text, safe="/")


def _shower(query: _Query) -> _Plain | _Encoding:
    return _Encoding() if query.encodes else _Plain()


def _make_token(after: str, found: _Found) -> str:
    """Returns a token for the next page: where the listing began is part of what ours is for."""
    start = urlsafe_b64encode(after.encode()).decode().rstrip("=")
    return f"{start}.{found.next_token}"


def _read_token(text: str) -> tuple[str, str]:
    """Returns where a listing began, and our token of the page."""
    start, dot, token = text.partition(".")
    after = ""
    try:
        after = urlsafe_b64decode(start + "=" * (-len(start) % 4)).decode()
    except ValueError:
        dot = ""
    if not dot or not token:
        raise Refusal("The continuation token provided is incorrect", 400, "InvalidArgument")
    return after, token
