"""Links and other things that were planted in a data directory: never followed, never harmed."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lochan.assembly.blocks import open_blocks
from lochan.base.errors import Corrupt, Denied, Invalid, InvalidUrl, LochanError, NotFound
from lochan.staging.block_store import BlockAddress, BlockStore, MultipartId
from lochan.testing.contracts.sample_blocks import (
    ABSENT_ADDRESS,
    addresses,
    chosen,
    open_uploads,
    read_block,
    store_block,
    store_part,
)

SHELF, REST = ABSENT_ADDRESS.split("/")
ID = "0123456789abcdef" * 2
SECRET = b"not for readers"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "blocks"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A directory beside the place, with a file in it, to which links lead."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / REST).write_bytes(SECRET)
    (folder / "00001").write_bytes(SECRET + bytes(16))
    return folder


@pytest.fixture
def place(root: Path) -> Iterator[BlockStore]:
    place = open_blocks(root)
    yield place
    place.close()


@pytest.fixture(autouse=True)
def outside_stays_as_it_is(outside: Path) -> Iterator[None]:
    yield
    assert sorted(os.listdir(outside)) == ["00001", REST]
    assert (outside / REST).read_bytes() == SECRET


def make_socket(path: Path) -> None:
    os.mknod(path, stat.S_IFSOCK | 0o600)


PLANTS: dict[str, Callable[[Path, Path], None]] = {
    "link to a file": lambda path, outside: path.symlink_to(outside / REST),
    "link to a directory": lambda path, outside: path.symlink_to(outside),
    "dangling link": lambda path, outside: path.symlink_to(outside / "nothing"),
    "link to itself": lambda path, outside: path.symlink_to(path),
    "directory": lambda path, outside: path.mkdir(),
    "named pipe": lambda path, outside: os.mkfifo(path),
    "socket": lambda path, outside: make_socket(path),
}


@pytest.mark.parametrize("plant", PLANTS)
def test_what_has_the_name_of_a_block_and_is_no_file(place, root, outside, plant):
    (root / "objects" / SHELF).mkdir()
    path = root / "objects" / SHELF / REST
    PLANTS[plant](path, outside)
    assert place.find(ABSENT_ADDRESS) is None
    assert addresses(place) == []
    for size in (0, len(SECRET)):
        with pytest.raises(Corrupt):
            place.read(ABSENT_ADDRESS, 0, size, size=size)
    place.delete(ABSENT_ADDRESS)
    assert os.path.lexists(path)


@pytest.mark.parametrize("plant", [name for name in PLANTS if name != "directory"])
def test_what_has_the_name_of_a_directory_of_blocks(place, root, outside, plant):
    PLANTS[plant](root / "objects" / SHELF, outside)
    assert place.find(ABSENT_ADDRESS) is None
    assert addresses(place) == []
    with pytest.raises(Corrupt):
        place.read(ABSENT_ADDRESS, 0, len(SECRET), size=len(SECRET))
    place.delete(ABSENT_ADDRESS)
    assert os.path.lexists(root / "objects" / SHELF)


def test_a_block_that_would_go_through_a_planted_link_is_refused(root, outside):
    class Chosen:
        def random_bytes(self, count: int) -> bytes:
            return bytes.fromhex(SHELF + REST)

        def between(self, low: float, high: float) -> float:
            return low

    place = open_blocks(root, random=Chosen())
    (root / "objects" / SHELF).symlink_to(outside)
    with pytest.raises(LochanError):
        store_block(place, b"bytes")
    assert addresses(place) == []
    assert open_uploads(place) == 0
    # The name of the upload itself.
    (root / "uploads" / f"{SHELF}{REST}.block").symlink_to(outside / "new")
    with pytest.raises(LochanError):
        place.begin()
    place.close()


@pytest.mark.parametrize("name", ["objects", "uploads"])
@pytest.mark.parametrize("plant", [name for name in PLANTS if name != "directory"])
def test_a_place_whose_own_folders_are_planted_is_not_opened(root, outside, name, plant):
    root.mkdir()
    PLANTS[plant](root / name, outside)
    with pytest.raises(LochanError):
        open_blocks(root)


def test_the_root_may_be_a_link_of_the_operator(tmp_path, root):
    (tmp_path / "disk").mkdir()
    root.symlink_to(tmp_path / "disk")
    place = open_blocks(root)
    block = store_block(place, b"bytes")
    # What the link leads to later does not matter.
    root.unlink()
    assert read_block(place, block) == b"bytes"
    place.close()


@pytest.mark.parametrize("plant", PLANTS)
def test_what_has_the_name_of_an_upload(place, root, outside, plant):
    for name in (f"{ID}.block", ID):
        path = root / "uploads" / name
        PLANTS[plant](path, outside)
        if plant == "directory":
            # It could be ours, and has nothing in it.
            continue
        assert open_uploads(place) == 0
        assert os.path.lexists(path)
    if plant != "directory":
        with pytest.raises(LochanError):
            place.list_parts(MultipartId(ID))
        with pytest.raises(LochanError):
            store_part(place, MultipartId(ID), 1, b"bytes")
        with pytest.raises(LochanError):
            place.complete_multipart(MultipartId(ID), [])


@pytest.mark.parametrize("plant", PLANTS)
def test_what_has_the_name_of_a_part(place, root, outside, plant):
    upload = place.begin_multipart()
    good = store_part(place, upload, 2, b"bytes")
    PLANTS[plant](root / "uploads" / upload / "00001", outside)
    with pytest.raises(LochanError):
        place.list_parts(upload)
    with pytest.raises(LochanError):
        place.complete_multipart(upload, chosen(good.__class__(1, 0, "0" * 32, 0)))
    assert addresses(place) == []
    assert place.complete_multipart(upload, chosen(good)).size == 5


def test_foreign_names_are_ignored_and_kept(place, root):
    block = store_block(place, b"bytes")
    shelf = block.address[:3]
    planted = [
        root / "objects" / "lost+found",
        root / "objects" / "readme.txt",
        root / "objects" / shelf / "readme.txt",
        root / "objects" / shelf / (block.address[4:] + "0"),
        root / "uploads" / "readme.txt",
        root / "uploads" / (ID + ".tmp"),
        root / "tables",
    ]
    for name in range(1, 256):
        if name != 0x2F:
            planted.append(root / "objects" / shelf / os.fsdecode(b"x" + bytes([name])))
    for path in planted:
        path.write_bytes(b"foreign")
    assert addresses(place) == [block.address]
    assert open_uploads(place) == 0
    assert all(path.exists() for path in planted)


def test_a_swept_upload_keeps_what_is_not_ours(place, root):
    upload = place.begin_multipart()
    store_part(place, upload, 1, b"bytes")
    (root / "uploads" / upload / "readme.txt").write_bytes(b"foreign")
    assert open_uploads(place) == 0
    assert os.listdir(root / "uploads" / upload) == ["readme.txt"]


def test_only_the_owner_may_read_what_is_stored(root):
    old = os.umask(0)
    try:
        place = open_blocks(root)
        block = store_block(place, b"bytes")
        upload = place.begin_multipart()
        store_part(place, upload, 1, b"bytes")
        unfinished = place.begin()
        for path in [root, *root.rglob("*")]:
            mode = stat.S_IMODE(path.stat().st_mode)
            assert mode == (0o700 if path.is_dir() else 0o600), path
        unfinished.abort()
        assert read_block(place, block) == b"bytes"
        place.close()
    finally:
        os.umask(old)


def test_wrong_places_are_refused(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    for url in (
        f"file:{tmp_path}/file",
        f"file:{tmp_path}/missing/place",
        "file:",
        "file://host/path",
        "nothing:x",
        "no address",
        "file:a\0b",
    ):
        with pytest.raises(InvalidUrl):
            open_blocks(url)
    for imports in (["file:///"], ["file:relative"], ["s3://bucket/x"], ["file:///a/../b"]):
        with pytest.raises(InvalidUrl):
            open_blocks(tmp_path / "place", imports=imports)
    assert not (tmp_path / "place").exists()


def test_a_file_url_is_percent_encoded_and_a_path_is_not(tmp_path):
    open_blocks(f"file://{tmp_path}/a%20b").close()
    open_blocks(f"file:{tmp_path}/a%20b").close()
    assert sorted(os.listdir(tmp_path)) == ["a b", "a%20b", "outside"]


@pytest.mark.parametrize("where", ["link", "deep/link"])
def test_links_below_an_imported_directory_are_not_followed(tmp_path, outside, where):
    lake = tmp_path / "lake"
    (lake / "deep").mkdir(parents=True)
    (lake / "deep" / "real").write_bytes(b"real")
    (lake / where).symlink_to(outside)
    (lake / "deep" / "file").symlink_to(outside / REST)
    os.mkfifo(lake / "pipe")
    place = open_blocks(tmp_path / "blocks", imports=[f"file://{lake}"])
    page = place.list_foreign(f"file://{lake}")
    assert [each.path for each in page.objects] == ["deep/real"]
    assert page.ignored == 3
    for path in (f"{where}/{REST}", "deep/file", "pipe"):
        address = BlockAddress(f"file://{lake}/{path}")
        assert place.find(address) is None
        with pytest.raises(LochanError):
            place.read(address, 0, len(SECRET), size=len(SECRET), etag="x")
    with pytest.raises(LochanError):
        place.list_foreign(f"file://{lake}/{where}")
    with pytest.raises(Denied):
        place.find(BlockAddress(f"file://{outside}/{REST}"))
    with pytest.raises((Invalid, NotFound)):
        place.list_foreign(f"file://{lake}/missing")
    place.close()


def test_a_name_that_is_no_text_is_an_error_and_is_not_left_out(tmp_path):
    lake = tmp_path / "lake"
    lake.mkdir()
    (lake / os.fsdecode(b"a\xff")).write_bytes(b"x")
    place = open_blocks(tmp_path / "blocks", imports=[f"file://{lake}"])
    with pytest.raises(Invalid):
        place.list_foreign(f"file://{lake}")
    place.close()
