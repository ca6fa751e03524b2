"""Bodies in signed pieces, with checksums and trailers; cut, altered, over-long: nothing stored."""

from __future__ import annotations

import base64
import hashlib
import hmac
import socket
import zlib

import pytest
from awscrt import checksums as crt

from lochan.access.signatures import CredentialScope, derive_signing_key
from tests.faces.s3.gateway import REPOSITORY, Gateway, code_of

EMPTY = hashlib.sha256(b"").hexdigest()
SIGNED = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
KEY = "main/bodies/a"
TARGET = f"/{REPOSITORY}/{KEY}"


def b64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


CHECKSUMS = {
    "crc32": lambda body: b64(zlib.crc32(body).to_bytes(4, "big")),
    "crc32c": lambda body: b64(crt.crc32c(body).to_bytes(4, "big")),
    "crc64nvme": lambda body: b64(crt.crc64nvme(body).to_bytes(8, "big")),
    "sha1": lambda body: b64(hashlib.sha1(body).digest()),
    "sha256": lambda body: b64(hashlib.sha256(body).digest()),
}


class Chunked:
    """Writes a body in pieces as clients do, with signatures if its kind has them."""

    def __init__(
        self,
        gateway: Gateway,
        kind: str,
        body: bytes,
        size: int,
        trailer: str = "",
        length: int | None = None,
    ) -> None:
        self.gateway = gateway
        self.signs = "HMAC" in kind
        self.trailer = trailer
        headers = {
            "x-amz-content-sha256": kind,
            "x-amz-decoded-content-length": str(len(body) if length is None else length),
            "content-encoding": "aws-chunked",
        }
        if trailer:
            headers["x-amz-trailer"] = trailer.partition(":")[0]
        self.headers = self._signed(headers, kind)
        pieces = [body[at : at + size] for at in range(0, len(body), size)]
        self.lines = [self._piece(piece) for piece in (*pieces, b"")]
        self.lines[-1] = self.lines[-1].removesuffix(b"\r\n")
        self.end = self._trailer()

    def _signed(self, headers: dict[str, str], kind: str) -> dict[str, str]:
        signed = self.gateway.sign("PUT", TARGET, headers)
        assert signed["X-Amz-Content-SHA256"] == kind
        text = signed["Authorization"]
        self.last = text.rpartition("Signature=")[2]
        self.time = signed["X-Amz-Date"]
        date, region = text.partition("Credential=")[2].split("/")[1:3]
        scope = CredentialScope(date, region)
        self.scope = scope.text
        self.key = derive_signing_key(self.gateway.secret.encode(), scope)
        return signed

    def _sign(self, kind: str, digests: str) -> str:
        text = f"AWS4-HMAC-SHA256-{kind}\n{self.time}\n{self.scope}\n{self.last}\n{digests}"
        self.last = hmac.digest(self.key, text.encode(), "sha256").hex()
        return self.last

    def _piece(self, piece: bytes) -> bytes:
        head = f"{len(piece):x}"
        if self.signs:
            digest = hashlib.sha256(piece).hexdigest()
            head += f";chunk-signature={self._sign('PAYLOAD', f'{EMPTY}' + chr(10) + digest)}"
        return head.encode() + b"\r\n" + piece + b"\r\n"

    def _trailer(self) -> bytes:
        if not self.trailer:
            return b"\r\n"
        lines = f"{self.trailer}\r\n"
        if self.signs:
            digest = hashlib.sha256(f"{self.trailer}\n".encode()).hexdigest()
            lines += f"x-amz-trailer-signature:{self._sign('TRAILER', digest)}\r\n"
        return lines.encode() + b"\r\n"

    def send(self):
        body = b"".join(self.lines) + self.end
        return self.gateway.send_signed("PUT", TARGET, self.headers, body)


