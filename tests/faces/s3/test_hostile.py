"""Requests that are forged, altered or malformed: the right error, and not one write to a store.

Every write to the store and every file of the place is counted. What is altered about the pieces of
a body is in `test_bodies.py`, which callers may do what in `tests/security/test_deny_s3.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from lochan.kv.observe import ObservedCall, ObservedStore
from lochan.system import SystemClock
from tests.faces.s3.gateway import REPOSITORY, Gateway, code_of, gateway
from tests.faces.s3.test_bodies import CHECKSUMS, SIGNED, Chunked
from tests.faces.s3.test_objects import BAD_XML

READS = {"get", "get_many", "scan", "hold", "flush"}
OBJECT = {"Bucket": REPOSITORY, "Key": "main/hostile"}
PATH = f"/{REPOSITORY}/main/hostile"
KEPT = f"/{REPOSITORY}/main/kept"
BODY = bytes(range(100)) * 3_000
"""More than is read at once, so that a part of it is at its place before the rest is checked."""

Answer = Callable[[Gateway], httpx.Response]


class Writes:
    """Counts the calls to a store that may change it."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def observe(self, call: ObservedCall) -> None:
        if call.operation not in READS:
            self.made.append(call.operation)


class Watched:
    """A gateway with an object, an upload, and a count of everything that is written."""

    def __init__(self, one: Gateway, writes: Writes) -> None:
        self.gateway = one
        self.writes = writes
        one.put("main/kept", b"kept")
        self.upload = one.s3.create_multipart_upload(**OBJECT)["UploadId"]

    def state(self) -> tuple[Any, ...]:
        """Returns what a write would change."""
        return len(self.writes.made), self.gateway.stored(), self.gateway.keys("main/")

    def check(self, expected: tuple[int, str], attempt: Answer) -> httpx.Response:
        """Sends something; its error is the expected one, and nothing was written."""
        before = self.state()
        answer = attempt(self.gateway)
        assert code_of(answer) == expected, answer.text
        assert self.state() == before
        return answer


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    writes = Writes()
    folder = tmp_path_factory.mktemp("blocks")
    with gateway(folder, wrap=lambda store: ObservedStore(store, writes, SystemClock())) as one:
        yield Watched(one, writes)


@contextmanager
def clock(by: timedelta) -> Iterator[None]:
    """Lets clients sign as if it were another time."""
    moved = datetime.now(UTC) + by
    with pytest.MonkeyPatch.context() as patch:
        for module in ("botocore.auth", "botocore.crt.auth"):
            patch.setattr(f"{module}.get_current_datetime", lambda **_: moved)
        yield


def signed_put(one: Gateway, **more: Any) -> dict[str, str]:
    return one.sign("PUT", PATH, body=BODY, **more)


def put(
    one: Gateway, headers: dict[str, str], body: bytes = BODY, to: str = PATH
) -> httpx.Response:
    return one.send_signed("PUT", to, headers, body)


def test_a_count_notices_what_is_stored(watched):
    """The tests below would find a write: this one makes some."""
    before = watched.state()
    assert put(watched.gateway, signed_put(watched.gateway)).status_code == 200
    assert all(old != new for old, new in zip(before, watched.state(), strict=True))
    watched.gateway.s3.delete_object(**OBJECT)


