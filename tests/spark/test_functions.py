"""The table functions of SQL, and views that use the source."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from lochan.spark.history.source import register
from tests.spark.histories import make_commits, make_story


@pytest.fixture(scope="module")
def sql(spark):
    """A session that knows the functions; returns what runs a statement in it."""
    fresh = spark.newSession()
    register(fresh)
    return fresh.sql


def test_functions_show_the_rows_of_their_kinds(sql, lake):
    hashes = make_story(lake.client)
    uri = lake.uri
    log = sql(f"SELECT * FROM lochan_log('{uri}', 'main') ORDER BY seq")
    assert log.schema == lake.log("main").schema
    assert log.collect() == lake.log("main").orderBy("seq").collect()
    entries = sql(f"SELECT * FROM lochan_entries('{uri}', 'main~1') ORDER BY name")
    assert entries.collect() == lake.entries("main~1").orderBy("name").collect()
    diff = sql(f"SELECT * FROM lochan_diff('{uri}', '{hashes[0]}', 'main') ORDER BY name")
    assert diff.collect() == lake.diff(hashes[0], "main").orderBy("name").collect()


def test_functions_take_a_lateral_list_of_references(sql, lake):
    make_commits(lake.client, 2)
    lake.client.references.create("etl", "main")
    make_commits(lake.client, 1, "etl", first=9)
    rows = sql(
        "SELECT ref, count(*) AS commits FROM VALUES ('main'), ('etl') AS r(ref), "
        f"LATERAL lochan_log('{lake.uri}', r.ref) GROUP BY ref ORDER BY ref"
    ).collect()
    assert [(row.ref, row.commits) for row in rows] == [("etl", 3), ("main", 2)]


def test_functions_read_another_repository_by_name(sql, lake, root_server):
    make_commits(lake.client, 2)
    name = lake.uri.rpartition("/")[2]
    log = f"SELECT * FROM lochan_log('{root_server}', 'main', repository => '{{}}')"
    assert sql(log.format(name)).count() == 2
    with pytest.raises(PySparkException, match="other"):
        sql(log.format("other")).collect()


def test_functions_tell_what_is_wrong(sql, lake):
    with pytest.raises(PySparkException, match="nowhere"):
        sql(f"SELECT * FROM lochan_log('{lake.uri}', 'nowhere')").collect()


@pytest.mark.parametrize(
    "given",
    ["'main', NULL", "NULL", "''", "3", "'main', ''", "'main', repository => NULL"],
)
def test_functions_refuse_whatever_is_no_name(sql, lake, given):
    make_commits(lake.client, 2)
    with pytest.raises(PySparkException, match="is text that is not empty"):
        sql(f"SELECT * FROM lochan_log('{lake.uri}', {given})").collect()


def test_a_view_uses_the_source(sql, lake):
    make_commits(lake.client, 2)
    sql(
        "CREATE OR REPLACE TEMPORARY VIEW history USING lochan "
        f"OPTIONS (uri '{lake.uri}', kind 'log', ref 'main')"
    )
    assert sql("SELECT max(seq) AS n FROM history").first().n == 2


def test_a_query_of_a_table_names_its_reference(sql, lake, tmp_path):
    make_commits(lake.client, 2)
    lake.client.references.create("dev", "main")
    make_commits(lake.client, 1, "dev", first=9)
    sql(f"CREATE TABLE history_table (seq bigint) USING lochan LOCATION '{tmp_path}'")
    try:
        with pytest.raises(PySparkException, match="give all of them in the query"):
            sql("SELECT * FROM history_table").collect()
        given = f"uri='{lake.uri}', kind='log'"
        for ref, commits in (("main", 2), ("dev", 3)):
            found = sql(f"SELECT max(seq) AS n FROM history_table WITH ({given}, ref='{ref}')")
            assert found.first().n == commits
    finally:
        sql("DROP TABLE history_table")
