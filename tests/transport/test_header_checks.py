"""Headers that passed are remembered; what is refused, or belongs to one request only, is not."""

from __future__ import annotations

import pytest

from lochan.base.limits.http import CHECKED_HEADERS_BYTES_MAX, CHECKED_HEADERS_MAX
from lochan.transport.hygiene import LOOPBACK_NAMES, HeaderChecks, Hosts, Refused

HOST = (b"host", b"localhost:19120")


@pytest.fixture
def checks():
    return HeaderChecks(Hosts(LOOPBACK_NAMES))


def test_headers_that_are_sent_again_are_checked_once(checks):
    first = checks.check([HOST, (b"content-length", b"7")], "1.1")
    assert first.has_body
    assert checks.check([HOST, (b"content-length", b"7")], "1.1") is first
    assert checks.check([HOST, (b"content-length", b"8")], "1.1") is not first
    assert not checks.check([HOST, (b"content-length", b"0")], "1.1").has_body


def test_what_is_refused_is_refused_every_time(checks):
    for headers in ([(b"host", b"evil.example")], [HOST, HOST], [HOST, (b"x", b"a\x01b")]):
        for _ in range(2):
            with pytest.raises(Refused):
                checks.check(headers, "1.1")


def test_a_chunked_body_of_the_older_protocol_is_refused_after_the_newer_one_passed(checks):
    headers = [HOST, (b"transfer-encoding", b"chunked")]
    assert checks.check(headers, "1.1").has_body
    with pytest.raises(Refused):
        checks.check(headers, "1.0")


@pytest.mark.parametrize(
    "header",
    [
        (b"x-request-id", b"abc"),
        (b"traceparent", b"00-1-2-01"),
        (b"x-long", b"v" * CHECKED_HEADERS_BYTES_MAX),
    ],
)
def test_headers_of_one_request_only_and_long_ones_are_not_remembered(checks, header):
    assert checks.check([HOST, header], "1.1") is not checks.check([HOST, header], "1.1")


def test_no_more_than_the_limit_are_remembered(checks):
    first = checks.check([HOST], "1.1")
    for number in range(CHECKED_HEADERS_MAX):
        checks.check([HOST, (b"x", b"%d" % number)], "1.1")
    assert len(checks._passed) <= CHECKED_HEADERS_MAX
    assert checks.check([HOST], "1.1") is not first


def test_a_header_is_found_by_its_name_in_lower_case(checks):
    headers = checks.check([HOST, (b"if-match", b"a"), (b"x", b"1"), (b"x", b"2")], "1.1").headers
    assert (headers.get("x"), headers.all("x"), headers.get("y")) == ("1", ("1", "2"), None)
