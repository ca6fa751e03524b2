"""A bench with a place for the bytes of files: a directory, to which clients may write too.

Shared by the tests of files; holds no test of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from lochan.assembly.blocks import open_blocks
from lochan.base.ids import InstanceId
from lochan.service.file_places import FileSupport
from lochan.staging.block_store import (
    BlockStore,
    MultipartId,
    PresignedParts,
    PresignedPut,
    build_address,
)
from tests.service.bench import Bench


class ClientWritable:
    """A directory whose presigned uploads have been done by a client: it holds `CLIENT_BYTES`."""

    CLIENT_BYTES = b"written by a client"
    signs_urls = True

    def __init__(self, place: BlockStore) -> None:
        self._place = place
        self.is_written = True

    def presign_put(self, lifetime_s: int) -> PresignedPut:
        with self._place.begin() as upload:
            upload.write(self.CLIENT_BYTES)
            stored = upload.finish()
        if not self.is_written:
            self._place.delete(stored.address)
        return PresignedPut(stored.address, f"place:{lifetime_s}", {"If-None-Match": "*"})

    def presign_parts(
        self, upload: MultipartId, numbers: Sequence[int], lifetime_s: int
    ) -> PresignedParts:
        address = build_address(sha256(upload.encode()).digest()[:16])
        return PresignedParts(address, tuple(f"place:{number}?{lifetime_s}" for number in numbers))

    def presign_get(self, address: str, lifetime_s: int) -> str:
        return f"place:{address}?{lifetime_s}"

    def __getattr__(self, name: str) -> Any:
        return getattr(self._place, name)


def file_support(folder: Path) -> tuple[FileSupport, ClientWritable]:
    """A directory for the bytes of files; `lake` beside it may be imported."""
    (folder / "lake").mkdir(exist_ok=True)
    place = open_blocks(folder / "blocks", imports=[f"file://{folder / 'lake'}"])
    wrapped = ClientWritable(place)

    def open_place(url: str, instance: InstanceId) -> BlockStore:
        assert (url, len(instance)) == ("", 16)
        return wrapped

    return FileSupport(open_place), wrapped


def file_bench(folder: Path) -> tuple[Bench, ClientWritable]:
    """A repository whose large files are in a directory."""
    support, place = file_support(folder)
    return Bench(files=support), place


def stored_blocks(place: ClientWritable) -> int:
    """How many blocks there are."""
    return len(list(place.iterate()))
