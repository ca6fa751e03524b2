"""Headers of objects: what a client states with the bytes, and what is shown with them again.

Metadata of users is `x-amz-meta-NAME`, and NAME in every other face. The headers of HTTP that S3
keeps beside the content type are metadata with names that no header of a user can have:
`http:cache-control`. A value that is not ASCII is written as RFC 2047 defines it.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from email.header import decode_header
from typing import Final

from lochan.base.errors import Invalid, Refusal
from lochan.faces.s3.answers import http_time, quoted
from lochan.model.files import FileInfo, FileMetadata, WriteCondition
from lochan.transport.exchange import Request, RequestHeaders, ResponseHeaders
from lochan.wire.s3_problems import not_implemented

BINARY: Final = "binary/octet-stream"

_META: Final = "x-amz-meta-"
_KEPT: Final = "http:"
_KEPT_HEADERS: Final = (
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "expires",
)
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]+\Z")
_ENCODED: Final = re.compile(r"=\?[!-~]+\?[bBqQ]\?[!-~]*\?=\Z")

# S3's own limit for the metadata of users.
_METADATA_BYTES_MAX: Final = 2_048

# A file may be a page with a program. A browser that shows it must not let it act as one of ours.
_HARMLESS: Final = ((b"content-security-policy", b"default-src 'none'; sandbox"),)

# What a client demands of the storage and this server does not do.
_REFUSED: Final = re.compile(
    r"x-amz-(?:server-side-encryption|copy-source-server-side-encryption|object-lock-|grant-"
    r"|tagging\Z|website-redirect-location|write-offset-bytes|expected-bucket-owner"
    r"|source-expected-bucket-owner|mfa\Z|bypass-governance-retention)"
)


def check_demands(headers: RequestHeaders) -> None:
    """Raises NotImplemented if a request demands what is not done here."""
    for name, value in headers.items():
        if not name.startswith("x-amz-"):
            continue
        if _REFUSED.match(name):
            raise not_implemented(f"The header {name[:80]}")
        if name == "x-amz-acl" and value not in ("private", "bucket-owner-full-control"):
            raise not_implemented(f"The access control list {value[:80]!r}")
        if name == "x-amz-storage-class" and value != "STANDARD":
            raise Refusal(
                "The storage class you specified is not valid.", 400, "InvalidStorageClass"
            )


def content_type_of(headers: RequestHeaders) -> str:
    """Returns the type that a request states."""
    return _text(headers.get("content-type") or "")


def metadata_of(headers: RequestHeaders) -> FileMetadata:
    """Returns the metadata that a request states."""
    found: dict[str, str] = {}
    size = 0
    for name, value in headers.items():
        if name.startswith(_META):
            size += len(name) - len(_META) + len(value)
            short = name[len(_META) :]
            text = _text(value)
            found[short] = f"{found[short]},{text}" if short in found else text
        elif name in _KEPT_HEADERS:
            kept = _kept_value(name, value)
            if kept:
                found[_KEPT + name] = _text(kept)
    if size > _METADATA_BYTES_MAX:
        raise Refusal(
            "Your metadata headers exceed the maximum allowed metadata size of "
            f"{_METADATA_BYTES_MAX} bytes.",
            400,
            "MetadataTooLarge",
        )
    return tuple(sorted(found.items()))


def _kept_value(name: str, value: str) -> str:
    """Returns what is kept of a header: `aws-chunked` is how the body was sent, not what it is."""
    if name != "content-encoding":
        return value
    words = [word.strip() for word in value.split(",")]
    return ",".join(word for word in words if word.lower() != "aws-chunked")


def condition_of(headers: RequestHeaders) -> WriteCondition:
    """Returns what a write demands of the file that is there."""
    absent, match = headers.get("if-none-match"), headers.get("if-match")
    if absent is not None and absent.strip() != "*":
        raise not_implemented("If-None-Match of a write with anything but *")
    if absent is not None and match is not None:
        raise not_implemented("a write with both If-Match and If-None-Match")
    tag = "" if match is None else match.strip().strip('"')
    return WriteCondition(if_absent=absent is not None, if_match=tag)


def object_headers(info: FileInfo, request: Request) -> tuple[ResponseHeaders, bytes]:
    """Returns the headers of an object beside its ETag, and its type.

    Parameters such as `response-content-type` of a signed request replace some of them.
    """
    shown = {"last-modified": http_time(info.modified_us)}
    kind = info.content_type or BINARY
    missing = 0
    for name, value in info.metadata:
        short = name.removeprefix(_KEPT)
        if short != name and short in _KEPT_HEADERS:
            shown[short] = value
        elif _TOKEN.match(name):
            shown[_META + name] = value
        else:
            missing += 1
    if missing:
        shown["x-amz-missing-meta"] = str(missing)
    for name, value in _overrides(request).items():
        if name == "content-type":
            kind = value
        else:
            shown[name] = value
    headers = tuple((name.encode(), _raw(value)) for name, value in shown.items())
    plain = kind.isascii() and kind.isprintable()
    return (*headers, *_HARMLESS), kind.encode() if plain else BINARY.encode()


def checksum_headers(info: FileInfo, request: Request) -> ResponseHeaders:
    """Returns the SHA-256 of the whole object, if a request wants checksums and it is known."""
    if (request.headers.get("x-amz-checksum-mode") or "").upper() != "ENABLED" or not info.sha256:
        return ()
    text = base64.b64encode(bytes.fromhex(info.sha256))
    return ((b"x-amz-checksum-sha256", text), (b"x-amz-checksum-type", b"FULL_OBJECT"))


def etag_header(etag: str) -> ResponseHeaders:
    """Returns the ETag of an object as a header."""
    return ((b"etag", quoted(etag).encode("latin-1", "replace")),)


def _overrides(request: Request) -> Mapping[str, str]:
    if b"response-" not in request.query.raw:
        return {}
    found: dict[str, str] = {}
    for name in (*_KEPT_HEADERS, "content-type"):
        value = request.query.get(f"response-{name}")
        if value is not None:
            found[name] = value
    if found and request.proof is None:
        raise Refusal(
            "Request specific response headers cannot be used for anonymous requests.",
            400,
            "InvalidRequest",
        )
    return found


def _text(raw: str) -> str:
    """Returns the text of a header: UTF-8 if it is that, and as RFC 2047 has encoded it."""
    try:
        text = raw.encode("latin-1").decode("utf-8")
    except UnicodeDecodeError:
        text = raw
    if not _ENCODED.match(text):
        return text
    try:
        return "".join(
            part if isinstance(part, str) else part.decode(charset or "ascii")
            for part, charset in decode_header(text)
        )
    except (LookupError, UnicodeDecodeError, ValueError):
        raise Invalid(f"a header is not as RFC 2047 defines it: {text[:80]!r}") from None


def _raw(value: str) -> bytes:
    """Returns a text as the value of a header."""
    if value.isascii() and value.isprintable():
        return value.encode()
    return b"=?UTF-8?B?" + base64.b64encode(value.encode()) + b"?="
