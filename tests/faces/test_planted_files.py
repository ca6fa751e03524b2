"""Links and changed files in the directories of a server: errors over HTTP, and nothing leaks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faces.files_bench import FilesBench, bench

BLOCK = os.urandom(50_000)
SECRET = b"not for users" * 5_000


@pytest.fixture
def own(tmp_path: Path) -> Iterator[FilesBench]:
    with bench(tmp_path / "blocks") as one:
        yield one


def only_block(own: FilesBench) -> Path:
    """Returns the file of the only block."""
    (block,) = own.stored()
    return block


def put_elsewhere(own: FilesBench) -> None:
    """Writes the file again.

    One address in 4,096 is in the directory that was replaced by a link; it is refused, and the
    next attempt has another address.
    """
    first = own.put("a", BLOCK).status_code
    assert first in (200, 503)
    if first == 503:
        assert own.put("a", BLOCK).status_code == 200


def plant_link(block: Path, secret: Path) -> None:
    block.unlink()
    block.symlink_to(secret)


def plant_link_to_a_directory(block: Path, secret: Path) -> None:
    folder = block.parent
    (secret.parent / block.name).write_bytes(SECRET[: len(BLOCK)])
    block.unlink()
    folder.rmdir()
    folder.symlink_to(secret.parent)


def plant_directory(block: Path, secret: Path) -> None:
    block.unlink()
    block.mkdir()


def plant_pipe(block: Path, secret: Path) -> None:
    block.unlink()
    os.mkfifo(block)


def plant_shorter(block: Path, secret: Path) -> None:
    block.chmod(0o600)
    block.write_bytes(BLOCK[:-1])


@pytest.mark.parametrize(
    "plant", [plant_link, plant_link_to_a_directory, plant_directory, plant_pipe, plant_shorter]
)
def test_what_was_planted_in_place_of_a_block_is_never_read(own, tmp_path, plant):
    secret = tmp_path / "secrets" / "secret"
    secret.parent.mkdir()
    secret.write_bytes(SECRET[: len(BLOCK)])
    assert own.put("a", BLOCK).status_code == 200
    _planted: Callable[[Path, Path], None] = plant
    _planted(only_block(own), secret)
    for asked in ({}, {"range": "bytes=0-9"}):
        read = own.get("a", **asked)
        assert read.status_code == 500
        assert b"not for users" not in read.content
        assert str(tmp_path) not in read.text
    assert own.file("DELETE", "a").json() == {"deleted": True}
    put_elsewhere(own)
    assert own.get("a").content == BLOCK
    assert secret.read_bytes() == SECRET[: len(BLOCK)]


def test_a_link_in_place_of_the_uploads_is_not_written_through(own, tmp_path):
    assert own.put("a", BLOCK).status_code == 200
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (uploads,) = own.blocks.rglob("uploads")
    uploads.rename(tmp_path / "moved")
    uploads.symlink_to(elsewhere)
    own.put("b", BLOCK)
    assert list(elsewhere.iterdir()) == []
    assert own.get("a").content == BLOCK
