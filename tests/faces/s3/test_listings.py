"""Listings: prefixes, delimiters, pages of both versions, branches, names that XML cannot have."""

from __future__ import annotations

from threading import get_ident
from typing import Any

import pytest

from lochan.faces.s3 import listings
from lochan.model.results import Page
from lochan.service.file_listings import FileListings
from tests.faces.s3.gateway import REPOSITORY, Gateway

PATHS = [
    *("a", "b/1", "b/2", "b/c/1", "b-", "b0", "blank name", "d/", "d//e", "ü/x", "ü/y"),
    *("z&<>\"'", "z\x01", "z\n", "~"),
]


@pytest.fixture(scope="module")
def filled(shared: Gateway) -> Gateway:
    """A branch with files of its own, some of them committed."""
    with shared.admin() as client:
        client.references.create("listed", None)
        for at, path in enumerate(PATHS):
            client.files.put("listed", path, b"x")
            if at == 7:
                client.files.commit("listed", "some")
        client.references.create("listed-2", None)
        client.references.create("listed/3", None)
    return shared


def expected(prefix: str, delimiter: str) -> tuple[list[str], list[str]]:
    """What S3 defines, computed in the plainest way."""
    keys, prefixes = [], []
    for path in sorted(PATHS, key=str.encode):
        if not path.startswith(prefix):
            continue
        at = path.find(delimiter, len(prefix)) if delimiter else -1
        if at < 0:
            keys.append(path)
        elif path[: at + len(delimiter)] not in prefixes:
            prefixes.append(path[: at + len(delimiter)])
    return keys, prefixes


def listed(
    filled: Gateway, operation: str, prefix: str, **more
) -> tuple[list[str], list[str], int]:
    """Returns keys and common prefixes of all pages, and how many pages there were."""
    keys, prefixes, pages = [], [], 0
    paginator = filled.s3.get_paginator(operation)
    for page in paginator.paginate(Bucket=REPOSITORY, Prefix=prefix, **more):
        keys += [each["Key"].removeprefix("listed/") for each in page.get("Contents", ())]
        prefixes += [
            each["Prefix"].removeprefix("listed/") for each in page.get("CommonPrefixes", ())
        ]
        pages += 1
    return keys, prefixes, pages


