"""Headers that state what the bytes of a body are: type, metadata, checksums, conditions.

| header | value |
|---|---|
| `Content-Type` | the type of the file |
| `Lochan-Metadata` | `name=value&name=value`, names and values percent-encoded UTF-8 |
| `Content-MD5` | the MD5 of the bytes in Base64 |
| `Content-Digest` | `sha-256=:` and the SHA-256 in Base64 and `:` (RFC 9530) |
| `If-None-Match: *` | only if there is no file |
| `If-Match` | only if the file has this ETag, in quotes; `*` for any file |
| `Lochan-If-SHA256` | only if the file has this SHA-256, in hex |
| `Lochan-Content-Type`, `Lochan-If-Match` | the same as without `Lochan-`, percent-encoded UTF-8 |

An answer with a file has the same, and `Lochan-File`: the file as JSON, percent-encoded, so that a
reader of bytes knows what it reads.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Sequence
from typing import Final
from urllib.parse import quote, unquote_to_bytes

import msgspec

from lochan.base.errors import Corrupt, Invalid
from lochan.model.files import FileInfo, FileMetadata, FileProperties, WriteCondition
from lochan.wire.codec import encode
from lochan.wire.files import FileJson, file_in, file_out

METADATA: Final = "lochan-metadata"
FILE: Final = "lochan-file"
IF_SHA256: Final = "lochan-if-sha256"
CONTENT_TYPE: Final = "lochan-content-type"
IF_MATCH: Final = "lochan-if-match"

_DIGEST: Final = re.compile(r"sha-256=:([A-Za-z0-9+/=]{0,88}):")
_TAG: Final = re.compile(r'"([\x21\x23-\x7e]*)"')
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")

Find = Callable[[str], Sequence[str]]
"""Returns all values of a header by its name in lower case."""


def metadata_text(metadata: FileMetadata) -> str:
    """Returns metadata as the value of its header."""
    return "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in metadata)


def read_metadata(text: str) -> FileMetadata:
    """Reads metadata from its header; Invalid if it is malformed or names something twice."""
    found: dict[str, str] = {}
    for part in text.split("&") if text else ():
        name, equals, value = part.partition("=")
        if not equals or not name:
            raise Invalid("Lochan-Metadata is name=value, more of them joined by &")
        name = _decoded(name)
        if name in found:
            raise Invalid(f"Lochan-Metadata names {name[:80]!r} twice")
        found[name] = _decoded(value)
    return tuple(sorted(found.items()))


def read_properties(find: Find, size: int | None) -> FileProperties:
    """Reads what a writer states about the bytes that it sends."""
    md5 = _one(find, "content-md5")
    digest = _one(find, "content-digest")
    return FileProperties(
        content_type=_decoded(_one(find, CONTENT_TYPE)) or _one(find, "content-type"),
        metadata=read_metadata(_one(find, METADATA)),
        size=size,
        sha256=_read_digest(digest) if digest else "",
        md5=_from_base64("Content-MD5", md5, 16) if md5 else "",
    )


def read_condition(find: Find) -> WriteCondition:
    """Reads what a writer demands of the file that is there now."""
    absent, match = _one(find, "if-none-match"), _one(find, "if-match")
    if absent and absent != "*":
        raise Invalid("a write may have If-None-Match: * and no other")
    tag = "" if not match else match if match == "*" else _read_tag(match)
    tag = _decoded(_one(find, IF_MATCH)) or tag
    return WriteCondition(
        if_absent=bool(absent), if_match=tag, if_sha256=_one(find, IF_SHA256).lower()
    )


def property_headers(properties: FileProperties) -> tuple[tuple[str, str], ...]:
    """Returns the headers that a client sends with the bytes of a file."""
    found: list[tuple[str, str]] = []
    kind = properties.content_type
    if kind and _is_plain(kind):
        found.append(("content-type", kind))
    elif kind:
        found.append((CONTENT_TYPE, _encoded(kind)))
    if properties.metadata:
        found.append((METADATA, metadata_text(properties.metadata)))
    if properties.sha256:
        found.append(("content-digest", digest_text(properties.sha256)))
    if properties.md5:
        raw = _from_hex("an MD5", properties.md5, 16)
        found.append(("content-md5", base64.b64encode(raw).decode("ascii")))
    return tuple(found)


def condition_headers(condition: WriteCondition) -> tuple[tuple[str, str], ...]:
    """Returns the headers that carry a condition."""
    found: list[tuple[str, str]] = []
    if condition.if_absent:
        found.append(("if-none-match", "*"))
    tag = condition.if_match
    if tag == "*":
        found.append(("if-match", tag))
    elif tag and _TAG.fullmatch(f'"{tag}"'):
        found.append(("if-match", f'"{tag}"'))
    elif tag:
        found.append((IF_MATCH, _encoded(tag)))
    if condition.if_sha256:
        found.append((IF_SHA256, condition.if_sha256))
    return tuple(found)


def digest_text(sha256: str) -> str:
    """Returns a SHA-256 in hex as the value of its header."""
    return f"sha-256=:{base64.b64encode(_from_hex('a SHA-256', sha256, 32)).decode('ascii')}:"


def file_text(info: FileInfo) -> str:
    """Returns a file as the value of its header."""
    return quote(encode(file_out(info)), safe="{}[]:,")


def read_file(text: str | None) -> FileInfo:
    """Returns the file that the header of an answer describes."""
    try:
        return file_in(msgspec.json.decode(unquote_to_bytes(text or ""), type=FileJson))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Corrupt(f"the server's answer cannot be read: {error}") from None


def _one(find: Find, name: str) -> str:
    values = find(name)
    if len(values) > 1:
        raise Invalid(f"the header {name} is given more than once")
    return values[0].strip() if values else ""


def _read_tag(text: str) -> str:
    match = _TAG.fullmatch(text)
    if match is None:
        raise Invalid('If-Match of a write names one ETag, in quotes: If-Match: "5d41402a…"')
    return match[1]


def _read_digest(text: str) -> str:
    """Returns the SHA-256 that a digest header has; other algorithms are not checked."""
    found = _DIGEST.search(text)
    if found is None:
        raise Invalid("Content-Digest is sha-256=:…: with the digest in Base64")
    return _from_base64("Content-Digest", found[1], 32)


def _from_base64(header: str, text: str, length: int) -> str:
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if len(raw) != length:
        raise Invalid(f"{header} is a digest of {length} bytes in Base64, not {text[:80]!r}")
    return raw.hex()


def _from_hex(what: str, text: str, length: int) -> bytes:
    try:
        raw = bytes.fromhex(text)
    except ValueError:
        raw = b""
    if raw.hex() != text.lower() or len(raw) != length:
        raise Invalid(f"{what} has {2 * length} digits in hex, not {text[:80]!r}")
    return raw


def _is_plain(text: str) -> bool:
    """Returns whether a text is the value of a header as it is."""
    return text.isascii() and text.isprintable() and text == text.strip()


def _encoded(text: str) -> str:
    return quote(text, safe="")


def _decoded(text: str) -> str:
    if _BAD_ESCAPE.search(text):
        raise Invalid("a percent sign in a header is followed by two hex digits")
    try:
        return unquote_to_bytes(text.encode("latin-1")).decode("utf-8")
    except UnicodeDecodeError:
        raise Invalid("a header holds escapes that are not UTF-8") from None
