"""A lake: a Spark session, a repository and a warehouse, joined; where every Spark job begins.

    with Lake(session("daily"), "rocksdb:/data/catalog", warehouse="/data/lake") as lake:
        lake.write(frame, "shop.orders", branch="etl")
        lake.read("shop.orders", ref="etl").show()

Works with a classic session and with one through Connect. Executors and planner workers are other
processes, so `uri` is always the address of a server; for an embedded store one is started here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from getpass import getuser
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from pyiceberg.expressions import BooleanExpression
from pyspark.sql import DataFrame, SparkSession

from lochan.base.errors import Invalid
from lochan.base.limits.audits import AUDIT_TTL_S
from lochan.client import Client
from lochan.iceberg import LochanCatalog
from lochan.iceberg.files import warehouse_location
from lochan.spark.audit.audit import Audit
from lochan.spark.audit.publisher import PublishMode
from lochan.spark.audit.run_record import Progress
from lochan.spark.checks import Check
from lochan.spark.error_boundary import error_boundary
from lochan.spark.history.frames import HistoryFrames
from lochan.spark.lake_server import LakeServer, open_server
from lochan.spark.read.table_reader import read
from lochan.spark.session import HeldSettings
from lochan.spark.storage import FileAccess
from lochan.spark.write.assignments import Assignments
from lochan.spark.write.bases import OnChange
from lochan.spark.write.batch import Batch
from lochan.spark.write.files import Measures
from lochan.spark.write.row_changes import Where
from lochan.spark.write.table_write import Mode, Steps, Written


class Lake(HistoryFrames):
    """Tables of one repository, by reference, in one Spark session, and its history as frames.

    `address` is a server (`http://…`) or a store (`rocksdb:PATH`, `memory:`, `postgresql://…`), for
    which a server is started on loopback and ended by `close`. `warehouse` is a directory or a
    location such as `s3://bucket/lake` for tables that are made; `files` are pyiceberg's FileIO
    properties, such as `s3.endpoint`. An address holds no credentials: see
    `access`. `author` is the author of commits, by default the user that runs this process.
    """

    @error_boundary
    def __init__(
        self,
        spark: SparkSession,
        address: str,
        *,
        warehouse: str,
        repository: str = "default",
        files: Mapping[str, str] | None = None,
        author: str | None = None,
    ) -> None:
        self.spark = spark
        self.repository = repository
        if not warehouse:
            raise Invalid("a lake needs a warehouse: a directory, or a location like s3://bucket/x")
        self.warehouse: Final = warehouse_location(warehouse)
        self.files: Final = dict(files or {})
        self.author: Final = _author(author)
        self.application: Final = _application(spark)
        # Filled by `storage`: what reads and writes the files of a bucket.
        self.reached: Final[dict[str, FileAccess]] = {}
        # Filled by `footers`: what a file without field ids holds, by mapping, schema and path.
        self.footers: Final[dict[tuple[str, str], str | None]] = {}
        # What reading and writing need on a session, until this is closed.
        self.settings: Final = HeldSettings()
        self._server: Final[LakeServer] = open_server(address, repository)
        self.uri = self._server.url
        try:
            self.settings.apply(spark)
            self.client = Client(self.uri, repository)
            self.default_branch = self.client.config().default_branch
        except BaseException:
            self.settings.release()
            self._server.close()
            raise

    @cached_property
    def catalog(self) -> LochanCatalog:
        """The pyiceberg catalog of the repository, on its default branch."""
        self._check_open()
        return LochanCatalog(
            "lake",
            uri=self.uri,
            repository=self.repository,
            ref=self.default_branch,
            warehouse=self.warehouse,
            author=self.author,
            **self.application,
            **self.files,
        )

    @error_boundary
    def read(
        self,
        table: str,
        ref: str | None = None,
        columns: Sequence[str] | None = None,
        where: str | BooleanExpression | None = None,
    ) -> DataFrame:
        """Returns a table as it is on a branch, tag or commit; by default on the default branch.

        `where` chooses rows, and before that files: what no row of a file can match is not opened.
        """
        return read(self, table, ref=self._branch(ref), columns=columns, where=where)

    @error_boundary
    def write(
        self,
        frame: DataFrame,
        table: str,
        branch: str | None = None,
        mode: Mode = "append",
        *,
        job: str | None = None,
        keys: Sequence[str] = (),
        message: str | None = None,
        partition_by: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        required: Sequence[str] = (),
        create: bool = True,
        on_change: OnChange = "conflict",
        measures: Measures | None = None,
        steps: Steps | None = None,
    ) -> Written:
        """Writes a frame into a table on a branch, as one commit.

        `mode` is `append`, `overwrite`, `overwrite_partitions`, or `merge` by `keys`. Rows that
        others have changed since the frame read them are not removed, it is a Conflict; unless
        `on_change` is `replace`. A `job` that has written into the table before does nothing.

        A table that is missing is made, unless `create` is false, with `partition_by` such as
        `["day(ts)", "bucket(16, id)"]`, with table `properties`, and with columns that may be NULL
        unless they are `required`. `measures` are columns to be computed meanwhile; `steps` is
        called after each step.
        """
        with self._batch(branch, job, message, steps) as batch:
            batch.write(
                frame,
                table,
                mode,
                keys=keys,
                partition_by=partition_by,
                properties=properties,
                required=required,
                create=create,
                on_change=on_change,
                measures=measures,
            )
        return batch.written[0]

    @error_boundary
    def delete(
        self,
        table: str,
        where: Where,
        branch: str | None = None,
        *,
        job: str | None = None,
        message: str | None = None,
        steps: Steps | None = None,
    ) -> Written:
        """Deletes the rows that a condition is true for; only files that have some are replaced."""
        with self._batch(branch, job, message, steps) as batch:
            batch.delete(table, where)
        return batch.written[0]

    @error_boundary
    def update(
        self,
        table: str,
        set: Assignments,  # noqa: A002 - the word of SQL
        where: Where,
        branch: str | None = None,
        *,
        job: str | None = None,
        message: str | None = None,
        steps: Steps | None = None,
    ) -> Written:
        """Gives columns new values in the rows that a condition is true for.

        `set` has expressions of SQL, Columns or values by column; a text is an expression.
        """
        with self._batch(branch, job, message, steps) as batch:
            batch.update(table, set, where)
        return batch.written[0]

    @error_boundary
    def writing(
        self, branch: str | None = None, job: str | None = None, message: str | None = None
    ) -> Batch:
        """Opens a block whose writes to any number of tables become one commit at its end."""
        return self._batch(branch, job, message)

    def _batch(
        self, branch: str | None, job: str | None, message: str | None, steps: Steps | None = None
    ) -> Batch:
        return Batch(self, branch=self._branch(branch), job=job, message=message, steps=steps)

    @error_boundary
    def audited(
        self,
        target: str | None = None,
        checks: str | Path | Check | Iterable[Check | str | Path] = (),
        *,
        branch: str | None = None,
        ttl_s: float = AUDIT_TTL_S,
        publish: PublishMode = "merge",
        job: str | None = None,
        message: str | None = None,
        report: str | Path | Sequence[str | Path] = (),
        progress: Progress | None = None,
    ) -> Audit:
        """Opens a block whose writes are published on the target only if every check passes.

        `checks` are values of `lochan.spark.checks`, the path of a file of them, or a list of both.
        The writes go to a branch that ends after `ttl_s` seconds, named `branch` if that is given.
        `publish` is `merge`, one commit for the whole run, or `fast-forward`, which keeps the
        commits of the run if each of them passes every check. A `job` that was published does
        nothing when it is run again. `report` is one path or several, `.html` or `.json`;
        `progress` is called with each step.
        """
        return Audit(
            self,
            self._branch(target),
            checks=checks,
            branch=branch,
            ttl_s=ttl_s,
            publish=publish,
            job=job,
            message=message,
            report=report,
            progress=progress,
        )

    def close(self) -> None:
        """Stops the server if it was started here, and restores the settings of the session.

        Frames that were read are run before: later Spark would look for columns by their names.
        """
        self._is_closed = True
        self.settings.release()
        self.client.close()
        if "catalog" in self.__dict__:
            self.catalog.close()
        self._server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _author(given: str | None) -> str:
    """Returns the author that was given, or else the user of this process; '' if unknown.

    The name proves nothing, because every client writes its own.
    """
    if given is not None:
        if not given.strip():
            raise Invalid(f"an author has a name, not {given!r}; leave it out for the user")
        return given
    try:
        return getuser()
    except (KeyError, ImportError, OSError):
        # In a container a user may have a number and no name.
        return ""


def _application(spark: SparkSession) -> Mapping[str, str]:
    """Returns the properties that name this application and its run in its commits.

    Iceberg's own client for Nessie uses the same names, so that tools which look for them find ours
    too.
    """
    run = spark.conf.get("spark.app.id", None)
    return {"application-type": "lochan-spark", **({"app-id": run} if run else {})}
