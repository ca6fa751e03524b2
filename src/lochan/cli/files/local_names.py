"""Names of files of this machine: which are uploaded, and where a download may be written.

Any text may be the path of a file of a repository. Only a path that stays below the folder of a
download is written: its segments are names, not `.`, `..` or empty.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import BinaryIO, cast

from lochan.base.errors import Invalid


def files_below(folder: Path) -> Iterator[tuple[Path, str]]:
    """Yields the files below a folder with their names relative to it; links are not followed."""
    for parent, folders, names in os.walk(folder, onerror=_refuse):
        folders.sort()
        for name in sorted(names):
            path = Path(parent) / name
            if path.is_symlink() or not path.is_file():
                continue
            yield path, _utf8(path.relative_to(folder).as_posix())


def _refuse(error: OSError) -> None:
    raise Invalid(f"{error.filename} cannot be read: {error.strerror}")


def _utf8(name: str) -> str:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        raise Invalid(f"the name of a local file is not UTF-8: {name!a}") from None
    return name


def local_path(folder: Path, relative: str) -> Path:
    """Returns where a file of a repository is written below a folder; Invalid if outside of it."""
    segments = relative.split("/")
    if not {"", ".", ".."}.isdisjoint(segments) or os.sep != "/" or "\0" in relative:
        raise Invalid(
            f"{relative!r} cannot be the name of a file below {folder}: download it by itself, "
            "with a name for it"
        )
    return folder.joinpath(*segments)


@contextmanager
def written_whole(path: Path) -> Iterator[BinaryIO]:
    """Opens a new file that appears under its name when it is complete, or not at all."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=path.parent, prefix=".lochan-", delete=False) as file:
            partly = Path(file.name)
            try:
                yield cast("BinaryIO", file)
                file.flush()
                partly.chmod(0o666 & ~_umask())
                partly.replace(path)
            except BaseException:
                partly.unlink(missing_ok=True)
                raise
    except OSError as error:
        raise Invalid(f"{path} cannot be written: {error.strerror}") from None


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