@pytest.mark.parametrize("operation", ["list_objects", "list_objects_v2"])
@pytest.mark.parametrize("size", [1, 2, 3, 1_000])
@pytest.mark.parametrize(
    ("prefix", "delimiter"),
    [
        ("", ""),
        ("", "/"),
        ("b", "/"),
        ("b/", "/"),
        ("b/c/1", "/"),
        ("ü/", ""),
        ("", "b"),
        ("x", "/"),
    ],
)
def test_all_pages_together_are_what_s3_defines(filled, operation, size, prefix, delimiter):
    more = {"PaginationConfig": {"PageSize": size}, "Delimiter": delimiter}
    keys, prefixes, pages = listed(filled, operation, f"listed/{prefix}", **more)
    assert (keys, prefixes) == expected(prefix, delimiter)
    count = len(keys) + len(prefixes)
    assert pages == max(1, -(-count // size))


def test_a_listing_begins_after_a_key(filled):
    for after in ("b/2", "b/", "b/c", "zz", "a0"):
        found = filled.keys("listed/", StartAfter=f"listed/{after}")
        wanted = [path for path in expected("", "")[0] if path.encode() > after.encode()]
        assert found == [f"listed/{path}" for path in wanted]
    assert filled.keys("listed/", StartAfter="a/x") == filled.keys("listed/")
    assert filled.keys("listed/", StartAfter="m/x") == []
    marked = filled.s3.list_objects(Bucket=REPOSITORY, Prefix="listed/", Marker="listed/b/2")
    assert marked["Contents"][0]["Key"] == "listed/b/c/1"


def test_what_is_listed_has_the_fields_of_an_object(filled):
    (found,) = filled.s3.list_objects_v2(Bucket=REPOSITORY, Prefix="listed/a", FetchOwner=True)[
        "Contents"
    ]
    head = filled.s3.head_object(Bucket=REPOSITORY, Key="listed/a")
    assert (found["Size"], found["ETag"]) == (1, head["ETag"])
    assert found["LastModified"].replace(microsecond=0) == head["LastModified"]
    assert found["StorageClass"] == "STANDARD"
    assert found["Owner"]["ID"]


def test_a_prefix_without_a_slash_lists_branches(filled):
    def branches(prefix: str, **more) -> list[str]:
        found: list[str] = []
        for operation in ("list_objects", "list_objects_v2"):
            keys, prefixes, _ = listed(filled, operation, prefix, Delimiter="/", **more)
            assert keys == []
            assert found in ([], prefixes)
            found = prefixes
        return found

    for more in ({}, {"PaginationConfig": {"PageSize": 1}}):
        assert set(branches("list", **more)) == {"", "listed-2/", "listed%2F3/"}
        assert "main/" in branches("", **more)
        assert branches("listed%2F", **more) == ["listed%2F3/"]
        assert branches("nothing", **more) == []


def test_a_reference_that_does_not_exist_has_nothing(filled):
    for prefix in ("absent/", "not a name/", "HEAD/"):
        assert filled.keys(prefix) == []
    assert (
        filled.s3.list_objects_v2(Bucket=REPOSITORY, Prefix="listed/", MaxKeys=0)["KeyCount"] == 0
    )


def test_buckets_are_listed_in_pages_too(filled):
    names = [each["Name"] for each in filled.s3.list_buckets()["Buckets"]]
    assert names == ["default", "lake", "other"]
    first = filled.s3.list_buckets(MaxBuckets=2)
    assert [each["Name"] for each in first["Buckets"]] == names[:2]
    token = first["ContinuationToken"]
    rest = filled.s3.list_buckets(MaxBuckets=2, ContinuationToken=token)
    assert [each["Name"] for each in rest["Buckets"]] == names[2:]


def test_a_document_without_encoding_is_xml_for_every_usual_key(filled):
    answer = filled.send("GET", f"/{REPOSITORY}?list-type=2&prefix=listed%2Fz%26")
    assert "<Key>listed/z&amp;&lt;&gt;&quot;'</Key>" in answer.text


@pytest.fixture
def empty_pages(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """As many pages as the list has entries show nothing; the entries become their threads."""
    wanted: list[int] = []
    original = FileListings.list

    def listed_late(*args: Any, **more: Any) -> Page[Any]:
        page = original(*args, **more)
        if 0 in wanted:
            wanted[wanted.index(0)] = get_ident()
            return Page((), page.token, page.reference)
        wanted.append(get_ident())
        return page

    monkeypatch.setattr(FileListings, "list", listed_late)
    return wanted


@pytest.mark.parametrize("operation", ["list_objects", "list_objects_v2"])
def test_pages_that_show_nothing_are_read_outside_the_event_loop(
    filled: Gateway, empty_pages: list[int], operation: str
) -> None:
    empty_pages += [0, 0]
    ask = getattr(filled.s3, operation)
    found = ask(Bucket=REPOSITORY, Prefix="listed/", MaxKeys=1)
    assert [one["Key"] for one in found["Contents"]] == [
        "listed/" + sorted(PATHS, key=str.encode)[2]
    ]
    assert len(empty_pages) == 3
    assert empty_pages[0] not in empty_pages[1:]


def test_a_listing_that_passes_ever_so_many_hidden_files_goes_on_at_its_token(
    filled: Gateway, empty_pages: list[int]
) -> None:
    # Every page but the first shows nothing: the next begins where the one before has ended.
    empty_pages += [0] * 10
    begun = filled.s3.list_objects_v2(Bucket=REPOSITORY, Prefix="listed/", MaxKeys=1)
    assert begun["KeyCount"] == 1
    empty_pages[:] = [0] * 1_000
    token = begun["NextContinuationToken"]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(listings, "_PAGES_MAX", 2)
        further = filled.s3.list_objects_v2(
            Bucket=REPOSITORY, Prefix="listed/", MaxKeys=1, ContinuationToken=token
        )
    assert (further["KeyCount"], further["IsTruncated"]) == (0, True)
    empty_pages.clear()
    last = filled.s3.list_objects_v2(
        Bucket=REPOSITORY, Prefix="listed/", ContinuationToken=further["NextContinuationToken"]
    )
    assert last["Contents"][-1]["Key"] == "listed/" + max(PATHS, key=str.encode)
    assert not last["IsTruncated"]
