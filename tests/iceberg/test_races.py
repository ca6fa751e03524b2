"""Two writers at once: no rows are lost, and only changes of the same keys conflict."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceNotEmptyError,
    NoSuchTableError,
    TableAlreadyExistsError,
    ValidationException,
)
from pyiceberg.types import LongType

from lochan.base.errors import KeysConflict, RequirementFailed
from lochan.base.limits.iceberg import ICEBERG_COMMIT_ATTEMPTS_MAX
from lochan.iceberg import LochanCatalog
from tests.iceberg.faulty_transport import FaultyTransport, catalog_through
from tests.iceberg.rows import AT_ONCE, SCHEMA, held, messages, metadata_files, numbers, rows

NO_RETRY = {"commit.retry.num-retries": "0"}


def test_the_second_writer_meets_a_conflict_and_its_retry_keeps_both_rows(catalog):
    catalog.create_table("shop.orders", schema=SCHEMA, properties=AT_ONCE)
    one, other = catalog.load_table("shop.orders"), catalog.load_table("shop.orders")
    one.append(rows(1))
    other.append(rows(2))
    assert held(catalog) == numbers(other) == [1, 2]
    assert messages(catalog)[:2] == ["Append table shop.orders"] * 2


def test_without_retries_the_second_writer_hears_of_the_conflict_and_changes_nothing(catalog):
    catalog.create_table("shop.orders", schema=SCHEMA, properties=NO_RETRY)
    one, other = catalog.load_table("shop.orders"), catalog.load_table("shop.orders")
    one.append(rows(1))
    with pytest.raises(CommitFailedException, match="branch main was created concurrently") as seen:
        other.append(rows(2))
    assert isinstance(seen.value.__cause__, RequirementFailed)
    other.refresh().append(rows(3))
    with pytest.raises(CommitFailedException, match="branch main has changed"):
        one.append(rows(4))
    assert held(catalog) == [1, 3]


def test_changes_that_do_not_meet_are_both_made(catalog):
    catalog.create_table("shop.orders", schema=SCHEMA, properties=NO_RETRY)
    one, other = catalog.load_table("shop.orders"), catalog.load_table("shop.orders")
    one.append(rows(1))
    with other.update_schema() as update:
        update.add_column("price", LongType())
    assert numbers(other) == [1]
    assert "price" in catalog.load_table("shop.orders").schema().column_names


def test_a_delete_that_meets_new_rows_is_refused_by_its_own_rules(catalog):
    catalog.create_table("shop.orders", schema=SCHEMA, properties=AT_ONCE).append(rows(1, 2))
    one, other = catalog.load_table("shop.orders"), catalog.load_table("shop.orders")
    one.append(rows(3))
    with pytest.raises(ValidationException):
        other.delete("id > 1")
    assert held(catalog) == [1, 2, 3]


def test_many_threads_append_to_one_table_and_no_row_is_lost(catalog):
    retries = {"commit.retry.min-wait-ms": "1", "commit.retry.num-retries": "100"}
    catalog.create_table("shop.orders", schema=SCHEMA, properties=retries)

    def append(number: int) -> None:
        catalog.load_table("shop.orders").append(rows(number))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(append, range(12)))
    assert held(catalog) == list(range(12))
    assert len(messages(catalog)) == 13


def test_many_threads_make_tables_in_one_new_namespace(catalog):
    def create(number: int) -> None:
        catalog.create_table(f"shop.deep.t{number}", schema=SCHEMA)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(create, range(8)))
    assert len(catalog.list_tables("shop.deep")) == 8
    assert len(messages(catalog)) == 8


@pytest.fixture
def race(
    address: str, warehouse: str
) -> Iterator[tuple[LochanCatalog, LochanCatalog, FaultyTransport]]:
    """A writer, another one, and what happens just before the first one's writes."""
    transport = FaultyTransport()
    other = LochanCatalog("lake", uri=address, warehouse=warehouse)
    first = catalog_through(address, warehouse, transport)
    with other:
        yield first, other, transport
        first.repository.close()


def test_a_change_between_reading_and_the_swing_is_never_overwritten(race, warehouse):
    first, other, transport = race
    table = first.create_table("shop.orders", schema=SCHEMA, properties=NO_RETRY)
    table.append(rows(1))
    before = len(metadata_files(warehouse))
    transport.before = [lambda: other.load_table("shop.orders").append(rows(2))]
    with pytest.raises(CommitFailedException, match="branch main has changed"):
        table.append(rows(3))
    assert held(other) == [1, 2]
    # No commit refers to the files of the later writer.
    assert len(metadata_files(warehouse)) == before + 1