@pytest.fixture(params=[(100, 33), (70_000, 8_192), (70_000, 65_536), (0, 10)])
def body(request) -> tuple[bytes, int]:
    size, piece = request.param
    return (b"0123456789" * (size // 10 + 1))[:size], piece


def absent(gateway: Gateway) -> bool:
    return KEY not in gateway.keys("main/bodies/")


@pytest.fixture
def clean(shared) -> Gateway:
    shared.s3.delete_object(Bucket=REPOSITORY, Key=KEY)
    return shared


@pytest.mark.parametrize(
    "kind", [SIGNED, f"{SIGNED}-TRAILER", "STREAMING-UNSIGNED-PAYLOAD-TRAILER"]
)
def test_a_body_in_pieces_is_stored_without_its_frames(clean, kind, body):
    trailer = f"x-amz-checksum-crc32:{CHECKSUMS['crc32'](body[0])}" if "TRAILER" in kind else ""
    answer = Chunked(clean, kind, body[0], body[1], trailer).send()
    assert answer.status_code == 200, answer.text
    assert clean.get(KEY) == body[0]
    head = clean.s3.head_object(Bucket=REPOSITORY, Key=KEY)
    assert "ContentEncoding" not in head
    if trailer:
        assert answer.headers["x-amz-checksum-crc32"] == trailer.partition(":")[2]


@pytest.mark.parametrize("kind", CHECKSUMS)
def test_checksums_are_compared_in_headers_and_trailers(clean, kind):
    body, name = b"some bytes" * 9_000, f"x-amz-checksum-{kind}"
    right, wrong = CHECKSUMS[kind](body), CHECKSUMS[kind](b"other")
    unsigned = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
    for value, status in ((wrong, (400, "BadDigest")), ("!", (400, "InvalidRequest"))):
        assert code_of(clean.send("PUT", TARGET, {name: value}, body)) == status
        assert code_of(Chunked(clean, unsigned, body, 8_192, f"{name}:{value}").send()) == status
        assert absent(clean)
    answer = clean.send("PUT", TARGET, {name: right}, body)
    assert (answer.status_code, answer.headers[name]) == (200, right)
    assert Chunked(clean, unsigned, body, 8_192, f"{name}:{right}").send().status_code == 200
    assert clean.get(KEY) == body


def test_an_md5_is_compared(clean):
    md5 = b64(hashlib.md5(b"other", usedforsecurity=False).digest())
    assert code_of(clean.send("PUT", TARGET, {"content-md5": md5}, b"x")) == (400, "BadDigest")
    assert code_of(clean.send("PUT", TARGET, {"content-md5": "x"}, b"x")) == (400, "InvalidDigest")
    two = {"x-amz-checksum-crc32": "AAAAAA==", "x-amz-checksum-sha1": "x"}
    assert code_of(clean.send("PUT", TARGET, two, b"x")) == (400, "InvalidRequest")
    assert absent(clean)


def alter(chunked: Chunked, how: str) -> None:
    """Changes one thing about a body that is right otherwise."""
    lines = chunked.lines
    match how:
        case "a byte of a piece":
            lines[1] = lines[1][:-3] + b"X\r\n"
        case "pieces swapped":
            lines[0], lines[1] = lines[1], lines[0]
        case "a piece twice":
            lines.insert(1, lines[0])
        case "a piece left out":
            del lines[1]
        case "the last piece left out":
            del lines[-1]
        case "a wrong signature":
            lines[0] = lines[0].replace(b"chunk-signature=", b"chunk-signature=0", 1)[
                : len(lines[0])
            ]
        case "no signature":
            lines[0] = lines[0].partition(b";")[0] + b"\r\n" + lines[0].partition(b"\r\n")[2]
        case "a size that is no number":
            lines[0] = b"x" + lines[0]
        case "a size that is too large":
            lines[0] = b"f" + lines[0]
        case "more after the end":
            chunked.end += b"5\r\nmore!\r\n"
        case "cut":
            chunked.end = b""
        case "a long line":
            lines[0] = b"0" * 5_000 + lines[0]
        case "another length":
            chunked.headers["x-amz-decoded-content-length"] = "1"


HOWS = [
    *("a byte of a piece", "pieces swapped", "a piece twice", "a piece left out"),
    *("the last piece left out", "a wrong signature", "no signature", "a size that is no number"),
    *("a size that is too large", "more after the end", "cut", "a long line", "another length"),
]


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("size", [100, 300_000])
def test_a_body_that_was_altered_anywhere_stores_nothing(clean, how, size):
    blocks = clean.stored()
    body = bytes(range(100)) * (size // 100)
    chunked = Chunked(clean, SIGNED, body, size // 4)
    alter(chunked, how)
    status, code = code_of(chunked.send())
    assert code in ("SignatureDoesNotMatch", "IncompleteBody"), (status, code)
    assert status in (400, 403)
    assert absent(clean)
    assert clean.stored() == blocks


def test_a_trailer_is_signed_too(clean):
    body = b"x" * 100
    trailer = f"x-amz-checksum-crc32:{CHECKSUMS['crc32'](body)}"
    chunked = Chunked(clean, f"{SIGNED}-TRAILER", body, 50, trailer)
    other = CHECKSUMS["crc32"](b"y").encode()
    chunked.end = chunked.end.replace(trailer.partition(":")[2].encode(), other)
    assert code_of(chunked.send()) == (403, "SignatureDoesNotMatch")
    missing = Chunked(clean, f"{SIGNED}-TRAILER", body, 50, trailer)
    missing.trailer = ""
    missing.end = b"\r\n"
    assert code_of(missing.send())[0] in (400, 403)
    assert absent(clean)


def test_a_body_that_is_cut_stores_nothing(clean):
    blocks = clean.stored()
    for body, length in ((b"abc", 10), (b"x" * 400_000, 500_000)):
        headers = clean.sign(
            "PUT",
            TARGET,
            {"x-amz-content-sha256": "UNSIGNED-PAYLOAD", "content-length": str(length)},
        )
        lines = [f"PUT {TARGET} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        clean.send_raw("\r\n".join([*lines, "", ""]).encode() + body)
    assert absent(clean)
    assert clean.stored() == blocks


def test_a_client_that_waits_for_permission_gets_it_only_if_it_may_write(clean):
    wrong = clean.sign("PUT", TARGET, {"expect": "100-continue"}, b"x" * 9, secret="a" * 52)
    good = clean.sign("PUT", TARGET, {"expect": "100-continue"}, b"x" * 9)
    host, port = clean.host.split(":")
    for headers, first in ((wrong, b"HTTP/1.1 403"), (good, b"HTTP/1.1 100")):
        headers = {**headers, "content-length": "9"}
        lines = [f"PUT {TARGET} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        with socket.create_connection((host, int(port)), 30) as sock:
            sock.sendall("\r\n".join([*lines, "", ""]).encode())
            assert sock.recv(65_536).startswith(first)
            if first.endswith(b"100"):
                sock.sendall(b"x" * 9)
                assert sock.recv(65_536).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"x-amz-content-sha256": "nonsense"}, (400, "InvalidArgument")),
        ({"x-amz-content-sha256": f"{SIGNED}-NEW"}, (501, "NotImplemented")),
        ({"x-amz-content-sha256": SIGNED}, (411, "MissingContentLength")),
        (
            {"x-amz-content-sha256": SIGNED, "x-amz-decoded-content-length": "6000000000"},
            (400, "EntityTooLarge"),
        ),
    ],
)
def test_what_is_stated_about_a_body_has_to_make_sense(clean, headers, code):
    assert code_of(clean.send("PUT", TARGET, headers, b"x")) == code
    assert absent(clean)


def test_floods_of_headers_are_refused(clean):
    for headers in ({f"x-h-{at}": "x" for at in range(200)}, {"x-long": "x" * 40_000}):
        signed = clean.sign("PUT", TARGET, headers, b"x")
        assert clean.send_signed("PUT", TARGET, signed, b"x").status_code == 431
    assert absent(clean)
