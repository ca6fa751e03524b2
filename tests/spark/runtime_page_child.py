"""Runs the blocks of docs/spark-iceberg-runtime.md in order; prints the output of each as JSON.

python -m tests.spark.runtime_page_child ADDRESS WAREHOUSE
"""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from tests.architecture.tree import ROOT

PAGE = (ROOT / "docs/spark-iceberg-runtime.md").read_text("utf-8")
BLOCKS = re.findall(r"```(python|sql)\n(.*?)```", PAGE, re.DOTALL)
REFUSED = re.findall(r"^\| `{1,2}([A-Z].*?) ?`{1,2} \| (.*?) \|", PAGE, re.MULTILINE)


def statements(block: str) -> Iterator[tuple[str, list[str]]]:
    """Yields statements of SQL, each with the rows that the page shows below it."""
    for statement, shown in re.findall(r"([^;]+);\n?((?:-- .*\n?)*)", block):
        yield statement.strip(), [line.removeprefix("-- ") for line in shown.splitlines()]


def main(uri: str, warehouse: str) -> None:
    known: dict[str, Any] = {}
    found: list[tuple[str, list[str], list[str]]] = []
    for kind, block in BLOCKS:
        text = block.replace("http://127.0.0.1:19120", uri).replace("/data/lake", warehouse)
        if kind == "python":
            found.append((block, re.findall("# prints (.*)", block), said_by(text, known)))
            continue
        for statement, shown in statements(text):
            found.append((statement, shown, rows_of(known["spark"], statement)))
    for statement, shown in REFUSED:
        found.append((statement, [shown], [answer(known["spark"], statement, shown)]))
    known["lake"].close()
    known["spark"].stop()
    sys.stdout.write(json.dumps(found) + "\n")


def said_by(text: str, known: dict[str, Any]) -> list[str]:
    """Returns the lines that a block of Python prints, and why it failed, if it did."""
    output = io.StringIO()
    try:
        with redirect_stdout(output):
            exec(compile(text, "docs/spark-iceberg-runtime.md", "exec"), known)
    except Exception as error:
        if "lake" not in known:
            raise
        output.write(f"{type(error).__name__}: {str(error)[:500]}")
    return output.getvalue().splitlines()


def rows_of(spark: Any, statement: str) -> list[str]:
    """Returns the rows of a statement as the page shows them, or why it failed."""
    try:
        rows = spark.sql(statement).collect()
    except (PySparkException, Py4JError) as error:
        return [str(error)[:500]]
    return [" | ".join("true" if each is True else str(each) for each in row) for row in rows]


def answer(spark: Any, statement: str, shown: str) -> str:
    """Returns what the page shows, if a statement is refused with these words."""
    try:
        spark.sql(statement).collect()
    except (PySparkException, Py4JError) as error:
        words = "PARSE_SYNTAX_ERROR" if "syntax" in shown else shown
        return shown if words in str(error) else str(error)[:500]
    return "done"


if __name__ == "__main__":
    main(*sys.argv[1:])
