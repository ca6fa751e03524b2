"""The file system: paths are `repository@reference/path`, folders are prefixes up to a slash.

Writes are staged on their branch, each when its file is closed; `commit` makes them a commit. A
folder without files does not exist, as in every object store. A file whose path ends with a slash
is reached by the client, not by this.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Final

from fsspec.spec import AbstractFileSystem

from lochan.base.errors import LochanError, PathNotFound
from lochan.base.limits.files import FILES_DELETED_MAX
from lochan.client import Client
from lochan.client.credentials import Token
from lochan.client.file_addresses import SCHEME, FileAddress, parse_address
from lochan.client.groups.files import FileMethods
from lochan.client.methods import BlockingRunner
from lochan.client.profiles import ProfileFile
from lochan.filesystem.failures import as_os_errors
from lochan.filesystem.files import ReadFile, WrittenFile
from lochan.model.commits import CommitMeta, Committed, Operation
from lochan.model.files import FileDifference, FileInfo, FilePrefix

_DEFAULT_URL: Final = "http://127.0.0.1:19120"
_RANGES_AT_ONCE: Final = 8

Details = dict[str, Any]
"""What fsspec knows about a path."""


class LochanFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """Files of the repositories of one server.

    `server` is the address of the server: by default that of `profile`, then `LOCHAN_URL`, then the
    one of a server that was started without settings. Credentials are those of `client.Client`.
    """

    protocol: ClassVar[str] = "lochan"
    root_marker = ""

    def __init__(
        self,
        server: str | None = None,
        *,
        token: Token | None = None,
        access_key: tuple[str, str] | None = None,
        profile: str | None = None,
        insecure: bool = False,
        **more: Any,
    ) -> None:
        super().__init__(server=server, **more)
        if server is None and profile is not None:
            server = ProfileFile().get(profile).url
        self.url = server or os.environ.get("LOCHAN_URL") or _DEFAULT_URL
        self._credentials: dict[str, Any] = {
            "token": token,
            "access_key": access_key,
            "profile": profile,
            "insecure": insecure,
        }
        self._clients: dict[str, Client] = {}

    def client_of(self, repository: str) -> Client:
        """Returns the client of a repository; opened once."""
        found = self._clients.get(repository)
        if found is None:
            name = repository or "default"
            found = self._clients[repository] = Client(self.url, name, **self._credentials)
        return found

    def files_of(self, address: FileAddress) -> FileMethods[BlockingRunner]:
        """Returns the methods on files of the repository that an address names."""
        return self.client_of(address.repository).files

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list | tuple):
            return [_stripped(each) for each in path]
        return _stripped(path)

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> Details:  # noqa: ARG004 - an address has no options
        return {}

    def unstrip_protocol(self, name: str) -> str:
        """Returns a path with its scheme."""
        return f"{SCHEME}{self._strip_protocol(name)}"

    def commit(
        self,
        root: str,
        message: str | CommitMeta,
        operations: Sequence[Operation] = (),
        *,
        allow_empty: bool = False,
    ) -> Committed:
        """Commits everything that is staged on a branch, `repository@branch`, as one commit.

        `operations` on tables become part of the same commit.
        """
        address = self._address(root)
        return self.files_of(address).commit(
            address.spec, message, operations, allow_empty=allow_empty
        )

    def uncommitted(self, path: str) -> list[FileDifference]:
        """Returns what is staged below a path and not committed."""
        address = self._address(path)
        found = self.files_of(address).iterate_uncommitted(address.spec, address.path)
        return list(found)

    def reset(self, path: str) -> None:
        """Drops what is staged: of a branch, `repository@branch`, or of one file."""
        address = self._address(path)
        self.files_of(address).reset(address.spec, path=address.path or None)

    def info(self, path: str, **_: Any) -> Details:
        """Returns what a path is; FileNotFoundError if nothing is there."""
        path = self._strip_protocol(path)
        address = parse_address(path)
        files = self.files_of(address)
        with as_os_errors(path):
            if address.path:
                try:
                    return _file(_root(path), files.stat(address.spec, address.path))
                except PathNotFound:
                    page = files.list(address.spec, f"{address.path}/", limit=1)
                    if not page.items and page.token is None:
                        raise
            else:
                # The root of a reference that exists is a folder, empty or not.
                files.list(address.spec, limit=1)
        return _folder(path)

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        """Returns what is in a folder, or the file itself."""
        path = self._strip_protocol(path)
        address = parse_address(path)
        prefix = f"{address.path}/" if address.path else ""
        with as_os_errors(path):
            items = self.files_of(address).iterate(address.spec, prefix, delimiter="/")
            # A file with the name of its folder and a slash is the folder itself.
            found = [_item(_root(path), each) for each in items if each.path != prefix]
        if not found:
            found = [entry for entry in [self.info(path)] if entry["type"] == "file"]
        return found if detail else [entry["name"] for entry in found]

    def find(
        self,
        path: str,
        maxdepth: int | None = None,
        withdirs: bool = False,
        detail: bool = False,
        prefix: str = "",
        **more: Any,
    ) -> Any:
        """Returns all files below a path, by one listing unless folders or a depth are wanted."""
        if maxdepth is not None or withdirs:
            return super().find(path, maxdepth, withdirs, detail, prefix=prefix, **more)
        path = self._strip_protocol(path)
        address = parse_address(path)
        below = f"{address.path}/" if address.path else ""
        with as_os_errors(path):
            items = self.files_of(address).iterate(address.spec, below + prefix)
            found = [_item(_root(path), each) for each in items if each.path != below]
        if not found and not prefix and self.isfile(path):
            found = [self.info(path)]
        names = {entry["name"]: entry for entry in found}
        return names if detail else list(names)

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | str | None = None,
        autocommit: bool = True,
        cache_options: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> ReadFile | WrittenFile:
        if mode == "rb":
            address = parse_address(path)
            with as_os_errors(path):
                info = self.files_of(address).stat(address.spec, address.path)
            size = "default" if block_size is None else block_size
            cache = dict(cache_options or {})
            return ReadFile(self, path, info, block_size=size, cache_options=cache)
        if mode in ("wb", "xb"):
            if mode == "xb" and self.exists(path):
                # One that is made after this is found when the file is uploaded.
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            return WrittenFile(
                self, path, autocommit=autocommit, if_absent=mode == "xb", **_texts(more)
            )
        raise ValueError(
            f"{path} cannot be opened with the mode {mode!r}: files are read whole or in ranges, "
            "and written anew; nothing is appended"
        )

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **_: Any
    ) -> bytes:
        """Returns the bytes of a file, or a range of them; negative numbers count from its end."""
        path = self._strip_protocol(path)
        address = parse_address(path)
        files = self.files_of(address)
        with as_os_errors(path):
            if start is None and end is None:
                return files.read(address.spec, address.path)
            size = files.stat(address.spec, address.path).size
            first, last, _step = slice(start, end).indices(size)
            if first >= last:
                return b""
            return files.read(address.spec, address.path, start=first, end=last)

    def cat_ranges(
        self,
        paths: Any,
        starts: Any,
        ends: Any,
        max_gap: int | None = None,  # noqa: ARG002 - ranges are read at the same time, as they are
        on_error: str = "return",
        **_: Any,
    ) -> list[Any]:
        """Returns the bytes of ranges of files, several of them read at the same time."""
        paths = [paths] if isinstance(paths, str) else list(paths)
        starts = [starts] * len(paths) if isinstance(starts, int | None) else list(starts)
        ends = [ends] * len(paths) if isinstance(ends, int | None) else list(ends)
        if not len(paths) == len(starts) == len(ends):
            raise ValueError("there are as many starts and ends as paths")

        def read(path: str, start: int | None, end: int | None) -> bytes | Exception:
            try:
                return self.cat_file(path, start, end)
            except (OSError, ValueError, LochanError) as error:
                if on_error == "raise":
                    raise
                return error

        with ThreadPoolExecutor(_RANGES_AT_ONCE) as pool:
            return list(pool.map(read, paths, starts, ends))

    def pipe_file(self, path: str, value: Any, mode: str = "overwrite", **more: Any) -> None:
        """Writes a file; with the mode `create` only if there is none."""
        self._put(path, value, if_absent=mode == "create", **_texts(more))

    def put_file(self, lpath: Any, rpath: str, callback: Any = None, **more: Any) -> None:
        """Uploads a file of this machine."""
        source = Path(lpath)
        if source.is_dir():
            return
        size = source.stat().st_size
        if callback is not None:
            callback.set_size(size)
        create = more.pop("mode", "overwrite") == "create"
        self._put(rpath, source, if_absent=create, **_texts(more))
        if callback is not None:
            callback.relative_update(size)

    def get_file(
        self, rpath: str, lpath: Any, callback: Any = None, outfile: Any = None, **_: Any
    ) -> None:
        """Downloads a file to this machine."""
        rpath = self._strip_protocol(rpath)
        if outfile is None and self.isdir(rpath):
            Path(lpath).mkdir(parents=True, exist_ok=True)
            return
        address = parse_address(rpath)
        with as_os_errors(rpath), self.files_of(address).open(address.spec, address.path) as stream:
            if callback is not None:
                callback.set_size(stream.end - stream.start)
            if outfile is not None:
                _write(stream, outfile, callback)
                return
            Path(lpath).parent.mkdir(parents=True, exist_ok=True)
            with Path(lpath).open("wb") as file:
                _write(stream, file, callback)

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        """Copies a file; within a repository without moving its bytes."""
        path1, path2 = self._strip_protocol(path1), self._strip_protocol(path2)
        source, target = parse_address(path1), parse_address(path2)
        if self.isdir(path1):
            return
        with as_os_errors(path1):
            if source.repository == target.repository:
                self.files_of(target).copy(
                    target.spec, target.path, source.path, source=source.spec
                )
                return
            with self.files_of(source).open(source.spec, source.path) as stream:
                info = stream.info
                self.files_of(target).put(
                    target.spec,
                    target.path,
                    iter(stream),
                    content_type=info.content_type,
                    metadata=dict(info.metadata),
                )

    def rm_file(self, path: str) -> None:
        """Removes a file."""
        path = self._strip_protocol(path)
        address = parse_address(path)
        with as_os_errors(path):
            if not self.files_of(address).delete(address.spec, address.path):
                raise PathNotFound(f"there is no file {path}")

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        """Removes files, many of them by one request."""
        found = self.expand_path(path, recursive=recursive, maxdepth=maxdepth)
        by_branch: dict[tuple[str, str], list[str]] = {}
        for each in found:
            address = parse_address(each)
            if address.path:
                by_branch.setdefault((address.repository, address.spec), []).append(address.path)
        for (repository, spec), paths in by_branch.items():
            files = self.client_of(repository).files
            with as_os_errors(str(path)):
                for batch in _batches(paths):
                    files.delete_many(spec, batch)

    def mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        """Does nothing: a folder exists when there is a file below it."""

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Does nothing: a folder exists when there is a file below it."""

    def rmdir(self, path: str) -> None:
        """Does nothing: a folder exists as long as there is a file below it."""

    def modified(self, path: str) -> datetime:
        """Returns when a file was written."""
        found: datetime = self.info(path)["mtime"]
        return found

    created = modified

    def checksum(self, path: str) -> int:
        """Returns a number that is equal as long as the file is the same."""
        info = self.info(path)
        return int(str(info.get("sha256") or "") or f"{hash(info.get('ETag')):x}".strip("-"), 16)

    def ukey(self, path: str) -> str:
        """Returns a text that is equal as long as the file is the same."""
        info = self.info(path)
        return str(info.get("sha256") or info.get("ETag") or info["name"])

    def sign(
        self,
        path: str,
        expiration: int = 100,  # noqa: ARG002 - the server decides
        **_: Any,
    ) -> str:
        """Returns a URL from which anyone may read a file for some minutes."""
        address = self._address(path)
        return self.files_of(address).presign(address.spec, address.path)

    def _put(self, path: str, body: Any, **more: Any) -> None:
        path = self._strip_protocol(path)
        address = parse_address(path)
        with as_os_errors(path):
            self.files_of(address).put(address.spec, address.path, body, **more)

    def _address(self, path: str) -> FileAddress:
        return parse_address(self._strip_protocol(path))


