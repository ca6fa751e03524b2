"""The data source in batches: what each kind shows, how it is cut, and what it refuses."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException

from lochan.base.errors import Invalid
from lochan.spark.history import kinds
from lochan.spark.history.commit_ranges import EMPTY
from lochan.spark.history.options import KIND_OPTIONS, read_options
from tests.profile import counted
from tests.spark.histories import make_commits, make_story


def _read(spark, lake, kind, **options):
    given = {"uri": lake.uri, "repository": lake.repository, "kind": kind, **options}
    return spark.read.format("lochan").options(**given).load()


@pytest.mark.parametrize("kind", list(KIND_OPTIONS))
def test_batches_have_exactly_the_types_that_spark_expects(kind):
    from pyspark.sql.pandas import types

    schema = kinds.schema_of(kind)
    # Newer versions have an argument for the time zone.
    parameters = inspect.signature(types.to_arrow_schema).parameters
    more: Any = {"timezone": "UTC"} if "timezone" in parameters else {}
    expected = types.to_arrow_schema(schema, **more)
    assert kinds.arrow_schema(schema).equals(expected)


def test_the_source_is_found_without_registration(spark, lake):
    fresh = spark.newSession()
    rows = _read(fresh, lake, "refs").collect()
    assert [(row.name, row.kind, row.commit) for row in rows] == [("main", "BRANCH", EMPTY)]


def test_the_module_that_spark_finds_hides_nothing_when_parts_are_missing():
    # As on a machine without pyspark or without pyarrow.
    code = (
        "import sys\n"
        "sys.modules['pyarrow'] = None\n"
        "import pyspark_lochan\n"
        "assert not hasattr(pyspark_lochan, 'DefaultSource')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_refs_show_branches_and_tags_and_what_is_counted_only_on_demand(lake):
    make_commits(lake.client, 2)
    lake.client.references.create("etl", "main", expires_us=4_000_000_000_000_000)
    lake.client.references.create("v1", "main~1", kind="TAG")
    make_commits(lake.client, 1, "etl", first=7)
    plain = {row.name: row for row in lake.refs().collect()}
    assert {name: row.kind for name, row in plain.items()} == {
        "etl": "BRANCH",
        "main": "BRANCH",
        "v1": "TAG",
    }
    assert plain["etl"].expires_at.astimezone(UTC) == datetime(2096, 10, 2, 7, 6, 40, tzinfo=UTC)
    assert plain["etl"].commits is None
    counted = {row.name: row for row in lake.refs(metadata=True).collect()}
    assert (counted["etl"].commits, counted["etl"].ahead, counted["etl"].behind) == (3, 1, 0)
    assert counted["v1"].commits == 1
    assert [row.name for row in lake.refs(prefix="e").collect()] == ["etl"]


def test_the_log_shows_everything_that_is_said_of_a_commit(lake):
    hashes = make_story(lake.client)
    rows = {row.seq: row for row in lake.log("main").collect()}
    assert [rows[seq].commit for seq in (1, 2, 3, 4)] == hashes
    assert [rows[seq].parent for seq in (1, 2, 3, 4)] == [EMPTY, *hashes[:3]]
    first = rows[1]
    assert (first.message, first.author, first.authors) == ("first", "Ada", ["Ada", "Grace"])
    assert (first.signed_off_by, first.properties) == (["Lin"], {"job": ["a", "b"]})
    assert first.parents == [EMPTY]
    meta = lake.client.history.log(hashes[0], 1).items[0].meta
    moment = first.time.astimezone(UTC)
    assert (moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1e6 == pytest.approx(
        meta.commit_time_us, abs=1
    )


def test_entries_show_keys_ids_and_contents(lake):
    make_story(lake.client)
    rows = {row.name: row for row in lake.entries("main").collect()}
    assert rows["odd.name"].key == ["odd.name"]
    assert json.loads(rows["odd.name"].content)["depth"] == 3
    assert rows["odd.name"].type == "MODEL"
    lines = rows["lines"]
    assert (lines.type, lines.metadata_location) == ("ICEBERG_TABLE", "s3://lake/t/3.json")
    assert json.loads(lines.content)["snapshotId"] == 3
    assert lines.content_id == lake.client.contents.get("main", ("lines",))[0].id
    bare = {row.name: row for row in lake.entries("main", content=False).collect()}
    assert set(bare) == set(rows)
    assert {row.content_id for row in bare.values()} == {row.content_id for row in rows.values()}
    assert [row.content for row in bare.values()] == [None, None]


def test_diff_tells_added_removed_and_changed(lake):
    hashes = make_story(lake.client)
    rows = {row.name: row for row in lake.diff(hashes[0], "main").collect()}
    assert {name: row.change for name, row in rows.items()} == {
        "lines": "added",
        "orders": "removed",
    }
    assert rows["orders"].from_metadata_location == "s3://lake/t/1.json"
    assert rows["orders"].to_content is None
    assert rows["lines"].to_type == "ICEBERG_TABLE"
    (changed,) = lake.diff(hashes[0], hashes[1]).collect()
    assert (changed.change, changed.from_content_id) == ("changed", changed.to_content_id)
    assert json.loads(changed.to_content)["snapshotId"] == 2


def test_a_diff_with_an_empty_branch_shows_everything(lake):
    lake.client.references.create("empty", None)
    make_commits(lake.client, 2)
    assert {row.change for row in lake.diff("empty", "main").collect()} == {"added"}


def test_changes_show_every_key_of_every_commit(lake):
    hashes = make_story(lake.client)
    rows = lake.changes("main").orderBy("seq", "position").collect()
    assert [(row.seq, row.operation, row.name) for row in rows] == [
        (1, "put", "odd.name"),
        (1, "put", "orders"),
        (2, "put", "orders"),
        (3, "put", "lines"),
        (4, "delete", "orders"),
    ]
    assert [row.commit for row in rows] == [hashes[0], *hashes]
    assert (rows[1].author, rows[1].message) == ("Ada", "first")
    assert rows[2].metadata_location == "s3://lake/t/2.json"
    assert rows[1].content_id == rows[2].content_id
    assert (rows[4].type, rows[4].content) == (None, None)


def test_changes_after_a_commit_leave_out_what_was_before(lake):
    hashes = make_story(lake.client)
    for since in (hashes[1], "main~2"):
        rows = lake.changes("main", since=since).collect()
        assert sorted(row.seq for row in rows) == [3, 4]
    assert lake.changes("main", since="latest").collect() == []
    assert lake.log("main", since="main~1").collect()[0].commit == hashes[3]


def test_a_commit_that_is_not_in_the_history_is_refused_as_a_beginning(lake):
    make_commits(lake.client, 1)
    lake.client.references.create("side", None)
    (elsewhere,) = make_commits(lake.client, 1, "side", first=9)
    with pytest.raises(Invalid, match="not among the first parents"):
        lake.changes("main", since=elsewhere)


@pytest.mark.parametrize("size", [1, 3, 100][:: counted(2, 1)])
def test_slices_of_any_size_show_every_commit_once(lake, size):
    hashes = make_commits(lake.client, 10)
    frame = lake.log("main", commits_per_partition=size)
    assert frame.rdd.getNumPartitions() == -(-10 // size)
    rows = {row.seq: row.commit for row in frame.collect()}
    assert rows == dict(enumerate(hashes, 1))
    changed = lake.changes("main", commits_per_partition=size).collect()
    assert sorted(row.commit for row in changed) == sorted(hashes)


def test_keys_are_cut_into_ranges_without_a_gap(lake):
    make_commits(lake.client, 10)
    frame = lake.entries("main", keys_per_partition=3)
    assert frame.rdd.getNumPartitions() == 4
    assert [row.name for row in frame.orderBy("name").collect()] == [
        f"t{number:05d}" for number in range(1, 11)
    ]


def test_a_frame_stays_at_the_commit_where_it_was_made(lake):
    make_commits(lake.client, 3)
    frames = [
        lake.log("main"),
        lake.changes("main"),
        lake.entries("main"),
        lake.diff("main~3", "main"),
    ]
    make_commits(lake.client, 2, first=10)
    assert [frame.count() for frame in frames] == [3, 3, 3, 3]
    assert lake.log("main").count() == 5


@pytest.mark.parametrize("spec", ["main~1", "hash", "tag", "-"])
def test_commits_are_numbered_alike_by_whatever_name_they_are_reached(spark, lake, spec):
    hashes = make_commits(lake.client, 6)
    lake.client.references.create("tag", "main", kind="TAG")
    named = {"hash": hashes[3]}.get(spec, spec)
    newest = {"main~1": 5, "hash": 4}.get(spec, 6)
    rows = _read(spark, lake, "log", ref=named).collect()
    assert sorted((row.seq, row.commit) for row in rows) == list(enumerate(hashes[:newest], 1))


def test_a_wrong_count_of_commits_is_found_out(spark, lake):
    hashes = make_commits(lake.client, 4)
    for seq in ("3", "4", "5", "0"):
        rows = _read(spark, lake, "log", ref=hashes[3], seq=seq).collect()
        assert sorted(row.seq for row in rows) == [1, 2, 3, 4]


def test_an_empty_branch_has_no_rows_of_any_kind(lake):
    for frame in (lake.log("main"), lake.changes("main"), lake.entries("main")):
        assert frame.collect() == []


def test_a_schema_chooses_columns(spark, lake):
    make_story(lake.client)
    frame = (
        spark.read.format("lochan")
        .schema("name string, seq bigint")
        .options(uri=lake.uri, kind="changes")
        .load()
    )
    assert frame.columns == ["name", "seq"]
    assert min(frame.collect()).asDict() == {"name": "lines", "seq": 3}
    with pytest.raises(AnalysisException, match=r"no column 'seq' like that; it has seq bigint"):
        spark.read.format("lochan").schema("seq string").options(
            uri=lake.uri, kind="changes"
        ).load().collect()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "tables"}, "'tables' is no kind; there are refs, log, entries, diff, changes"),
        ({}, "the option 'kind' is missing; there are refs"),
        ({"kind": "log", "color": "red"}, "has no option 'color'; it has uri, repository, kind"),
        ({"kind": "log", "to": "x"}, "kind 'log' has no option 'to'"),
        ({"kind": "diff", "from": "main"}, "needs the options 'from' and 'to'"),
        ({"kind": "log", "commitsPerPartition": "0"}, "'commitsPerPartition' is a number from 1"),
        ({"kind": "entries", "content": "maybe"}, "'content' is true or false, not 'maybe'"),
        ({"kind": "log", "uri": "rocksdb:/x"}, "cannot open a store"),
        ({"kind": "log", "uri": ""}, "the option 'uri' is empty"),
        ({"kind": "log", "ref": ""}, "the option 'ref' is empty"),
        ({"kind": "log", "repository": ""}, "the option 'repository' is empty"),
        ({"kind": "changes", "since": ""}, "the option 'since' is empty"),
        ({"kind": "entries", "prefix": "shop..orders"}, "has an empty element"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_words(options, message):
    with pytest.raises(Invalid) as refusal:
        read_options({"uri": "http://127.0.0.1:1", **options})
    assert message in refusal.value.message


def test_spark_shows_the_words_of_a_refusal(spark, lake):
    with pytest.raises(PySparkException, match="'tables' is no kind; there are refs, log"):
        _read(spark, lake, "tables")
    with pytest.raises(PySparkException, match="nowhere"):
        _read(spark, lake, "log", ref="nowhere").collect()


def test_credentials_in_an_address_are_refused_and_not_repeated(spark):
    with pytest.raises(PySparkException) as refusal:
        spark.read.format("lochan").options(
            uri="http://ada:opensesame@127.0.0.1:1", kind="refs"
        ).load()
    message = str(refusal.value)
    assert "LOCHAN_TOKEN" in message
    assert "opensesame" not in message


def test_an_option_that_would_have_no_effect_is_refused():
    given = {"uri": "http://127.0.0.1:1", "kind": "changes"}
    for name, value in (("maxCommits", "3"), ("onReassign", "fail")):
        with pytest.raises(Invalid, match=f"{name!r} is for a stream"):
            read_options({**given, name: value}, follow=False)
        read_options({**given, name: value}, follow=True)
    with pytest.raises(Invalid, match="'seq' is for a batch"):
        read_options({**given, "seq": "3"}, follow=True)
    with pytest.raises(Invalid, match="the option 'uri' is missing"):
        read_options({"kind": "log"})


def test_rows_are_cut_into_batches_that_arrow_and_a_worker_can_hold(monkeypatch):
    rows = [(f"{number}", ["ab"], {"k": ["v"]}, number, None) for number in range(10)]
    assert list(kinds.portions([])) == []
    assert list(kinds.portions(rows)) == [rows]
    monkeypatch.setattr(kinds, "SPARK_BATCH_ROWS_MAX", 4)
    assert [len(some) for some in kinds.portions(rows)] == [4, 4, 2]
    # Five characters a row.
    monkeypatch.setattr(kinds, "SPARK_BATCH_CHARACTERS_MAX", 15)
    assert [len(some) for some in kinds.portions(rows)] == [3, 3, 3, 1]
    monkeypatch.setattr(kinds, "SPARK_BATCH_CHARACTERS_MAX", 1)
    assert [len(some) for some in kinds.portions(rows)] == [1] * 10
    assert [row for some in kinds.portions(rows) for row in some] == rows


def test_what_stays_secret_comes_from_the_environment_of_the_worker(monkeypatch):
    options = read_options({"uri": "http://127.0.0.1:1", "kind": "refs"})
    assert options.client()._core.credentials is None
    assert options.client() is options.client()
    monkeypatch.setenv("LOCHAN_TOKEN", "opensesame")
    monkeypatch.setenv("LOCHAN_TOKEN_URI", "http://127.0.0.1:1")
    found = options.client()._core.credentials
    assert found is not None
    assert found.authorization() == "Bearer opensesame"
    assert "opensesame" not in repr(options)


@pytest.mark.parametrize("allowed", ["true", "false"])
def test_one_frame_with_several_filters_answers_each_of_them(spark, lake, allowed):
    # Spark keeps one plan for all uses of a frame; a source that took filters answered wrongly.
    make_commits(lake.client, 10)
    name = "spark.sql.python.filterPushdown.enabled"
    before = spark.conf.get(name)
    spark.conf.set(name, allowed)
    try:
        frame = lake.log("main", commits_per_partition=4)
        assert frame.where("seq > 3").count() == 7
        assert frame.count() == 10
        assert frame.where("seq > 8").union(frame.where("seq < 2")).count() == 3
    finally:
        spark.conf.set(name, before)


def test_a_prefix_chooses_keys_and_what_is_below_them(lake):
    client = lake.client
    client.namespaces.create("main", ("shop",))
    from lochan.model.commits import Put
    from tests.spark.histories import table

    keys = [("shop", "orders"), ("shopping",)]
    client.commits.commit("main", "more", [Put(key=key, content=table(1)) for key in keys])
    names = {row.name for row in lake.entries("main", prefix="shop").collect()}
    assert names == {"shop", "shop.orders"}
    assert lake.diff("main~2", "main", prefix="shop").count() == 2


def test_a_prefix_names_a_key_with_a_dot_inside_an_element(lake):
    make_story(lake.client)
    (row,) = lake.entries("main", prefix=".odd*.name").collect()
    assert row.key == ["odd.name"]
    assert lake.entries("main", prefix="odd.name").collect() == []


def test_an_empty_name_is_not_the_default_branch(lake):
    for read in (lake.log, lake.entries, lake.changes, partial(lake.read, "orders")):
        with pytest.raises(Invalid):
            read("")