def test_a_change_between_reading_and_the_swing_is_joined_where_requirements_hold(race, warehouse):
    first, other, transport = race
    table = first.create_table("shop.orders", schema=SCHEMA, properties=NO_RETRY)
    before = len(metadata_files(warehouse))
    transport.before = [lambda: other.load_table("shop.orders").append(rows(2))]
    with table.transaction() as transaction:
        transaction.set_properties({"owner": "shop"})
    assert numbers(table) == held(other) == [2]
    assert other.load_table("shop.orders").properties["owner"] == "shop"
    assert len(metadata_files(warehouse)) == before + 2


def test_changes_of_other_tables_do_not_matter(race):
    first, other, transport = race
    table = first.create_table("shop.orders", schema=SCHEMA, properties=NO_RETRY)
    first.create_table("shop.lines", schema=SCHEMA)
    transport.writes = 0
    transport.before = [lambda: other.load_table("shop.lines").append(rows(2))]
    table.append(rows(1))
    assert transport.writes == 1
    assert held(other) == [1]
    assert held(other, "shop.lines") == [2]


def test_who_is_always_late_gives_up_and_leaves_no_file(race, warehouse):
    first, other, transport = race
    table = first.create_table("shop.orders", schema=SCHEMA, properties=NO_RETRY)
    before = len(metadata_files(warehouse))
    for number in range(ICEBERG_COMMIT_ATTEMPTS_MAX):
        transport.before.append(
            lambda number=number: other.load_table("shop.orders").append(rows(number))
        )
    with pytest.raises(CommitFailedException) as failure, table.transaction() as transaction:
        transaction.set_properties({"owner": "shop"})
    assert isinstance(failure.value.__cause__, KeysConflict)
    assert transport.before == []
    assert len(metadata_files(warehouse)) == before + ICEBERG_COMMIT_ATTEMPTS_MAX
    assert "owner" not in other.load_table("shop.orders").properties


def test_a_name_that_is_taken_just_before_the_swing_is_taken(race, warehouse):
    first, other, transport = race
    transport.before = [lambda: other.create_table("shop.orders", schema=SCHEMA)]
    with pytest.raises(TableAlreadyExistsError):
        first.create_table("shop.orders", schema=SCHEMA)
    assert len(metadata_files(warehouse)) == 1
    assert other.load_table("shop.orders").metadata


def test_a_namespace_that_others_make_just_before_the_swing_is_as_good(race, warehouse):
    first, other, transport = race
    transport.before = [lambda: other.create_namespace("shop.eu", {"owner": "other"})]
    first.create_table("shop.eu.orders", schema=SCHEMA)
    assert other.table_exists("shop.eu.orders")
    assert other.load_namespace_properties("shop.eu") == {"owner": "other"}
    assert len(metadata_files(warehouse)) == 1


def test_a_namespace_that_others_make_during_a_block_is_as_good(race):
    first, other, transport = race
    with first.many() as many:
        many.create_table("shop.orders", schema=SCHEMA)
        many.create_table("shop.eu.orders", schema=SCHEMA)
        other.create_namespace("shop", {"owner": "other"})
        transport.before = [lambda: other.create_namespace("shop.eu")]
    assert other.list_tables("shop") == [("shop", "orders")]
    assert other.list_tables("shop.eu") == [("shop", "eu", "orders")]


def test_a_namespace_that_was_asked_for_by_name_is_not_shared_silently(race):
    first, other, _ = race
    with pytest.raises(CommitFailedException), first.many() as many:  # noqa: PT012
        many.create_namespace("shop", {"owner": "first"})
        other.create_namespace("shop", {"owner": "other"})
    assert other.load_namespace_properties("shop") == {"owner": "other"}


def test_a_namespace_that_is_filled_just_before_it_goes_stays(race):
    first, other, transport = race
    first.create_namespace("shop")
    transport.before = [lambda: other.create_table("shop.orders", schema=SCHEMA)]
    with pytest.raises(NamespaceNotEmptyError):
        first.drop_namespace("shop")
    assert other.table_exists("shop.orders")


def test_a_table_is_dropped_or_renamed_with_what_others_just_added(race):
    first, other, transport = race
    first.create_table("shop.orders", schema=SCHEMA)
    transport.before = [lambda: other.load_table("shop.orders").append(rows(1))]
    first.rename_table("shop.orders", "shop.new")
    assert held(other, "shop.new") == [1]
    transport.before = [lambda: other.load_table("shop.new").append(rows(2))]
    first.drop_table("shop.new")
    assert not other.table_exists("shop.new")


def test_a_table_that_is_dropped_just_before_the_swing_is_gone(race, warehouse):
    first, other, transport = race
    table = first.create_table("shop.orders", schema=SCHEMA)
    before = metadata_files(warehouse)
    transport.before = [lambda: other.drop_table("shop.orders")]
    with pytest.raises(NoSuchTableError):
        table.append(rows(1))
    assert metadata_files(warehouse) == before
