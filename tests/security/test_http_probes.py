"""Raw bytes that servers have been hurt by: each is refused with exactly this status, and cut off.

Beside every family stands a good neighbour, a request of the same kind that must pass; so neither a
server that refuses everything nor one that refuses nothing gets through.
"""

from __future__ import annotations

import gzip
import zlib

import pytest

from lochan.access.policy import Principal
from lochan.base.errors import Unauthenticated
from lochan.base.limits.http import (
    HTTP_BODY_BYTES_MAX,
    HTTP_HEADER_BYTES_MAX,
    HTTP_HEADERS_MAX,
    HTTP_TARGET_BYTES_MAX,
)
from lochan.transport.listener import ListenerOptions
from lochan.transport.routes import Authentication
from lochan.transport.server import Options
from tests.transport.certificates import CertificateFiles
from tests.transport.world import Client, SmallFace, running

HOST = b"Host: localhost\r\n"


def get(target: bytes, headers: bytes = HOST, version: bytes = b"HTTP/1.1") -> bytes:
    return b"GET " + target + b" " + version + b"\r\n" + headers + b"\r\n"


def post(headers: bytes, body: bytes = b"") -> bytes:
    return b"POST /t/echo/x HTTP/1.1\r\n" + HOST + headers + b"\r\n" + body


def chunked(body: bytes, line: bytes = b"Transfer-Encoding: chunked\r\n") -> bytes:
    return post(line, body)


def lines(count: int) -> bytes:
    return b"".join(b"X-%d: a\r\n" % number for number in range(count))


HELLO = b"5\r\nhello\r\n0\r\n\r\n"
PACKED = gzip.compress(b"a")
SMUGGLED = get(b"/t/echo/smuggled")

