"""Jobs that have written a table: recorded in commits, and compared when they run again.

A commit that a job makes records the job beside the table (`lochan.catalog.jobs`), with a
fingerprint of what was written: in which mode, how many rows, which columns. The record is found by
one request, however old it is. It counts unless the table's own metadata shows that the snapshot
of the job was rolled back; if its snapshots were expired, the record decides.

A job that runs again with other rows is an error: to write them would repeat what was written, and
to leave them out would lose them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Final

import msgspec
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyspark.sql.types import StructType

from lochan.base.errors import Conflict, Corrupt, Invalid, TooLarge
from lochan.base.keys import job_name
from lochan.base.limits.spark_writes import SPARK_JOB_CHARACTERS_MAX
from lochan.iceberg.names import key_of

if TYPE_CHECKING:
    from lochan.spark.lake import Lake

# Longer lists of columns are recorded by their hash; a record has room for a few figures only.
_COLUMNS_CHARACTERS_MAX: Final = 1_000
_SHOWN_CHARACTERS: Final = 200


class JobFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a commit records of a job: what was written, and the snapshot that it became."""

    mode: str
    columns: str
    rows: int
    files: int
    bytes: int
    snapshot: int
    sequence: int
    time_ms: int

    def texts(self) -> Mapping[str, str]:
        """Returns the facts as a commit holds them."""
        return {name: str(value) for name, value in msgspec.structs.asdict(self).items()}


def check_job_name(job: str, characters_max: int = SPARK_JOB_CHARACTERS_MAX) -> str:
    """Returns the name of a job; Invalid or TooLarge if no commit may hold it."""
    if not job or job != job.strip():
        raise Invalid(f"a job has a name, without spaces around it, not {job!r}")
    if len(job) > characters_max:
        raise TooLarge(f"the name of this job has {characters_max} characters at most")
    job_name(job)
    return job


def find_job(lake: Lake, table: str, commit: str, job: str) -> JobFacts | None:
    """Returns what a commit records of a job for a table that it holds; None if nothing."""
    found = lake.client.contents.find_jobs(commit, key_of(table), [job])
    if not found:
        return None
    try:
        return msgspec.convert(dict(found[0].facts), JobFacts, strict=False)
    except msgspec.ValidationError as error:
        raise Corrupt(
            f"the record of the job {job!r} for {table} cannot be read: {error}"
        ) from None


def is_in_table(metadata: TableMetadata, facts: JobFacts) -> bool:
    """Returns whether a table has what a job has written, according to the table's metadata.

    The parents of the present snapshot are followed down to the snapshot of the job. If they end
    before, because snapshots were expired, the record decides.
    """
    by_id: dict[int | None, Snapshot] = {each.snapshot_id: each for each in metadata.snapshots}
    snapshot = by_id.get(metadata.current_snapshot_id)
    if snapshot is None:
        return False
    while snapshot is not None:
        if snapshot.snapshot_id == facts.snapshot:
            return True
        # Tables of format 1 have no numbers.
        age = (snapshot.sequence_number or 0, snapshot.timestamp_ms)
        is_older = age < (facts.sequence, facts.time_ms)
        if is_older or snapshot.parent_snapshot_id is None:
            return False
        snapshot = by_id.get(snapshot.parent_snapshot_id)
    return True


def columns_text(schema: StructType) -> str:
    """Returns the columns of a frame, in whatever order they come, as records keep them."""
    return short_text(
        ", ".join(sorted(f"{each.name} {each.dataType.simpleString()}" for each in schema))
    )


def short_text(text: str) -> str:
    """Returns a text, or, if it is too long for a record, its beginning and its hash."""
    if len(text) <= _COLUMNS_CHARACTERS_MAX:
        return text
    digest = sha256(text.encode("utf-8", "replace")).hexdigest()
    return f"{text[:_SHOWN_CHARACTERS]}… sha256 {digest}"


def check_same(
    table: str, job: str, before: JobFacts, *, mode: str, columns: str, rows: int | None
) -> None:
    """Raises Conflict, with what differs, if a job that was done comes with something else.

    Rows are None where their number cannot be compared.
    """
    compared = [("mode", before.mode, mode), ("columns", before.columns, columns)]
    compared += [] if rows is None else [("rows", str(before.rows), str(rows))]
    wrong = [f"{name} {then} then and {now} now" for name, then, now in compared if then != now]
    if wrong:
        raise Conflict(
            f"the job {job!r} has written {table} before, and not the same: {'; '.join(wrong)}. "
            "Nothing is written. Give another name to what is another job, or take back what the "
            "first run wrote"
        )


def jobs_of_others(lake: Lake, table: str, commit: str, prefix: str, ours: str) -> Iterator[str]:
    """Yields the first jobs of a table that begin with a prefix but not with ours, two at most."""
    after = f"{ours[:-1]}{chr(ord(ours[-1]) + 1)}"
    for start, end in (("", ours), (after, "")):
        page = lake.client.contents.jobs(commit, key_of(table), 1, start=start, prefix=prefix)
        for record in page.items:
            if not end or record.job < end:
                yield record.job
