"""Multipart uploads in a directory: a folder of parts that are joined at the end.

`uploads/<32 digits>/` holds the finished parts as `00001` and so on, unfinished ones with a random
suffix, and after completion the file `done`. The address of the block follows from the 32 digits.
Completion:

1. the folder is locked, and the parts are compared with what the caller chose;
2. their bytes are copied to the file `whole`, compared with their MD5s, hashed and synchronised;
3. `done` records size and checksums, durably;
4. `whole` becomes the block, as any other upload does;
5. the parts are removed. The folder stays for the sweep: `done` answers a repeated call.

A crash before 4 leaves no block, and a repeated call begins again at 1. `done` counts only if the
block exists.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import md5
from typing import Final

import msgspec

from lochan.base.checks import check, check_stored
from lochan.base.errors import Conflict, Corrupt, Exhausted, Invalid, NotFound
from lochan.base.limits.blocks import BLOCK_PAGE_MAX, BLOCK_PIECE_BYTES
from lochan.blocks.digests import Digests
from lochan.blocks.local.failures import failure
from lochan.blocks.local.folders import (
    CREATE,
    DIRECTORY,
    FILE_MODE,
    READ,
    Folder,
    create,
    find_status,
    is_file,
    names_in,
    opened,
    write_all,
)
from lochan.blocks.local.objects import LocalObjects
from lochan.blocks.local.uploads import LocalPart, part_name
from lochan.blocks.parts import check_number, check_order, choose_parts, joined_etag
from lochan.staging.block_store import (
    BlockAddress,
    ChosenPart,
    MultipartId,
    StoredBlock,
    StoredPart,
)

ID: Final = re.compile(r"[0-9a-f]{32}\Z")
_PART: Final = re.compile(r"[0-9]{5}\Z")
_OURS: Final = re.compile(r"(?:[0-9]{5}(?:\.[0-9a-f]{32})?|whole|done(?:\.new)?)\Z")
_MD5_BYTES: Final = 16
_DONE_BYTES_MAX: Final = 4_096
_ENDED: Final = "there is no such multipart upload: it was completed, aborted or swept"


class _Done(msgspec.Struct, frozen=True):
    """What a completed upload has become."""

    size: int
    sha256: str
    etag: str


class Multiparts:
    """The multipart uploads of one place."""

    def __init__(self, uploads: Folder, objects: LocalObjects) -> None:
        self._uploads = uploads
        self._objects = objects

    def begin(self, digits: str) -> MultipartId:
        """Makes the folder of a new upload."""
        create(digits, self._uploads.number)
        return MultipartId(digits)

    def begin_part(
        self, upload: MultipartId, number: int, suffix: str, size: int | None
    ) -> LocalPart:
        """Begins a part under a name with a random suffix."""
        check_number(number)
        with self._folder(upload) as directory:
            name = f"{part_name(number)}.{suffix}"
            return LocalPart(directory, name, number, size, lambda: self._is_over(upload))

    def list_parts(self, upload: MultipartId, after: int) -> Sequence[StoredPart]:
        """Returns a page of finished parts."""
        with self._folder(upload) as directory:
            numbers = [int(name) for name in names_in(directory) if _PART.match(name)]
            wanted = [number for number in numbers if number > after][:BLOCK_PAGE_MAX]
            found: list[StoredPart] = []
            for number in wanted:
                with _opened_part(directory, number) as (_, part):
                    found.append(part)
            return found

    def complete(self, upload: MultipartId, chosen: Sequence[ChosenPart]) -> StoredBlock:
        """Joins the parts (steps 1 to 5), or answers from the record of an earlier call."""
        check_order(chosen)
        address = _address(upload)
        with self._folder(upload, finished=True) as directory, _locked(directory):
            done = _read_done(directory)
            if done is not None and self._objects.find(address) is not None:
                if done.etag != joined_etag([part.etag.strip('"') for part in chosen]):
                    raise Invalid("this multipart upload was completed with other parts")
                return StoredBlock(address, done.size, done.sha256, done.etag)
            # 1
            stored: dict[int, StoredPart] = {}
            for each in chosen:
                with suppress(FileNotFoundError), _opened_part(directory, each.number) as (_, part):
                    stored[each.number] = part
            # 2 and 3
            done = _join(directory, choose_parts(stored, chosen))
            # 4
            self._objects.adopt("whole", directory, address)
            # 5; the block is durable, so a failure here is left to the sweep.
            with suppress(OSError):
                for name in names_in(directory):
                    if _OURS.match(name) and name != "done":
                        _unlink(name, directory)
        return StoredBlock(address, done.size, done.sha256, done.etag)

    def abort(self, upload: MultipartId) -> None:
        """Removes the folder with everything of ours in it; idempotent."""
        if ID.match(upload):
            with suppress(FileNotFoundError):
                self.remove(upload)

    def remove(self, name: str) -> bool:
        """Removes a folder; False if it stays, because it contains what is not ours."""
        with opened(name, self._uploads.number) as directory:
            for inside in names_in(directory):
                if _OURS.match(inside):
                    _unlink(inside, directory)
        with suppress(OSError):
            os.rmdir(name, dir_fd=self._uploads.number)
            return True
        return False

    def last_change_us(self, name: str) -> int:
        """Returns when something was last written to an upload."""
        with opened(name, self._uploads.number) as directory:
            times = [os.fstat(directory).st_mtime_ns]
            for inside in names_in(directory):
                status = find_status(inside, directory)
                if status is not None:
                    times.append(status.st_mtime_ns)
        return max(times) // 1_000

    def _is_over(self, upload: MultipartId) -> bool:
        with self._folder(upload, finished=True) as directory:
            return find_status("done", directory) is not None

    @contextmanager
    def _folder(self, upload: MultipartId, *, finished: bool = False) -> Iterator[int]:
        """Opens the folder of an upload; NotFound if there is none, or if it was completed."""
        if not ID.match(upload):
            raise NotFound(_ENDED)
        try:
            directory = os.open(upload, DIRECTORY, dir_fd=self._uploads.number)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise NotFound(_ENDED) from error
        except OSError as error:
            raise failure(error, "opening a multipart upload") from error
        try:
            if not finished and find_status("done", directory) is not None:
                raise NotFound(_ENDED)
            yield directory
        except FileNotFoundError as error:
            # The folder was removed meanwhile, by an abort or by the sweep.
            raise NotFound(_ENDED) from error
        except OSError as error:
            raise failure(error, "a multipart upload") from error
        finally:
            os.close(directory)


def _address(upload: MultipartId) -> BlockAddress:
    return BlockAddress(f"{upload[:3]}/{upload[3:]}")


@contextmanager
def _locked(directory: int) -> Iterator[None]:
    """Holds the folder of an upload against other calls that complete it, of any process."""
    try:
        fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise Exhausted("another call is completing this multipart upload") from error
    try:
        yield
    finally:
        # A child that was just forked may have it open too, and then closing does not unlock.
        fcntl.flock(directory, fcntl.LOCK_UN)


@contextmanager
def _opened_part(directory: int, number: int) -> Iterator[tuple[int, StoredPart]]:
    """Opens a part and reads the MD5 at the end of its file."""
    file = os.open(part_name(number), READ, dir_fd=directory)
    try:
        status = os.fstat(file)
        size = status.st_size - _MD5_BYTES
        check_stored(is_file(status) and size >= 0, f"part {number} is not a file of this place")
        etag = os.pread(file, _MD5_BYTES, size).hex()
        yield file, StoredPart(number, size, etag, status.st_mtime_ns // 1_000)
    finally:
        os.close(file)


def _join(directory: int, parts: Sequence[StoredPart]) -> _Done:
    """Copies the parts to `whole` (step 2) and records the result (step 3)."""
    for leftover in ("whole", "done", "done.new"):
        _unlink(leftover, directory)
    digests = Digests()
    with _created("whole", directory) as whole:
        for part in parts:
            with _opened_part(directory, part.number) as (file, now):
                if now.etag != part.etag or now.size != part.size:
                    raise Conflict(f"part {part.number} was replaced during the completion")
                _copy(file, part, whole, digests)
    etag = joined_etag([part.etag for part in parts])
    check(etag is not None, "the ETag of a local part is an MD5")
    done = _Done(digests.size, digests.sha256, etag or "")
    with _created("done.new", directory) as record:
        write_all(record, memoryview(msgspec.json.encode(done)))
    os.rename("done.new", "done", src_dir_fd=directory, dst_dir_fd=directory)
    os.fsync(directory)
    return done


def _copy(source: int, part: StoredPart, target: int, whole: Digests) -> None:
    """Appends the bytes of a part; Corrupt unless they still have its MD5."""
    own = md5(usedforsecurity=False)
    position = 0
    while position < part.size:
        piece = os.pread(source, min(BLOCK_PIECE_BYTES, part.size - position), position)
        check_stored(bool(piece), f"part {part.number} has lost bytes")
        own.update(piece)
        whole.update(piece)
        write_all(target, memoryview(piece))
        position += len(piece)
    check_stored(own.hexdigest() == part.etag, f"part {part.number} has changed on the disk")


@contextmanager
def _created(name: str, directory: int) -> Iterator[int]:
    """Creates a file, and synchronises it unless its `with` block raises."""
    file = os.open(name, CREATE, FILE_MODE, dir_fd=directory)
    try:
        yield file
        os.fsync(file)
    finally:
        os.close(file)


def _read_done(directory: int) -> _Done | None:
    try:
        number = os.open("done", READ, dir_fd=directory)
    except FileNotFoundError:
        return None
    try:
        return msgspec.json.decode(os.pread(number, _DONE_BYTES_MAX, 0), type=_Done)
    except msgspec.DecodeError as error:
        raise Corrupt("the record of a completed multipart upload is damaged") from error
    finally:
        os.close(number)


def _unlink(name: str, directory: int) -> None:
    # A directory is nothing of ours.
    with suppress(FileNotFoundError, IsADirectoryError):
        os.unlink(name, dir_fd=directory)
