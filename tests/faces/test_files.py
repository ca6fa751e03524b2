"""The face of files: bytes in and out, conditions, names, and every way to do it wrong."""

from __future__ import annotations

import base64
import gzip
import hashlib
import os
import socket
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from lochan.base.limits.contents import FILE_METADATA_BYTES_MAX, PATH_BYTES_MAX
from tests.faces.files_bench import FilesBench, bench, head, target
from tests.profile import counted

SIZES = (0, 1, 1_000, 16_384, 16_385, 300_000, 1_500_000)


def content(size: int) -> bytes:
    """Returns bytes of which no two parts are alike."""
    made = b"".join(hashlib.sha256(b"%d" % at).digest() for at in range(0, size, 32))
    return made[:size]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FilesBench]:
    """A server for tests that use paths of their own."""
    with bench(tmp_path_factory.mktemp("blocks"), "other") as one:
        yield one


@pytest.fixture
def own(tmp_path: Path) -> Iterator[FilesBench]:
    """A server for one test."""
    with bench(tmp_path / "blocks") as one:
        yield one


@pytest.mark.parametrize("size", SIZES)
def test_a_file_is_read_as_it_was_written(shared, size):
    body = content(size)
    made = shared.put(
        f"sizes/{size}", body, content_type="image/x-thing", lochan_metadata="a=1&b=%C3%A9"
    )
    assert made.status_code == 200, made.text
    shown = made.json()
    assert shown["size"] == size
    assert shown["etag"] == hashlib.md5(body, usedforsecurity=False).hexdigest()
    assert shown["sha256"] == hashlib.sha256(body).hexdigest()
    assert shown["metadata"] == {"a": "1", "b": "é"}
    read = shared.get(f"sizes/{size}")
    assert read.content == body
    assert read.headers["content-type"] == "image/x-thing"
    assert read.headers["etag"] == f'"{shown["etag"]}"'
    digest = base64.b64encode(hashlib.sha256(body).digest()).decode()
    assert read.headers["repr-digest"] == f"sha-256=:{digest}:"
    described = shared.file("HEAD", f"sizes/{size}")
    assert described.headers["content-length"] == str(size)
    assert described.headers["etag"] == read.headers["etag"]
    stat = shared.http.get("/files/v1/refs/main/stat", params={"path": f"sizes/{size}"})
    assert stat.json() == shown


@pytest.mark.parametrize("size", [0, 5, 16_384, 400_000])
def test_a_body_without_a_length_is_stored_as_well(shared, size):
    body = content(size)
    pieces = [body[at : at + 7_777] for at in range(0, size, 7_777)]
    made = shared.file("PUT", f"chunked/{size}", content=iter(pieces))
    assert made.status_code == 200, made.text
    assert shared.get(f"chunked/{size}").content == body


@pytest.mark.parametrize("size", [100, 50_000])
@pytest.mark.parametrize(
    ("asked", "start", "stop"),
    [
        ("bytes=0-0", 0, 1),
        ("bytes=5-9", 5, 10),
        ("bytes=90-", 90, None),
        ("bytes=-3", -3, None),
        ("bytes=0-999999", 0, None),
        ("bytes=-999999", 0, None),
    ],
)
def test_a_range_is_those_bytes(shared, size, asked, start, stop):
    body = content(size)
    shared.put(f"ranges/{size}", body)
    read = shared.get(f"ranges/{size}", range=asked)
    assert read.status_code == 206
    assert read.content == body[start:stop]
    first = start if start >= 0 else size + start
    assert read.headers["content-range"] == f"bytes {first}-{first + len(read.content) - 1}/{size}"


@pytest.mark.parametrize("asked", ["bytes=100-", "bytes=200-300"])
def test_a_range_behind_the_end_is_refused_with_the_size(shared, asked):
    shared.put("ranges/short", content(100))
    read = shared.get("ranges/short", range=asked)
    assert read.status_code == 416
    assert read.headers["content-range"] == "bytes */100"
    assert read.json()["errorCode"] == "RANGE_NOT_SATISFIABLE"


@pytest.mark.parametrize("asked", ["bytes=1-2,5-6", "lines=1-2", "bytes=5-1", "bytes=x"])
def test_a_range_that_is_not_understood_is_the_whole_file(shared, asked):
    shared.put("ranges/short", content(100))
    read = shared.get("ranges/short", range=asked)
    assert (read.status_code, read.content) == (200, content(100))


