"""The lakeFS API: objects whose bytes clients write, or have written, by themselves."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import md5

import pytest

from tests.faces.lakefs.lakefs_bench import LakefsBench, LakefsRepository, lakefs_bench

PARTS = "/branches/main/staging/pmpu"
MISSING = "/branches/main/staging/pmpu/none"


@pytest.fixture(scope="module")
def signing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LakefsBench]:
    """A server whose places have URLs; what they would store is stored."""
    with lakefs_bench(tmp_path_factory.mktemp("blocks"), signs=True) as one:
        yield one


@pytest.fixture
def signed(signing: LakefsBench) -> LakefsRepository:
    return signing.repository()


def etag_of(number: int) -> str:
    return md5(b"part %d" % number, usedforsecurity=False).hexdigest()


def begun(repository, parts=2, path="big"):
    made = repository.send("POST", PARTS, params={"path": path, "parts": parts})
    assert made.status_code == 201, made.text
    return made.json()


def chosen(made, *numbers, **more):
    parts = [{"part_number": number, "etag": f'"{etag_of(number)}"'} for number in numbers]
    return {"physical_address": made["physical_address"], "parts": parts, **more}


def test_an_object_is_made_of_parts_that_were_sent_to_signed_urls(signed):
    made = begun(signed)
    assert len(made["presigned_urls"]) == 2
    assert made["physical_address"].startswith(f"local://place/{signed.name}/")
    upload, params = f"{PARTS}/{made['upload_id']}", {"path": "big"}
    one = signed.done("PUT", f"{upload}/parts/3", params=params, json=chosen(made))
    assert set(one) == {"presigned_url"}
    stated = {"user_metadata": {"a": "b"}, "content_type": "text/x"}
    body = chosen(made, 1, **stated)
    done = signed.send("PUT", upload, params=params, json=body)
    assert done.status_code == 200, done.text
    shown = done.json()
    assert (shown["path"], shown["size_bytes"]) == ("big", len(b"part 1"))
    assert (shown["content_type"], shown["metadata"]) == ("text/x", {"a": "b"})
    assert shown["checksum"].endswith("-1")
    assert signed.read("big") == b"part 1"
    # A client whose reply was lost sends the same again.
    assert signed.done("PUT", upload, params=params, json=body) == shown
    assert signed.send("DELETE", upload, params=params, json=body).status_code == 404
    signed.commit()
    assert signed.read("big", "main@") == b"part 1"


def test_an_aborted_upload_leaves_no_object(signed):
    made = begun(signed)
    upload, params = f"{PARTS}/{made['upload_id']}", {"path": "big"}
    signed.done("DELETE", upload, params=params, json=chosen(made))
    assert signed.send("PUT", upload, params=params, json=chosen(made, 1)).status_code == 404
    assert signed.read("big") is None


def test_an_upload_without_parts_has_no_urls_yet(signed):
    assert "presigned_urls" not in begun(signed, parts=0)


@pytest.mark.parametrize(
    ("method", "rest", "params", "change", "status", "words"),
    [
        ("PUT", "", {}, {"parts": []}, 400, "parts are required"),
        ("PUT", "", {}, {"physical_address": "local://x/y"}, 400, "link address invalid"),
        ("DELETE", "", {}, {"physical_address": ""}, 400, "link address invalid"),
        ("PUT", "/parts/1", {}, {"physical_address": "s3://x/y"}, 400, "link address invalid"),
        ("PUT", "/parts/0", {}, {}, 400, "number"),
        ("PUT", "/parts/10001", {}, {}, 400, "number"),
        ("PUT", "/parts/x", {}, {}, 400, "number"),
        ("PUT", "", {"path": ""}, {}, 400, "path"),
        ("PUT", "", {"path": "another"}, {}, 404, "upload"),
        ("PUT", "", {}, {"parts": [{"part_number": 1, "etag": "0" * 32}]}, 400, "part"),
        ("PUT", "", {}, {"parts": [{"part_number": 9, "etag": "0" * 32}]}, 400, "part"),
    ],
)
def test_a_request_about_another_upload_is_refused(
    signed, method, rest, params, change, status, words
):
    made = begun(signed)
    refused = signed.send(
        method,
        f"{PARTS}/{made['upload_id']}{rest}",
        params={"path": "big", **params},
        json={**chosen(made, 1, 2), **change},
    )
    assert refused.status_code == status, refused.text
    assert words in refused.json()["message"]
    assert signed.read("big") is None


@pytest.mark.parametrize("parts", ["-1", "10001", "x"])
def test_an_upload_has_ten_thousand_parts_at_most(signed, parts):
    refused = signed.send("POST", PARTS, params={"path": "big", "parts": parts})
    assert refused.status_code == 400
    assert refused.json()["message"] == "parts can be between 0 and 10000"


def test_where_the_place_signs_no_urls_the_answer_is_that_of_lakefs(repository):
    body = {"physical_address": "local://x", "parts": [{"part_number": 1, "etag": "x"}]}
    for method, path in (
        ("POST", PARTS),
        ("PUT", MISSING),
        ("DELETE", MISSING),
        ("PUT", f"{MISSING}/parts/1"),
    ):
        refused = repository.send(method, path, params={"path": "a"}, json=body)
        assert refused.status_code == 501
        assert refused.json() == {"message": "presign multipart upload API is not supported"}
    absent = repository.send("POST", PARTS.replace("main", "absent"), params={"path": "a"})
    assert absent.status_code == 404


def staged(repository, url, path="staged", **more):
    body = {"physical_address": url, "checksum": "0" * 32, "size_bytes": 3, **more}
    return repository.send("PUT", "/branches/main/objects", params={"path": path}, json=body)


def test_an_object_of_a_place_that_is_allowed_is_staged_without_a_copy(shared):
    repository = shared.repository()
    source = shared.folder / "imported" / "staged.bin"
    source.write_bytes(b"old")
    stated = {"mtime": 1_600_000_000, "metadata": {"a": "b"}, "content_type": "text/x"}
    made = staged(repository, f"file://{source}", **stated)
    assert made.status_code == 201, made.text
    shown = repository.done("GET", "/refs/main/objects/stat", params={"path": "staged"})
    assert shown == made.json()
    assert (shown["mtime"], shown["size_bytes"]) == (1_600_000_000, 3)
    assert (shown["metadata"], shown["content_type"]) == ({"a": "b"}, "text/x")
    assert shown["physical_address"] == f"file://{source}"
    # The checksum is that of the place, and not what a client claims.
    assert shown["checksum"] != "0" * 32
    repository.commit()
    assert repository.read("staged", "main@") == b"old"
    # Bytes that were changed there since are not served as those of the commit.
    source.write_bytes(b"new, and longer")
    changed = repository.send("GET", "/refs/main/objects", params={"path": "staged"})
    assert changed.status_code == 500


def test_an_object_from_elsewhere_or_of_another_size_is_not_staged(shared):
    repository = shared.repository()
    source = shared.folder / "imported" / "small.bin"
    source.write_bytes(b"four")
    (shared.folder / "imported" / "out").symlink_to("/etc/passwd")
    imported = f"file://{shared.folder}/imported"
    own = repository.upload("own", b"x" * 20_000)["physical_address"]
    for url, statuses in (
        (f"file://{source}", (400,)),
        (f"{imported}/absent", (400,)),
        ("file:///etc/passwd", (400, 403)),
        (f"{imported}/../../etc/passwd", (400, 403)),
        (f"{imported}/out", (400, 403)),
        (own, (400, 403)),
        (own.rpartition("/")[2], (400, 403)),
        ("", (400,)),
        ("no address", (400,)),
    ):
        refused = staged(repository, url)
        assert refused.status_code in statuses, (url, refused.text)
    assert repository.read("staged") is None


def test_a_protected_branch_takes_no_staged_address(repository):
    repository.done("PUT", "/settings/branch_protection", json=[{"pattern": "main"}])
    refused = staged(repository, "file:///anything")
    assert (refused.status_code, refused.json()["message"]) == (
        403,
        "cannot write to protected branch",
    )
