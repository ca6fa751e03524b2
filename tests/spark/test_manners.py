"""How a lake behaves towards those who did not ask: names in commits, nullable columns, options."""

from __future__ import annotations

import inspect
from getpass import getuser

import pytest
from pyspark.sql import functions as F  # noqa: N812

from lochan.base.errors import Invalid
from lochan.spark import Lake, append_to
from lochan.spark.audit.audit import Audit
from lochan.spark.audit.publisher import PUBLISH_MODES
from lochan.spark.checks import Unchecked
from lochan.spark.write.batch import Batch


def last_commit(lake, ref: str = "main"):
    (entry,) = lake.client.history.log(ref, 1).items
    return entry.meta


def test_every_commit_of_a_pipeline_names_its_author_and_its_application(spark, server, tmp_path):
    with Lake(spark, server, warehouse=str(tmp_path), author="daily-etl") as lake:
        properties = {
            "application-type": ("lochan-spark",),
            "app-id": (spark.conf.get("spark.app.id"),),
        }
        lake.write(spark.range(3), "shop.orders", job="one")
        assert last_commit(lake).authors == ("daily-etl",)
        assert dict(last_commit(lake).properties) == properties | {"lochan.job": ("one",)}
        with lake.writing(job="two") as batch:
            batch.write(spark.range(3), "shop.lines")
        assert last_commit(lake).authors == ("daily-etl",)
        checks = Unchecked("shop.orders", why="for this test")
        for mode in PUBLISH_MODES:
            with lake.audited("main", checks, publish=mode, job=mode) as audit:
                audit.write(spark.range(3), "shop.orders")
                assert last_commit(lake, audit.branch).authors == ("daily-etl",)
            assert last_commit(lake).authors == ("daily-etl",)
            assert dict(last_commit(lake).properties) == properties | {"lochan.job": (mode,)}
        lake.catalog.create_namespace("made")
        lake.catalog.drop_table("shop.lines")
        assert last_commit(lake).authors == ("daily-etl",)
        assert dict(last_commit(lake).properties) == properties
        assert {row.author for row in lake.log("main").collect()} == {"daily-etl"}


def test_by_default_the_author_is_the_user_that_runs_the_job(spark, server, lake, tmp_path):
    assert lake.author == getuser()
    lake.catalog.create_namespace("made")
    assert last_commit(lake).authors == (getuser(),)
    for wrong in ("", " "):
        with pytest.raises(Invalid, match="an author has a name"):
            Lake(spark, server, warehouse=str(tmp_path), author=wrong)


def test_a_user_without_a_name_commits_without_one(spark, server, tmp_path, monkeypatch):
    def no_user():
        raise KeyError("getpwuid(): uid not found: 4711")

    monkeypatch.setattr("lochan.spark.lake.getuser", no_user)
    with Lake(spark, server, warehouse=str(tmp_path)) as lake:
        lake.catalog.create_namespace("made")
        assert last_commit(lake).authors == ("",)


def test_columns_of_a_new_table_may_be_null_unless_they_are_required(spark, lake):
    frame = spark.range(3).select("id", F.lit("x").alias("text"), F.array(F.lit(1)).alias("list"))
    assert not any(field.nullable for field in frame.schema.fields)
    lake.write(frame, "t.open")
    assert not any(field.required for field in lake.catalog.load_table("t.open").schema().fields)
    none = spark.createDataFrame([(None, None, [None])], "id bigint, text string, list array<int>")
    lake.write(none, "t.open")
    assert lake.read("t.open", where="id IS NULL").count() == 1
    lake.write(frame, "t.closed", required=["id", "list.element"])
    schema = lake.catalog.load_table("t.closed").schema()
    assert {one for one in schema.column_names if schema.find_field(one).required} == {
        "id",
        "list.element",
    }
    with pytest.raises(Invalid, match=r"has NULL in (id|list\.element), which t\.closed requires"):
        lake.write(none, "t.closed")
    lake.write(frame, "t.closed", required=["id"])
    with pytest.raises(Invalid, match="allows NULL in text; required is for new tables"):
        lake.write(frame, "t.closed", required=["text"])
    for table in ("t.closed", "t.new"):
        with pytest.raises(Invalid, match="'gone', and there is no such column"):
            lake.write(frame, table, required=["gone"])
    assert lake.read("t.closed").count() == 6


def test_options_are_named_and_a_wrong_name_is_an_error_at_the_call(spark, lake):
    for call in (
        lambda: lake.write(spark.range(1), "t", modus="append"),
        lambda: lake.read("t", reff="main"),
        lambda: lake.refs(prefixx="a"),
        lambda: lake.log("main", sinse="earliest"),
        lambda: lake.entries("main", contents=True),
        lambda: lake.diff("main", "main", prefixed="a"),
        lambda: lake.changes("main", following=True),
        lambda: lake.audited("main", (), published="merge"),
        lambda: append_to(lake, "t", query="q", modus="append"),  # type: ignore[call-arg]
    ):
        with pytest.raises(TypeError, match="unexpected keyword argument"):
            call()


def test_no_method_takes_options_that_it_does_not_name():
    kinds = {
        f"{owner.__name__}.{name}"
        for owner in (Lake, Audit)
        for name, method in inspect.getmembers(owner, inspect.isfunction)
        if any(one.kind is one.VAR_KEYWORD for one in inspect.signature(method).parameters.values())
    }
    assert kinds == set()
    ours, batch = (set(inspect.signature(one).parameters) for one in (Lake.write, Batch.write))
    assert ours == batch | {"branch", "job", "message", "steps"}
    assert set(inspect.signature(Lake.audited).parameters) == (
        set(inspect.signature(Audit.__init__).parameters) - {"lake"}
    )
