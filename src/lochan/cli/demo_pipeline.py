"""The last steps of `lochan demo`: a star schema on Spark that must pass its audit.

They run on the demo's server after the steps of `demo_catalog`. Spark is an extra: if it or Java is
missing, one line names what is missing and how to install it, and the demo goes on.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

from lochan.base.errors import AuditFailed, Bug, Unavailable
from lochan.cli.output import DemoOutput, first_line, plain, short

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lochan.spark.audit.report import Report
    from lochan.spark.lake import Lake

SALES: Final = 20_000
CUSTOMERS: Final = 200
PRODUCTS: Final = 40

_STATUS_STYLES: Final = {"passed": "green", "failed": "red", "error": "red", "missing": "red"}

CHECKS: Final = """\
# The checks that the star must pass before it is published to main.

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


class PipelineDemo:
    """The steps on Spark, from top to bottom; stops Spark at the end."""

    def __init__(self, url: str, directory: Path, reports: Path, output: DemoOutput) -> None:
        self._url = url
        self._directory = directory
        self._reports = reports
        self._output = output

    def run(self) -> None:
        """Runs all steps, or prints what is missing."""
        self._output.heading("13. The pipeline on Spark: two dimensions and a fact table")
        try:
            from lochan.spark import Lake, session
        except ImportError as error:
            self._output.line(
                f"skipped, {error.name or 'a package'} is missing: "
                "`pip install 'lochan[spark]'` installs it"
            )
            return
        log = self._directory / "spark.log"
        try:
            with _stderr_to(log), self._output.console.status("starting Spark"):
                spark = session("lochan-demo", master="local[2]", settings=_SETTINGS)
        except Unavailable as error:
            self._output.line(f"skipped, Spark did not start: {first_line(error.message)}")
            return
        try:
            warehouse = str(self._directory / "warehouse")
            with Lake(spark, self._url, warehouse=warehouse) as lake:
                self._output.line(f"Spark {spark.version} has started; its log is {log}")
                self._run_pipelines(lake)
        finally:
            spark.stop()

    def _run_pipelines(self, lake: Lake) -> None:
        checks = self._reports / "checks.toml"
        self._reports.mkdir(parents=True, exist_ok=True)
        checks.write_text(CHECKS, "utf-8")
        self._output.line(f"the checks that the tables must pass are in {checks}")
        before = lake.client.references.get("main").hash
        self._output.heading("14. A run with faults stays on its branch; main does not change")
        failed = self._run_pipeline(lake, checks, "faulty", is_good=False)
        self._print_checks(failed)
        after = lake.client.references.get("main").hash
        if after != before:
            raise Bug("a run that failed its audit was published")
        self._output.line(
            f"main is still at {short(after)}; the branch {failed.branch} is kept for a day"
        )
        self._output.heading("15. A run without faults passes every check and is published to main")
        passed = self._run_pipeline(lake, checks, "repaired", is_good=True)
        self._print_checks(passed)
        self._output.line(f"main is at {short(passed.commits.published)}; all three tables at once")
        self._print_history(lake, before)
        self._print_totals(lake)

    def _run_pipeline(self, lake: Lake, checks: Path, job: str, *, is_good: bool) -> Report:
        star = build_star(lake.spark, is_good=is_good)
        paths = [self._reports / f"{job}.html", self._reports / f"{job}.json"]
        with self._output.console.status("writing") as status:

            def show(step: str, detail: str) -> None:
                status.update(Text(plain(f"{step} {detail}")))

            audit = lake.audited(
                "main",
                checks,
                job=job,
                publish="merge",
                message=f"Load the star ({job})",
                report=paths,
                progress=show,
            )
            try:
                with audit:
                    for name, frame in star.items():
                        audit.write(frame, name)
            except AuditFailed as refusal:
                if is_good:
                    raise
                self._output.line(f"refused: {refusal.message.partition(':')[0]}")
        report = audit.report
        for each in report.tables:
            self._output.line(f"{each.table:<16} {each.rows:>7,} rows written on {report.branch}")
        self._output.line(f"the report: {paths[0]}")
        return report

    def _print_checks(self, report: Report) -> None:
        self._output.table(
            ("", "check", "observed", "expected"),
            (
                (
                    Text(each.status, _STATUS_STYLES[each.status]),
                    each.check,
                    each.observed or each.detail,
                    each.expected,
                )
                for each in report.checks
            ),
        )

    def _print_history(self, lake: Lake, before: str) -> None:
        self._output.line("the changes on main as a frame (`lake.diff`):")
        self._print_frame(
            lake.diff(before, "main").select("change", "name", "to_type").orderBy("name")
        )
        self._output.line("the log of main (`lake.log`):")
        log = lake.log("main").orderBy("seq", ascending=False).limit(5)
        self._print_frame(
            log.selectExpr(
                "substr(commit, 1, 12) AS commit", "date_trunc('second', time) AS time", "message"
            )
        )

    def _print_totals(self, lake: Lake) -> None:
        self._output.line("a query on main, read natively:")
        sales, customers, products = (
            lake.read(f"star.{name}", ref="main") for name in ("sales", "customers", "products")
        )
        joined = sales.join(customers, "customer_id").join(products, "product_id")
        worth = joined.selectExpr("country", "quantity", "quantity * price AS worth")
        totals = worth.groupBy("country").sum("quantity", "worth").orderBy("country")
        self._print_frame(totals.toDF("country", "pieces", "worth"))

    def _print_frame(self, frame: DataFrame) -> None:
        self._output.table(
            frame.columns, ([_text(value) for value in row] for row in frame.collect())
        )


def build_star(spark: SparkSession, *, is_good: bool) -> dict[str, DataFrame]:
    """Returns two dimensions and a fact table; with faults, some sales fail the checks."""
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


@contextmanager
def _stderr_to(log: Path) -> Iterator[None]:
    """Gives a process that is started in the block a file as its standard error."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    saved = os.dup(2)
    try:
        os.dup2(file, 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(file)


_SETTINGS: Final = {"spark.sql.shuffle.partitions": "2"}


def _text(value: Any) -> str:
    if isinstance(value, (int, float)):
        return f"{value:,.2f}" if isinstance(value, float) else f"{value:,}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ".".join(str(each) for each in value)
    return "" if value is None else str(value)
