"""What is refused before anything else sees a request.

Each rule prevents an attack that is known from other servers: two framings of one body, two hosts,
paths that mean another path once decoded, headers without end. A refusal also closes the
connection: what follows on it cannot be trusted to be a request.
"""

from __future__ import annotations

import ipaddress
import re
from itertools import chain
from typing import Final

import msgspec

from lochan.access.generations import Generations
from lochan.base.errors import Invalid
from lochan.base.limits.http import (
    CHECKED_HEADERS_BYTES_MAX,
    CHECKED_HEADERS_MAX,
    HTTP_HEADER_BYTES_MAX,
    HTTP_HEADERS_MAX,
    HTTP_TARGET_BYTES_MAX,
)
from lochan.base.masks import mask_bytes
from lochan.transport.exchange import RawHeaders, Request, RequestHeaders, decode_percent

# The last two are never served; they are accepted here so that they get a 405 with `Allow`.
METHODS: Final = frozenset(b"GET HEAD POST PUT DELETE PATCH OPTIONS TRACE QUERY".split())

LOOPBACK_NAMES: Final = frozenset((b"localhost", b"127.0.0.1", b"[::1]"))

# The only headers of which a second one would leave open which of them counts.
_ONCE: Final = frozenset(
    b"host content-length transfer-encoding content-encoding content-type "
    b"expect origin if-match idempotency-key authorization".split()
)
_JOINED: Final = frozenset((b"accept-encoding", b"x-request-id", b"traceparent"))
_WATCHED: Final = _ONCE | _JOINED

# What an address is made of; all printable characters but quotes, brackets of tags, number sign and
# backslash.
_CLEAN: Final = bytes(set(range(0x21, 0x7F)) - set(b'"#<>\\'))
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_HOST: Final = re.compile(rb"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?\Z")
_DIGITS: Final = re.compile(rb"[0-9]{1,19}\Z")
_REQUEST_ID: Final = re.compile(rb"[A-Za-z0-9._:-]{1,64}\Z")


