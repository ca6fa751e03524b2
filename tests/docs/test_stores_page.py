"""The page of stores states the capabilities that the stores have."""

from __future__ import annotations

from lochan.kv.store import Capabilities
from lochan.stores.cassandra.store import CAPABILITIES as CASSANDRA
from lochan.stores.dynamodb.store import CAPABILITIES as DYNAMODB
from lochan.stores.memory.store import CAPABILITIES as MEMORY
from lochan.stores.mongodb.store import CAPABILITIES as MONGODB
from lochan.stores.postgres.store import CAPABILITIES as POSTGRES
from lochan.stores.rocksdb.store import CAPABILITIES as ROCKSDB
from lochan.stores.sqlite.store import CAPABILITIES as SQLITE
from tests.architecture.tree import ROOT, project_settings

STORES = {
    "cassandra": CASSANDRA,
    "dynamodb": DYNAMODB,
    "memory": MEMORY,
    "mongodb": MONGODB,
    "postgresql": POSTGRES,
    "rocksdb": ROCKSDB,
    "sqlite": SQLITE,
}
PAGE = ROOT / "docs/stores.md"


def row(scheme: str, can: Capabilities) -> str:
    cells = [
        f"`{scheme}:`",
        _bytes(can.value_bytes_max),
        f"{can.read_items_max:,}",
        f"{can.batch_items_max:,}, {_bytes(can.batch_bytes_max)}",
        f"{can.apply_items_max:,}, {_bytes(can.apply_bytes_max)}",
        *(_word(one) for one in (can.atomic_apply, can.durable_on_return, can.row_locks)),
    ]
    return f"| {' | '.join(cells)} |"


def test_the_table_of_capabilities_is_that_of_the_code() -> None:
    table = PAGE.read_text("utf-8").partition("<!-- capabilities -->\n")[2].partition("\n\n")[0]
    assert table.splitlines()[2:] == [row(scheme, can) for scheme, can in sorted(STORES.items())]


def test_every_shipped_store_is_on_the_page() -> None:
    shipped = project_settings()["project"]["entry-points"]["lochan.stores"]
    assert set(STORES) == set(shipped)


def _bytes(size: int) -> str:
    return f"{size / 2**20:.2g} MB" if size >= 2**20 else f"{size >> 10} KB"


def _word(yes: bool) -> str:
    return "yes" if yes else "no"


# Those of seed 004, in the order and mostly in the words of its list.
SIXTEEN = (
    "PostgreSQL",
    "MySQL",
    "RocksDB",
    "MongoDB",
    "DynamoDB",
    "FoundationDB",
    "Azure Cosmos",
    "Azure Blob Store",
    "Google BigTable",
    "Google Spanner",
    "Google Cloud Storage",
    "HBase",
    "Cassandra",
    "Raft",
    "persistent Redis",
    "in-memory tree",
)


def test_every_database_of_the_seed_has_one_row_with_a_known_state() -> None:
    table = PAGE.read_text("utf-8").partition("<!-- databases -->\n")[2].partition("\n\n")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]
    for name in SIXTEEN:
        assert sum(name in row[0] for row in rows) == 1, name
    assert {row[1] for row in rows} == {"built", "plug-in"}
    assert all(len(row) == 3 and row[2] for row in rows)
