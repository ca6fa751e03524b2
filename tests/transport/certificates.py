"""Self-signed certificates for tests, made without any program or library: ECDSA on P-256.

Only for tests: the arithmetic takes a different time for each key.
"""

from __future__ import annotations

import base64
import hashlib
import ssl
from pathlib import Path
from secrets import randbelow

from lochan.transport.tls import Certificate

P = 2**256 - 2**224 + 2**192 + 2**96 - 1
N = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
G = (
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
)
Point = tuple[int, int] | None

# Object identifiers, as they are encoded.
EC_KEY = bytes.fromhex("06072a8648ce3d0201")
P256 = bytes.fromhex("06082a8648ce3d030107")
ECDSA_SHA256 = bytes.fromhex("06082a8648ce3d040302")
COMMON_NAME = bytes.fromhex("0603550403")
BASIC_CONSTRAINTS = bytes.fromhex("0603551d13")
KEY_USAGE = bytes.fromhex("0603551d0f")
KEY_ID = bytes.fromhex("0603551d0e")
ALTERNATIVE_NAMES = bytes.fromhex("0603551d11")

TRUE = b"\x01\x01\xff"
ENCRYPTED_KEY = (
    "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n"
    "DEK-Info: AES-128-CBC,00112233445566778899AABBCCDDEEFF\n\n"
    f"{base64.b64encode(bytes(48)).decode()}\n-----END EC PRIVATE KEY-----\n"
)


def _add(a: Point, b: Point) -> Point:
    if a is None or b is None:
        return a or b
    if a[0] == b[0] and (a[1] + b[1]) % P == 0:
        return None
    if a == b:
        slope = 3 * (a[0] * a[0] - 1) * pow(2 * a[1], -1, P)
    else:
        slope = (b[1] - a[1]) * pow(b[0] - a[0], -1, P)
    x = (slope * slope - a[0] - b[0]) % P
    return x, (slope * (a[0] - x) - a[1]) % P


def _times(number: int) -> tuple[int, int]:
    result: Point = None
    power: Point = G
    while number:
        if number & 1:
            result = _add(result, power)
        power = _add(power, power)
        number >>= 1
    assert result is not None
    return result


def _der(tag: int, *parts: bytes) -> bytes:
    body = b"".join(parts)
    if len(body) < 128:
        return bytes((tag, len(body))) + body
    length = len(body).to_bytes((len(body).bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + body


def _sequence(*parts: bytes) -> bytes:
    return _der(0x30, *parts)


def _integer(number: int) -> bytes:
    return _der(0x02, number.to_bytes(number.bit_length() // 8 + 1, "big"))


def _sign(secret: int, message: bytes) -> bytes:
    digest = int.from_bytes(hashlib.sha256(message).digest(), "big")
    nonce = 1 + randbelow(N - 1)
    r = _times(nonce)[0] % N
    s = pow(nonce, -1, N) * (digest + r * secret) % N
    return _sequence(_integer(r), _integer(s))


def _extension(name: bytes, value: bytes, critical: bytes = b"") -> bytes:
    return _sequence(name, critical, _der(0x04, value))


def _pem(kind: str, raw: bytes) -> str:
    text = base64.encodebytes(raw).decode()
    return f"-----BEGIN {kind}-----\n{text}-----END {kind}-----\n"


def make_pair() -> tuple[str, str]:
    """Returns a new certificate for this machine and its key, in PEM form."""
    secret = 1 + randbelow(N - 1)
    x, y = _times(secret)
    public = b"\x04" + x.to_bytes(32, "big") + y.to_bytes(32, "big")
    name = _sequence(_der(0x31, _sequence(COMMON_NAME, _der(0x0C, b"localhost"))))
    names = _sequence(
        _der(0x82, b"localhost"), _der(0x87, b"\x7f\0\0\1"), _der(0x87, bytes(15) + b"\x01")
    )
    extensions = _sequence(
        _extension(BASIC_CONSTRAINTS, _sequence(TRUE), TRUE),
        _extension(KEY_USAGE, _der(0x03, b"\x02\x84"), TRUE),
        _extension(KEY_ID, _der(0x04, hashlib.sha1(public, usedforsecurity=False).digest())),
        _extension(ALTERNATIVE_NAMES, names),
    )
    body = _sequence(
        _der(0xA0, _integer(2)),
        _integer(1 + randbelow(2**64)),
        _sequence(ECDSA_SHA256),
        name,
        _sequence(_der(0x17, b"200101000000Z"), _der(0x18, b"21200101000000Z")),
        name,
        _sequence(_sequence(EC_KEY, P256), _der(0x03, b"\0" + public)),
        _der(0xA3, extensions),
    )
    signature = _der(0x03, b"\0" + _sign(secret, body))
    key = _sequence(
        _integer(1),
        _der(0x04, secret.to_bytes(32, "big")),
        _der(0xA0, P256),
        _der(0xA1, _der(0x03, b"\0" + public)),
    )
    return (
        _pem("CERTIFICATE", _sequence(body, _sequence(ECDSA_SHA256), signature)),
        _pem("EC PRIVATE KEY", key),
    )


class CertificateFiles:
    """A certificate and its key in a folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.certificate = folder / "certificate.pem"
        self.key = folder / "key.pem"
        self.renew()

    def renew(self) -> None:
        """Writes a new pair."""
        certificate, key = make_pair()
        self.certificate.write_text(certificate)
        self.key.write_text(key)

    def load(self) -> Certificate:
        return Certificate(self.certificate, self.key)

    def trust(self) -> ssl.SSLContext:
        """Returns the context of a client that accepts the certificate that is there now."""
        return ssl.create_default_context(cafile=str(self.certificate))

    def binary(self) -> bytes:
        """Returns the certificate as a client sees it."""
        return ssl.PEM_cert_to_DER_cert(self.certificate.read_text())
