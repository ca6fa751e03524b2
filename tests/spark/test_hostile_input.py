"""Bad input to every public function: an error of ours with a next step, not a library's."""

from __future__ import annotations

import inspect
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as F  # noqa: N812

from lochan.base.errors import Invalid, LochanError, NotFound, StoreClosed, Unavailable
from lochan.spark import Lake, append_to, catch_up, register, session
from lochan.spark import error_boundary as where_calls_come_in
from lochan.spark.audit.audit import Audit
from lochan.spark.checks import Unchecked
from lochan.spark.write.batch import Batch
from tests.profile import counted

TYPES: list[Any] = [
    5,
    -1.5,
    float("nan"),
    True,
    b"x",
    object(),
    Path("x"),
    [None],
    [5],
    {"a": 1},
    {5},
    lambda: None,
]
TEXTS = [
    "",
    " ",
    "\0",
    "\ud800",
    "a" * 3_000,
    "a..b",
    ".a",
    "a.",
    "a/b",
    "..",
    "ü€",
    "a\nb",
    "'",
    "`a`",
    "main@",
    "main~99999999999",
    "x@y",
    "s3://",
    "count(*)",
]
LISTS: list[Any] = [["gone"], ["id", "id"], [""], ["\0"], ["\ud800"], ["day(gone)"], ["day(id)"]]

# What does no harm for a parameter, so that it is not tried: it would write, or is simply right.
RIGHT: dict[str, list[Any]] = {
    "message": TEXTS,
    "prefix": TEXTS,
    "files": [],
    "report": [],
    "checks": [],
    "metadata": [True],
    "content": [True],
    "follow": [True],
    "create": [True],
    "ttl_s": [5],
    "job": TEXTS,
    "query": TEXTS,
    "author": TEXTS,
    "frame": [],
    "repository": TEXTS,
    "address": TEXTS,
    "warehouse": TEXTS,
    "progress": TYPES[-1:],
    "ship": [True],
}


# For audits and for tests.
UNTRIED = ("measures", "steps")


def inside(block: Any, method: str = "", **more: Any) -> None:
    """Enters a block, and calls a method of it if there is one; an error leaves nothing behind."""
    with block:
        if method:
            getattr(block, method)(**more)
        raise NotFound("nothing was refused")


def calls(lake, tmp_path) -> dict[str, tuple[Any, dict[str, Any]]]:
    """Every public function, with arguments that are right."""
    waiver = Unchecked("shop.orders", why="for this test")
    right = {
        "frame": lake.spark.range(0),
        "table": "shop.orders",
        "query": "q",
        "before": "main",
        "after": "main",
        "spark": lake.spark,
        "address": lake.uri,
        "warehouse": str(tmp_path),
        "ref": "main",
        "branch": "main",
        "ttl_s": 60.0,
        "where": "id < 0",
        "set": {"id": "id + 1"},
    }
    found = {
        name: (getattr(lake, name), getattr(Lake, name))
        for name in (
            "read",
            "write",
            "delete",
            "update",
            "refs",
            "log",
            "entries",
            "diff",
            "changes",
        )
    } | {
        "audited": (lambda **more: inside(lake.audited(**more)), Lake.audited),
        "writing": (lambda **more: inside(lake.writing(**more)), Lake.writing),
        "append_to": (lambda **more: append_to(lake, **more), append_to),
        "catch_up": (lambda **more: catch_up(lake, **more), catch_up),
        "register": (register, register),
        "Lake": (lambda **more: Lake(**more).close(), Lake.__init__),
        "Audit.write": (
            lambda **more: inside(lake.audited("main", waiver), "write", **more),
            Audit.write,
        ),
        "Audit.read": (
            lambda **more: inside(lake.audited("main", waiver), "read", **more),
            Audit.read,
        ),
        "Batch.write": (lambda **more: inside(lake.writing(), "write", **more), Batch.write),
        "Batch.delete": (lambda **more: inside(lake.writing(), "delete", **more), Batch.delete),
        "Batch.update": (lambda **more: inside(lake.writing(), "update", **more), Batch.update),
    }
    given = {}
    for name, (call, function) in found.items():
        names = set(inspect.signature(function).parameters) - {"self", "lake", *UNTRIED}
        if name == "audited":
            names -= {"branch"}
        defaults = {one: inspect.signature(function).parameters[one].default for one in names}
        given[name] = call, {one: right.get(one, defaults[one]) for one in sorted(names)}
    return given


def bad_for(name: str) -> list[Any]:
    right: list[Any] = RIGHT.get(name, [])
    bad: list[Any] = [*TYPES, *TEXTS, *LISTS]
    bad = [one for one in bad if not any(one is each for each in right)]
    return Random(name).sample(bad, min(len(bad), counted(12, 100)))


