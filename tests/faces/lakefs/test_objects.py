"""The lakeFS API: objects are written and read as lakeFS clients do it, and wrongly."""

from __future__ import annotations

import hashlib
from email.utils import parsedate_to_datetime

import pytest

from tests.faces.lakefs.lakefs_bench import LakefsRepository

OBJECTS = "/branches/main/objects"


def content(size: int) -> bytes:
    """Returns bytes of which no two parts are alike."""
    made = b"".join(hashlib.sha256(b"%d" % at).digest() for at in range(0, size, 32))
    return made[:size]


@pytest.mark.parametrize("size", [0, 1, 16_384, 16_385, 700_000])
@pytest.mark.parametrize("form", [False, True])
def test_an_object_is_read_as_it_was_written(repository, size, form):
    data, etag = content(size), hashlib.md5(content(size), usedforsecurity=False).hexdigest()
    params = {"path": "some/object"}
    if form:
        files = {"content": ("ignored.bin", data, "image/x-thing")}
        made = repository.done("POST", OBJECTS, params=params, files=files)
    else:
        made = repository.upload("some/object", data, content_type="image/x-thing")
    assert made["path_type"] == "object"
    assert (made["path"], made["size_bytes"], made["checksum"]) == ("some/object", size, etag)
    assert made["content_type"] == "image/x-thing"
    read = repository.send("GET", "/refs/main/objects", params=params)
    assert read.content == data
    assert read.headers["etag"] == f'"{etag}"'
    assert read.headers["content-type"] == "image/x-thing"
    assert read.headers["x-content-type-options"] == "nosniff"
    assert parsedate_to_datetime(read.headers["last-modified"]).timestamp() == made["mtime"]
    described = repository.send("HEAD", "/refs/main/objects", params=params)
    assert described.headers["content-length"] == str(size)
    assert repository.done("GET", "/refs/main/objects/stat", params=params) == made


def test_a_type_and_metadata_have_defaults(repository):
    made = repository.upload("a", b"1", x_lakefs_meta_One="1", X_Lakefs_Meta_two="é".encode())
    assert made["metadata"]["one"] == "1"
    assert set(made["metadata"]) == {"one", "two"}
    assert made["content_type"] == "application/octet-stream"
    params = {"path": "a", "user_metadata": "false"}
    assert "metadata" not in repository.done("GET", "/refs/main/objects/stat", params=params)
    body = {"set": {"other": "2"}}
    path = "/branches/main/objects/stat/user_metadata"
    assert repository.send("PUT", path, params={"path": "a"}, json=body).status_code == 201
    changed = repository.done("GET", "/refs/main/objects/stat", params={"path": "a"})
    assert changed["metadata"] == {"other": "2"}
    assert repository.read("a") == b"1"


@pytest.mark.parametrize(
    ("range_", "status", "expected"),
    [
        ("bytes=0-3", 206, b"0123"),
        ("bytes=8-", 206, b"89"),
        ("bytes=-3", 206, b"789"),
        ("bytes=3-100", 206, b"3456789"),
        ("bytes=10-", 416, None),
        ("lines=1-2", 200, b"0123456789"),
    ],
)
def test_ranges_are_those_of_http(repository, range_, status, expected):
    repository.upload("a", b"0123456789")
    read = repository.send(
        "GET", "/refs/main/objects", params={"path": "a"}, headers={"range": range_}
    )
    assert read.status_code == status
    if expected is None:
        assert read.headers["content-range"] == "bytes */10"
        assert set(read.json()) == {"message"}
    else:
        assert read.content == expected


def test_a_known_object_is_not_sent_again(repository):
    made = repository.upload("a", b"1")
    for tag, status in ((f'"{made["checksum"]}"', 304), ('"other"', 200)):
        headers = {"if-none-match": tag}
        read = repository.send("GET", "/refs/main/objects", params={"path": "a"}, headers=headers)
        assert read.status_code == status


def test_a_conditional_upload_replaces_nothing(repository):
    repository.upload("a", b"1", if_none_match="*")
    for headers, status in (({"if-none-match": "*"}, 412), ({"if-match": '"x"'}, 501)):
        refused = repository.send(
            "POST", OBJECTS, params={"path": "a"}, content=b"2", headers=headers
        )
        assert (refused.status_code, set(refused.json())) == (status, {"message"})
    assert repository.read("a") == b"1"


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("multipart/form-data", b"--x\r\n"),
        ("multipart/form-data; boundary=x", b""),
        ("multipart/form-data; boundary=x", b"--x--\r\n"),
        ("multipart/form-data; boundary=x", b"no boundary at all"),
        (
            "multipart/form-data; boundary=x",
            b'--x\r\nContent-Disposition: form-data; name="content"\r\n\r\ncut off',
        ),
        (
            "multipart/form-data; boundary=x",
            b'--x\r\nContent-Disposition: form-data; name="content"\r\n\r\ncut\r\n--x\r\nmore',
        ),
        (
            "multipart/form-data; boundary=x",
            b'--x\r\nContent-Disposition: form-data; name="other"\r\n\r\n1\r\n--x--\r\n',
        ),
        ("multipart/form-data; boundary=x", b"--x\r\n" + b"a" * 70_000),
    ],
)
def test_a_form_that_is_not_whole_stores_nothing(repository, kind, body):
    refused = repository.send(
        "POST", OBJECTS, params={"path": "a"}, content=body, headers={"content-type": kind}
    )
    assert (refused.status_code, set(refused.json())) == (400, {"message"})
    assert repository.read("a") is None


