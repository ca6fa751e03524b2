"""Random requests to the face of bytes, and what a plain dictionary makes of each of them."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import msgspec

BODY_BYTES_MAX = 3_000

# What a chunked body cannot go on with, after a good chunk.
BROKEN = [b"x\r\n", b"4\r\n01234\r\n", b"4\r\n0123\r\n\r\n", b"-1\r\n", b"4\r\n0123x\r\n0\r\n\r\n"]

Stored = dict[bytes, bytes]


class Expected(msgspec.Struct):
    """The right answer; None stands for whatever it is."""

    statuses: tuple[int, ...]
    body: bytes | None = b""
    length: int | None = None
    may_close: bool = False
    whole: bool = True


class Call(msgspec.Struct):
    """One request: its bytes, what it makes of the stored bytes, and its right answer."""

    method: str
    head: bytes
    body: bytes
    apply: Callable[[Stored], Expected]
    waits: bool = False
    """Whether the client asks for a 100 and sends the body after it."""
    expects: bool = False
    breaks: bool = False
    """Whether the body is malformed: nothing can follow it."""


def build_call(random: Random, slot: int, *, breaks: bool = False) -> Call:
    """Returns a random request; each slot has keys of its own."""
    key = b"%d-%d" % (slot, random.randrange(3))
    if breaks:
        return _broken(random, key)
    return random.choices(list(KINDS), list(KINDS.values()))[0](random, key)


def _head(method: str, path: bytes, *lines: bytes) -> bytes:
    first = b"%b %b HTTP/1.1" % (method.encode(), path)
    return b"\r\n".join([first, b"Host: localhost", *lines, b"", b""])


def _bytes(random: Random, most: int = BODY_BYTES_MAX) -> bytes:
    size = random.choice([0, 1, random.randrange(40), random.randrange(most + 1), most])
    return random.randbytes(min(size, most))


def _chunks(random: Random, raw: bytes) -> bytes:
    parts, at = [], 0
    while at < len(raw):
        size = random.choice([1, random.randrange(1, 30), random.randrange(1, 2_000)])
        piece = raw[at : at + size]
        extension = random.choice([b"", b"", b";a=b"])
        parts.append(b"%x%b\r\n%b\r\n" % (len(piece), extension, piece))
        at += size
    trailers = random.choice([b"", b"", b"X-Trailer: y\r\n"])
    return b"".join(parts) + b"0\r\n" + trailers + b"\r\n"


def _framed(random: Random, method: str, path: bytes, raw: bytes) -> tuple[bytes, bytes, bool]:
    """Returns head and body, with a length or in chunks, and whether it asks for a 100."""
    chunked = random.random() < 0.5
    framing = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: %d" % len(raw)
    body = _chunks(random, raw) if chunked else raw
    expects = bool(body) and random.random() < 0.3
    lines = [framing, b"Expect: 100-continue"] if expects else [framing]
    return _head(method, path, *lines), body, expects


def _with_body(
    random: Random, path: bytes, raw: bytes, apply: Callable[[Stored], Expected], method: str
) -> Call:
    head, body, expects = _framed(random, method, path, raw)
    waits = expects and random.random() < 0.7
    return Call(method, head, body, apply, waits, expects)


def _put(random: Random, key: bytes) -> Call:
    raw = _bytes(random)

    def apply(stored: Stored) -> Expected:
        stored[key] = raw
        return Expected((201,))

    return _with_body(random, b"/b/" + key, raw, apply, "PUT")


def _over(random: Random, key: bytes) -> Call:
    raw = random.randbytes(BODY_BYTES_MAX + random.choice([1, 500]))
    right = Expected((413,), None, may_close=True)
    return _with_body(random, b"/b/" + key, raw, lambda _: right, "PUT")


def _early(random: Random, key: bytes) -> Call:
    right = Expected((403,), None, may_close=True)
    return _with_body(random, b"/b-early/" + key, _bytes(random), lambda _: right, "PUT")


def _echo(random: Random, key: bytes) -> Call:
    text = random.randbytes(random.randrange(500)).hex().encode()
    return _with_body(random, b"/b-publish", text, lambda _: Expected((200,)), "POST")


def _broken(random: Random, key: bytes) -> Call:
    head = _head("PUT", b"/b/" + key, b"Transfer-Encoding: chunked")
    body = b"4\r\n0123\r\n" * random.randrange(3) + random.choice(BROKEN)
    right = Expected((400,), None, may_close=True)
    return Call("PUT", head, body, lambda _: right, breaks=True)


def _zeros(random: Random, key: bytes) -> Call:
    count = random.choice([0, 1, random.randrange(3_000), random.randrange(20_000)])
    query = random.choice([b"", b"?chunked=1"])
    method = random.choice(["GET", "GET", "HEAD"])
    right = Expected((200,), b"" if method == "HEAD" else bytes(count))
    right.length = None if query else count
    return Call(method, _head(method, b"/b-zeros/%d%b" % (count, query)), b"", lambda _: right)


def _text(random: Random, key: bytes) -> Call:
    count = random.randrange(BODY_BYTES_MAX)
    method = random.choice(["GET", "GET", "HEAD"])
    right = Expected((200,), b"" if method == "HEAD" else b"x" * count, count)
    return Call(method, _head(method, b"/b-text/%d" % count), b"", lambda _: right)


def _breaking_source(random: Random, key: bytes) -> Call:
    query = random.choice([b"", b"?chunked=1"])
    right = Expected((200,), None, may_close=True, whole=False)
    return Call("GET", _head("GET", b"/b-broken/x" + query), b"", lambda _: right)


def _get(random: Random, key: bytes) -> Call:
    method = random.choice(["GET", "GET", "HEAD"])
    kind = random.choice(["all", "all", "from-to", "from", "last", "same", "other"])
    first, second = random.randrange(200), random.randrange(200)
    guess = random.randbytes(8)

    def apply(stored: Stored) -> Expected:
        raw = stored.get(key)
        if raw is None:
            return Expected((404,), None)
        status, part = 200, raw
        if kind in ("from-to", "from", "last") and not (kind == "from-to" and second < first):
            part = raw[first : second + 1] if kind == "from-to" else raw[first:]
            if kind == "last":
                part = raw[-first:] if first else b""
            status = 206 if part else 416
        if kind == "other":
            status = 412
        sends = status in (200, 206) and method == "GET"
        length = len(part) if status in (200, 206) else None
        return Expected((status,), part if sends else b"", length)

    lines = {
        "from-to": [b"Range: bytes=%d-%d" % (first, second)],
        "from": [b"Range: bytes=%d-" % first],
        "last": [b"Range: bytes=-%d" % first],
        "same": [b'If-None-Match: "%b"' % guess.hex().encode()],
        "other": [b'If-Match: "%b"' % guess.hex().encode()],
    }
    head = _head(method, b"/b/" + key, *lines.get(kind, []))
    return Call(method, head, b"", apply)


KINDS: dict[Callable[[Random, bytes], Call], int] = {
    _put: 16,
    _get: 12,
    _zeros: 3,
    _text: 5,
    _echo: 3,
    _early: 3,
    _over: 1,
    _breaking_source: 1,
}
"""The kinds of requests, with their weights."""