def test_no_error_of_a_library_comes_out_of_any_public_function(spark, lake, tmp_path):
    lake.write(spark.range(3), "shop.orders")
    raw: list[str] = []
    tried = refused = 0
    for name, (call, right) in calls(lake, tmp_path).items():
        for parameter in right:
            for bad in bad_for(parameter):
                tried += 1
                try:
                    call(**{**right, parameter: bad})
                except LochanError as error:
                    refused += 1
                    if not error.message.strip():
                        raw.append(f"{name}({parameter}={bad!r:.40}): no message")
                except Exception as error:
                    message = f"{type(error).__module__}.{type(error).__name__}: {error}"
                    raw.append(f"{name}({parameter}={bad!r:.40}): {message[:200]}")
    assert not raw, "\n".join([f"{len(raw)} errors", *raw[:50]])
    assert lake.read("shop.orders").count() == 3
    assert tried > counted(500, 1_500)
    assert refused > 0.7 * tried


def test_every_public_method_is_tried_and_checks_what_it_is_given():
    tried = {"read", "write", "delete", "update", "writing", "audited"}
    tried |= {"refs", "log", "entries", "diff", "changes"}
    public = {
        name
        for name, one in inspect.getmembers(Lake, inspect.isfunction)
        if not name.startswith("_")
    }
    assert public == tried | {"close"}
    for owner, names in (
        (Lake, tried | {"__init__"}),
        (Audit, {"__init__", "__enter__", "__exit__", "read", "write", "adopt", "check"}),
        (Batch, {"__init__", "__enter__", "__exit__", "write", "delete", "update"}),
    ):
        for name in names:
            assert hasattr(getattr(owner, name), "__wrapped__"), f"{owner.__name__}.{name}"


def test_errors_of_libraries_become_ours_by_what_the_caller_should_do():
    import pyarrow as pa
    from pyiceberg import exceptions as iceberg

    for raised, ours, message in (
        (iceberg.NoSuchTableError("t"), "content_not_found", "t"),
        (iceberg.CommitFailedException("moved"), "conflict", "moved"),
        (iceberg.CommitStateUnknownException("lost"), "unknown", "lost"),
        (iceberg.ValidationError("no"), "invalid", "no"),
        (pa.ArrowInvalid("rows"), "invalid", "Arrow"),
        (PermissionError(13, "denied", "/lake"), "unavailable", "warehouse"),
        (ConnectionRefusedError("py4j"), "unavailable", "session"),
        (OverflowError("large"), "invalid", "large"),
        (ValueError("s3.secret-access-key=hunter2"), "invalid", r"\*\*\*"),
        (UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates"), "invalid", "surrogates"),
        (ValueError(), "invalid", "ValueError"),
    ):
        with (
            pytest.raises(LochanError, match=message) as caught,
            where_calls_come_in.translated_errors(),
        ):
            raise raised
        assert caught.value.kind == ours
        assert caught.value.__cause__ is raised
    for kept in (KeyError("x"), KeyboardInterrupt(), Invalid("ours"), PySparkException("theirs")):
        with pytest.raises(type(kept)) as same, where_calls_come_in.translated_errors():
            raise kept
        assert same.value is kept


def test_a_warehouse_that_cannot_be_written_is_an_error_in_words(spark, server, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with Lake(spark, server, warehouse=str(tmp_path / "file" / "lake")) as lake:
        with pytest.raises(Unavailable, match="file is not a directory; repair that"):
            lake.write(spark.range(3), "shop.orders")
        with pytest.raises(Unavailable, match="not a directory"), lake.writing() as batch:
            batch.write(spark.range(3), "shop.orders")
        assert list(lake.client.contents.iterate("main")) == []


def test_a_lake_that_is_closed_says_so(spark, server, tmp_path):
    with Lake(spark, server, warehouse=str(tmp_path)) as lake:
        pass
    lake.close()
    for act in (
        lambda: lake.read("shop.orders"),
        lambda: lake.write(spark.range(1), "shop.orders"),
        lambda: lake.log("main"),
        lake.refs,
        lambda: lake.diff("main", "main"),
        lambda: lake.catalog.load_table("shop.orders"),
        lambda: inside(lake.audited("main")),
        lambda: inside(lake.writing()),
    ):
        with pytest.raises(StoreClosed, match="this lake is closed; open another one"):
            act()


def test_errors_of_the_users_own_frame_stay_those_of_spark(spark, lake):
    boom = F.udf(lambda number: 1 // 0, "int")
    with pytest.raises(PySparkException, match="ZeroDivisionError"):
        lake.write(spark.range(3).select(boom("id").alias("id")), "shop.orders")
    with pytest.raises(AnalysisException, match="gone"):
        lake.write(spark.range(3).select("gone"), "shop.orders")


def test_a_session_that_was_asked_for_wrongly_is_refused(spark):
    for wrong in ({"settings": {"spark.ui.enabled": "true"}}, {"master": "local[7]"}):
        with pytest.raises(Invalid):
            session("x", **wrong)
