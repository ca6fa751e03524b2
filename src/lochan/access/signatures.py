"""Requests that are signed with the secret of an access key, as AWS defines it (version 4).

A signature is in the header `Authorization`, or in the query of a URL that was signed before. It
covers method, path, query, the headers that it names, and what the sender states about the body:
its SHA-256, that it is not signed, or that its pieces are signed one by one (`SignatureChain`).

Nothing here reads a clock or a store: `read_signature` reads a request, `is_signed` compares.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from hashlib import sha256
from typing import Final
from urllib.parse import quote_from_bytes, unquote_to_bytes

import msgspec

from lochan.access.authorization_header import UNAUTHENTICATED_TEXT
from lochan.base.errors import Unauthenticated
from lochan.base.limits.credentials import (
    AUTHORIZATION_BYTES_MAX,
    SIGNATURE_LIFETIME_S_MAX,
    SIGNATURE_SKEW_S_MAX,
)

ALGORITHM: Final = "AWS4-HMAC-SHA256"
UNSIGNED_PAYLOAD: Final = "UNSIGNED-PAYLOAD"
EMPTY_SHA256: Final = sha256(b"").hexdigest()

_END: Final = "aws4_request"
_SERVICE: Final = "s3"
_UNRESERVED: Final = "-_.~"
_HEX: Final = re.compile(r"[0-9a-f]{64}\Z")
_TIME: Final = re.compile(r"[0-9]{8}T[0-9]{6}Z\Z")
_NUMBER: Final = re.compile(r"[0-9]{1,9}\Z")
_BLANKS: Final = re.compile(rb"[ \t]+")
_IN_QUERY: Final = re.compile(
    rb"(?:^|&)(?:X-Amz-(?:Algorithm|Signature|Credential)|AWSAccessKeyId)=", re.IGNORECASE
)

RawHeaders = Sequence[tuple[bytes, bytes]]
"""Names in lower case, and values."""


def refused_signature(flaw: str, reason: str) -> Unauthenticated:
    """Returns the error for a signature that does not count; `flaw` is a word for its face."""
    error = Unauthenticated(f"signature refused: {reason}", public=UNAUTHENTICATED_TEXT)
    error.flaw = flaw
    return error


class CredentialScope(msgspec.Struct, frozen=True, gc=False):
    """What a signing key is valid for: a day and a region."""

    date: str
    region: str

    @property
    def text(self) -> str:
        """The scope as it is signed."""
        return f"{self.date}/{self.region}/{_SERVICE}/{_END}"


class RequestSignature(msgspec.Struct, frozen=True):
    """The signature of one request, and what it was made of.

    `canonical` are the forms of the request that a client may have signed: with the path as it
    was sent, and with the path encoded as AWS does it. `payload` is what it states about the body.
    `expires_s` is that of a URL, None for a header.
    """

    access_key_id: str
    scope: CredentialScope
    time: str
    signature: str
    payload: str
    canonical: tuple[bytes, ...]
    expires_s: int | None = None

    def check_time(self, now_us: int) -> None:
        """Raises unless the signature is valid at this time."""
        now = datetime.fromtimestamp(now_us / 1_000_000, UTC)
        made = _read_time(self.time)
        skew = timedelta(seconds=SIGNATURE_SKEW_S_MAX)
        if self.expires_s is None:
            if abs(now - made) > skew:
                raise refused_signature("skewed", f"the request was signed at {self.time}")
        elif now < made - skew:
            raise refused_signature("skewed", f"the URL is valid from {self.time}")
        elif now > made + timedelta(seconds=self.expires_s):
            raise refused_signature("expired", f"the URL of {self.time} has expired")

    def is_signed(self, signing_key: bytes) -> bool:
        """Returns whether the signature was made with a key."""
        given = self.signature.encode()
        found = False
        for each in self.canonical:
            text = f"{ALGORITHM}\n{self.time}\n{self.scope.text}\n{sha256(each).hexdigest()}"
            found |= hmac.compare_digest(_sign(signing_key, text), given)
        return found

    def chain(self, signing_key: bytes | None) -> SignatureChain:
        """Returns what checks the signatures of the pieces of the body."""
        return SignatureChain(signing_key, self.time, self.scope.text, self.signature)


class SignatureChain:
    """The signatures of the pieces of one body: each covers its piece and the one before it.

    Without a key nothing is compared: access was not set up.
    """

    def __init__(self, signing_key: bytes | None, time: str, scope: str, seed: str) -> None:
        self._signing_key = signing_key
        self._head = f"{time}\n{scope}"
        self._last = seed

    def check_chunk(self, digest: str, signature: str) -> None:
        """Raises unless a signature is that of the next piece, whose SHA-256 is given."""
        self._check(f"{ALGORITHM}-PAYLOAD", f"{EMPTY_SHA256}\n{digest}", signature)

    def check_trailer(self, digest: str, signature: str) -> None:
        """Raises unless a signature is that of the trailer, whose SHA-256 is given."""
        self._check(f"{ALGORITHM}-TRAILER", digest, signature)

    def _check(self, kind: str, digests: str, signature: str) -> None:
        if self._signing_key is not None:
            text = f"{kind}\n{self._head}\n{self._last}\n{digests}"
            if not hmac.compare_digest(_sign(self._signing_key, text), signature.encode()):
                raise refused_signature("signature", "a piece of the body is not as it was signed")
        self._last = signature


def derive_signing_key(secret: bytes, scope: CredentialScope) -> bytes:
    """Returns the key that signs requests of one day and region."""
    key = b"AWS4" + secret
    for part in (scope.date, scope.region, _SERVICE, _END):
        key = hmac.digest(key, part.encode(), "sha256")
    return key


def has_signature(query: bytes, authorization: str | None) -> bool:
    """Returns whether a request is signed as AWS does it, in any version."""
    if authorization is not None and authorization.startswith(("AWS4-", "AWS ")):
        return True
    return bool(query) and _IN_QUERY.search(query) is not None


def read_signature(
    method: str, path: bytes, query: bytes, headers: RawHeaders
) -> RequestSignature | None:
    """Reads the signature of a request, None if it has none; Unauthenticated if it is malformed."""
    values: dict[bytes, bytes] = {}
    for name, value in headers:
        value = _BLANKS.sub(b" ", value.strip(b" \t"))
        values[name] = values[name] + b"," + value if name in values else value
    authorization = values.get(b"authorization", b"").decode("latin-1")
    if not has_signature(query, authorization or None):
        return None
    if len(authorization) > AUTHORIZATION_BYTES_MAX:
        raise refused_signature("malformed header", "the header Authorization is too long")
    pairs = _decoded_pairs(query)
    given = {name: value for name, value in pairs if name.startswith("X-Amz-")}
    names = {name.lower() for name, _ in pairs}
    if authorization.startswith("AWS ") or (not authorization and "awsaccesskeyid" in names):
        raise refused_signature("version 2", "it is of version 2")
    if authorization:
        if "X-Amz-Signature" in given:
            raise refused_signature("malformed header", "there are two signatures")
        return _of_header(method, path, pairs, values, authorization)
    return _of_query(method, path, pairs, values, given)


def _of_header(
    method: str,
    path: bytes,
    pairs: Sequence[tuple[str, str]],
    values: dict[bytes, bytes],
    authorization: str,
) -> RequestSignature:
    algorithm, _, rest = authorization.partition(" ")
    fields = dict(part.strip().partition("=")[::2] for part in rest.split(","))
    if algorithm != ALGORITHM or fields.keys() != {"Credential", "SignedHeaders", "Signature"}:
        raise refused_signature("malformed header", "it has not the three fields of its version")
    key_id, scope = _read_credential(fields["Credential"], "malformed header")
    time = _time_of(values)
    if not time.startswith(scope.date):
        raise refused_signature("malformed header", "the date of the scope is another one")
    payload = values.get(b"x-amz-content-sha256", b"").decode("latin-1")
    if not payload:
        raise refused_signature("no digest", "the header x-amz-content-sha256 is missing")
    return _signature(
        (method, path, pairs, values),
        (key_id, scope, time, fields["Signature"]),
        fields["SignedHeaders"],
        payload,
        None,
    )


def _of_query(
    method: str,
    path: bytes,
    pairs: Sequence[tuple[str, str]],
    values: dict[bytes, bytes],
    given: dict[str, str],
) -> RequestSignature:
    flaw = "malformed query"
    names = ("Algorithm", "Credential", "Date", "Expires", "SignedHeaders", "Signature")
    missing = [name for name in names if f"X-Amz-{name}" not in given]
    doubled = len({name for name, _ in pairs if name in given}) != sum(
        name in given for name, _ in pairs
    )
    if missing or doubled or given["X-Amz-Algorithm"] != ALGORITHM:
        raise refused_signature(flaw, "a field is missing, given twice, or unknown")
    key_id, scope = _read_credential(given["X-Amz-Credential"], flaw)
    time, expires = given["X-Amz-Date"], given["X-Amz-Expires"]
    if not _TIME.match(time) or not time.startswith(scope.date) or not _NUMBER.match(expires):
        raise refused_signature(flaw, "its time or its expiry is malformed")
    if not 1 <= int(expires) <= SIGNATURE_LIFETIME_S_MAX:
        raise refused_signature(flaw, "a URL is valid for a second to seven days")
    _read_time(time)
    payload = values.get(b"x-amz-content-sha256", b"").decode("latin-1")
    payload = given.get("X-Amz-Content-Sha256") or payload or UNSIGNED_PAYLOAD
    unsigned = [(name, value) for name, value in pairs if name != "X-Amz-Signature"]
    return _signature(
        (method, path, unsigned, values),
        (key_id, scope, time, given["X-Amz-Signature"]),
        given["X-Amz-SignedHeaders"],
        payload,
        int(expires),
    )


_Sent = tuple[str, bytes, Sequence[tuple[str, str]], dict[bytes, bytes]]
"""A request as it was sent: method, path, decoded query, headers."""

_Stated = tuple[str, CredentialScope, str, str]
"""What a signature states: key id, scope, time, the signature itself."""


def _signature(
    sent: _Sent, stated: _Stated, signed_headers: str, payload: str, expires_s: int | None
) -> RequestSignature:
    method, path, pairs, values = sent
    key_id, scope, time, signature = stated
    names = [name.encode("latin-1") for name in signed_headers.split(";")]
    exempt = {b"x-amz-content-sha256"} if expires_s is not None else set()
    unsigned = {name for name in values if name.startswith(b"x-amz-")} - set(names) - exempt
    if b"host" not in names or unsigned:
        raise refused_signature("unsigned headers", f"it does not cover {sorted(unsigned)}")
    if any(name not in values for name in names):
        raise refused_signature("signature", "it covers a header that is not there")
    if not _HEX.match(signature):
        raise refused_signature("signature", "it is not a SHA-256 in hexadecimal digits")
    if payload == UNSIGNED_PAYLOAD or expires_s is None or b"x-amz-content-sha256" in names:
        signed_payload = payload
    else:
        # A header that the signature does not cover is compared with the body and means no more.
        signed_payload = UNSIGNED_PAYLOAD
    query = "&".join(sorted(f"{_encoded(name)}={_encoded(value)}" for name, value in pairs))
    lines = b"".join(name + b":" + values[name] + b"\n" for name in names)
    tail = b"\n".join(
        (query.encode(), lines, signed_headers.encode("latin-1"), signed_payload.encode("latin-1"))
    )
    normal = quote_from_bytes(unquote_to_bytes(path), safe="/" + _UNRESERVED).encode()
    paths = dict.fromkeys((normal, path))
    canonical = tuple(b"%b\n%b\n%b" % (method.encode(), each, tail) for each in paths)
    return RequestSignature(key_id, scope, time, signature, payload, canonical, expires_s)


def _read_credential(text: str, flaw: str) -> tuple[str, CredentialScope]:
    key_id, *scope = text.split("/")
    if len(scope) != 4 or scope[2] != _SERVICE or scope[3] != _END or not key_id:
        raise refused_signature(flaw, "its scope is not DATE/REGION/s3/aws4_request")
    return key_id, CredentialScope(scope[0], scope[1])


def _time_of(values: dict[bytes, bytes]) -> str:
    """Returns when a request was signed, by its own header or by that of HTTP."""
    text = values.get(b"x-amz-date", b"").decode("latin-1")
    if not text:
        try:
            made = parsedate_to_datetime(values.get(b"date", b"").decode("latin-1"))
        except ValueError:
            raise refused_signature("no date", "it has no time") from None
        text = made.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
    if not _TIME.match(text):
        raise refused_signature("no date", "its time is malformed")
    _read_time(text)
    return text


def _read_time(text: str) -> datetime:
    try:
        return datetime.strptime(text, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        raise refused_signature("no date", "its time is malformed") from None


def _decoded_pairs(query: bytes) -> list[tuple[str, str]]:
    """Returns the parameters of a query; bytes that are not UTF-8 are kept as they are."""
    pairs = []
    for part in query.split(b"&"):
        if part:
            name, _, value = part.partition(b"=")
            pairs.append((_decoded(name), _decoded(value)))
    return pairs


def _decoded(raw: bytes) -> str:
    return unquote_to_bytes(raw.replace(b"+", b" ")).decode("utf-8", "surrogateescape")


def _encoded(text: str) -> str:
    return quote_from_bytes(text.encode("utf-8", "surrogateescape"), safe=_UNRESERVED)


def _sign(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode(), "sha256").hex().encode()
