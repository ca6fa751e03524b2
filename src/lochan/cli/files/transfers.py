"""`lochan fs cp`: files between this machine and repositories, several at a time.

Each file is one transfer. A transfer that fails ends the command: no further one begins, those that
are under way are completed, and the message names how many files were copied.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import msgspec
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from lochan.base.errors import Invalid, LochanError, PathNotFound
from lochan.cli.files.local_names import files_below, local_path, written_whole
from lochan.cli.files.places import STANDARD, Place, catalog_of, child, text_of
from lochan.cli.output import make_console
from lochan.client.file_addresses import FileAddress
from lochan.client.upload_sources import UploadSource, source_of
from lochan.model.files import FileInfo, FilePrefix

if TYPE_CHECKING:
    from lochan.cli.command_context import CommandContext

# Transfers that wait for a free thread; walking a folder of a million files stays this far ahead.
_AHEAD: Final = 64

Advance = Callable[[int], None]
"""Is called with the number of bytes that were copied since the last call."""


class Transfer(msgspec.Struct, frozen=True):
    """One file to be copied; `size` is 0 if it is not known before."""

    source: Place
    target: Place
    size: int = 0


class UploadOptions(msgspec.Struct, frozen=True):
    """What uploaded files are stored with."""

    content_type: str = ""
    metadata: tuple[tuple[str, str], ...] = ()
    if_absent: bool = False


class Copier:
    """Copies files; a call copies one and returns how many bytes it had."""

    def __init__(self, context: CommandContext, options: UploadOptions) -> None:
        self._context = context
        self._options = options

    def plan(self, source: Place, target: Place, *, recursive: bool) -> Iterator[Transfer]:
        """Yields the transfers of a command."""
        if isinstance(source, Path) and isinstance(target, Path):
            raise Invalid("one of the two is a file of a repository: write main:path for it")
        if not recursive:
            yield self._one(source, target)
        elif isinstance(source, Path):
            if not source.is_dir():
                raise Invalid(f"{source} is not a folder; without -r one file is copied")
            for path, name in files_below(source):
                yield Transfer(path, _below(target, name), path.stat().st_size)
        else:
            yield from self._below_prefix(source, target)

    def _one(self, source: Place, target: Place) -> Transfer:
        if isinstance(source, Path):
            if source.is_dir():
                raise Invalid(f"{source} is a folder; -r copies the files below it")
            name, size = source.name, 0 if source == STANDARD else _size(source)
        else:
            info = catalog_of(self._context, source).files.stat(source.spec, source.path)
            name, size = source.path.rpartition("/")[2], info.size
        if isinstance(target, Path):
            if target != STANDARD and target.is_dir():
                target = local_path(target, name)
        elif not target.path or target.path.endswith("/"):
            if source == STANDARD:
                raise Invalid("standard input has no name: name the file in the repository")
            target = child(target, target.path + name)
        return Transfer(source, target, size)

    def _below_prefix(self, source: FileAddress, target: Place) -> Iterator[Transfer]:
        prefix = source.path
        if prefix and not prefix.endswith("/"):
            prefix += "/"
        found = False
        for item in catalog_of(self._context, source).files.iterate(source.spec, prefix):
            if isinstance(item, FilePrefix):
                continue
            found = True
            place = _below(target, item.path.removeprefix(prefix))
            yield Transfer(child(source, item.path), place, item.size)
        if not found:
            raise PathNotFound(f"there is no file below {text_of(child(source, prefix))}")

    def copy(self, transfer: Transfer, advance: Advance) -> None:
        """Copies one file."""
        source, target = transfer.source, transfer.target
        if isinstance(source, FileAddress) and isinstance(target, FileAddress):
            self._between(source, target, transfer, advance)
        elif isinstance(source, FileAddress):
            self._download(source, target, advance)
        elif isinstance(target, FileAddress):
            body = source_of(sys.stdin.buffer if source == STANDARD else source)
            self._upload(target, CountedSource(body, advance), self._options)

    def _between(
        self, source: FileAddress, target: FileAddress, transfer: Transfer, advance: Advance
    ) -> None:
        """Copies within a repository without moving bytes, otherwise through this machine."""
        options = self._options
        if source.repository == target.repository:
            catalog_of(self._context, target).files.copy(
                target.spec,
                target.path,
                source.path,
                source=source.spec,
                metadata=dict(options.metadata) or None,
                content_type=options.content_type or None,
                if_absent=options.if_absent,
            )
            advance(transfer.size)
            return
        with catalog_of(self._context, source).files.open(source.spec, source.path) as stream:
            info = stream.info
            kept = UploadOptions(
                options.content_type or info.content_type,
                options.metadata or info.metadata,
                options.if_absent,
            )
            self._upload(target, CountedSource(source_of(iter(stream)), advance), kept)

    def _download(self, source: FileAddress, target: Place, advance: Advance) -> None:
        with catalog_of(self._context, source).files.open(source.spec, source.path) as stream:
            if target == STANDARD:
                _write(stream, sys.stdout.buffer, advance)
                return
            with written_whole(Path(str(target))) as file:
                _write(stream, file, advance)

    def _upload(self, target: FileAddress, body: UploadSource, options: UploadOptions) -> FileInfo:
        return catalog_of(self._context, target).files.put(
            target.spec,
            target.path,
            body,
            content_type=options.content_type,
            metadata=dict(options.metadata),
            if_absent=options.if_absent,
        )


class CountedSource(UploadSource):
    """A source that reports how far it was read; what is read again is not counted again."""

    def __init__(self, source: UploadSource, advance: Advance) -> None:
        self._source = source
        self._advance = advance
        self._counted = 0
        self.size = source.size

    def open(self) -> Iterator[bytes]:
        """Yields the bytes in pieces."""
        read = 0
        for piece in self._source.open():
            yield piece
            read += len(piece)
            if read > self._counted:
                self._advance(read - self._counted)
                self._counted = read

    def may_be_sent_again(self) -> bool:
        """Returns whether the source may be opened."""
        return self._source.may_be_sent_again()


def run_transfers(
    transfers: Iterator[Transfer],
    copy: Callable[[Transfer, Advance], None],
    done: Callable[[Transfer], None],
    *,
    threads: int,
    show_progress: bool,
) -> int:
    """Copies files, some at the same time; calls `done` for each; returns how many there were."""
    copied = 0
    with _progress(show_progress) as progress, ThreadPoolExecutor(threads) as pool:
        task = progress.add_task("copying", total=None)
        running: dict[Future[None], tuple[Transfer, _Advance]] = {}
        failure: LochanError | None = None
        total = 0

        def settle(count: int) -> None:
            nonlocal copied, failure
            while len(running) > count:
                ended, _ = wait(running, return_when=FIRST_COMPLETED)
                for each in ended:
                    transfer, advance = running.pop(each)
                    error = each.exception()
                    if error is None:
                        copied += 1
                        size = transfer.size or advance.count
                        done(msgspec.structs.replace(transfer, size=size))
                    elif isinstance(error, LochanError):
                        failure = failure or error
                    else:
                        raise error

        try:
            for transfer in transfers:
                total += transfer.size
                progress.update(task, total=total, description=f"copying {_shown(transfer)}")
                advance = _Advance(progress, task)
                running[pool.submit(copy, transfer, advance)] = transfer, advance
                settle(threads + _AHEAD - 1)
                if failure is not None:
                    break
        except LochanError as error:
            failure = error
        settle(0)
    if failure is not None:
        if copied:
            failure.message += f" ({copied} files were copied before)"
        raise failure
    return copied


class _Advance:
    """Counts the bytes of one transfer, and reports them to the display."""

    def __init__(self, progress: Progress, task: Any) -> None:
        self._progress = progress
        self._task = task
        self.count = 0

    def __call__(self, count: int) -> None:
        self.count += count
        self._progress.advance(self._task, count)


def _progress(shown: bool) -> Progress:
    console = make_console(errors=True)
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        console=console,
        transient=True,
        disable=not (shown and console.is_terminal),
    )


def _write(stream: Any, file: BinaryIO, advance: Advance) -> None:
    for piece in stream:
        file.write(piece)
        advance(len(piece))
    file.flush()


def _below(target: Place, name: str) -> Place:
    """Returns the place of a file with this name below a folder or a prefix."""
    if isinstance(target, Path):
        if target == STANDARD:
            raise Invalid("several files are not written to standard output: name a folder")
        return local_path(target, name)
    prefix = target.path
    if prefix and not prefix.endswith("/"):
        prefix += "/"
    return child(target, prefix + name)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise Invalid(f"{path} cannot be read: {error.strerror}") from None


def _shown(transfer: Transfer) -> str:
    source = transfer.source
    text = text_of(source) if isinstance(source, FileAddress) else str(source)
    return text if len(text) <= 40 else f"…{text[-39:]}"
