"""A block: several tables, one commit, all or nothing."""

from __future__ import annotations

import pytest
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceNotEmptyError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.types import LongType

from lochan.base.errors import Invalid, KeysConflict
from tests.iceberg.rows import AT_ONCE, SCHEMA, content, held, messages, metadata_files, rows


@pytest.fixture
def shop(catalog):
    """A catalog with two tables of a row each."""
    for name in ("shop.orders", "shop.lines"):
        catalog.create_table(name, schema=SCHEMA, properties=AT_ONCE).append(rows(1))
    return catalog


def test_several_tables_are_one_commit(shop):
    before = messages(shop)
    with shop.many("today", properties={"job": "daily", "days": ["1", "2"]}) as many:
        many.load_table("shop.orders").append(rows(2))
        many.load_table("shop.lines").append(rows(3))
        many.create_table("shop.customers", schema=SCHEMA).append(rows(4))
        many.create_table("shop.empty", schema=SCHEMA)
    assert messages(shop) == ["today", *before]
    assert many.committed is not None
    newest = next(iter(shop.repository.history.iterate("main", fetch_all=True)))
    assert newest.meta.hash == many.committed.hash
    assert newest.meta.properties == (("days", ("1", "2")), ("job", ("daily",)))
    assert {operation.key[-1] for operation in newest.operations or ()} == {
        "orders",
        "lines",
        "customers",
        "empty",
    }
    assert held(shop) == [1, 2]
    assert held(shop, "shop.lines") == [1, 3]
    assert held(shop, "shop.customers") == [4]
    assert held(shop, "shop.empty") == []


def test_what_was_changed_in_the_block_is_seen_in_it_and_nowhere_else(shop):
    with shop.many() as many:
        many.load_table("shop.orders").append(rows(2))
        many.load_table("shop.orders").append(rows(3))
        assert held(many) == [1, 2, 3]
        assert held(shop) == [1]
        many.create_namespace("new", {"a": "b"})
        assert many.load_namespace_properties("new") == {"a": "b"}
        many.drop_table("shop.lines")
        with pytest.raises(NoSuchTableError):
            many.load_table("shop.lines")
        assert many.list_tables("shop") == [("shop", "orders")]
        many.create_table("deep.er.table", schema=SCHEMA)
        assert many.list_namespaces() == [("deep",), ("new",), ("shop",)]
        assert many.list_namespaces("deep") == [("deep", "er")]
        with pytest.raises(TableAlreadyExistsError):
            many.create_table("deep.er.table", schema=SCHEMA)
        assert shop.list_namespaces() == [("shop",)]
    assert held(shop) == [1, 2, 3]
    assert shop.list_tables("shop") == [("shop", "orders")]
    assert shop.table_exists("deep.er.table")


def test_a_block_reads_one_commit_whatever_others_do(shop):
    with shop.many() as many:
        shop.load_table("shop.orders").append(rows(9))
        assert held(many) == [1]
        many.load_table("shop.lines").append(rows(2))
    assert held(shop) == [1, 9]
    assert held(shop, "shop.lines") == [1, 2]


def test_a_table_that_others_changed_fails_the_block_and_none_is_changed(shop, warehouse):
    before = metadata_files(warehouse)
    with pytest.raises(CommitFailedException) as failure, shop.many("late") as many:  # noqa: PT012
        many.load_table("shop.orders").append(rows(2))
        many.load_table("shop.lines").append(rows(2))
        many.create_table("new.customers", schema=SCHEMA)
        shop.load_table("shop.orders").append(rows(9))
    assert isinstance(failure.value.__cause__, KeysConflict)
    assert many.committed is None
    assert held(shop) == [1, 9]
    assert held(shop, "shop.lines") == [1]
    assert shop.list_namespaces() == [("shop",)]
    assert "late" not in messages(shop)
    assert len(metadata_files(warehouse)) == len(before) + 1


def test_a_block_that_failed_succeeds_when_it_is_done_again(shop):
    for attempt in range(2):
        try:
            with shop.many() as many:
                many.load_table("shop.orders").append(rows(2))
                many.load_table("shop.lines").append(rows(2))
                if attempt == 0:
                    shop.load_table("shop.lines").append(rows(9))
        except CommitFailedException:
            assert attempt == 0
        else:
            assert attempt == 1
    assert held(shop) == [1, 2]
    assert held(shop, "shop.lines") == [1, 2, 9]


def test_an_error_leaves_the_branch_and_the_metadata_as_they_were(shop, warehouse):
    before, files = messages(shop), metadata_files(warehouse)
    with pytest.raises(ZeroDivisionError), shop.many() as many:  # noqa: PT012
        many.load_table("shop.orders").append(rows(2))
        many.drop_table("shop.lines")
        many.create_table("shop.customers", schema=SCHEMA)
        raise ZeroDivisionError
    assert many.committed is None
    assert messages(shop) == before
    assert metadata_files(warehouse) == files
    assert held(shop) == [1]


def test_a_failed_write_of_metadata_leaves_nothing(shop, warehouse, tmp_path):
    before, files = messages(shop), metadata_files(warehouse)
    wall = tmp_path / "wall"
    wall.write_text("a file where a directory should be")
    with pytest.raises(OSError), shop.many() as many:  # noqa: PT012 - it fails at its end
        many.load_table("shop.orders").append(rows(2))
        many.create_table("shop.customers", schema=SCHEMA, location=f"file://{wall}/t")
    assert messages(shop) == before
    assert metadata_files(warehouse) == files


