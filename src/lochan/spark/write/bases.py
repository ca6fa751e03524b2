"""What a write may replace: the table as it was for the frame, and no change that came since.

A write that removes rows has a base, found once, when it begins:

| the frame | the base |
|---|---|
| reads the table | the snapshot that its plan reads |
| reads the table on another branch that has all that the table has | the snapshot at the call |
| does not read the table | the snapshot at the call |

At the commit the base is compared with the table as the commit meets it, by files:

| mode | it is a Conflict if |
|---|---|
| `overwrite` | any file was added or removed since the base |
| `overwrite_partitions` | one of a partition that is replaced was, or any file of deletes |
| `merge` of a frame that reads the table | a file was removed, or one with matching rows added |

A merge of a frame that does not read the table has no base: it replaces rows by key whatever they
are. The files are looked at only if the table has another snapshot than the base.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Literal, get_args

import msgspec
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyspark.sql import DataFrame

from lochan.base.errors import Conflict, NotFound
from lochan.base.limits.spark_writes import SPARK_CONFLICT_COMMITS_MAX
from lochan.iceberg.names import key_of
from lochan.model.commits import LogEntry
from lochan.spark.provenance import TableRead, find_table_reads, place_of
from lochan.spark.write.snapshots import all_files, files_of_partitions

if TYPE_CHECKING:
    from lochan.spark.lake import Lake

OnChange = Literal["conflict", "replace"]
ON_CHANGES: Final = get_args(OnChange)

# A name of a branch or a tag, and neither a hash nor a place relative to something.
_HASH: Final = re.compile(r"[0-9a-f]{8,64}")
_RELATIVE: Final = re.compile(r"[@~^*]")
_MESSAGE_CHARACTERS_MAX: Final = 200


class Base(msgspec.Struct, frozen=True, kw_only=True):
    """A table at the snapshot whose rows a write may replace; None where there was no table."""

    lake: Lake
    branch: str
    name: str
    table: Table | None
    was_read: bool

    @property
    def snapshot_id(self) -> int | None:
        """The snapshot; None where the table has none."""
        return None if self.table is None else self.table.metadata.current_snapshot_id

    def check_all(self, now: Table, commit: str) -> None:
        """Raises Conflict if any file of the table is not as in the base."""
        if self._is_moved(now) and self._paths(now, commit) != _paths(all_files(now)):
            raise self.conflict(commit)

    def check_partitions(self, now: Table, added: list[DataFile], commit: str) -> None:
        """Raises Conflict if a partition that gets new files is not as in the base."""
        if not self._is_moved(now):
            return
        then = self._then(now, commit)
        mine = set() if then is None else _paths(files_of_partitions(then, added))
        if mine != _paths(files_of_partitions(now, added)) or _deletes(then) != _deletes(now):
            raise self.conflict(commit)

    def check_merge(self, now: Table, removed: Iterable[DataFile], commit: str) -> None:
        """Raises Conflict if rows that the frame may have read are not as in the base."""
        if not self._is_moved(now):
            return
        mine = self._paths(now, commit)
        if not mine <= _paths(all_files(now)) or not _paths(removed) <= mine:
            raise self.conflict(commit)
        if _deletes(self._then(now, commit)) != _deletes(now):
            raise self.conflict(commit)

    def conflict(self, commit: str) -> Conflict:
        """Returns the error that names the commit which changed the table last."""
        since = "after the frame read it" if self.was_read else "after this write began"
        return _conflict(self.lake, self.branch, self.name, commit, since)

    def _is_moved(self, now: Table) -> bool:
        if self.table is None or _uuid(self.table) != _uuid(now):
            return True
        return self.snapshot_id != now.metadata.current_snapshot_id

    def _then(self, now: Table, commit: str) -> Table | None:
        """Returns the table at the base, by what is known of it now; None if there was no file.

        Raises Conflict if that is not known: the snapshot has expired, or the table is another one.
        """
        snapshot_id = self.snapshot_id
        if snapshot_id is None:
            return None
        is_same = self.table is not None and _uuid(self.table) == _uuid(now)
        if not is_same or now.snapshot_by_id(snapshot_id) is None:
            raise self.conflict(commit)
        return at_snapshot(now, snapshot_id)

    def _paths(self, now: Table, commit: str) -> set[str]:
        then = self._then(now, commit)
        return set() if then is None else _paths(all_files(then))


def find_base(lake: Lake, branch: str, name: str, table: Table | None, frame: DataFrame) -> Base:
    """Returns the base of a write of a frame to a table that was just loaded from the branch."""
    at_call = Base(lake=lake, branch=branch, name=name, table=table, was_read=False)
    place = place_of(lake, name)
    table_uuid = None if table is None else _uuid(table)
    table_reads = [each for each in find_table_reads(frame) if each.is_of(place, table_uuid)]
    if not table_reads:
        return at_call
    if table is None:
        if any(each.ref == branch for each in table_reads):
            raise _conflict(lake, branch, name, _head(lake, branch), "after the frame read it")
        return at_call
    table_read = _oldest(table_reads, branch, table.metadata)
    if _uuid(table) == table_read.table_uuid:
        if (
            table_read.snapshot_id is None
            or table.snapshot_by_id(table_read.snapshot_id) is not None
        ):
            then = at_snapshot(table, table_read.snapshot_id)
            return Base(lake=lake, branch=branch, name=name, table=then, was_read=True)
    if _is_other(table_read.ref, branch) and _has_all(lake, table_read, name, table.metadata):
        return at_call
    if _is_other(table_read.ref, branch):
        raise Conflict(
            f"the frame reads {name} on {table_read.ref}, and {name} on {branch} has changes that "
            f"are not there; nothing was written. Merge {branch} into {table_read.ref} and run it "
            'again, or write with on_change="replace" to replace whatever is there'
        )
    raise _conflict(lake, branch, name, _head(lake, branch), "after the frame read it")


def at_snapshot(table: Table, snapshot_id: int | None) -> Table:
    """Returns a table as it was at one of its snapshots."""
    if table.metadata.current_snapshot_id == snapshot_id:
        return table
    metadata = table.metadata.model_copy(update={"current_snapshot_id": snapshot_id})
    return Table(table.name(), metadata, table.metadata_location, table.io, table.catalog)


def _oldest(table_reads: list[TableRead], branch: str, metadata: TableMetadata) -> TableRead:
    """Returns the read that is the base.

    Those of the branch itself must all be of its present state. Older states that were asked for
    by a commit or a tag are read on purpose where the frame reads the present one too.
    """

    def age(table_read: TableRead) -> tuple[bool, bool, int]:
        is_present = (
            table_read.table_uuid == str(metadata.table_uuid)
            and table_read.snapshot_id == metadata.current_snapshot_id
        )
        found = None
        if table_read.snapshot_id is not None:
            found = metadata.snapshot_by_id(table_read.snapshot_id)
        is_stale = table_read.ref == branch and not is_present
        # What the table does not know comes first, then the oldest.
        order = 0 if found is None else found.sequence_number or found.timestamp_ms
        return not is_stale, not is_present, order

    return min(table_reads, key=age)


def _is_other(ref: str, branch: str) -> bool:
    is_name = _HASH.fullmatch(ref) is None and _RELATIVE.search(ref) is None
    return is_name and ref != branch


def _has_all(lake: Lake, table_read: TableRead, name: str, target: TableMetadata) -> bool:
    """Returns whether the snapshot that was read is made from the present one of the target."""
    if target.current_snapshot_id is None:
        return True
    try:
        there = lake.catalog.at(table_read.ref).load_table(name).metadata
    except (NoSuchTableError, NotFound):
        return False
    if str(there.table_uuid) != table_read.table_uuid or there.table_uuid != target.table_uuid:
        return False
    by_id = {each.snapshot_id: each.parent_snapshot_id for each in there.snapshots}
    at = table_read.snapshot_id
    while at is not None and at != target.current_snapshot_id:
        at = by_id.pop(at, None)
    return at is not None


def _paths(files: Iterable[DataFile]) -> set[str]:
    return {file.file_path for file in files}


def _deletes(table: Table | None) -> set[str]:
    files = () if table is None else all_files(table)
    return {each.file_path for each in files if each.content != DataFileContent.DATA}


def _uuid(table: Table) -> str:
    return str(table.metadata.table_uuid)


def _head(lake: Lake, branch: str) -> str:
    return lake.client.references.get(branch).hash


def _conflict(lake: Lake, branch: str, name: str, commit: str, since: str) -> Conflict:
    other = _find_last_change(lake, name, commit)
    by = f"by {_described(other)}" if other is not None else f"before {commit}"
    return Conflict(
        f"{name} on {branch} was changed {by} {since}; nothing was written. Read the table again "
        'and run it again, or write with on_change="replace" to replace whatever is there'
    )


def _find_last_change(lake: Lake, name: str, commit: str) -> LogEntry | None:
    """Returns the last commit that changed a table, if a page of the log has it."""
    key = key_of(name)
    page = lake.client.history.log(commit, SPARK_CONFLICT_COMMITS_MAX, fetch_all=True)
    for entry in page.items:
        for operation in entry.operations or ():
            if operation.key == key:
                return entry
    return None


def _described(entry: LogEntry) -> str:
    meta = entry.meta
    at = meta.commit_time_us
    when = (
        "" if at is None else f"{datetime.fromtimestamp(at // 1_000_000, UTC):%Y-%m-%d %H:%M:%SZ}"
    )
    author = ", ".join(meta.authors) or meta.committer
    about = ", ".join(part for part in (author, when) if part)
    message = meta.message.partition("\n")[0][:_MESSAGE_CHARACTERS_MAX]
    return f"commit {meta.hash} ({about}: {message!r})" if about else f"commit {meta.hash}"