def test_conditions_of_a_read_are_those_of_the_standard(shared):
    tag = f'"{shared.put("conditions/read", b"abc").json()["etag"]}"'
    assert shared.get("conditions/read", if_none_match=tag).status_code == 304
    assert shared.get("conditions/read", if_none_match=f"W/{tag}").status_code == 304
    assert shared.get("conditions/read", if_none_match='"other"').status_code == 200
    assert shared.get("conditions/read", if_match=tag).status_code == 200
    failed = shared.get("conditions/read", if_match='"other"')
    assert (failed.status_code, failed.json()["errorCode"]) == (412, "CONDITION_FAILED")
    partly = shared.get("conditions/read", range="bytes=1-1", if_range=tag)
    assert (partly.status_code, partly.content) == (206, b"b")
    whole = shared.get("conditions/read", range="bytes=1-1", if_range='"other"')
    assert (whole.status_code, whole.content) == (200, b"abc")
    assert shared.file("HEAD", "conditions/read", headers={"if-none-match": tag}).status_code == 304


def test_conditions_of_a_write_are_decided_on_the_file_that_is_there(shared):
    assert shared.put("conditions/write", b"1", if_match="*").status_code == 412
    first = shared.put("conditions/write", b"1", if_none_match="*")
    assert first.status_code == 200
    assert shared.put("conditions/write", b"2", if_none_match="*").status_code == 412
    assert shared.put("conditions/write", b"2", if_match='"other"').status_code == 412
    assert shared.get("conditions/write").content == b"1"
    tag = f'"{first.json()["etag"]}"'
    second = shared.put("conditions/write", b"2", if_match=tag)
    assert second.status_code == 200
    assert shared.put("conditions/write", b"3", if_match=tag).status_code == 412
    digits = second.json()["sha256"]
    assert shared.put("conditions/write", b"3", lochan_if_sha256="0" * 64).status_code == 412
    assert shared.put("conditions/write", b"3", lochan_if_sha256=digits).status_code == 200
    assert shared.put("conditions/write", b"4", if_none_match='"x"').status_code == 400
    assert shared.file("DELETE", "conditions/write", headers={"if-match": tag}).status_code == 412
    assert shared.get("conditions/write").content == b"3"


@pytest.mark.parametrize("size", [3, 20_000, 600_000])
def test_a_wrong_checksum_stores_nothing(own, size):
    body = content(size)
    md5 = base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
    sha256 = base64.b64encode(hashlib.sha256(body).digest()).decode()
    other = content(size - 1) + b"\xff"
    for headers in (
        {"content_md5": md5},
        {"content_digest": f"sha-256=:{sha256}:"},
        {"content_md5": "zzz"},
        {"content_digest": "sha-256=:YWJj:"},
    ):
        refused = own.put("checked", other, **headers)
        assert (refused.status_code, refused.json()["errorCode"]) == (400, "BAD_REQUEST")
        assert own.get("checked").status_code == 404
    assert own.stored() == []
    made = own.put("checked", body, content_md5=md5, content_digest=f"sha-256=:{sha256}:")
    assert made.status_code == 200, made.text
    assert own.get("checked").content == body


@pytest.mark.parametrize("size", [10, 100_000])
def test_a_body_of_another_length_than_stated_stores_nothing(own, size):
    for stated in (size - 1, size + 1):
        refused = own.file(
            "PUT", "stated", content=iter([content(size)]), headers={"lochan-size": str(stated)}
        )
        assert refused.status_code == 400, refused.text
    refused = own.put("stated", content(size), lochan_size=str(size + 1))
    assert refused.status_code == 400
    assert own.get("stated").status_code == 404
    assert own.stored() == []


def test_a_packed_body_is_refused_because_files_are_stored_as_they_are_sent(shared):
    refused = shared.put("packed", gzip.compress(b"x"), content_encoding="gzip")
    assert refused.status_code == 400
    assert shared.get("packed").status_code == 404


def test_an_upload_that_is_cut_at_any_byte_stores_nothing(own):
    body = content(40)
    framed = head("PUT", target("cut"), {"content-length": "40"}) + body
    for at in range(len(framed)):
        own.send_raw(framed[:at], finish=False)
    chunks = b"14\r\n" + body[:20] + b"\r\n14\r\n" + body[20:] + b"\r\n0\r\n\r\n"
    framed = head("PUT", target("cut"), {"transfer-encoding": "chunked"}) + chunks
    for at in range(len(framed)):
        own.send_raw(framed[:at], finish=False)
    assert own.get("cut").status_code == 404
    assert own.paths() == []
    assert b" 200 " in own.send_raw(framed).partition(b"\r\n")[0]
    assert own.get("cut").content == body


def test_a_long_upload_that_is_cut_stores_nothing_and_leaves_nothing(own):
    body = content(900_000)
    framed = head("PUT", target("cut"), {"content-length": str(len(body))}) + body
    step = counted(60_000, 9_973)
    for at in [*range(1_000, len(framed), step), len(framed) - 1]:
        own.send_raw(framed[:at], finish=False)
    assert own.get("cut").status_code == 404
    assert own.paths() == []
    # The last answer waits for its upload to be given up; the bytes are removed by then.
    assert own.put("after", body).status_code == 200
    assert len(own.stored()) == 1