FORGED: dict[str, tuple[str, str, tuple[int, str]]] = {
    "signature": (r"Signature=.", "Signature=x", (403, "SignatureDoesNotMatch")),
    "digit": (r"Signature=[0-9a-f]{64}", "Signature=" + "0" * 64, (403, "SignatureDoesNotMatch")),
    "day": (r"/20\d{6}/", "/20200101/", (400, "AuthorizationHeaderMalformed")),
    "region": (r"/us-east-1/", "/eu-west-1/", (403, "SignatureDoesNotMatch")),
    "service": (r"/s3/", "/sts/", (400, "AuthorizationHeaderMalformed")),
    "key": (r"Credential=[^/]*", "Credential=LOCH" + "A" * 16, (403, "InvalidAccessKeyId")),
    "headers": (r"SignedHeaders=[^,]*", "SignedHeaders=host", (403, "AccessDenied")),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_header_writes_nothing(watched, name):
    pattern, replacement, code = FORGED[name]

    def attempt(one: Gateway) -> httpx.Response:
        headers = signed_put(one)
        forged, count = re.subn(pattern, replacement, headers["Authorization"], count=1)
        assert count == 1
        return put(one, {**headers, "Authorization": forged})

    watched.check(code, attempt)


def test_a_signature_of_another_secret_key_or_body_writes_nothing(watched):
    wrong = (403, "SignatureDoesNotMatch")
    watched.check(wrong, lambda one: put(one, signed_put(one, secret="a" * 52)))
    watched.check(wrong, lambda one: put(one, signed_put(one), to=KEPT))
    unknown = {"key": "LOCH" + "A" * 16, "secret": "a" * 52}
    watched.check((403, "InvalidAccessKeyId"), lambda one: put(one, signed_put(one, **unknown)))
    other = BODY[:-1] + b"\xff"
    watched.check(
        (400, "XAmzContentSHA256Mismatch"), lambda one: put(one, signed_put(one), body=other)
    )
    assert watched.gateway.get("main/kept") == b"kept"


@pytest.mark.parametrize("minutes", [-16, 16, -60 * 24, 60 * 24])
def test_a_clock_that_is_wrong_writes_nothing(watched, minutes):
    def attempt(one: Gateway) -> httpx.Response:
        with clock(timedelta(minutes=minutes)):
            headers = signed_put(one)
        return put(one, headers)

    watched.check((403, "RequestTimeTooSkewed"), attempt)


def address(one: Gateway, **more: Any) -> str:
    made: str = one.s3.generate_presigned_url("put_object", {**OBJECT, **more}, 60)
    return made


def later(url: str) -> str:
    """Returns an address that states a later second, of the same day."""
    digits = re.search(r"X-Amz-Date=\d{8}T(\d{6})Z", url)
    assert digits is not None
    other = digits[1][:-1] + ("9" if digits[1][-1] != "9" else "8")
    return url.replace(f"T{digits[1]}Z", f"T{other}Z")


ALTERED: dict[str, tuple[Callable[[str], str], tuple[int, str]]] = {
    "key": (lambda url: url.replace("/hostile", "/kept"), (403, "SignatureDoesNotMatch")),
    "bucket": (lambda url: url.replace("/lake/", "/default/"), (403, "SignatureDoesNotMatch")),
    "expiry": (
        lambda url: url.replace("X-Amz-Expires=60", "X-Amz-Expires=600"),
        (403, "SignatureDoesNotMatch"),
    ),
    "time": (later, (403, "SignatureDoesNotMatch")),
    "more query": (lambda url: f"{url}&uploads=", (403, "SignatureDoesNotMatch")),
    "twice": (lambda url: f"{url}&X-Amz-Expires=600", (400, "InvalidArgument")),
    "no signature": (
        lambda url: re.sub(r"&X-Amz-Signature=[0-9a-f]*", "", url),
        (400, "AuthorizationQueryParametersError"),
    ),
}


@pytest.mark.parametrize("name", ALTERED)
def test_an_altered_address_writes_nothing(watched, name):
    alter, code = ALTERED[name]
    watched.check(code, lambda one: httpx.put(alter(address(one)), content=BODY))


def test_an_address_for_another_method_or_without_its_header_writes_nothing(watched):
    wrong = (403, "SignatureDoesNotMatch")
    watched.check(wrong, lambda one: httpx.delete(address(one)))
    watched.check(wrong, lambda one: httpx.post(address(one) + "&uploads", content=BODY))
    typed = {"ContentType": "text/plain"}
    watched.check(
        wrong,
        lambda one: httpx.put(
            address(one, **typed), content=BODY, headers={"content-type": "text/html"}
        ),
    )
    # What was not signed changes nothing about the request.
    more = {"x-amz-copy-source": f"{REPOSITORY}/main/kept"}
    watched.check((403, "AccessDenied"), lambda one: httpx.put(address(one), headers=more))


EARLIER_AND_LATER = {
    "after its end": (timedelta(seconds=-61), (403, "AccessDenied")),
    "before its time": (timedelta(minutes=20), (403, "RequestTimeTooSkewed")),
}


@pytest.mark.parametrize("name", EARLIER_AND_LATER)
def test_an_address_that_is_used_at_another_time_writes_nothing(watched, name):
    by, code = EARLIER_AND_LATER[name]

    def attempt(one: Gateway) -> httpx.Response:
        with clock(by):
            made = address(one)
        return httpx.put(made, content=BODY)

    answer = watched.check(code, attempt)
    assert ("expired" in answer.text) is (name == "after its end")


@pytest.mark.parametrize("kind", CHECKSUMS)
@pytest.mark.parametrize("how", ["signed", "unsigned"])
def test_an_altered_checksum_in_a_trailer_writes_nothing(watched, kind, how):
    """Without a signature the checksum differs from the body, with one the trailer was altered."""
    mode = f"{SIGNED}-TRAILER" if how == "signed" else "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
    right, wrong = CHECKSUMS[kind](BODY), CHECKSUMS[kind](b"other")

    def attempt(one: Gateway) -> httpx.Response:
        chunked = Chunked(one, mode, BODY, 65_536, f"x-amz-checksum-{kind}:{right}")
        assert right.encode() in chunked.end
        chunked.end = chunked.end.replace(right.encode(), wrong.encode())
        return chunked.send()

    watched.check(
        (403, "SignatureDoesNotMatch") if how == "signed" else (400, "BadDigest"), attempt
    )


@pytest.mark.parametrize("kind", CHECKSUMS)
def test_an_altered_checksum_in_a_header_writes_nothing(watched, kind):
    wrong = {f"x-amz-checksum-{kind}": CHECKSUMS[kind](b"other")}
    watched.check((400, "BadDigest"), lambda one: one.send("PUT", PATH, wrong, BODY))


@pytest.mark.parametrize("sent", [b"", b"x", BODY[:-1], BODY[:200_000]])
def test_a_truncated_body_writes_nothing(watched, sent):
    before = watched.state()
    one = watched.gateway
    for digest in ("UNSIGNED-PAYLOAD", sha256(BODY).hexdigest()):
        stated = {"x-amz-content-sha256": digest, "content-length": str(len(BODY))}
        one.send_raw(raw_put(one, stated) + sent)
    assert watched.state() == before


def raw_put(one: Gateway, stated: dict[str, str]) -> bytes:
    """Returns the head of a request that states what a test wants."""
    headers = one.sign("PUT", PATH, stated)
    lines = [f"PUT {PATH} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode()


@pytest.mark.parametrize("size", [0, 1, len(BODY) - 1, len(BODY) + 1])
@pytest.mark.parametrize("kind", [SIGNED, "STREAMING-UNSIGNED-PAYLOAD-TRAILER"])
def test_a_body_in_pieces_of_another_length_than_was_stated_writes_nothing(watched, kind, size):
    def attempt(one: Gateway) -> httpx.Response:
        trailer = "" if kind == SIGNED else f"x-amz-checksum-crc32:{CHECKSUMS['crc32'](BODY)}"
        return Chunked(one, kind, BODY, 65_536, trailer, size).send()

    watched.check((400, "IncompleteBody"), attempt)


def test_an_over_long_body_of_unknown_length_writes_nothing(watched):
    """The digest is that of the beginning; HTTP's own chunks bring more."""
    one, before = watched.gateway, watched.state()
    stated = {"x-amz-content-sha256": sha256(BODY).hexdigest(), "transfer-encoding": "chunked"}
    frames = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (BODY, b"more"))
    answer = one.send_raw(raw_put(one, stated) + frames + b"0\r\n\r\n")
    status, code = code_of(httpx.Response(int(answer[9:12]), content=answer))
    assert (status, code) in ((400, "XAmzContentSHA256Mismatch"), (411, "MissingContentLength"))
    assert watched.state() == before


@pytest.mark.parametrize("name", BAD_XML)
@pytest.mark.parametrize("operation", ["delete", "complete"])
def test_a_hostile_document_writes_nothing(watched, name, operation):
    target = f"/{REPOSITORY}?delete" if operation == "delete" else f"{PATH}?uploadId="
    if operation == "complete":
        target += watched.upload
    document = BAD_XML[name]
    if operation == "complete":
        document = document.replace(b"Delete", b"CompleteMultipartUpload")
    watched.check((400, "MalformedXML"), lambda one: one.send("POST", target, {}, document))


@pytest.mark.parametrize("count", [1_001, 10_000])
def test_too_many_deletions_write_nothing(watched, count):
    keys = "".join(f"<Object><Key>main/{at}</Key></Object>" for at in range(count - 1))
    document = f"<Delete><Object><Key>main/kept</Key></Object>{keys}</Delete>".encode()
    watched.check(
        (400, "MalformedXML"),
        lambda one: one.send("POST", f"/{REPOSITORY}?delete", {}, document),
    )


def test_floods_of_headers_write_nothing(watched):
    one, before = watched.gateway, watched.state()
    for headers in ({f"x-amz-meta-{at}": "x" for at in range(200)}, {"x-long": "x" * 40_000}):
        signed = one.sign("PUT", PATH, headers, BODY)
        assert put(one, signed).status_code == 431
    endless = raw_put(one, {})[:-2] + b"x: y\r\n" * 100_000
    assert b" 431 " in one.send_raw(endless).partition(b"\r\n")[0]
    assert watched.state() == before


def test_version_two_is_refused_and_writes_nothing(watched):
    one = watched.gateway
    header = {"Authorization": f"AWS {one.key}:frJIUN8DYpKDtOLCwo//yllqDzg=", "Host": one.host}
    query = f"{PATH}?AWSAccessKeyId={one.key}&Signature=abc&Expires=4102444800"
    by_header = watched.check((400, "InvalidRequest"), lambda one: put(one, header))
    by_query = watched.check(
        (400, "InvalidRequest"), lambda one: put(one, {"Host": one.host}, to=query)
    )
    for answer in (by_header, by_query):
        assert "AWS4-HMAC-SHA256" in answer.text
    assert urlsplit(one.url).netloc == one.host


@pytest.mark.parametrize("number", ["0", "-1", "10001", "x", "1e1", "9" * 30, ""])
def test_a_part_with_a_bad_number_writes_nothing(watched, number):
    target = f"{PATH}?partNumber={number}&uploadId={watched.upload}"
    watched.check((400, "InvalidArgument"), lambda one: one.send("PUT", target, {}, BODY))
