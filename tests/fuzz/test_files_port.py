"""Requests drawn at random for the lakeFS API and the S3 gateway: never a 5xx but 501.

They are made of the parts that real ones have, and of parts that fit nowhere. The server has to be
there afterwards, with the object that no request names. `LOCHAN_FUZZ_SEED` repeats or varies them.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx
import pytest

from lochan.wire.operations_lakefs import OPERATIONS_LAKEFS
from tests.faces.s3.process import gateway_process
from tests.profile import counted

SEED = int(os.environ.get("LOCHAN_FUZZ_SEED", "20240229"))
REQUESTS = counted(1_500, 40_000)

# What is removed is not there for later requests, and set-up happens once.
LEFT_OUT = {"deleteUser", "deleteCredentials", "deleteRepository", "setup"}
OPERATIONS = [one for one in OPERATIONS_LAKEFS if one.id.partition(".")[2] not in LEFT_OUT]

NAMES = [
    *(
        "main",
        "main",
        "dev",
        "v1",
        "nope",
        " ",
        "a/b",
        "..",
        ".",
        "%2F",
        "main~1",
        "main^",
        "main@",
    ),
    *("main$", "~", "x" * 300, "é", "\u202e", "0" * 64, "deadbeef", "-", "@", "main@x", "null"),
]
VALUES: list[Any] = [
    *(None, True, 0, 1, -1, 2**31, 2**63, 2**64, 1e308, 1.5, "", "a", "main", "x" * 5_000, [], {}),
    *([None], {"a": None}, {"a": {"b": [1]}}, ["a", "a"], "\0", [[]] * 3, {"": ""}, {"a": "b"}),
    *("9" * 400, ["x"] * 1_500, "2020-01-01T00:00:00Z", "local://x", "s3://b/c", "file:///etc"),
]
FIELDS = [
    "message",
    "metadata",
    "date",
    "allow_empty",
    "name",
    "source",
    "storage_namespace",
    "default_branch",
    "sample_data",
    "ref",
    "parent_number",
    "commit_overrides",
    "strategy",
    "squash_merge",
    "paths",
    "src_path",
    "src_ref",
    "shallow",
    "set",
    "type",
    "path",
    "force",
    "id",
    "staging",
    "checksum",
    "size_bytes",
    "physical_address",
    "mtime",
    "content_type",
    "parts",
    "user_metadata",
    "pattern",
    "default_retention_days",
    "branches",
    "keys",
    "hidden",
    "events",
    "commit",
    "destination",
]
PARAMETERS = [
    "after",
    "amount",
    "prefix",
    "delimiter",
    "path",
    "objects",
    "prefixes",
    "since",
    "stop_at",
    "limit",
    "first_parent",
    "type",
    "presign",
    "user_metadata",
    "dest_path",
    "ref",
    "id",
    "parts",
    "search",
    "show_hidden",
    "include_right_stats",
]
KEYS = [
    *("main/f/1", "main/f/2", "main/", "main", "nope/x", "main/é", "main/../x", "main~1/f/1"),
    *("main/" + "k" * 1_025, "main%2Fx/y", "@/x", "a" * 64 + "/x", "main/new", "-/x", ""),
]
RESOURCES = [
    "acl",
    "tagging",
    "uploads",
    "uploadId",
    "partNumber",
    "versionId",
    "versions",
    "location",
    "delete",
    "list-type",
    "prefix",
    "delimiter",
    "marker",
    "max-keys",
    "continuation-token",
    "start-after",
    "encoding-type",
    "key-marker",
    "max-parts",
    "part-number-marker",
    "max-uploads",
    "response-content-type",
    "x-id",
    "X-Amz-Expires",
    "X-Amz-Algorithm",
    "X-Amz-Signature",
    "AWSAccessKeyId",
    "Signature",
]
TEXTS = ["", "1", "-1", "2", "url", "/", "main/", "x" * 3_000, "9" * 20, "a.b", "%00", "é", "true"]
HEADERS = [
    "range",
    "if-match",
    "if-none-match",
    "if-modified-since",
    "x-amz-copy-source",
    "x-amz-copy-source-range",
    "x-amz-copy-source-if-match",
    "x-amz-metadata-directive",
    "x-amz-acl",
    "x-amz-meta-a",
    "content-md5",
    "x-amz-checksum-crc32",
    "x-amz-sdk-checksum-algorithm",
    "x-amz-content-sha256",
    "x-amz-trailer",
    "x-amz-decoded-content-length",
    "content-encoding",
    "content-type",
    "expires",
    "x-amz-date",
    "if-range",
    "x-amz-storage-class",
    "x-amz-security-token",
    "idempotency-key",
]
CONTENTS = [
    *("*", '"x"', "bytes=0-1", "bytes=5-2", "bytes=0-" + "9" * 20, "", "x", "0", "-1", "AAAA"),
    *("Thu, 01 Dec 1994 16:00:00 GMT", "/default/main/f/1", "default/main/f/2?versionId=null"),
    *("%zz", "COPY", "REPLACE", "private", "GLACIER", "UNSIGNED-PAYLOAD", "aws-chunked", "gzip"),
    *("STREAMING-AWS4-HMAC-SHA256-PAYLOAD", "STREAMING-UNSIGNED-PAYLOAD-TRAILER", "CRC32"),
    *("application/json", "multipart/form-data; boundary=x", "multipart/form-data"),
]
PART = b"<Part><PartNumber>%s</PartNumber><ETag>x</ETag></Part>"
BODIES = [
    *(b"", b"x", b"x" * 20_000, b"<Delete>", b"\xff\xfe<\0", b"5\r\nhello\r\n0\r\n\r\n"),
    b"<Delete><Object><Key>main/f/9</Key></Object><Object><Key></Key></Object></Delete>",
    b"<CompleteMultipartUpload>" + PART % b"1" + b"</CompleteMultipartUpload>",
    b"<CompleteMultipartUpload>" + PART % (b"9" * 20) + b"</CompleteMultipartUpload>",
    b'<!DOCTYPE a [<!ENTITY b "c">]><Delete><Object><Key>&b;</Key></Object></Delete>',
    b"5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n",
]


class Drawn(NamedTuple):
    method: str
    target: str
    headers: dict[str, str]
    body: bytes


def draw_headers(random: Random) -> dict[str, str]:
    return {random.choice(HEADERS): random.choice(CONTENTS) for _ in range(random.randrange(4))}


def draw_lakefs(random: Random) -> Drawn:
    operation = random.choice(OPERATIONS)

    def segment(match: re.Match[str]) -> str:
        is_repository = match[1] == "repository" and random.random() < 0.95
        return quote("default" if is_repository else random.choice(NAMES), safe="")

    given: dict[str, str] = {}
    for _ in range(random.randrange(4)):
        value = random.choice([*VALUES, *NAMES])
        given[random.choice(PARAMETERS)] = (value if isinstance(value, str) else str(value))[:2_000]
    body: dict[str, Any] = {
        random.choice(FIELDS): random.choice(VALUES) for _ in range(random.randrange(6))
    }
    if random.random() < 0.5:
        body |= {"message": "m", "name": random.choice(NAMES), "source": random.choice(NAMES)}
        body |= {"id": random.choice(NAMES), "ref": random.choice(NAMES)}
    target = re.sub(r"\{(\w+)\}", segment, operation.path)
    raw = json.dumps(body).encode() if random.random() < 0.8 else random.randbytes(40)
    return Drawn(
        operation.method, f"/api/v1{target}?{httpx.QueryParams(given)}", draw_headers(random), raw
    )


def draw_s3(random: Random) -> Drawn:
    method = random.choice(["GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS"])
    bucket = random.choice(["default"] * 5 + ["nope", "DEFAULT", "-", ".."])
    target = f"/{bucket}/{quote(random.choice(KEYS), safe='/%~@')}"
    given = [
        f"{random.choice(RESOURCES)}={quote(random.choice(TEXTS), safe='%')}"
        for _ in range(random.randrange(4))
    ]
    body = random.choice(BODIES) if method in ("PUT", "POST", "DELETE") else b""
    return Drawn(method, f"{target}?{'&'.join(given)}", draw_headers(random), body)


@pytest.mark.parametrize("draw", [draw_lakefs, draw_s3], ids=["lakeFS", "S3"])
def test_drawn_requests_meet_no_server_error(
    draw: Callable[[Random], Drawn], tmp_path, record_property
) -> None:
    random, statuses = Random(SEED), Counter[int]()
    with gateway_process(tmp_path / "server") as server:
        credentials = (server.key, server.secret)
        with httpx.Client(base_url=server.url, auth=credentials, timeout=120) as client:
            assert client.put("/default/main/kept", content=b"kept").status_code == 200
            for number in range(3):
                client.put(f"/default/main/f/{number}", content=b"x")
            for _ in range(REQUESTS):
                one = draw(random)
                with client.stream(
                    one.method, one.target, headers=one.headers, content=one.body
                ) as answer:
                    raw = b"".join(answer.iter_raw())
                statuses[answer.status_code] += 1
                assert answer.status_code < 500 or answer.status_code == 501, (one, raw[:500])
            assert client.get("/default/main@/kept").status_code in (200, 404)
            assert client.get("/api/v1/healthcheck").status_code == 204
    record_property("counted", f"{draw.__name__}, seed {SEED}: {dict(sorted(statuses.items()))}")
    assert statuses[200] > REQUESTS / 100, statuses