NAMES = [
    *(".", "..", "/", "//", "a//b", "/a", "a/", "../../etc/passwd", "a/../b", "./a", "a/./b"),
    *("%2F", "%00", "%", "a%2fb", "a+b", "a b", " ", "a?b#c&d=e", "a\\b", "C:\\x", "a:b", "~", "-"),
    *("é", "日本", "\u202e", "\U0001f600", "a\nb", "a\tb", "a\r\nb: c", "\x7f", "\x01", '"', "<x>"),
    *("CON", "x" * PATH_BYTES_MAX, "é" * (PATH_BYTES_MAX // 2), "a/" * (PATH_BYTES_MAX // 2)),
]


def test_every_text_may_be_a_path_and_touches_no_file_system(own):
    for number, path in enumerate(NAMES):
        body = b"%d" % number + bytes(20_000)
        assert own.put(path, body).status_code == 200, path
    for number, path in enumerate(NAMES):
        assert own.get(path).content == b"%d" % number + bytes(20_000), path
    assert own.paths() == sorted(NAMES, key=lambda path: path.encode())
    names = {part for path in own.stored() for part in path.relative_to(own.blocks).parts}
    assert all(name.isascii() and name.isalnum() for name in names), names
    assert not [path for path in own.blocks.parent.iterdir() if path != own.blocks]
    assert own.json("delete", {"paths": NAMES}).status_code == 204
    assert own.paths() == []


def test_a_name_may_have_every_byte_but_nul(own):
    paths = [f"b/{chr(code)}/{chr(code)}" for code in range(1, 256)]
    for path in paths:
        assert own.put(path, path.encode()).status_code == 200, path
    assert own.paths() == sorted(paths, key=lambda path: path.encode())
    for path in paths:
        assert own.get(path).content == path.encode(), path


@pytest.mark.parametrize(
    "query",
    [
        "",
        "path=",
        "path=a&path=b",
        "path=%00",
        "path=a%00b",
        "path=%ff",
        "path=%",
        "path=%zz",
        f"path={'x' * (PATH_BYTES_MAX + 1)}",
        f"path={'%C3%A9' * PATH_BYTES_MAX}",
    ],
)
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "HEAD"])
def test_what_is_no_path_is_refused(shared, method, query):
    refused = shared.http.request(method, f"/files/v1/refs/main/file?{query}")
    assert refused.status_code == 400
    if method != "HEAD":
        assert refused.json()["errorCode"] == "BAD_REQUEST"


def test_oversized_metadata_and_types_store_nothing(own):
    long = "x" * (FILE_METADATA_BYTES_MAX + 1)
    assert own.put("large", b"1", lochan_metadata=f"a={long}").status_code in (400, 413)
    assert own.put("large", b"1", content_type="x" * 10_000).status_code in (400, 413)
    assert own.put("large", b"1", lochan_metadata="a=" + "x" * 40_000).status_code == 431
    assert own.get("large").status_code == 404
    fits = own.put("large", b"1", lochan_metadata=f"a={long[:4_000]}")
    assert fits.status_code == 200, fits.text
    assert (
        own.http.get("/files/v1/refs/main/stat?path=large").json()["metadata"]["a"] == long[:4_000]
    )


def test_every_answer_is_json_of_our_own(shared):
    answers: list[tuple[Any, int, str]] = [
        (shared.http.get("/files/v1"), 404, "NOT_FOUND"),
        (shared.http.get("/files/v1/nothing"), 404, "NOT_FOUND"),
        (shared.http.get("/files/v1/refs/main/../x"), 404, "NOT_FOUND"),
        (shared.http.post("/files/v1/refs/main/file?path=a"), 405, "METHOD_NOT_ALLOWED"),
        (shared.get("nothing"), 404, "PATH_NOT_FOUND"),
        (shared.http.get("/files/v1/refs/nothing/stat?path=a"), 404, "REFERENCE_NOT_FOUND"),
        (shared.http.get("/r/nothing/files/v1/refs/main/stat?path=a"), 404, "NOT_FOUND"),
        (shared.json("copy", {"path": "a"}), 400, "BAD_REQUEST"),
        (shared.json("reset", {"unknown": 1}), 400, "BAD_REQUEST"),
        (
            shared.json("commit", {"commitMeta": {"message": "m"}, "operations": []}, "nothing"),
            404,
            "REFERENCE_NOT_FOUND",
        ),
        (shared.http.get("/files/v1/refs/main/files?max-records=x"), 400, "BAD_REQUEST"),
    ]
    for answer, status, code in answers:
        assert (answer.status_code, answer.json()["errorCode"]) == (status, code), answer.text
        assert answer.headers["content-type"].startswith("application/json")
    refused = shared.http.post("/files/v1/refs/main/file?path=a")
    assert refused.headers["allow"] == "DELETE, GET, PUT"
    wrong_type = shared.http.post(
        "/files/v1/refs/main/reset", content=b"{}", headers={"content-type": "text/plain"}
    )
    assert wrong_type.status_code == 415