REFUSED: list[tuple[str, bytes, int]] = [
    # Two framings of one body, or one that nobody understands the same way.
    (
        "length and chunked",
        post(b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", HELLO),
        400,
    ),
    (
        "chunked and length",
        post(b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", HELLO),
        400,
    ),
    ("two lengths", post(b"Content-Length: 5\r\nContent-Length: 5\r\n", b"hello"), 400),
    ("two other lengths", post(b"Content-Length: 5\r\nContent-Length: 6\r\n", b"hello!"), 400),
    ("length list", post(b"Content-Length: 5, 5\r\n", b"hello"), 400),
    ("negative length", post(b"Content-Length: -5\r\n", b"hello"), 400),
    ("signed length", post(b"Content-Length: +5\r\n", b"hello"), 400),
    ("hex length", post(b"Content-Length: 0x5\r\n", b"hello"), 400),
    ("length with a blank", post(b"Content-Length: 5 5\r\n", b"hello"), 400),
    ("empty length", post(b"Content-Length:\r\n", b"hello"), 400),
    ("endless length", post(b"Content-Length: " + b"9" * 30 + b"\r\n"), 400),
    ("identity, chunked", chunked(HELLO, b"Transfer-Encoding: identity, chunked\r\n"), 400),
    ("chunked, chunked", chunked(HELLO, b"Transfer-Encoding: chunked, chunked\r\n"), 400),
    ("gzip, chunked", chunked(HELLO, b"Transfer-Encoding: gzip, chunked\r\n"), 400),
    ("chunked, identity", chunked(HELLO, b"Transfer-Encoding: chunked, identity\r\n"), 400),
    ("gzip transfer", chunked(HELLO, b"Transfer-Encoding: gzip\r\n"), 400),
    ("xchunked", chunked(HELLO, b"Transfer-Encoding: xchunked\r\n"), 400),
    ("chunked by a tab", chunked(HELLO, b"Transfer-Encoding:\x0bchunked\r\n"), 400),
    (
        "two transfer encodings",
        chunked(HELLO, b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
        400,
    ),
    ("blank before the colon", chunked(HELLO, b"Transfer-Encoding : chunked\r\n"), 400),
    (
        "chunked in HTTP/1.0",
        b"POST /t/echo/x HTTP/1.0\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n" + HELLO,
        400,
    ),
    ("bad chunk size", chunked(b"zz\r\nhello\r\n0\r\n\r\n"), 400),
    ("negative chunk size", chunked(b"-5\r\nhello\r\n0\r\n\r\n"), 400),
    ("chunk size with 0x", chunked(b"0x5\r\nhello\r\n0\r\n\r\n"), 400),
    ("endless chunk size", chunked(b"fffffffffffffffff\r\nhello\r\n"), 400),
    ("chunk longer than told", chunked(b"4\r\nhello\r\n0\r\n\r\n"), 400),
    ("chunk without a return", chunked(b"5\nhello\n0\n\n"), 400),
    # Who is meant.
    ("no host", get(b"/t/echo/x", b""), 400),
    ("no host in HTTP/1.0", get(b"/t/echo/x", b"", b"HTTP/1.0"), 400),
    ("two hosts", get(b"/t/echo/x", HOST + HOST), 400),
    ("two other hosts", get(b"/t/echo/x", HOST + b"Host: evil.example\r\n"), 400),
    ("empty host", get(b"/t/echo/x", b"Host:\r\n"), 400),
    ("host with a path", get(b"/t/echo/x", b"Host: localhost/x\r\n"), 400),
    ("host with a user", get(b"/t/echo/x", b"Host: a@localhost\r\n"), 400),
    ("host list", get(b"/t/echo/x", b"Host: localhost, evil.example\r\n"), 400),
    ("foreign host", get(b"/t/echo/x", b"Host: evil.example\r\n"), 421),
    ("foreign host and port", get(b"/t/echo/x", b"Host: evil.example:19120\r\n"), 421),
    ("our name in another", get(b"/t/echo/x", b"Host: localhost.evil.example\r\n"), 421),
    ("another loopback", get(b"/t/echo/x", b"Host: 127.0.0.2\r\n"), 421),
    ("foreign origin", get(b"/t/echo/x", HOST + b"Origin: http://evil.example\r\n"), 403),
    ("no origin at all", get(b"/t/echo/x", HOST + b"Origin: null\r\n"), 403),
    # Addresses that mean something else once somebody has decoded them.
    ("raw NUL", get(b"/t/echo/a\x00b"), 400),
    ("raw control", get(b"/t/echo/a\x01b"), 400),
    ("raw tab", get(b"/t/echo/a\tb"), 400),
    ("raw high byte", get(b"/t/echo/\xff"), 400),
    ("raw UTF-8", get("/t/echo/ä".encode()), 400),
    ("backslash", get(b"/t/echo/..\\x"), 400),
    ("fragment", get(b"/t/echo/x#y"), 400),
    ("absolute address", get(b"http://localhost/t/echo/x"), 400),
    ("a star", get(b"*"), 400),
    ("no slash", get(b"t/echo/x"), 400),
    ("blank in the address", get(b"/t/echo/a b"), 400),
    ("long address", get(b"/t/echo/" + b"a" * HTTP_TARGET_BYTES_MAX), 414),
    # Lines that one reader ends earlier than another.
    ("bare line feed", b"GET /t/echo/x HTTP/1.1\nHost: localhost\n\n", 400),
    ("bare return", b"GET /t/echo/x HTTP/1.1\rHost: localhost\r\r", 400),
    ("folded header", get(b"/t/echo/x", HOST + b"X: a\r\n b\r\n"), 400),
    ("line feed in a header", get(b"/t/echo/x", HOST + b"X: a\nY: b\r\n"), 400),
    ("return in a header", get(b"/t/echo/x", HOST + b"X: a\rb\r\n"), 400),
    ("NUL in a header", get(b"/t/echo/x", HOST + b"X: a\x00b\r\n"), 400),
    ("control in a header", get(b"/t/echo/x", HOST + b"X: a\x01b\r\n"), 400),
    ("delete in a header", get(b"/t/echo/x", HOST + b"X: a\x7fb\r\n"), 400),
    ("blank in a name", get(b"/t/echo/x", HOST + b"X Y: a\r\n"), 400),
    ("no name", get(b"/t/echo/x", HOST + b": a\r\n"), 400),
    ("no colon", get(b"/t/echo/x", HOST + b"nonsense\r\n"), 400),
    ("control in a name", get(b"/t/echo/x", HOST + b"X\x01: a\r\n"), 400),
    # Too much of everything.
    ("many headers", get(b"/t/echo/x", HOST + lines(HTTP_HEADERS_MAX)), 431),
    ("two thousand headers", get(b"/t/echo/x", HOST + lines(2_000)), 431),
    ("long header", get(b"/t/echo/x", HOST + b"X: " + b"a" * HTTP_HEADER_BYTES_MAX + b"\r\n"), 431),
    ("endless header", b"GET /t/echo/x HTTP/1.1\r\nX: " + b"a" * 1_000_000, 431),
    ("endless name", b"GET /t/echo/x HTTP/1.1\r\n" + b"a" * 1_000_000, 431),
    ("announced body", post(b"Content-Length: %d\r\n" % (HTTP_BODY_BYTES_MAX + 1)), 413),
    (
        "announced body, polite",
        post(b"Expect: 100-continue\r\nContent-Length: %d\r\n" % (HTTP_BODY_BYTES_MAX + 1)),
        413,
    ),
    (
        "chunks without end",
        chunked(b"100000\r\n" + b"a" * 1_048_576 + b"\r\n")
        + (b"100000\r\n" + b"a" * 1_048_576 + b"\r\n") * 8,
        413,
    ),
    # What this server does not speak.
    ("no HTTP", b"hello\r\n\r\n", 400),
    ("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
    ("HTTP/2 preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    ("HTTP/2.0", get(b"/t/echo/x", version=b"HTTP/2.0"), 505),
    ("HTTP/0.9", get(b"/t/echo/x", version=b"HTTP/0.9"), 505),
    ("HTTP/9.9", get(b"/t/echo/x", version=b"HTTP/9.9"), 400),
    ("no version", b"GET /t/echo/x\r\n" + HOST + b"\r\n", 505),
    ("lower-case method", b"get /t/echo/x HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    ("unknown method", b"NONSENSE /t/echo/x HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    ("CONNECT", b"CONNECT localhost:80 HTTP/1.1\r\n" + HOST + b"\r\n", 501),
    ("another expectation", post(b"Expect: miracles\r\nContent-Length: 1\r\n", b"a"), 417),
    ("packed by brotli", post(b"Content-Encoding: br\r\nContent-Length: 1\r\n", b"a"), 415),
    ("packed twice", post(b"Content-Encoding: gzip, gzip\r\nContent-Length: 1\r\n", b"a"), 415),
    ("two encodings", post(b"Content-Encoding: gzip\r\nContent-Encoding: gzip\r\n"), 400),
    ("two keys", post(b"Idempotency-Key: a\r\nIdempotency-Key: b\r\nContent-Length: 0\r\n"), 400),
]

BAD_ADDRESSES: list[tuple[str, bytes]] = [
    # What a face refuses that names things by segments; the framing is sound, so it goes on.
    ("dot-dot", get(b"/t/echo/../x")),
    ("dot-dot at the end", get(b"/t/echo/..")),
    ("one dot", get(b"/t/./echo/x")),
    ("encoded dots", get(b"/t/echo/%2e%2e/x")),
    ("one dot encoded", get(b"/t/echo/.%2E/x")),
    ("encoded dots and slash", get(b"/t/echo/a%2f..%2fx")),
    ("NUL", get(b"/t/echo/a%00b")),
    ("NUL in the query", get(b"/t/echo/a?b=%00")),
    ("bad UTF-8", get(b"/t/echo/%ff")),
    ("overlong slash", get(b"/t/echo/%c0%af")),
    ("a surrogate", get(b"/t/echo/%ed%a0%80")),
    ("bad UTF-8 in the query", get(b"/t/echo/x?a=%ff")),
    ("half an escape", get(b"/t/echo/%4")),
    ("no escape", get(b"/t/echo/%zz")),
    ("no escape in the query", get(b"/t/echo/x?a=%zz")),
]

PASSED: list[tuple[str, bytes]] = [
    ("length", post(b"Content-Length: 5\r\n", b"hello")),
    ("chunked", chunked(HELLO)),
    ("CHUNKED", chunked(HELLO, b"transfer-encoding: CHUNKED\r\n")),
    ("chunk extension", chunked(b"5;a=b\r\nhello\r\n0\r\n\r\n")),
    ("trailer", chunked(b"5\r\nhello\r\n0\r\nX: a\r\n\r\n")),
    ("no length", post(b"")),
    ("host and port", get(b"/t/echo/x", b"Host: 127.0.0.1:19120\r\n")),
    ("HOST", get(b"/t/echo/x", b"HOST: LOCALHOST\r\n")),
    ("host in six", get(b"/t/echo/x", b"Host: [::1]:80\r\n")),
    ("own origin", get(b"/t/echo/x", HOST + b"Origin: http://localhost:3000\r\n")),
    ("encoded slash", get(b"/t/echo/a%2Fb")),
    ("three dots", get(b"/t/echo/...")),
    ("dots in a name", get(b"/t/echo/a..b")),
    ("hidden file", get(b"/t/echo/.a")),
    ("dots encoded twice", get(b"/t/echo/%252e%252e")),
    ("group separator", get(b"/t/echo/a%1Db")),
    ("UTF-8", get(b"/t/echo/%c3%a4?b=%c3%a4")),
    ("address of the longest", get(b"/t/echo/" + b"a" * (HTTP_TARGET_BYTES_MAX - 8))),
    ("tab in a header", get(b"/t/echo/x", HOST + b"X: a\tb\r\n")),
    ("high byte in a header", get(b"/t/echo/x", HOST + b"X: \xe4\r\n")),
    ("as many headers as may be", get(b"/t/echo/x", HOST + lines(HTTP_HEADERS_MAX - 1))),
    ("empty lines before", b"\r\n\r\n" + get(b"/t/echo/x")),
    (
        "a wish for HTTP/2",
        get(b"/t/echo/x", HOST + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
        b"HTTP2-Settings: AAMAAABkAAQBAAAAAAIAAAAA\r\n"),
    ),
    (
        "a wish for HTTP/2 with a body",
        post(b"Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 5\r\n", b"hello"),
    ),
    ("packed", post(b"Content-Encoding: gzip\r\nContent-Length: %d\r\n" % len(PACKED), PACKED)),
]  # fmt: skip


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Two servers, without and with TLS, each with all kinds of listeners; by their names."""
    folder = tmp_path_factory.mktemp("probes")
    files = CertificateFiles(folder)
    certificate = files.load()
    plain = Options(port=0, unix_socket=str(folder / "socket"))
    with (
        running(options=plain, listeners=[second()]) as one,
        running(
            options=Options(port=0, certificate=certificate),
            listeners=[second(certificate)],
            trust=files.trust(),
        ) as other,
    ):
        unix_socket, plain_second = one.places
        yield {
            "plain": one,
            "TLS": other,
            "second": plain_second,
            "second with TLS": other.places[0],
            "Unix socket": unix_socket,
        }


# The same probes where callers have to be known.


class Guarded(SmallFace):
    """Serves callers with one token."""

    def __init__(self) -> None:
        super().__init__()
        self.authentication = Authentication(self.authenticate)

    def authenticate(self, request, match) -> Principal:
        if request.headers.get("authorization") != "Bearer good":
            raise Unauthenticated("no valid credentials")
        return Principal("ada")


@pytest.fixture(scope="module")
def guarded():
    with running(faces=[Guarded()]) as server:
        yield server


def known(raw: bytes) -> bytes:
    """Returns a request with valid credentials."""
    return raw.replace(b"\r\n\r\n", b"\r\nAuthorization: Bearer good\r\n\r\n", 1)


@pytest.mark.parametrize(
    ("raw", "status"), [(raw, status) for _, raw, status in REFUSED], ids=[n for n, *_ in REFUSED]
)
def test_a_probe_is_refused_in_the_same_way_where_callers_are_known(guarded, raw, status):
    with Client(guarded) as client:
        client.send(known(raw))
        assert client.read().status == status
        assert client.is_closed()
    # Without credentials it may be refused earlier, and never later.
    with Client(guarded) as client:
        client.send(raw)
        assert client.read().status in (status, 401)
        assert client.is_closed()
    assert guarded.on_loop(lambda: guarded.server.registry.held_bytes) == 0


@pytest.mark.parametrize("raw", [raw for _, raw in PASSED], ids=[name for name, _ in PASSED])
def test_a_good_neighbour_passes_with_credentials_and_only_then(guarded, raw):
    mark = raw.index(b"\r\n\r\n", len(raw) - len(raw.lstrip()))
    with_token = raw[:mark] + b"\r\nAuthorization: Bearer good" + raw[mark:]
    # One header less, where there are as many as there may be.
    with_token = with_token.replace(b"X-0: a\r\n", b"")
    with Client(guarded) as client:
        for sent, status in ((raw, 401), (with_token, 200), (raw, 401)):
            client.send(sent)
            assert client.read().status == status


@pytest.mark.parametrize(
    "line",
    [
        "Authorization: bearer good",
        "Authorization: Bearer  good",
        "Authorization: Bearer good,Bearer good",
        "Authorization: Bearer good\tx",
        "Authorization: Bearer goo",
        "Authorization: Bearer good2",
        "Authorization: Bearer \xe4",
        "Authorization:",
        "Authorization: Basic Z29vZA==",
        "Proxy-Authorization: Bearer good",
        "X-Authorization: Bearer good",
        "Cookie: Authorization=Bearer good",
    ],
)
def test_credentials_that_are_nearly_right_are_not(guarded, line):
    with Client(guarded) as client:
        answer = client.ask("GET", "/t/echo/x", b"", line)
        assert answer.status == 401
        assert "www-authenticate" in answer.headers
        assert client.ask("GET", "/t/echo/x", b"", "Authorization: Bearer good").status == 200


def test_credentials_in_a_trailer_do_not_count(guarded):
    with Client(guarded) as client:
        client.send(chunked(b"5\r\nhello\r\n0\r\nAuthorization: Bearer good\r\n\r\n"))
        assert client.read().status == 401


def second(certificate=None):
    return ListenerOptions(faces=[SmallFace()], certificate=certificate)


@pytest.fixture(scope="module", params=["plain", "TLS", "second", "second with TLS", "Unix socket"])
def server(request, places):
    return places[request.param]


@pytest.fixture
def client(server):
    with Client(server) as connected:
        yield connected


def test_there_are_sixty_probes_with_names_of_their_own():
    assert len({name for name, _, _ in REFUSED}) == len(REFUSED) >= 60


@pytest.mark.parametrize(
    ("raw", "status"), [(raw, status) for _, raw, status in REFUSED], ids=[n for n, *_ in REFUSED]
)
def test_a_probe_is_refused_with_this_status_and_cut_off(client, raw, status):
    client.send(raw)
    answer = client.read(head_only=raw.startswith(b"HEAD"))
    assert answer.status == status, answer.body
    assert answer.headers["connection"] == "close"
    assert answer.json()["status"] == status
    # Nothing that follows on this connection is taken for a request.
    assert client.is_closed()


@pytest.mark.parametrize(
    "raw", [raw for _, raw in BAD_ADDRESSES], ids=[name for name, _ in BAD_ADDRESSES]
)
def test_a_bad_address_is_refused_by_its_face_and_the_connection_lives_on(client, raw):
    client.send(raw)
    answer = client.read()
    assert answer.status == 400, answer.body
    assert answer.json()["errorCode"] == "REFUSED"
    assert client.ask("GET", "/t/echo/next").json()["params"] == {"0": "next"}


@pytest.mark.parametrize("raw", [raw for _, raw in PASSED], ids=[name for name, _ in PASSED])
def test_a_good_neighbour_passes_and_the_connection_lives_on(client, raw):
    client.send(raw)
    answer = client.read()
    assert answer.status == 200, answer.body
    assert client.ask("GET", "/t/echo/next").json()["params"] == {"0": "next"}


@pytest.mark.parametrize(
    "raw",
    [
        post(b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n" + SMUGGLED),
        post(b"Content-Length: 5\r\nContent-Length: 0\r\n", SMUGGLED),
        chunked(b"0\r\n\r\n" + SMUGGLED, b"Transfer-Encoding: identity, chunked\r\n"),
        get(b"/t/echo/x", HOST + b"X: a\nContent-Length: 10\r\n") + SMUGGLED,
    ],
)
def test_a_smuggled_request_is_never_served(client, raw):
    client.send(raw)
    assert client.read().status == 400
    assert client.is_closed()


def test_a_body_after_a_wish_for_another_protocol_is_the_body_and_no_request(client):
    inner = get(b"/t/echo/smuggled")
    client.send(
        post(b"Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: %d\r\n" % len(inner), inner)
    )
    assert client.read().json()["body"] == len(inner)
    assert client.ask("GET", "/t/echo/next").json()["params"] == {"0": "next"}


@pytest.mark.parametrize("repeats", [1, 64])
def test_a_gzip_bomb_is_refused_before_it_is_unpacked(client, repeats):
    bomb = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed = b"".join(bomb.compress(bytes(1_048_576)) for _ in range(repeats)) + bomb.flush()
    answer = client.ask("POST", "/t/echo/x", packed, "Content-Encoding: gzip")
    assert answer.status == 413
    assert client.ask("GET", "/t/echo/next").status == 200


@pytest.mark.parametrize(
    "packed",
    [
        b"no gzip",
        gzip.compress(b"hello" * 100)[:-9],
        gzip.compress(b"hello") + b"more",
        gzip.compress(b"hello") + gzip.compress(b"hello"),
        gzip.compress(b"hello")[:-8] + bytes(8),
        zlib.compress(b"hello"),
        b"\x1f\x8b",
    ],
    ids=["text", "cut", "garbage after", "two proposals", "wrong checksum", "zlib", "only a sign"],
)
def test_damaged_gzip_is_refused(client, packed):
    answer = client.ask("POST", "/t/echo/x", packed, "Content-Encoding: gzip")
    assert answer.status == 400


def test_different_names_on_the_wire_stay_different_or_are_refused(server):
    names = [
        "a/b",
        "a%2Fb",
        "a%2fb",
        "a%252Fb",
        "A",
        "a",
        "%61",
        "a%20",
        "a+",
        "a%2B",
        "%C3%A9",
        "e%CC%81",
    ]
    seen: dict[str, set[str]] = {}
    with Client(server) as client:
        for name in names:
            found = client.ask("GET", f"/t/echo/{name}").json()["params"]
            seen.setdefault(repr(found), set()).add(name)
    merged = [same for same in seen.values() if len(same) > 1]
    # Only spellings of one and the same name fall together.
    assert sorted(map(sorted, merged)) == [["%61", "a"], ["a%2B", "a+"], ["a%2Fb", "a%2fb"]]