def _stripped(path: Any) -> str:
    return str(os.fspath(path)).removeprefix(SCHEME).rstrip("/")


def _root(path: str) -> str:
    """Returns what comes before the path of a file, as its caller has written it."""
    return path.partition("/")[0]


def _item(root: str, item: FileInfo | FilePrefix) -> Details:
    if isinstance(item, FilePrefix):
        return _folder(f"{root}/{item.path.removesuffix('/')}")
    return _file(root, item)


def _file(root: str, info: FileInfo) -> Details:
    return {
        "name": f"{root}/{info.path}",
        "size": info.size,
        "type": "file",
        "mtime": datetime.fromtimestamp(info.modified_us / 1e6, UTC),
        "ETag": info.etag,
        "sha256": info.sha256,
        "content_type": info.content_type,
        "metadata": dict(info.metadata),
    }


def _folder(path: str) -> Details:
    return {"name": path, "size": 0, "type": "directory"}


def _texts(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns those options of a write that Lochan knows."""
    return {name: options[name] for name in ("content_type", "metadata") if name in options}


def _batches(paths: Iterable[str]) -> Iterable[list[str]]:
    iterator = iter(paths)
    while batch := list(islice(iterator, FILES_DELETED_MAX)):
        yield batch


def _write(stream: Any, file: Any, callback: Any) -> None:
    for piece in stream:
        file.write(piece)
        if callback is not None:
            callback.relative_update(len(piece))
