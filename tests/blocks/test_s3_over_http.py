"""A whole server with its files on a real object store: bytes, links, signed URLs and imports."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from lochan.base.limits.blocks import BLOCK_BUFFER_BYTES
from lochan.base.limits.files import FILE_IN_STORE_BYTES_MAX
from lochan.testing.contracts.sample_blocks import addresses, content_of, md5_of, sha256_of
from tests.blocks.s3_place import ForeignBucket
from tests.blocks.s3_server import FilesServer, files_server
from tests.profile import counted
from tests.spark.object_store import ObjectStore

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("s3_blocks")]

# In the store, one put, exactly one buffer, and several parts.
SIZES = (0, FILE_IN_STORE_BYTES_MAX, 20_000, BLOCK_BUFFER_BYTES, 2 * BLOCK_BUFFER_BYTES + 5)
BLOCK = content_of(50_000)


@pytest.fixture(scope="module")
def foreign(object_store: ObjectStore) -> ForeignBucket:
    return ForeignBucket(object_store)


@pytest.fixture(scope="module")
def server(
    object_store: ObjectStore, foreign: ForeignBucket, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[FilesServer]:
    folder = tmp_path_factory.mktemp("server")
    with files_server(object_store, folder, imports=[foreign.prefix]) as server:
        yield server


@pytest.mark.parametrize("size", SIZES)
def test_a_file_is_read_as_it_was_written(server, size):
    content, path = content_of(size), f"sizes/{size}"
    before = len(addresses(server.place))
    made = server.file("PUT", path, content=content)
    assert made.status_code == 200, made.text
    assert (made.json()["sha256"], made.json()["etag"]) == (sha256_of(content), md5_of(content))
    assert len(addresses(server.place)) == before + (size > FILE_IN_STORE_BYTES_MAX)
    assert server.file("GET", path).content == content
    for start, end in ((0, 1), (size // 2, size // 2 + 100), (max(0, size - 7), size)):
        if size:
            asked = {"range": f"bytes={start}-{end - 1}"}
            part = server.file("GET", path, headers=asked)
            assert (part.status_code, part.content) == (206, content[start:end])


def test_a_range_across_parts_is_those_bytes(server):
    content = content_of(2 * BLOCK_BUFFER_BYTES + 5)
    server.file("PUT", "parts", content=content)
    start = BLOCK_BUFFER_BYTES - 3
    part = server.file("GET", "parts", headers={"range": f"bytes={start}-{start + 9}"})
    assert part.content == content[start : start + 10]


def test_a_copy_shares_its_bytes_and_survives_the_deletion_of_its_source(server):
    server.file("PUT", "copied/from", content=BLOCK)
    blocks = addresses(server.place)
    body = {"path": "copied/to", "sourceRef": "main", "sourcePath": "copied/from"}
    assert server.post("copy", body).status_code == 200
    assert server.file("DELETE", "copied/from").json() == {"deleted": True}
    assert server.file("GET", "copied/from").status_code == 404
    assert server.file("GET", "copied/to").content == BLOCK
    assert addresses(server.place) == blocks


def test_no_path_becomes_the_key_of_an_object(server, object_store):
    paths = ["../../../etc/passwd", "a/../b", "/absolute", "//", ".", "x" * 1_024, "é\n\x01%2e%2e"]
    for path in paths:
        assert server.file("PUT", path, content=BLOCK).status_code == 200
        assert server.file("GET", path).content == BLOCK
    names = {info.address for info in server.place.iterate()}
    files = object_store.filesystem()
    from pyarrow.fs import FileSelector, FileType

    root = f"blocks/{server.place._prefix}"
    found = files.get_file_info(FileSelector(root, recursive=True))
    keys = {one.path.removeprefix(root) for one in found if one.type == FileType.File}
    assert keys == names


def test_metadata_that_is_too_large_stores_nothing(server):
    blocks = addresses(server.place)
    made = server.file("PUT", "m", content=BLOCK, headers={"lochan-metadata": f"a={'v' * 20_000}"})
    assert made.status_code in (400, 413, 431)
    assert server.file("GET", "m").status_code == 404
    assert addresses(server.place) == blocks


def reserve(server: FilesServer, path: str, branch: str = "main") -> dict[str, Any]:
    """Reserves an address for a file."""
    found = server.post("reserve", {"path": path}, branch)
    assert found.status_code == 200, found.text
    reserved: dict[str, Any] = found.json()
    return reserved


def send(reserved: dict[str, Any], content: bytes) -> int:
    """Sends bytes to a reserved address, as a client does: not through the server."""
    answer = httpx.put(reserved["url"], content=content, headers=reserved["headers"])
    return answer.status_code


def test_a_client_writes_by_a_signed_url_and_links_what_it_wrote_once(server):
    reserved = reserve(server, "linked")
    link = {"path": "linked", "token": reserved["token"], "contentType": "x/y"}
    link |= {"size": len(BLOCK), "md5": md5_of(BLOCK), "metadata": {"a": "1"}}
    assert send(reserved, BLOCK) == 200
    assert send(reserved, b"other bytes") == 412
    assert server.file("GET", "linked").status_code == 404
    made = server.post("link", link)
    assert made.status_code == 200, made.text
    assert made.json()["address"] == reserved["address"]
    assert (made.json()["size"], made.json()["contentType"]) == (len(BLOCK), "x/y")
    assert server.file("GET", "linked").content == BLOCK
    server.commit()
    server.file("PUT", "linked", content=b"a later file")
    again = server.post("link", link)
    assert (again.status_code, again.json()) == (200, made.json())
    assert server.file("GET", "linked").content == b"a later file"


def test_a_link_that_does_not_fit_is_refused_and_the_right_one_still_works(server):
    server.branch("others")
    reserved = reserve(server, "fits")
    token = reserved["token"]
    right = {"path": "fits", "token": token, "size": len(BLOCK)}
    assert server.post("link", right).status_code == 400, "nothing was written yet"
    assert send(reserved, BLOCK) == 200
    wrong: list[tuple[dict[str, Any], str]] = [
        (right | {"size": len(BLOCK) + 1}, "main"),
        (right | {"md5": md5_of(b"other bytes")}, "main"),
        (right | {"path": "another"}, "main"),
        (right | {"token": token[:-2] + ("aa" if token[-2:] != "aa" else "bb")}, "main"),
        (right, "others"),
    ]
    for body, branch in wrong:
        refused = server.post("link", body, branch)
        assert refused.status_code == 400, refused.text
    for path in ("fits", "another"):
        assert server.file("GET", path).status_code == 404
        assert server.file("GET", path, "others").status_code == 404
    assert server.post("link", right).status_code == 200
    assert server.file("GET", "fits").content == BLOCK


def test_a_link_is_staged_after_a_reset_and_is_not_repeated_by_one(server):
    server.branch("resets")
    reserved = reserve(server, "r", "resets")
    send(reserved, BLOCK)
    server.file("PUT", "staged", "resets", content=b"x")
    assert server.post("reset", {}, "resets").status_code == 204
    link = {"path": "r", "token": reserved["token"]}
    made = server.post("link", link, "resets")
    assert made.status_code == 200, made.text
    assert server.file("GET", "r", "resets").content == BLOCK
    assert server.post("reset", {}, "resets").status_code == 204
    assert server.post("link", link, "resets").json() == made.json()
    assert server.file("GET", "r", "resets").status_code == 404


def test_a_reservation_ends_with_its_branch(server):
    server.branch("gone")
    reserved = reserve(server, "g", "gone")
    send(reserved, BLOCK)
    server.delete_branch("gone")
    link = {"path": "g", "token": reserved["token"]}
    assert server.post("link", link, "gone").status_code == 404
    server.branch("gone")
    # The server may have the row of the branch before in memory, which a link must not believe.
    refused = server.post("link", link, "gone")
    assert refused.status_code in (400, 404), refused.text
    assert server.file("GET", "g", "gone").status_code == 404


def test_a_signed_url_reads_a_file_that_is_not_in_the_store(server):
    server.file("PUT", "signed", content=BLOCK)
    server.file("PUT", "small", content=b"few bytes")
    found = server.presigned("signed")
    assert found.status_code == 200
    assert httpx.get(found.json()["url"]).content == BLOCK
    part = httpx.get(found.json()["url"], headers={"range": "bytes=10-19"})
    assert part.content == BLOCK[10:20]
    assert httpx.put(found.json()["url"], content=b"other").status_code == 403
    committed = server.commit()
    assert httpx.get(server.presigned("signed", f"@{committed}").json()["url"]).content == BLOCK
    assert server.presigned("small").status_code == 400
    assert server.presigned("absent").status_code == 404


def test_objects_are_imported_without_a_copy_and_notice_later_changes(server, foreign):
    names = ["a.bin", "sub/b.bin", "c d+e%25é.bin", "kept"]
    for name in names:
        foreign.put(name, name.encode() * 1_000)
    blocks = addresses(server.place)
    body = {
        "sources": [{"url": foreign.prefix, "prefix": "imported/"}],
        "commitMeta": {"message": "imported"},
    }
    done = server.post("import", body)
    assert done.status_code == 200, done.text
    assert done.json()["objects"] == len(names)
    assert addresses(server.place) == blocks
    first = done.json()["hash"]
    for name in names:
        assert server.file("GET", f"imported/{name}").content == name.encode() * 1_000
    url = server.presigned("imported/kept").json()["url"]
    assert httpx.get(url).content == b"kept" * 1_000
    foreign.put("a.bin", b"z" * 5_000)
    foreign.put("sub/b.bin", b"another size")
    foreign.remove("c d+e%25é.bin")
    for name in names[:2]:
        changed = server.file("GET", f"imported/{name}")
        assert changed.status_code == 500
        assert "import it again" in changed.json()["message"]
    assert server.file("GET", "imported/c d+e%25é.bin").status_code == 404
    assert server.file("GET", "imported/kept").content == b"kept" * 1_000
    again = server.post("import", body)
    assert (again.status_code, again.json()["objects"]) == (200, 3)
    assert server.file("GET", "imported/a.bin").content == b"z" * 5_000
    assert server.file("GET", "imported/a.bin", f"@{first}").status_code == 500
    assert server.post("import", body).status_code == 400, "nothing has changed"


@pytest.mark.parametrize(
    ("url", "status"),
    [
        ("s3://blocks/http", 403), ("s3://lake", 403), ("{}-more", 403), ("file:///etc", 400),
        ("{}/../other", 400), ("https://example.org/x", 400),
    ],
)  # fmt: skip
def test_nothing_else_is_imported(server, foreign, url, status):
    source = {"url": url.format(foreign.prefix), "prefix": "elsewhere/"}
    refused = server.post("import", {"sources": [source], "commitMeta": {"message": "no"}})
    assert refused.status_code == status, refused.text


def test_the_memory_of_a_server_does_not_depend_on_the_size_of_a_file(object_store, tmp_path):
    piece = content_of(1 << 20)
    many = counted(192, 1_088)
    with files_server(object_store, tmp_path) as server:
        for count in (64, many):
            made = server.file("PUT", "large", content=iter([piece] * count))
            assert made.status_code == 200, made.text
            with server.http.stream("GET", "/files/v1/refs/main/file?path=large") as read:
                assert sum(map(len, read.iter_raw())) == count << 20
            if count == 64:
                before = server.peak_mb()
        assert server.peak_mb() - before < 32