def test_one_metadata_file_is_written_for_each_table_however_often_it_was_changed(shop, warehouse):
    before = set(metadata_files(warehouse))
    with shop.many() as many:
        table = many.load_table("shop.orders")
        for number in range(2, 6):
            table.append(rows(number))
        with table.update_schema() as update:
            update.add_column("price", LongType())
    assert len(set(metadata_files(warehouse)) - before) == 1
    table = shop.load_table("shop.orders")
    assert len(table.snapshots()) == 5
    log = [entry.metadata_file.rpartition("/")[2] for entry in table.metadata.metadata_log]
    assert set(log) <= before
    assert len(log) == len(set(log)) == 2


def test_two_handles_of_one_table_in_a_block_both_count(shop):
    with shop.many() as many:
        one, other = many.load_table("shop.orders"), many.load_table("shop.orders")
        one.append(rows(2))
        other.append(rows(3))
    assert held(shop) == [1, 2, 3]


def test_a_table_is_dropped_and_made_again_in_one_commit(shop):
    before = content(shop, "shop", "orders").id
    with shop.many() as many:
        many.drop_table("shop.orders")
        many.create_table("shop.orders", schema=SCHEMA).append(rows(7))
    assert held(shop) == [7]
    assert content(shop, "shop", "orders").id != before


def test_a_table_is_changed_and_renamed_in_one_commit(shop):
    before = content(shop, "shop", "orders").id
    with shop.many() as many:
        many.load_table("shop.orders").append(rows(2))
        many.rename_table("shop.orders", "archive.orders").append(rows(3))
    assert held(shop, "archive.orders") == [1, 2, 3]
    assert content(shop, "archive", "orders").id == before
    assert not shop.table_exists("shop.orders")


def test_a_table_may_be_renamed_in_a_block_before_its_first_file_is_written(shop):
    with shop.many() as many:
        many.create_table("shop.new", schema=SCHEMA).append(rows(5))
        many.rename_table("shop.new", "shop.newer")
    assert held(shop, "shop.newer") == [5]
    assert not shop.table_exists("shop.new")


def test_a_namespace_is_emptied_and_dropped_in_one_commit(shop):
    with shop.many() as many:
        with pytest.raises(NamespaceNotEmptyError):
            many.drop_namespace("shop")
        many.drop_table("shop.orders")
        many.drop_table("shop.lines")
        many.drop_namespace("shop")
    assert shop.list_namespaces() == []


def test_what_is_made_and_dropped_in_a_block_was_never_there(shop):
    before = messages(shop)
    with shop.many("nothing") as many:
        many.create_table("shop.new", schema=SCHEMA).append(rows(5))
        many.drop_table("shop.new")
    assert many.committed is None
    assert messages(shop) == before


def test_a_block_without_changes_makes_no_commit(shop):
    before = messages(shop)
    with shop.many("nothing") as many:
        assert held(many) == [1]
    assert many.committed is None
    assert messages(shop) == before


def test_a_block_without_words_says_what_was_done(shop):
    with shop.many() as many:
        many.load_table("shop.orders").append(rows(2))
        many.drop_table("shop.lines")
    assert messages(shop)[0] == "Append table shop.orders; Drop table shop.lines"


def test_a_create_transaction_in_a_block_is_part_of_it(shop):
    before = messages(shop)
    with shop.many("made") as many:
        with many.create_table_transaction("shop.new", schema=SCHEMA) as transaction:
            transaction.append(rows(1))
        many.load_table("shop.new").append(rows(2))
    assert held(shop, "shop.new") == [1, 2]
    assert messages(shop) == ["made", *before]


def test_a_block_that_has_ended_takes_no_more_changes_but_can_be_read(shop):
    with shop.many() as many:
        table = many.load_table("shop.orders")
        table.append(rows(2))
    shop.load_table("shop.orders").append(rows(3))
    with pytest.raises(Invalid, match="the block has ended"):
        table.append(rows(4))
    with pytest.raises(Invalid, match="the block has ended"):
        many.drop_table("shop.orders")
    assert held(many) == [1, 2, 3]
    table.refresh()
    assert held(shop) == [1, 2, 3]


def test_a_block_has_no_blocks_in_it(shop):
    with shop.many() as many, pytest.raises(Invalid, match="one commit already"):
        many.many()


def test_a_block_may_expect_an_older_commit_and_then_meets_what_came_since(shop):
    seen = shop.repository.references.get("main").hash
    shop.load_table("shop.orders").append(rows(9))
    with shop.many("other table", expected=seen) as many:
        assert many.expected == seen
        assert held(many) == [1]
        many.load_table("shop.lines").append(rows(2))
    assert held(shop, "shop.lines") == [1, 2]
    with pytest.raises(CommitFailedException), shop.many("same table", expected=seen) as many:
        many.load_table("shop.orders").append(rows(2))
    assert held(shop) == [1, 9]


def test_a_block_on_a_branch_that_was_moved_away_fails_as_a_conflict(shop):
    with pytest.raises(CommitFailedException), shop.many() as many:  # noqa: PT012
        many.load_table("shop.orders").append(rows(2))
        shop.repository.references.assign("main", "main~1")
    assert held(shop) == [1]


def test_a_table_takes_the_place_of_one_that_the_block_drops(shop):
    before = messages(shop)
    lines = shop.load_table("shop.lines").metadata.table_uuid
    with shop.many() as many:
        many.drop_table("shop.orders")
        many.rename_table("shop.lines", "shop.orders")
    assert len(messages(shop)) == len(before) + 1
    assert shop.list_tables("shop") == [("shop", "orders")]
    assert shop.load_table("shop.orders").metadata.table_uuid == lines
