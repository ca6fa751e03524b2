"""A lake: a Spark session, a repository and a warehouse, joined; where every Spark job begins.

    with Lake(session("daily"), "rocksdb:/data/catalog", warehouse="/data/lake") as lake:
        lake.write(frame, "shop.orders", branch="etl")
        lake.read("shop.orders", ref="etl").show()

Works with a classic session and with one through Connect. Executors and planner workers are other
processes, so `uri` is always the address of a server; for an embedded store one is started here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from pyspark.sql import DataFrame, SparkSession

from lochan.base.errors import Invalid
from lochan.client import Client
from lochan.spark.access import headers_for
from lochan.spark.serving import Service, open_service
from lochan.spark.session import prepare
from lochan.spark.storage import How

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression

    from lochan.iceberg import LochanCatalog
    from lochan.spark.audit.block import Audit
    from lochan.spark.write.assignments import Assignments
    from lochan.spark.write.parts import Mode, Steps
    from lochan.spark.write.row_changes import Where
    from lochan.spark.write.writing import Batch, Written


class Lake:
    """Tables of one repository, by reference, in one Spark session.

    `address` is a server (`http://…`) or a store (`rocksdb:PATH`, `memory:`, `postgresql://…`), for
    which a server is started on loopback and ended by `close`. `warehouse` is a directory or a
    location such as `s3://bucket/lake` for tables that are made; `files` are pyiceberg's FileIO
    properties, such as `s3.endpoint`. An address holds no credentials: the environment does, see
    `access`.
    """

    def __init__(
        self,
        spark: SparkSession,
        address: str,
        *,
        warehouse: str,
        repository: str = "default",
        files: Mapping[str, str] | None = None,
    ) -> None:
        from lochan.iceberg.files import warehouse_location

        self.spark: Final = spark
        self.repository: Final = repository
        if not warehouse:
            raise Invalid("a lake needs a warehouse: a directory, or a location like s3://bucket/x")
        self.warehouse: Final = warehouse_location(warehouse)
        self.files: Final = dict(files or {})
        # Filled by `storage`: who reads and writes the files of a bucket.
        self.reached: Final[dict[str, How]] = {}
        # Filled by `footers`: what a file without field ids holds, by mapping, schema and path.
        self.footers: Final[dict[tuple[str, str], str | None]] = {}
        prepare(spark)
        self._service: Final[Service] = open_service(address, repository)
        self.uri: Final = self._service.url
        try:
            headers = headers_for(self.uri)
            self.client: Final = Client(self.uri, repository, headers=headers)
            self.default_branch: Final = self.client.config().default_branch
        except BaseException:
            self._service.close()
            raise

    @cached_property
    def catalog(self) -> LochanCatalog:
        """The pyiceberg catalog of the repository, on its default branch."""
        from lochan.iceberg import LochanCatalog

        return LochanCatalog(
            "lake",
            uri=self.uri,
            repository=self.repository,
            ref=self.default_branch,
            warehouse=self.warehouse,
            **self.files,
            **{f"header.{name}": value for name, value in headers_for(self.uri).items()},
        )

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
        from lochan.spark.read.reading import read

        return read(self, table, ref=self._branch(ref), columns=columns, where=where)

    def write(
        self,
        frame: DataFrame,
        table: str,
        branch: str | None = None,
        mode: Mode = "append",
        **more: Any,
    ) -> Written:
        """Writes a frame into a table on a branch, as one commit."""
        from lochan.spark.write.writing import write

        return write(self, frame, table, branch=self._branch(branch), mode=mode, **more)

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
        from lochan.spark.write.writing import delete

        return delete(
            self,
            table,
            where,
            branch=self._branch(branch),
            job=job,
            message=message,
            steps=steps,
        )

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
        from lochan.spark.write.writing import update

        return update(
            self,
            table,
            set,
            where,
            branch=self._branch(branch),
            job=job,
            message=message,
            steps=steps,
        )

    def writing(
        self, branch: str | None = None, job: str | None = None, message: str | None = None
    ) -> Batch:
        """Opens a block whose writes to any number of tables become one commit at its end."""
        from lochan.spark.write.writing import Batch

        return Batch(self, branch=self._branch(branch), job=job, message=message)

    def refs(self, **more: Any) -> DataFrame:
        """Returns the branches and tags."""
        from lochan.spark.history import frames

        return frames.refs(self, **more)

    def log(self, ref: str | None = None, **more: Any) -> DataFrame:
        """Returns the commits of a reference, newest first."""
        from lochan.spark.history import frames

        return frames.log(self, self._branch(ref), **more)

    def entries(self, ref: str | None = None, **more: Any) -> DataFrame:
        """Returns what a reference holds."""
        from lochan.spark.history import frames

        return frames.entries(self, self._branch(ref), **more)

    def diff(self, before: str, after: str, **more: Any) -> DataFrame:
        """Returns the keys that differ between two references."""
        from lochan.spark.history import frames

        return frames.diff(self, before, after, **more)

    def changes(
        self, ref: str | None = None, *, since: str | None = None, **more: Any
    ) -> DataFrame:
        """Returns what the commits of a reference changed, after `since` if that is given."""
        from lochan.spark.history import frames

        return frames.changes(self, self._branch(ref), since=since, **more)

    def audited(self, target: str | None = None, checks: Any = (), **more: Any) -> Audit:
        """Opens a block whose writes are published on the target only if every check passes."""
        from lochan.spark.audit.block import Audit

        return Audit(self, self._branch(target), checks=checks, **more)

    def _branch(self, given: str | None) -> str:
        """Returns what is meant; only None is the default branch, an empty text is a mistake."""
        return self.default_branch if given is None else given

    def close(self) -> None:
        """Ends what was started here; the Spark session stays as it is."""
        self.client.close()
        if "catalog" in self.__dict__:
            self.catalog.close()
        self._service.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
