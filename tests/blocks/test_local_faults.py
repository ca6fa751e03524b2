"""A disk that is full or fails: the right error, nothing acknowledged, nothing visible."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lochan.assembly.blocks import open_blocks
from lochan.base.errors import Corrupt, Exhausted, LochanError, Unavailable
from lochan.base.limits.blocks import BLOCK_PIECE_BYTES
from lochan.staging.block_store import BlockStore
from lochan.testing.contracts.sample_blocks import (
    addresses,
    chosen,
    content_of,
    open_uploads,
    read_block,
    sha256_of,
    store_block,
    store_part,
)

CALLS = ("write", "fsync", "rename", "open", "mkdir", "unlink")


class Disk:
    """Counts the calls that change something, and lets the nth of them fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[str] = []
        self.fail_at = -1
        self.number = errno.EIO
        for name in CALLS:
            monkeypatch.setattr(os, name, self._wrap(name, getattr(os, name)))

    def plan(self, fail_at: int, number: int) -> None:
        self.seen.clear()
        self.fail_at, self.number = fail_at, number

    def _wrap(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            kind = name
            if name == "open" and not (args[1] & os.O_CREAT):
                return real(*args, **named)
            if name == "fsync":
                kind = "fsync directory" if os.path.isdir(f"/proc/self/fd/{args[0]}") else "fsync"
            self.seen.append(kind)
            if len(self.seen) - 1 == self.fail_at:
                raise OSError(self.number, os.strerror(self.number))
            return real(*args, **named)

        return call


@pytest.fixture
def place(tmp_path: Path) -> Iterator[BlockStore]:
    place = open_blocks(tmp_path / "blocks")
    yield place
    place.close()


def test_bytes_reach_the_disk_before_the_name_and_the_name_before_the_answer(place, monkeypatch):
    disk = Disk(monkeypatch)
    store_block(place, b"bytes")
    assert disk.seen == [
        "open",
        "write",
        "fsync",
        "mkdir",
        "fsync directory",
        "rename",
        "fsync directory",
    ]


def test_a_completed_multipart_upload_reaches_the_disk_in_the_same_order(place, monkeypatch):
    upload = place.begin_multipart()
    part = store_part(place, upload, 1, b"bytes")
    disk = Disk(monkeypatch)
    place.complete_multipart(upload, chosen(part))
    assert [call for call in disk.seen if call != "unlink"] == [
        *("open", "write", "fsync"),
        *("open", "write", "fsync", "rename", "fsync directory"),
        *("mkdir", "fsync directory", "rename", "fsync directory"),
    ]


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (errno.EIO, Unavailable),
        (errno.ENOSPC, Exhausted),
        (errno.EDQUOT, Exhausted),
        (errno.EMFILE, Exhausted),
        (errno.EROFS, Unavailable),
        (errno.EACCES, Unavailable),
    ],
)
def test_an_upload_whose_nth_call_fails_stores_nothing(place, monkeypatch, number, expected):
    disk = Disk(monkeypatch)
    content = content_of(3 * BLOCK_PIECE_BYTES)
    # Five of them come before the first shelf exists.
    for nth in range(9):
        disk.plan(nth, number)
        with pytest.raises(expected):
            store_block(place, content)
        assert len(disk.seen) > nth, "the fault must have happened"
        disk.plan(-1, number)
        assert addresses(place) == []
        assert open_uploads(place) == 0
    assert sha256_of(read_block(place, store_block(place, content))) == sha256_of(content)


def test_after_a_failed_fsync_the_upload_cannot_be_finished(place, monkeypatch):
    disk = Disk(monkeypatch)
    upload = place.begin()
    upload.write(b"bytes")
    disk.plan(0, errno.EIO)
    with pytest.raises(Unavailable):
        upload.finish()
    with pytest.raises(LochanError):
        upload.finish()
    assert addresses(place) == []


def test_a_completion_whose_nth_call_fails_stores_nothing_and_may_be_repeated(place, monkeypatch):
    disk = Disk(monkeypatch)
    failed = 0
    for nth in range(40):
        upload = place.begin_multipart()
        part = store_part(place, upload, 1, b"bytes")
        before = addresses(place)
        disk.plan(nth, errno.EIO)
        try:
            place.complete_multipart(upload, chosen(part))
        except Unavailable:
            failed += 1
            disk.plan(-1, errno.EIO)
            assert addresses(place) == before
            block = place.complete_multipart(upload, chosen(part))
            assert read_block(place, block) == b"bytes"
        disk.plan(-1, errno.EIO)
    assert failed >= 12


def test_a_block_that_lost_bytes_on_the_disk_is_damage(tmp_path, place):
    content = content_of(2 * BLOCK_PIECE_BYTES)
    block = store_block(place, content)
    path = tmp_path / "blocks" / "objects" / block.address
    reader = place.read(block.address, 0, block.size, size=block.size)
    next(reader)
    os.truncate(path, BLOCK_PIECE_BYTES + 7)
    with pytest.raises(Corrupt):
        list(reader)
    with pytest.raises(Corrupt):
        place.read(block.address, 0, 5, size=block.size)
    path.unlink()
    with pytest.raises(Corrupt) as caught:
        place.read(block.address, 0, 5, size=block.size)
    assert caught.value.missing


def test_a_part_that_changed_on_the_disk_is_not_joined(tmp_path, place):
    upload = place.begin_multipart()
    part = store_part(place, upload, 1, b"bytes")
    path = tmp_path / "blocks" / "uploads" / upload / "00001"
    path.write_bytes(b"Bytes" + path.read_bytes()[5:])
    with pytest.raises(Corrupt):
        place.complete_multipart(upload, chosen(part))
    assert addresses(place) == []


def test_an_upload_is_swept_a_grace_after_its_last_bytes(tmp_path, place):
    upload = place.begin()
    upload.write(b"begun")
    (path,) = (tmp_path / "blocks" / "uploads").iterdir()
    os.utime(path, (1_000, 1_000))
    assert place.sweep_unfinished(999_000_000) == 0
    upload.write(b"more")
    assert place.sweep_unfinished(2_000_000_000) == 0
    os.utime(path, (1_000, 1_000))
    assert place.sweep_unfinished(2_000_000_000) == 1
    with pytest.raises(Unavailable):
        upload.finish()
    assert addresses(place) == []


def test_a_part_that_is_written_slowly_keeps_its_upload(tmp_path, place):
    upload = place.begin_multipart()
    part = place.begin_part(upload, 1)
    part.write(b"begun")
    folder = tmp_path / "blocks" / "uploads" / upload
    os.utime(folder, (1_000, 1_000))
    assert place.sweep_unfinished(2_000_000_000) == 0
    part.write(b"more")
    assert part.finish().size == 9


def test_descriptors_are_given_back(place):
    def count() -> int:
        return len(os.listdir("/proc/self/fd"))

    block = store_block(place, content_of(600_000))
    before = count()
    for _ in range(20):
        store_block(place, b"bytes")
        place.begin().abort()
        with pytest.raises(LochanError), place.begin(size=1) as upload:
            upload.write(b"more")
        place.read(block.address, 0, 5, size=block.size).close()
        read_block(place, block)
        list(place.iterate())
        upload_id = place.begin_multipart()
        part = store_part(place, upload_id, 1, b"bytes")
        place.complete_multipart(upload_id, chosen(part))
        place.abort_multipart(upload_id)
    assert count() == before
