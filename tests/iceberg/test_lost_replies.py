"""A lost reply to a commit: the change is made once, reported truly, and nothing is deleted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.exceptions import CommitStateUnknownException

from lochan.base.errors import Unknown
from lochan.iceberg import LochanCatalog
from tests.iceberg.faulty_transport import FaultyTransport, catalog_through
from tests.iceberg.rows import SCHEMA, content, held, messages, numbers, rows

ALL = 1_000


@pytest.fixture
def lossy(
    address: str, warehouse: str
) -> Iterator[tuple[LochanCatalog, LochanCatalog, FaultyTransport]]:
    """A catalog that can lose replies, one that loses none, and how many are lost."""
    transport = FaultyTransport()
    catalog = catalog_through(address, warehouse, transport)
    with LochanCatalog("beside", uri=address, warehouse=warehouse) as beside:
        yield catalog, beside, transport
        catalog.repository.close()


def files(warehouse: str) -> set[str]:
    return {str(path) for path in Path(warehouse[7:]).rglob("*") if path.is_file()}


@pytest.mark.parametrize("losses", [1, 3])
def test_a_commit_whose_reply_is_lost_is_made_once(lossy, warehouse, losses):
    catalog, beside, transport = lossy
    table = catalog.create_table("shop.orders", schema=SCHEMA)
    before = files(warehouse)
    transport.losses = losses
    table.append(rows(1))
    assert transport.losses == 0
    assert numbers(table) == held(beside) == [1]
    assert messages(beside) == ["Append table shop.orders", "Create table shop.orders"]
    # A row's file, its manifest, the list of manifests and the metadata.
    assert before < files(warehouse)
    assert len(files(warehouse) - before) == 4


def test_a_commit_whose_reply_is_lost_stands_though_others_went_on_before_it_is_asked_again(lossy):
    catalog, beside, transport = lossy
    table = catalog.create_table("shop.orders", schema=SCHEMA)
    transport.losses = 1
    transport.before = [lambda: None, lambda: beside.load_table("shop.orders").append(rows(2))]
    table.append(rows(1))
    mine = Path(table.metadata_location[7:])
    assert mine.exists()
    assert held(beside) == [1, 2]
    assert held(beside.at("main~1")) == [1]
    assert len(messages(beside)) == 3


@pytest.mark.parametrize("is_made_again", [False, True])
def test_what_others_took_from_a_branch_before_they_deleted_it_stays_whole(lossy, is_made_again):
    catalog, beside, transport = lossy
    catalog.create_table("shop.orders", schema=SCHEMA)
    references = beside.repository.references
    references.create("etl")
    table = catalog.at("etl").load_table("shop.orders")

    def take() -> None:
        references.assign("main", references.get("etl").hash)
        references.delete("etl")
        if is_made_again:
            references.create("etl")

    transport.losses = 1
    transport.before = [lambda: None, take]
    # Sent again, the request is answered with what it did, though its branch is gone.
    table.append(rows(1))
    assert held(beside) == [1]


def test_a_block_whose_reply_is_lost_is_made_once(lossy):
    catalog, beside, transport = lossy
    transport.losses = 2
    with catalog.many("both") as many:
        many.create_table("shop.orders", schema=SCHEMA).append(rows(1))
        many.create_table("shop.lines", schema=SCHEMA).append(rows(2))
    assert messages(beside) == ["both"]
    assert many.committed is not None
    assert many.committed.hash == beside.repository.references.get("main").hash
    assert held(beside) == [1]
    assert held(beside, "shop.lines") == [2]


def test_when_all_replies_are_lost_the_state_is_unknown_and_every_file_stays(lossy, warehouse):
    catalog, beside, transport = lossy
    table = catalog.create_table("shop.orders", schema=SCHEMA)
    before = files(warehouse)
    transport.losses = ALL
    with pytest.raises(CommitStateUnknownException) as failure:
        table.append(rows(1))
    assert isinstance(failure.value.__cause__, Unknown)
    transport.losses = 0
    # The commit took effect, and readers find all of it.
    assert len(files(warehouse) - before) == 4
    assert held(beside) == [1]
    assert Path(content(beside, "shop", "orders").metadata_location[7:]).exists()
    assert len(messages(beside)) == 2


def test_when_all_replies_to_a_block_are_lost_every_file_stays(lossy, warehouse):
    catalog, beside, transport = lossy
    transport.losses = ALL
    with pytest.raises(CommitStateUnknownException), catalog.many("both") as many:  # noqa: PT012
        many.create_table("shop.orders", schema=SCHEMA).append(rows(1))
        many.create_table("shop.lines", schema=SCHEMA).append(rows(2))
    transport.losses = 0
    assert many.committed is None
    assert messages(beside) == ["both"]
    assert held(beside) == [1]
    assert held(beside, "shop.lines") == [2]


@pytest.mark.parametrize(
    "write",
    [
        lambda catalog: catalog.create_table("shop.new", schema=SCHEMA),
        lambda catalog: catalog.drop_table("shop.orders"),
        lambda catalog: catalog.rename_table("shop.orders", "shop.new"),
        lambda catalog: catalog.create_namespace("new"),
        lambda catalog: catalog.update_namespace_properties("shop", updates={"a": "b"}),
        lambda catalog: catalog.drop_namespace("empty"),
    ],
    ids=["create", "drop", "rename", "create namespace", "update namespace", "drop namespace"],
)
def test_every_write_survives_a_lost_reply_and_tells_when_it_cannot_know(lossy, write, warehouse):
    catalog, beside, transport = lossy
    catalog.create_table("shop.orders", schema=SCHEMA).append(rows(1))
    catalog.create_namespace("empty")
    beside.repository.references.create("again")
    before, there = len(messages(beside)), files(warehouse)
    transport.losses = 1
    write(catalog)
    assert transport.losses == 0
    assert len(messages(beside)) == before + 1
    transport.losses = ALL
    with pytest.raises(CommitStateUnknownException):
        write(catalog.at("again"))
    assert len(messages(beside, "again")) == before + 1
    assert there <= files(warehouse)