@pytest.mark.parametrize(
    "path", [".", "..", "a/../b", "//", "/a", "a//b", "é ü", "a?b#c%2F", "\x01"]
)
def test_every_path_is_only_a_name(repository, path):
    made = repository.upload(path, b"x")
    assert made["path"] == path
    assert repository.read(path) == b"x"
    listed = repository.done("GET", "/refs/main/objects/ls")["results"]
    assert [one["path"] for one in listed] == [path]


def _fill(repository: LakefsRepository) -> list[str]:
    paths = ["a", "b/1", "b/2", "b/c/3", "b0", "c/", "c/4", "d"]
    for path in paths:
        repository.upload(path, path.encode())
    return paths


@pytest.mark.parametrize("amount", [1, 2, 3, 1_000])
@pytest.mark.parametrize("committed", [False, True])
def test_a_listing_is_the_same_in_pages_of_any_size(repository, amount, committed):
    paths = _fill(repository)
    if committed:
        repository.commit()
    listing = "/refs/main/objects/ls"

    def listed(**params: str) -> list[tuple[str, str]]:
        found = repository.paged(listing, amount, **params)
        return [(one["path"], one["path_type"]) for one in found]

    assert listed() == [(path, "object") for path in paths]
    assert listed(delimiter="/") == [
        *[("a", "object"), ("b/", "common_prefix"), ("b0", "object")],
        *[("c/", "common_prefix"), ("d", "object")],
    ]
    assert listed(prefix="b/", delimiter="/") == [
        *[("b/1", "object"), ("b/2", "object"), ("b/c/", "common_prefix")]
    ]
    assert listed(prefix="b") == [(path, "object") for path in paths if path.startswith("b")]
    assert listed(prefix="nothing") == []


def test_objects_are_copied_and_deleted(repository):
    repository.put("a", b"1")
    repository.upload("a", b"2")
    copy = "/branches/main/objects/copy"
    repository.done("POST", copy, params={"dest_path": "b"}, json={"src_path": "a"})
    body = {"src_path": "a", "src_ref": "main@"}
    repository.done("POST", copy, params={"dest_path": "c"}, json=body)
    assert (repository.read("b"), repository.read("c")) == (b"2", b"1")
    missing = repository.send("POST", copy, params={"dest_path": "d"}, json={"src_path": "no"})
    assert missing.status_code == 404
    shallow = {"src_path": "a", "shallow": True}
    refused = repository.send("POST", copy, params={"dest_path": "d"}, json=shallow)
    assert refused.status_code == 501
    repository.done("DELETE", OBJECTS, params={"path": "a"})
    repository.done("DELETE", OBJECTS, params={"path": "never there"})
    some = {"paths": ["b", "c", "never there"]}
    assert repository.done("POST", f"{OBJECTS}/delete", json=some) == {"errors": []}
    assert repository.done("GET", "/refs/main/objects/ls")["results"] == []
    many = {"paths": [str(at) for at in range(1_001)]}
    assert repository.send("POST", f"{OBJECTS}/delete", json=many).status_code == 400


def test_addresses_are_reserved_only_where_clients_can_write(repository):
    refused = repository.send("GET", "/branches/main/staging/backing", params={"path": "a"})
    assert refused.status_code == 400
    body = {"staging": {"physical_address": "local://x/y"}, "checksum": "", "size_bytes": 1}
    forged = repository.send(
        "PUT", "/branches/main/staging/backing", params={"path": "a"}, json=body
    )
    assert forged.status_code == 400


def test_what_is_asked_about_things_that_are_absent_is_not_found(repository):
    for path in (
        "/refs/main/objects?path=a",
        "/refs/main/objects/stat?path=a",
        "/refs/absent/objects?path=a",
        "/refs/absent/objects/ls",
        "/refs/main~1/objects/ls",
        "/branches/absent",
        "/branches/absent/diff",
        "/tags/absent",
        "/commits/" + "0" * 64,
    ):
        refused = repository.send("GET", path)
        assert (refused.status_code, set(refused.json())) == (404, {"message"}), path
        assert "not found" in refused.json()["message"]
    assert (
        repository.send("POST", "/branches/absent/objects?path=a", content=b"").status_code == 404
    )