class Refused(Exception):
    """A request that is not looked at any further; the connection is closed after the reply."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class Framing(msgspec.Struct, frozen=True):
    """The headers of a request, and what they state about the request as a whole."""

    headers: RequestHeaders
    has_body: bool = False
    length: int = 0
    """The length of the body, 0 if it is not known before its end."""
    content_encoding: bytes = b""
    accept_encoding: bytes = b""
    expects_continue: bool = False
    takes_chunks: bool = True
    request_id: bytes = b""
    traceparent: bytes = b""


class Hosts:
    """The names under which this server is reached.

    A page of the web can make a browser believe that its own name is ours. It cannot make the
    browser send another name than that of the page, so foreign names are refused. With `by_address`
    every address is ours, for a server that listens on all addresses of its machine: the page would
    have to come from that address, and then it is ours. So are all names below one of `domains`.
    """

    def __init__(
        self,
        names: frozenset[bytes],
        *,
        by_address: bool = False,
        domains: frozenset[bytes] = frozenset(),
    ) -> None:
        self._names = names | domains
        self._by_address = by_address
        self._below = tuple(b"." + domain for domain in domains)

    def check(self, value: bytes) -> None:
        """Raises unless it is one of our names, with or without a port."""
        match = _HOST.match(value)
        if match is None:
            raise Refused(400, "the Host header is not a host")
        if not self._is_ours(match[1]):
            raise Refused(
                421, "this server does not answer to that Host; its names are in host_names"
            )

    def check_origin(self, value: bytes) -> None:
        """Raises if the Origin header names a page that is not ours."""
        scheme, slashes, host = value.partition(b"://")
        match = _HOST.match(host)
        if not slashes or scheme not in (b"http", b"https") or match is None:
            raise Refused(403, "requests of other sites are refused")
        if not self._is_ours(match[1]):
            raise Refused(403, "requests of other sites are refused")

    def _is_ours(self, name: bytes) -> bool:
        name = name.lower()
        if name in self._names or (self._by_address and _is_address(name)):
            return True
        return bool(self._below) and name.endswith(self._below)


def _is_address(name: bytes) -> bool:
    try:
        ipaddress.ip_address(name.strip(b"[]").decode("ascii"))
    except ValueError:
        return False
    return True


def check_target(target: bytes) -> tuple[bytes, bytes]:
    """Returns path and query, still encoded; Refused if too long or malformed."""
    if len(target) > HTTP_TARGET_BYTES_MAX:
        raise Refused(414, f"the address is longer than {HTTP_TARGET_BYTES_MAX} bytes")
    if target.translate(None, _CLEAN) or not target.startswith(b"/"):
        raise Refused(400, "the address is not a path with an optional query")
    path, _, query = target.partition(b"?")
    return path, query


def find_fault(request: Request) -> str | None:
    """Returns why a face that names things by segments refuses an address; None if it does not.

    A face whose paths are keys of files must not use it: dots are legal there.
    """
    path, query = request.path, request.query.raw
    try:
        # Only such a path can have a dot segment once it is decoded.
        if b"%" in path or b"/." in path:
            if not {".", ".."}.isdisjoint(decode_percent(path).split("/")):
                return "the address holds a dot segment"
        if b"%" in query:
            # Only to check that it can be decoded.
            decode_percent(query)
    except Invalid as error:
        return error.message
    return None


class HeaderChecks:
    """Checks the headers of all requests; remembers those that passed and are used.

    A client sends the same headers with each request, so that most checks are one lookup. Those
    that were not used for long are forgotten first: every caller has its own credentials in them.
    """

    def __init__(self, hosts: Hosts) -> None:
        self._hosts = hosts
        self._passed: Generations[tuple[tuple[bytes, bytes], ...], Framing] = Generations(
            CHECKED_HEADERS_MAX
        )

    def check(self, headers: RawHeaders, version: str) -> Framing:
        """Returns what the headers state, or raises."""
        if version != "1.1":
            return check_headers(headers, version, self._hosts)
        key = tuple(headers)
        framing = self._passed.find(key)
        if framing is None:
            framing = check_headers(key, version, self._hosts)
            # An id of one request will not be seen again.
            is_repeated = not framing.request_id and not framing.traceparent
            if is_repeated and sum(map(len, chain.from_iterable(key))) <= CHECKED_HEADERS_BYTES_MAX:
                self._passed.keep(key, framing)
        return framing


def check_headers(headers: RawHeaders, version: str, hosts: Hosts) -> Framing:
    """Returns what the headers state about the body, or raises."""
    if len(headers) > HTTP_HEADERS_MAX:
        raise Refused(431, f"there are more than {HTTP_HEADERS_MAX} headers")
    # The parser refuses most of what no header may contain; names are tokens for it.
    joined = b"".join(chain.from_iterable(headers))
    if len(joined) > HTTP_HEADER_BYTES_MAX:
        raise Refused(431, f"the headers are longer than {HTTP_HEADER_BYTES_MAX} bytes")
    if _CONTROL.search(joined):
        raise Refused(400, "a header holds a control character")
    found: dict[bytes, bytes] = {}
    for name, value in headers:
        if name in _WATCHED:
            if name in found:
                if name in _ONCE:
                    raise Refused(400, f"the header {name.decode()} is given twice")
                value = found[name] + b"," + value
            found[name] = value
    host = found.get(b"host")
    if host is None:
        raise Refused(400, "the Host header is missing")
    hosts.check(host)
    origin = found.get(b"origin")
    if origin is not None:
        hosts.check_origin(origin)
    has_body = _check_length(found, version)
    request_id = found.get(b"x-request-id", b"")
    return Framing(
        RequestHeaders(headers),
        has_body=has_body,
        length=int(found.get(b"content-length", b"0")),
        content_encoding=_encoding_of(found),
        accept_encoding=found.get(b"accept-encoding", b""),
        expects_continue=_check_expectation(found),
        takes_chunks=version == "1.1",
        request_id=request_id if _is_request_id(request_id) else b"",
        traceparent=found.get(b"traceparent", b""),
    )


def _is_request_id(text: bytes) -> bool:
    """Returns whether a client may name its request so; ids are logged, so secrets are none."""
    return _REQUEST_ID.match(text) is not None and mask_bytes(text) == text


def _check_length(found: dict[bytes, bytes], version: str) -> bool:
    """Returns whether a body follows; its length has one source."""
    length = found.get(b"content-length")
    if b"transfer-encoding" in found:
        if length is not None:
            raise Refused(400, "a body has one framing, not two")
        if version != "1.1" or found[b"transfer-encoding"].lower() != b"chunked":
            raise Refused(400, "the only transfer encoding is chunked")
        return True
    if length is None:
        return False
    if not _DIGITS.match(length):
        raise Refused(400, "the Content-Length is not a number")
    return int(length) > 0


def check_encoding(encoding: bytes) -> None:
    """Refuses the encoding of a body that the server would have to unpack and cannot."""
    if encoding not in (b"", b"gzip", b"x-gzip"):
        raise Refused(415, "the only content encoding is gzip")


def _encoding_of(found: dict[bytes, bytes]) -> bytes:
    encoding = found.get(b"content-encoding", b"").lower()
    return b"" if encoding == b"identity" else encoding


def _check_expectation(found: dict[bytes, bytes]) -> bool:
    if b"expect" not in found:
        return False
    if found[b"expect"].lower() != b"100-continue":
        raise Refused(417, "the only expectation is 100-continue")
    return True


def without_upgrade(method: bytes, target: bytes, headers: RawHeaders) -> bytes:
    """Writes the head of a request again, without its upgrade headers."""
    lines = [method + b" " + target + b" HTTP/1.1"]
    for name, value in headers:
        if name not in (b"upgrade", b"http2-settings"):
            if name == b"connection":
                kept = [word.strip() for word in value.lower().split(b",")]
                value = b", ".join(w for w in kept if w not in (b"upgrade", b"http2-settings"))
                if not value:
                    continue
            lines.append(name + b": " + value)
    return b"\r\n".join(lines) + b"\r\n\r\n"
