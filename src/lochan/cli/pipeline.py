"""The last chapters of `lochan demo`: a star schema on Spark that must pass its audit.

Told on the demo's own server, after the story. Spark is an extra: where it or Java is missing, one
sentence says so and how to get it, and the demo goes on.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from lochan.base.errors import AuditFailed, Bug, Unavailable
from lochan.cli.printing import first_line, make_table, plain, short

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lochan.spark.audit.report import Report
    from lochan.spark.lake import Lake

SALES: Final = 20_000
CUSTOMERS: Final = 200
PRODUCTS: Final = 40

_MARKS: Final = {"passed": "green", "failed": "red", "error": "red", "missing": "red"}

CHECKS: Final = """\
# What must be true of the star before main may have it.

[[check]]
kind = "unique"
table = "star.customers"
columns = ["customer_id"]

[[check]]
kind = "unique"
table = "star.products"
columns = ["product_id"]

[[check]]
kind = "in_set"
table = "star.customers"
column = "country"
values = ["FI", "IE", "IS", "PT"]

[[check]]
kind = "not_null"
table = "star.sales"
columns = ["sale_id", "customer_id", "product_id"]

[[check]]
kind = "in_range"
table = "star.sales"
column = "quantity"
min = 1

[[check]]
kind = "row_count"
table = "star.sales"
min = 1000

[[check]]
kind = "refers_to"
table = "star.sales"
columns = ["customer_id"]
other = "star.customers"

[[check]]
kind = "refers_to"
table = "star.sales"
columns = ["product_id"]
other = "star.products"

[[check]]
kind = "fresh"
table = "star.sales"
column = "sold_at"
age_s_max = 86400

