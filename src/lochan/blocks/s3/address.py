"""Reads the address of an S3 place: `s3://BUCKET/PREFIX?endpoint=…&region=…`.

Parameters: `endpoint` is the URL of a compatible server, `region` its region, `path_style` is
`true` where the bucket belongs into the path (the default with an endpoint), `profile` names
credentials of the usual configuration files, `connections` bounds the requests at a time. An
address contains no credentials.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote, unquote, urlsplit

import msgspec

from lochan.base.errors import Denied, Invalid, InvalidUrl
from lochan.base.limits.blocks import S3_CONNECTIONS_DEFAULT, S3_CONNECTIONS_MAX
from lochan.base.limits.contents import FILE_ADDRESS_BYTES_MAX
from lochan.kv.url import StoreUrl

_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]\Z")
_OPTIONS: Final = {"true": True, "false": False}
_PARAMETERS: Final = ("endpoint", "region", "path_style", "profile", "connections")

# Characters of keys that stay as they are in a URL; `?` and `#` would end its path.
_PLAIN: Final = "/=+,@:!$&'()*;~"


class S3Address(msgspec.Struct, frozen=True):
    """Where the objects are; `prefix` is empty or ends with a slash."""

    bucket: str
    prefix: str
    endpoint: str | None = None
    region: str | None = None
    path_style: bool = False
    profile: str | None = None
    connections: int = S3_CONNECTIONS_DEFAULT


class ForeignKey(msgspec.Struct, frozen=True):
    """A bucket and a key, or the beginning of keys."""

    bucket: str
    key: str

    @property
    def url(self) -> str:
        """The address of this object."""
        return f"s3://{self.bucket}/{quote(self.key, safe=_PLAIN)}"


def read_address(url: StoreUrl) -> S3Address:
    """Splits the address of a place."""
    before, question, query = url.rest.partition("?")
    place = _split(before)
    given = _parameters(query) if question else {}
    endpoint = given.get("endpoint")
    if endpoint is not None:
        _check_endpoint(endpoint)
    style = given.get("path_style", "false" if endpoint is None else "true")
    if style not in _OPTIONS:
        raise InvalidUrl("path_style is true or false")
    prefix = place.key.strip("/")
    return S3Address(
        bucket=place.bucket,
        prefix=f"{prefix}/" if prefix else "",
        endpoint=endpoint,
        region=given.get("region") or (None if endpoint is None else "us-east-1"),
        path_style=_OPTIONS[style],
        profile=given.get("profile"),
        connections=_connections(given.get("connections")),
    )


def read_import(url: str) -> ForeignKey:
    """Splits the URL of an allowed prefix; its key is empty or ends with a slash."""
    scheme, _, rest = url.partition(":")
    if scheme != "s3":
        raise InvalidUrl(f"a place on S3 imports from s3://BUCKET/PREFIX, not {url[:80]!r}")
    found = _split(rest)
    key = found.key.strip("/")
    return ForeignKey(found.bucket, f"{key}/" if key else "")


def read_foreign(url: str, allowed: tuple[ForeignKey, ...], *, prefix: bool = False) -> ForeignKey:
    """Splits the URL of a foreign object or of a prefix; Denied unless it is allowed."""
    if len(url.encode()) > FILE_ADDRESS_BYTES_MAX or not url.startswith("s3://"):
        raise Invalid("the address of a foreign object is s3://BUCKET/KEY")
    try:
        found = _split(url.removeprefix("s3:"))
    except InvalidUrl as error:
        raise Invalid(error.message) from error
    key = found.key
    if prefix and key and not key.endswith("/"):
        key += "/"
    if not is_plain_key(key):
        raise Invalid("the key of a foreign object contains no '.' or '..' between slashes")
    for root in allowed:
        if root.bucket == found.bucket and key.startswith(root.key):
            return ForeignKey(found.bucket, key)
    raise Denied(f"{url} is not below a prefix that the operator allows to import")


def is_plain_key(key: str) -> bool:
    """Returns whether no server or library could take this key for another one."""
    return not {".", ".."} & set(key.split("/"))


def _split(text: str) -> ForeignKey:
    bucket, _, path = text.removeprefix("//").partition("/")
    if not text.startswith("//") or not _BUCKET.match(bucket):
        raise InvalidUrl("the address of an S3 place is s3://BUCKET/PREFIX, without credentials")
    try:
        key = unquote(path, errors="strict")
    except UnicodeDecodeError as error:
        raise InvalidUrl("a key of S3 is UTF-8") from error
    return ForeignKey(bucket, key)


def _parameters(query: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in query.split("&"):
        name, equals, value = part.partition("=")
        if name not in _PARAMETERS:
            raise InvalidUrl(f"the parameters of an S3 place are {', '.join(_PARAMETERS)}")
        if not equals or not value or name in found:
            raise InvalidUrl("parameters are written name=value, each once, joined by &")
        found[name] = unquote(value)
    return found


def _check_endpoint(endpoint: str) -> None:
    try:
        parts = urlsplit(endpoint)
        well_formed = parts.scheme in {"http", "https"} and bool(parts.hostname)
        well_formed = well_formed and not (parts.username or parts.password or parts.query)
    except ValueError:
        well_formed = False
    if not well_formed:
        raise InvalidUrl("endpoint is http://HOST:PORT or https://HOST:PORT, without credentials")


def _connections(text: str | None) -> int:
    if text is None:
        return S3_CONNECTIONS_DEFAULT
    if not (text.isascii() and text.isdigit() and 1 <= len(text) <= 6):
        raise InvalidUrl("connections is a whole number")
    if not 1 <= int(text) <= S3_CONNECTIONS_MAX:
        raise InvalidUrl(f"connections is 1 to {S3_CONNECTIONS_MAX}")
    return int(text)
