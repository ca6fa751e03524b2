"""Listings whose pages show little: only their first page is read on the event loop."""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from typing import Any

import pytest

from lochan.service import file_pages
from lochan.service.file_listings import FileListings
from lochan.service.references import References
from tests.faces.lakefs.lakefs_bench import LakefsRepository


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The threads in which pages are read; a page makes one read only."""
    found: list[int] = []

    def watch(owner: type, name: str) -> None:
        original: Callable[..., Any] = getattr(owner, name)

        def watched(*args: Any, **more: Any) -> Any:
            found.append(get_ident())
            return original(*args, **more)

        monkeypatch.setattr(owner, name, watched)

    watch(FileListings, "list")
    watch(FileListings, "uncommitted")
    watch(References, "list")
    monkeypatch.setattr(file_pages, "_READS_MAX", 1)
    return found


def check_first_on_the_loop(threads: list[int]) -> None:
    """Several pages were read, and only the first one on the loop."""
    assert len(threads) > 1
    assert threads[0] not in threads[1:]


def test_a_comparison_that_passes_many_equal_files_leaves_the_loop(
    repository: LakefsRepository, threads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lochan.staging.uncommitted._LOOKED_AT_MAX", 2)
    for at in range(12):
        repository.upload(f"equal/{at:02}", b"same")
    repository.commit()
    for at in range(12):
        repository.upload(f"equal/{at:02}", b"same")
    repository.upload("new", b"new")
    for path in ("/branches/main/diff", "/refs/main$/objects/ls"):
        threads.clear()
        shown = repository.done("GET", path, params={"amount": 1})
        assert [one["path"] for one in shown["results"]] == ["new"]
        check_first_on_the_loop(threads)


def test_a_listing_of_tags_among_many_branches_leaves_the_loop(
    repository: LakefsRepository, threads: list[int]
) -> None:
    for at in range(12):
        repository.branch(f"branch-{at:02}")
    repository.done("POST", "/tags", json={"id": "tag", "ref": "main"})
    threads.clear()
    shown = repository.done("GET", "/tags", params={"amount": 1})
    assert [one["id"] for one in shown["results"]] == ["tag"]
    check_first_on_the_loop(threads)
    assert repository.paged("/branches", 3) == repository.paged("/branches", 1_000)