[[check]]
kind = "query"
name = "no product is given away"
sql = "SELECT * FROM {star.products} WHERE price <= 0"
"""


class Pipeline:
    """Told from top to bottom; leaves nothing running."""

    def __init__(self, url: str, place: Path, reports: Path, out: Console) -> None:
        self._url = url
        self._place = place
        self._reports = reports
        self._out = out

    def tell(self) -> None:
        """Tells it, or says what is missing."""
        self._chapter("9. The pipeline on Spark: two dimensions and a table of facts")
        try:
            from lochan.spark import Lake, session
        except ImportError as error:
            self._say(
                f"   left out, {error.name or 'a package'} is missing: "
                "`pip install 'lochan[spark]'` brings all that this needs"
            )
            return
        log = self._place / "spark.log"
        try:
            with _hushed(log), self._out.status("starting Spark"):
                spark = session("lochan-demo", master="local[2]", settings=_SETTINGS)
        except Unavailable as error:
            self._say(f"   left out, Spark did not start: {first_line(error.message)}")
            return
        try:
            warehouse = str(self._place / "warehouse")
            with Lake(spark, self._url, warehouse=warehouse) as lake:
                self._say(f"   Spark {spark.version} is up; what it has to say goes to {log}")
                self._runs(lake)
        finally:
            spark.stop()

    def _runs(self, lake: Lake) -> None:
        checks = self._reports / "checks.toml"
        self._reports.mkdir(parents=True, exist_ok=True)
        checks.write_text(CHECKS, "utf-8")
        self._say(f"   what must be true of them is in {checks}")
        before = lake.client.references.get("main").hash
        self._chapter("10. A run with faults: it stays on its branch, and main never sees it")
        failed = self._run(lake, checks, "faulty", is_good=False)
        self._checks(failed)
        after = lake.client.references.get("main").hash
        if after != before:
            raise Bug("a run that failed its audit was published")
        self._say(f"   main is still at {short(after)}; the branch {failed.branch} is kept a day")
        self._chapter("11. A run without: every check passes, and main moves to what was checked")
        passed = self._run(lake, checks, "repaired", is_good=True)
        self._checks(passed)
        self._say(f"   main is at {short(passed.commits.published)}; all three tables at once")
        self._history(lake, before)
        self._answer(lake)

    def _run(self, lake: Lake, checks: Path, job: str, *, is_good: bool) -> Report:
        star = build_star(lake.spark, is_good=is_good)
        paths = [self._reports / f"{job}.html", self._reports / f"{job}.json"]
        with _Watched(self._out) as watched:
            audit = lake.audited(
                "main",
                checks,
                job=job,
                publish="merge",
                message=f"Load the star ({job})",
                report=paths,
                progress=watched.tell,
            )
            try:
                with audit:
                    watched.expect(len(star) + checks.read_text("utf-8").count("[[check]]"))
                    for name, frame in star.items():
                        audit.write(frame, name)
            except AuditFailed as refusal:
                if is_good:
                    raise
                self._say(f"   refused: {refusal.message.partition(':')[0]}")
        report = audit.report
        for one in report.tables:
            self._say(f"   {one.table:<16} {one.rows:>7,} rows written on {report.branch}")
        self._say(f"   the report: {paths[0]}")
        return report

    def _checks(self, report: Report) -> None:
        table = make_table(("", "check", "seen", "wanted"))
        for one in report.checks:
            mark = Text(one.status, _MARKS[one.status])
            cells = (one.check, one.observed or one.detail, one.expected)
            table.add_row(mark, *(Text(plain(cell)) for cell in cells))
        self._table(table)

    def _history(self, lake: Lake, before: str) -> None:
        self._out.print("   what main got, as a frame (`lake.diff`):")
        found = lake.diff(before, "main").select("change", "name", "to_type").orderBy("name")
        self._frame(found)
        self._out.print("   and its log (`lake.log`):")
        log = lake.log("main").orderBy("seq", ascending=False).limit(5)
        shown = ("substr(commit, 1, 12) AS commit", "date_trunc('second', time) AS time", "message")
        self._frame(log.selectExpr(*shown))

    def _answer(self, lake: Lake) -> None:
        self._out.print("   and an answer from it, read natively from main:")
        sales, customers, products = (
            lake.read(f"star.{name}", ref="main") for name in ("sales", "customers", "products")
        )
        joined = sales.join(customers, "customer_id").join(products, "product_id")
        worth = joined.selectExpr("country", "quantity", "quantity * price AS worth")
        totals = worth.groupBy("country").sum("quantity", "worth").orderBy("country")
        self._frame(totals.toDF("country", "pieces", "worth"))

    def _frame(self, frame: DataFrame) -> None:
        table = make_table(frame.columns)
        for row in frame.collect():
            table.add_row(*(Text(plain(_shown(value))) for value in row))
        self._table(table)

    def _chapter(self, title: str) -> None:
        self._out.print(Text(f"\n{title}", "bold"))

    def _say(self, text: str) -> None:
        self._out.print(Text(plain(text)), soft_wrap=True)

    def _table(self, table: Table) -> None:
        grid = Table.grid(padding=(0, 0, 0, 6))
        grid.add_row("", table)
        self._out.print(grid)


def build_star(spark: SparkSession, *, is_good: bool) -> dict[str, DataFrame]:
    """Returns two dimensions and a table of facts; with faults, some sales fit neither."""
    products = PRODUCTS if is_good else PRODUCTS + 3
    least = 1 if is_good else -1
    return {
        "star.customers": spark.range(CUSTOMERS).selectExpr(
            "id AS customer_id",
            "concat('customer ', id) AS name",
            "element_at(array('FI', 'IE', 'IS', 'PT'), int(id % 4 + 1)) AS country",
        ),
        "star.products": spark.range(PRODUCTS).selectExpr(
            "id AS product_id", "concat('product ', id) AS title", "5 + id * 1.25D AS price"
        ),
        "star.sales": spark.range(SALES).selectExpr(
            "id AS sale_id",
            f"id % {CUSTOMERS} AS customer_id",
            f"id % {products} AS product_id",
            f"int(id % 5) + {least} AS quantity",
            "timestampadd(SECOND, -id, current_timestamp()) AS sold_at",
        ),
    }


class _Watched:
    """A bar that grows with every write and every check; gone when it is done."""

    def __init__(self, out: Console) -> None:
        self._bar = Progress(
            TextColumn("   "),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=out,
            transient=True,
            disable=not out.is_terminal,
        )
        self._task = self._bar.add_task("", total=None)
        self._is_writing = False

    def expect(self, total: int) -> None:
        """Says how many steps there will be."""
        self._bar.update(self._task, total=total)

    def tell(self, name: str, detail: str) -> None:
        """Shows what is being done; a write is over when something else begins."""
        done = int(self._is_writing) + int(name == "checked")
        self._is_writing = name == "write"
        self._bar.update(self._task, advance=done, description=plain(f"{name} {detail}"))

    def __enter__(self) -> _Watched:
        self._bar.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._bar.stop()


@contextmanager
def _hushed(log: Path) -> Iterator[None]:
    """Sends what a child that is started here says on stderr to a file, for the child's life."""
    told = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    saved = os.dup(2)
    try:
        os.dup2(told, 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(told)


_SETTINGS: Final = {"spark.sql.shuffle.partitions": "2"}


def _shown(value: Any) -> str:
    if isinstance(value, (int, float)):
        return f"{value:,.2f}" if isinstance(value, float) else f"{value:,}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ".".join(str(one) for one in value)
    return "" if value is None else str(value)
