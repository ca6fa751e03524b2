"""A repository with staged files on the memory store; shared by the tests of staging."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from threading import Lock
from typing import Any

from lochan.base.ids import ObjId, StagingToken
from lochan.base.keys import Key, file_key, table_key
from lochan.base.names import RefName
from lochan.codec.elements import encode_file, pack_table
from lochan.kernel.build import Head
from lochan.kernel.plan import CommitPlan, Operation
from lochan.kernel.provenance import Initiator
from lochan.kernel.publish import Published, Publisher
from lochan.kernel.references import NewReferenceRow
from lochan.kv.store import Store
from lochan.model.entries import FileEntry
from lochan.persist.staged import StagedRecords
from lochan.staging.committer import CommitTexts
from lochan.staging.staging import Staging
from lochan.staging.tokens import TokenRows
from tests.kernel.workbench import MAIN, Bench

SIDE = RefName("side")
HOUR_US = 3_600 * 1_000_000


class StagingBench(Bench):
    """One server's view of a repository with files."""

    def __init__(self, store: Store | None = None, *, seed: int = 1, fresh: bool = True) -> None:
        super().__init__(store, seed=seed, fresh=fresh)
        self.staging = Staging(self.context, self.names, Lock)
        self.records = StagedRecords(self.context.store, self.context.instance)
        self.token_rows = TokenRows(self.context.store, self.context.instance)

    def other(self, store: Store | None = None, *, seed: int = 2) -> StagingBench:
        """Another server on the same store; nothing is in its memory."""
        return StagingBench(self.store if store is None else store, seed=seed, fresh=False)

    def put(self, path: str, content: str = "", branch: RefName = MAIN) -> FileEntry:
        return self.staging.writer.put(branch, file_key(path), entry_of(content or path))

    def delete(self, path: str, branch: RefName = MAIN) -> bool:
        return self.staging.writer.delete(branch, file_key(path))

    def read(self, path: str, branch: RefName = MAIN) -> str | None:
        entry = self.staging.reader.find(branch, file_key(path))
        return None if entry is None else entry.address

    def commit_files(
        self, message: str = "files", branch: RefName = MAIN, **more: Any
    ) -> Published:
        publisher = self.publisher if branch == MAIN else Publisher(self.context, branch)
        return self.staging.committer.commit(publisher, branch, CommitTexts(message), **more)

    def files(self, branch: RefName = MAIN) -> dict[str, str]:
        """What the head of a branch holds, without staged files."""
        return committed_files(self, ObjId(self.row(branch).pointer))

    def branch(self, name: RefName, source: RefName = MAIN) -> None:
        pointer = ObjId(self.row(source).pointer)
        self.names.create_many([NewReferenceRow(name, "BRANCH", pointer)], Initiator("test"))

    def drop(self, name: RefName) -> None:
        self.names.delete(name, ObjId(self.row(name).pointer), Initiator("test"))

    def partitions(self) -> dict[bytes, int]:
        """The number of records of every token that is registered."""
        page = self.token_rows.scan(b"", 1_000)
        assert page.next_start is None
        tokens = [found.row.token for found in page.rows]
        return {token: len(list(self.records.iterate(StagingToken(token)))) for token in tokens}


class TablePut:
    """A proposal that puts a table, if it is there as expected."""

    incarnation = None

    def __init__(self, name: str, value: str = "", *, absent: bool = False) -> None:
        element = pack_table(1, ObjId(sha256((value or name).encode()).digest()), bytes(16))
        expected = {"expected": None} if absent else {}
        self.operation = Operation(table_key([name]), element, **expected)

    def plan(self, head: Head) -> Sequence[CommitPlan]:
        return [CommitPlan([self.operation], "table")]


class FilePut:
    """A proposal that puts a file, as a merge does that has already looked at what is staged."""

    incarnation = None

    def __init__(self, path: str, content: str) -> None:
        self.operation = Operation(file_key(path), encode_file(entry_of(content)))

    def plan(self, head: Head) -> Sequence[CommitPlan]:
        return [CommitPlan([self.operation], "file")]


def entry_of(content: str, **more: Any) -> FileEntry:
    """The entry of a file: its content is its address, so that tests can read it."""
    digest = sha256(content.encode()).digest()
    return FileEntry(content, len(content), 1, digest, etag=f"etag-{content}", **more)


def committed_files(bench: Bench, commit: ObjId) -> dict[str, str]:
    from lochan.base.keys import Universe, file_path
    from lochan.codec.elements import decode_file

    view = bench.context.views.load(commit)
    found = bench.content(view, Universe.FILES)
    return {file_path(Key(key)): decode_file(raw).address for key, raw in found.items()}


def messages(bench: Bench, branch: RefName = MAIN) -> list[str]:
    return [view.body.message for view in bench.log(branch) if view.body is not None]


__all__ = ["MAIN", "SIDE", "Published", "StagingBench", "TablePut", "entry_of"]
