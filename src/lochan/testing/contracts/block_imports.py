"""Foreign objects: listed and read where the operator allows it, changed never."""

from __future__ import annotations

import pytest

from lochan.base.errors import Corrupt, Denied, Invalid, LochanError, NotFound
from lochan.staging.block_store import (
    BlockAddress,
    BlockInfo,
    BlockStore,
    ForeignObject,
    is_foreign,
    is_own,
)
from lochan.testing.contracts.sample_blocks import ForeignPlace, addresses

PATHS = (
    "a-b",
    "a.txt",
    "a/b",
    "a/b.c",
    "a/c/d",
    "a0",
    "ä/ß",
    "d=1/x y",
    "p%2Fq?#&+",
    "z" * 90,
)


class ImportContract:
    """Needs the fixture `foreign`; the place was opened with its prefix as `imports`."""

    sorted_imports = True
    """Whether listings have the order of bytes; some servers sort each folder by itself."""

    def test_a_prefix_is_listed_in_pages_without_gap_or_repeat(
        self, place: BlockStore, foreign: ForeignPlace
    ) -> None:
        for path in PATHS:
            foreign.put(path, path.encode())
        expected = sorted(PATHS, key=str.encode)
        whole = _list_all(place, foreign.prefix, 1_000)
        for found in (whole, *(_list_all(place, foreign.prefix, limit) for limit in (1, 3))):
            paths = [each.path for each in found]
            assert sorted(paths, key=str.encode) == expected
            assert paths == expected or not self.sorted_imports
        for each in whole:
            assert is_foreign(each.info.address)
            assert not is_own(each.info.address)
            assert each.info.size == len(each.path.encode())
            assert place.find(each.info.address) == each.info
            assert _read(place, each.info) == each.path.encode()
        assert addresses(place) == []

    def test_a_narrower_prefix_is_listed_alone(
        self, place: BlockStore, foreign: ForeignPlace
    ) -> None:
        for path in ("raw/1", "raw/2", "raw-not/3", "other"):
            foreign.put(path, b"x")
        found = _list_all(place, f"{foreign.prefix}/raw", 10)
        assert [each.path for each in found] == ["1", "2"]

    def test_a_changed_or_missing_object_is_noticed(
        self, place: BlockStore, foreign: ForeignPlace
    ) -> None:
        foreign.put("one", b"1111")
        info = _list_all(place, foreign.prefix, 10)[0].info
        foreign.remove("one")
        foreign.put("one", b"2222")
        for start, end in ((0, 4), (2, 3), (1, 1)):
            with pytest.raises(Corrupt):
                list(place.read(info.address, start, end, size=4, etag=info.etag))
        foreign.remove("one")
        assert place.find(info.address) is None
        for start, end in ((0, 4), (1, 1)):
            with pytest.raises(NotFound):
                place.read(info.address, start, end, size=4, etag=info.etag)

    def test_foreign_objects_are_never_deleted(
        self, place: BlockStore, foreign: ForeignPlace
    ) -> None:
        foreign.put("one", b"1111")
        info = _list_all(place, foreign.prefix, 10)[0].info
        with pytest.raises(Invalid):
            place.delete(info.address)
        assert _read(place, info) == b"1111"

    def test_what_the_operator_does_not_allow_is_refused(
        self, place: BlockStore, foreign: ForeignPlace
    ) -> None:
        foreign.put("one", b"1111")
        parent = foreign.prefix.rpartition("/")[0]
        outside = (f"{foreign.prefix}x/one", f"{parent}/other", parent)
        inside = f"{foreign.prefix}/../other"
        for url in outside:
            with pytest.raises(Denied):
                place.list_foreign(url)
            with pytest.raises(Denied):
                place.find(BlockAddress(url))
            with pytest.raises(Denied):
                place.read(BlockAddress(url), 0, 1, size=1, etag="x")
        for url in (inside, inside.replace("..", "%2e%2e"), f"{foreign.prefix}/./one"):
            with pytest.raises(Invalid):
                place.list_foreign(url)
            with pytest.raises(Invalid):
                place.find(BlockAddress(url))
        for url in ("http://127.0.0.1/x", "gopher://x/y", "s3:/x", "file:x", "x" * 5_000):
            with pytest.raises(LochanError):
                place.find(BlockAddress(url))
            with pytest.raises(LochanError):
                place.list_foreign(url)


def _list_all(place: BlockStore, prefix: str, limit: int) -> list[ForeignObject]:
    found: list[ForeignObject] = []
    after: str | None = ""
    while after is not None:
        page = place.list_foreign(prefix, after, limit)
        assert len(page.objects) <= limit
        assert page.ignored == 0
        found += page.objects
        after = page.next_after
    return found


def _read(place: BlockStore, info: BlockInfo) -> bytes:
    reader = place.read(info.address, 0, info.size, size=info.size, etag=info.etag)
    return b"".join(reader)
