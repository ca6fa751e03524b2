"""A local directory keeps the whole contract of places for object data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lochan.assembly.blocks import open_blocks
from lochan.staging.block_store import BlockStore
from lochan.testing.contracts import BLOCK_CONTRACTS


class ForeignDirectory:
    """Files that were there before."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.prefix = f"file://{folder}"
        folder.mkdir()

    def put(self, path: str, content: bytes) -> None:
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_bytes(content)

    def remove(self, path: str) -> None:
        (self.folder / path).unlink()


class TestLocalDirectory(*BLOCK_CONTRACTS):  # type: ignore[misc]
    @pytest.fixture
    def foreign(self, tmp_path: Path) -> ForeignDirectory:
        return ForeignDirectory(tmp_path / "lake")

    @pytest.fixture
    def place(self, tmp_path: Path, foreign: ForeignDirectory) -> Iterator[BlockStore]:
        place = open_blocks(tmp_path / "blocks", imports=[foreign.prefix])
        yield place
        place.close()