def test_a_page_in_a_file_cannot_act_as_one_of_ours(shared):
    shared.put("page.html", b"<script>1</script>", content_type="text/html")
    headers = shared.get("page.html").headers
    assert headers["content-security-policy"] == "default-src 'none'; sandbox"
    assert headers["x-content-type-options"] == "nosniff"


def test_another_repository_has_files_of_its_own(shared):
    there = "/r/other/files/v1/refs/main/file?path=mine"
    assert shared.http.put(there, content=b"x").status_code == 200
    assert shared.http.get(there).content == b"x"
    assert shared.get("mine").status_code == 404


def test_a_repeated_upload_with_its_key_is_done_once(own):
    headers = {"idempotency-key": "one"}
    first = own.file("PUT", "keyed", content=b"1", headers=headers)
    own.put("keyed", b"2")
    again = own.file("PUT", "keyed", content=b"1", headers=headers)
    assert (first.status_code, again.status_code) == (200, 200)
    assert own.get("keyed").content == b"2"
    other = own.file("PUT", "keyed", content=b"123", headers=headers)
    assert (other.status_code, other.json()["errorCode"]) == (422, "IDEMPOTENCY_KEY_REUSED")


def test_removals_and_resets_with_a_key_are_done_once(own):
    def send(word: str, body: object) -> None:
        headers = {"idempotency-key": f"key of {word} {body}"}
        address = f"/files/v1/refs/main/{word}"
        assert own.http.post(address, json=body, headers=headers).status_code in (200, 204)

    own.put("kept", b"1")
    first = own.json("commit", {"commitMeta": {"message": "one"}, "operations": []}).json()
    for word, body in (
        ("delete", {"paths": ["kept"]}),
        ("reset", {"path": "kept"}),
        ("reset", {"prefix": "k"}),
        ("reset", {}),
        ("hard-reset", {"target": f"@{first['targetBranch']['hash']}", "discardStaged": True}),
    ):
        send(word, body)
        own.put("kept", b"2")
        send(word, body)
        assert own.get("kept").content == b"2", (word, body)


@pytest.mark.slow
def test_files_behind_many_deleted_ones_are_listed_by_long_work(own):
    paths = [f"gone/{number:05}" for number in range(2_100)]
    for path in paths:
        own.put(path, b"")
    for start in range(0, len(paths), 1_000):
        own.json("delete", {"paths": paths[start : start + 1_000]})
    own.put("last", b"1")
    address = "/files/v1/refs/main/files"
    first = own.http.get(address).json()
    assert (first["files"], first["hasMore"]) == ([], True)
    second = own.http.get(address, params={"page-token": first["token"]}).json()
    assert [one["path"] for one in second["files"]] == ["last"]
    for _ in range(2):
        page = own.http.get(address).json()
        assert [one["path"] for one in page["files"]] == ["last"]


def test_memory_does_not_depend_on_the_size_of_a_file(own):
    """The server and its client are in this process: together they hold a few pieces."""
    size = 48 * 1_024 * 1_024
    piece = content(65_536)

    def pieces() -> Iterator[bytes]:
        for _ in range(size // len(piece)):
            yield piece

    own.put("warm", piece)
    tracemalloc.start()
    try:
        assert own.file("PUT", "large", content=pieces()).status_code == 200
        read = 0
        with own.http.stream("GET", target("large")) as response:
            for part in response.iter_raw():
                read += len(part)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert read == size
    assert peak < 8 * 1_024 * 1_024, peak


def test_a_client_that_leaves_during_a_download_leaves_nothing_open(own):
    own.put("large", content(4_000_000))
    before = len(os.listdir("/proc/self/fd"))
    asked = head("GET", target("large"), {})
    for count in (0, 1, 100, 70_000):
        parts = urlsplit(own.url)
        with socket.create_connection((parts.hostname, parts.port or 80), 30) as sock:
            sock.sendall(asked)
            read = 0
            while read < count:
                read += len(sock.recv(min(65_536, count - read)))
    # Requests are served in the order of their turns: the answer comes after those were closed.
    for _ in range(20):
        assert own.get("large", range="bytes=0-9").status_code == 206
    assert len(os.listdir("/proc/self/fd")) <= before + 2
