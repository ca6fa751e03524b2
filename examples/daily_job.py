"""A daily job: one day's orders and the totals by day, published together or not at all.

    python examples/daily_job.py 2026-10-15

Run it again for the same day and nothing happens: the name of the job identifies it, and the day's
report stays. Run it for a day with faults and it ends with code 1; the data stays on its branch,
and the report states the reason.
"""

from __future__ import annotations

import argparse
import datetime as dt
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from lochan.base.errors import AuditFailed
from lochan.spark import Lake, session

HERE = Path(__file__).parent


def read_orders(spark: SparkSession, day: dt.date, faults: int) -> DataFrame:
    """Returns the orders of a day; yours would come from files, a database or a topic."""
    first = day.toordinal() * 1_000
    return spark.range(first, first + 500).selectExpr(
        "id AS order_id",
        "concat('customer ', id % 40) AS customer",
        f"CASE WHEN id < {first + faults} THEN -1D ELSE 1 + id % 90 END AS amount",
        f"DATE'{day}' AS day",
    )


def run(lake: Lake, day: dt.date, reports: Path, faults: int = 0) -> str:
    """Runs the job for a day; returns the outcome."""
    audit = lake.audited(
        "main",
        checks=HERE / "checks.toml",
        job=f"daily-{day}",
        publish="merge",
        message=f"Orders of {day}",
        report=[reports / f"{day}.html", reports / f"{day}.json"],
    )
    with audit:
        orders = read_orders(lake.spark, day, faults)
        audit.write(orders, "shop.orders", mode="overwrite_partitions", partition_by=["day"])
        totals = audit.read("shop.orders").groupBy("day").sum("amount").toDF("day", "amount")
        audit.write(totals, "shop.totals", mode="overwrite")
    return audit.report.outcome


def main() -> int:
    """Runs the job as a command."""
    words = argparse.ArgumentParser(description="Publish the orders of one day.")
    words.add_argument("day", type=dt.date.fromisoformat)
    words.add_argument("--catalog", default="rocksdb:catalog", help="a server or a store")
    words.add_argument("--warehouse", default="warehouse")
    words.add_argument("--reports", type=Path, default=Path("reports"))
    words.add_argument(
        "--faults", type=int, default=0, help="orders that are wrong, to see it fail"
    )
    given = words.parse_args()
    with Lake(session("daily"), given.catalog, warehouse=given.warehouse) as lake:
        try:
            outcome = run(lake, given.day, given.reports, given.faults)
        except AuditFailed as refusal:
            print(refusal.message, file=sys.stderr)
            return 1
    print(f"{given.day}: {outcome}; see {given.reports / f'{given.day}.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
