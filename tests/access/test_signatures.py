"""Signatures of version 4: AWS's own published examples, and every way to be wrong."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest

from lochan.access.signatures import (
    CredentialScope,
    derive_signing_key,
    has_signature,
    read_signature,
)
from lochan.base.errors import Unauthenticated

# The example of the Amazon S3 API Reference, "Signature Calculations".
KEY_ID = "AKIAIOSFODNN7EXAMPLE"
SECRET = b"wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
SCOPE = CredentialScope("20130524", "us-east-1")
NOW_US = 1_369_353_600 * 1_000_000
EMPTY = sha256(b"").hexdigest().encode()
HOST = (b"host", b"examplebucket.s3.amazonaws.com")
DATE = (b"x-amz-date", b"20130524T000000Z")


def authorization(headers: str, signature: str) -> tuple[bytes, bytes]:
    credential = f"{KEY_ID}/{SCOPE.text}"
    text = f"Credential={credential},SignedHeaders={headers},Signature={signature}"
    return b"authorization", f"AWS4-HMAC-SHA256 {text}".encode()


GET = [
    HOST,
    (b"range", b"bytes=0-9"),
    (b"x-amz-content-sha256", EMPTY),
    DATE,
    authorization(
        "host;range;x-amz-content-sha256;x-amz-date",
        "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
    ),
]
LIST = [
    HOST,
    (b"x-amz-content-sha256", EMPTY),
    DATE,
    authorization(
        "host;x-amz-content-sha256;x-amz-date",
        "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
    ),
]
STREAMED = [
    (b"host", b"s3.amazonaws.com"),
    DATE,
    (b"x-amz-storage-class", b"REDUCED_REDUNDANCY"),
    (b"x-amz-content-sha256", b"STREAMING-AWS4-HMAC-SHA256-PAYLOAD"),
    (b"content-encoding", b"aws-chunked"),
    (b"x-amz-decoded-content-length", b"66560"),
    (b"content-length", b"66824"),
    authorization(
        "content-encoding;content-length;host;x-amz-content-sha256;x-amz-date;"
        "x-amz-decoded-content-length;x-amz-storage-class",
        "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9",
    ),
]
PRESIGNED = (
    b"X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2F"
    b"us-east-1%2Fs3%2Faws4_request&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&"
    b"X-Amz-SignedHeaders=host&X-Amz-Signature="
    b"aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
)
EXAMPLES = [
    ("GET", b"/test.txt", b"", GET),
    ("GET", b"/", b"max-keys=2&prefix=J", LIST),
    ("PUT", b"/examplebucket/chunkObject.txt", b"", STREAMED),
    ("GET", b"/test.txt", PRESIGNED, [HOST]),
]


def flaw_of(method: str, path: bytes, query: bytes, headers: list[tuple[bytes, bytes]]) -> str:
    """Returns what is wrong with a request, empty if nothing is."""
    try:
        signed = read_signature(method, path, query, headers)
        assert signed is not None
        signed.check_time(NOW_US)
    except Unauthenticated as error:
        return error.flaw
    key = derive_signing_key(SECRET, signed.scope)
    return "" if signed.is_signed(key) else "signature"


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_published_examples_are_signed(example):
    assert flaw_of(*example) == ""
    found = read_signature(*example)
    assert found is not None
    assert found.access_key_id == KEY_ID
    other = derive_signing_key(b"another secret", SCOPE)
    assert not found.is_signed(other)


@pytest.mark.parametrize("example", EXAMPLES)
def test_whatever_a_signature_covers_cannot_be_altered(example):
    method, path, query, headers = example
    assert flaw_of("DELETE", path, query, headers) == "signature"
    assert flaw_of(method, path + b"x", query, headers) == "signature"
    assert flaw_of(method, path, query + b"&acl=", headers) == "signature"
    for at, (name, value) in enumerate(headers):
        if name != b"authorization":
            altered = [*headers[:at], (name, value + b"0"), *headers[at + 1 :]]
            assert flaw_of(method, path, query, altered), name
            assert flaw_of(method, path, query, [*headers[:at], *headers[at + 1 :]]), name


def test_a_header_of_amazon_that_is_not_covered_is_refused():
    more = (b"x-amz-copy-source", b"/other/key")
    assert flaw_of("GET", b"/test.txt", b"", [*GET, more]) == "unsigned headers"
    assert flaw_of("GET", b"/test.txt", PRESIGNED, [HOST, more]) == "unsigned headers"


def flaw_at(signed: Any, shift_s: int) -> str:
    """Returns what is wrong with the time of a signature; empty if nothing is."""
    try:
        signed.check_time(NOW_US + shift_s * 1_000_000)
    except Unauthenticated as error:
        return error.flaw
    return ""


@pytest.mark.parametrize(
    ("shift_s", "flaw"), [(-901, "skewed"), (0, ""), (899, ""), (901, "skewed")]
)
def test_the_clocks_may_differ_by_a_quarter_of_an_hour(shift_s, flaw):
    signed = read_signature("GET", b"/test.txt", b"", GET)
    assert signed is not None
    assert flaw_at(signed, shift_s) == flaw


@pytest.mark.parametrize(
    ("shift_s", "flaw"), [(-901, "skewed"), (-899, ""), (86_400, ""), (86_401, "expired")]
)
def test_a_url_is_valid_until_it_expires(shift_s, flaw):
    signed = read_signature("GET", b"/test.txt", PRESIGNED, [HOST])
    assert signed is not None
    assert flaw_at(signed, shift_s) == flaw


@pytest.mark.parametrize(
    ("old", "new", "flaw"),
    [
        (b"Expires=86400", b"Expires=604801", "malformed query"),
        (b"Expires=86400", b"Expires=0", "malformed query"),
        (b"Expires=86400", b"Expires=-1", "malformed query"),
        (b"Expires=86400", b"Expires=86401", "signature"),
        (b"Date=20130524", b"Date=20130525", "malformed query"),
        (b"%2Fs3%2F", b"%2Fsqs%2F", "malformed query"),
        (b"SignedHeaders=host", b"SignedHeaders=range", "unsigned headers"),
        (b"AWS4-HMAC-SHA256", b"AWS4-HMAC-SHA1", "malformed query"),
        (b"&X-Amz-Expires=86400", b"", "malformed query"),
        (b"&X-Amz-Expires=86400", b"&X-Amz-Expires=86400&X-Amz-Expires=9", "malformed query"),
    ],
)
def test_a_url_that_was_altered_is_refused(old, new, flaw):
    assert old in PRESIGNED
    assert flaw_of("GET", b"/test.txt", PRESIGNED.replace(old, new), [HOST]) == flaw


@pytest.mark.parametrize(
    "text",
    [
        b"AWS4-HMAC-SHA256",
        b"AWS4-HMAC-SHA256 Credential=x",
        b"AWS4-HMAC-SHA256 Credential=a/b/c/s3/aws4_request,SignedHeaders=host,Signature=x",
        b"AWS4-HMAC-SHA256 Credential=//s3/aws4_request,SignedHeaders=host,Signature=x",
        b"AWS4-ECDSA-P256-SHA256 Credential=a,SignedHeaders=host,Signature=x",
    ],
)
def test_a_malformed_header_is_refused(text):
    headers = [HOST, DATE, (b"x-amz-content-sha256", EMPTY), (b"authorization", text)]
    assert flaw_of("GET", b"/", b"", headers) == "malformed header"


@pytest.mark.parametrize(
    ("query", "header"),
    [
        (b"", b"AWS AKIAIOSFODNN7EXAMPLE:frJIUN8DYpKDtOLCwo//yllqDzg="),
        (b"AWSAccessKeyId=AKIAIOSFODNN7EXAMPLE&Signature=vjbyPxybdZaNmGa&Expires=1175139620", None),
    ],
)
def test_version_two_is_refused_by_name(query, header):
    headers = [HOST, DATE] + ([] if header is None else [(b"authorization", header)])
    assert flaw_of("GET", b"/", query, headers) == "version 2"


def test_other_requests_have_no_signature():
    assert read_signature("GET", b"/", b"prefix=X-Amz-Signature", [HOST]) is None
    assert read_signature("GET", b"/", b"", [HOST, (b"authorization", b"Bearer x")]) is None
    assert not has_signature(b"", "Basic x")
    assert has_signature(b"a=1&x-amz-signature=2", None)


def test_the_pieces_of_a_body_are_signed_as_in_the_published_example():
    signed = read_signature("PUT", b"/examplebucket/chunkObject.txt", b"", STREAMED)
    assert signed is not None
    pieces = [
        (b"a" * 65_536, "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648"),
        (b"a" * 1_024, "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497"),
        (b"", "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9"),
    ]
    chain = signed.chain(derive_signing_key(SECRET, SCOPE))
    for body, signature in pieces:
        chain.check_chunk(sha256(body).hexdigest(), signature)
    chain = signed.chain(derive_signing_key(SECRET, SCOPE))
    with pytest.raises(Unauthenticated):
        chain.check_chunk(sha256(b"b").hexdigest(), pieces[0][1])
    # In another order the pieces are not those that were signed.
    with pytest.raises(Unauthenticated):
        chain.check_chunk(sha256(pieces[1][0]).hexdigest(), pieces[1][1])
