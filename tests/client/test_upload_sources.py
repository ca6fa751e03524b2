"""What may be uploaded, in which pieces, and whether it may be sent again."""

from __future__ import annotations

import io
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from lochan.base.errors import Invalid
from lochan.base.limits.client import UPLOAD_PIECE_BYTES
from lochan.client.upload_sources import AsyncSource, source_of

LONG = bytes(range(256)) * 3_000


class Pipe(io.RawIOBase):
    """A file that cannot seek."""

    def __init__(self, content: bytes) -> None:
        self._content = io.BytesIO(content)

    def read(self, size: int = -1) -> bytes:
        return self._content.read(size)

    def seekable(self) -> bool:
        return False


def repeatable(tmp_path: Path) -> list[Any]:
    (tmp_path / "file").write_bytes(LONG)
    opened = io.BytesIO(b"before" + LONG)
    opened.seek(6)
    return [LONG, bytearray(LONG), memoryview(LONG), tmp_path / "file", opened]


def test_bytes_and_files_are_read_again_from_where_they_were(tmp_path):
    for content in repeatable(tmp_path):
        source = source_of(content)
        assert source.size == len(LONG)
        for _ in range(2):
            pieces = list(source.open())
            assert b"".join(pieces) == LONG
            assert max(map(len, pieces)) == UPLOAD_PIECE_BYTES
            assert source.may_be_sent_again()


@pytest.mark.parametrize("content", [iter([b"a", b"", b"bc"]), Pipe(b"abc")])
def test_iterators_and_pipes_are_read_once(content):
    source = source_of(content)
    assert source.size is None
    assert source.may_be_sent_again()
    assert b"".join(source.open()) == b"abc"
    assert not source.may_be_sent_again()
    with pytest.raises(Invalid):
        next(source.open())


@pytest.mark.parametrize("content", ["text", io.StringIO("text"), 5, None])
def test_texts_and_numbers_are_refused(content):
    with pytest.raises(Invalid):
        source_of(content)


def test_pieces_that_are_no_bytes_are_refused():
    with pytest.raises(Invalid):
        list(source_of(["text"]).open())  # type: ignore[list-item]


def test_a_folder_and_a_missing_file_are_refused(tmp_path):
    with pytest.raises(Invalid, match="not a file"):
        source_of(tmp_path)
    with pytest.raises(Invalid, match="cannot be read"):
        source_of(tmp_path / "nothing")


def test_a_file_that_becomes_shorter_is_refused_and_one_that_grows_keeps_its_size(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    source = source_of(path)
    with path.open("ab") as file:
        file.write(b"678")
    assert b"".join(source.open()) == b"12345"
    os.truncate(path, 3)
    with pytest.raises(Invalid, match="shorter"):
        list(source.open())


def test_an_asynchronous_iterator_is_for_the_asynchronous_client():
    async def pieces() -> AsyncIterator[bytes]:
        yield b"a"

    source = source_of(pieces())
    assert isinstance(source, AsyncSource)
    assert source.may_be_sent_again()
    with pytest.raises(Invalid):
        source.open()
