"""Metadata from others: it runs no code here, and broken metadata changes nothing."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from lochan.base.errors import Invalid
from lochan.iceberg import LochanCatalog
from tests.iceberg.rows import SCHEMA, held, messages, numbers, rows

CODE = "write.py-location-provider.impl"


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """A file that only code from the properties of a table would make."""
    return tmp_path / "code was run"


def hostile(folder: Path, mark: Path, **more: object) -> str:
    """Writes metadata of a table whose location is a program and whose properties run it."""
    folder.mkdir(exist_ok=True)
    with LochanCatalog(uri="memory:", warehouse=f"file://{folder}") as own:
        table = own.create_table("a.b", SCHEMA)
        table.append(rows(1))
    hostile = stored(table)
    hostile["properties"] = {CODE: "builtins.exec", "write.metadata.path": f"file://{folder}/m"}
    hostile["location"] = f"open({str(mark)!r}, 'w').close()"
    place = folder / "hostile.metadata.json"
    place.write_bytes(msgspec.json.encode(hostile | more))
    return f"file://{place}"


def stored(table) -> dict:
    return msgspec.json.decode(Path(table.metadata_location.removeprefix("file://")).read_bytes())


def test_properties_of_a_table_run_no_code(local, tmp_path, mark):
    table = local.register_table("shop.orders", hostile(tmp_path / "other", mark))
    assert numbers(table) == [1]
    with table.transaction() as transaction:
        transaction.set_properties({"owner": "shop"})
    assert not mark.exists()
    assert stored(table)["properties"][CODE] == "builtins.exec"
    assert Path(table.metadata_location.removeprefix("file://")).parent == tmp_path / "other" / "m"


def test_writing_to_a_table_runs_no_code_of_its_properties(local, tmp_path, mark):
    local.create_table("shop.orders", SCHEMA, properties={CODE: "builtins.exec"}).append(rows(1))
    table = local.load_table("shop.orders")
    table.append(rows(2))
    assert held(local) == [1, 2]
    assert table.properties[CODE] == ""
    assert stored(table)["properties"][CODE] == "builtins.exec"
    with table.transaction() as transaction:
        transaction.remove_properties(CODE)
    assert CODE not in stored(table)["properties"]


def test_a_table_that_is_made_with_its_rows_runs_no_code_and_keeps_its_properties(local):
    properties = {CODE: "builtins.exec"}
    with local.create_table_transaction("shop.orders", SCHEMA, properties=properties) as creating:
        creating.append(rows(1))
    assert held(local) == [1]
    table = local.load_table("shop.orders")
    assert stored(table)["properties"][CODE] == "builtins.exec"


def test_metadata_goes_where_its_property_says_or_beside_the_data(local, warehouse):
    properties = {"write.metadata.path": f"{warehouse}/elsewhere/"}
    there = local.create_table("shop.there", SCHEMA, properties=properties)
    assert there.metadata_location.startswith(f"{warehouse}/elsewhere/00000-")
    here = local.create_table(
        "shop.here", SCHEMA, properties={"write.object-storage.enabled": "true"}
    )
    assert here.metadata_location.startswith(f"{here.location()}/metadata/00000-")


def test_metadata_that_cannot_be_parsed_is_not_registered(local, tmp_path, mark):
    place = hostile(tmp_path / "other", mark, **{"partition-specs": "none"})
    with pytest.raises(Invalid, match="cannot read the metadata"):
        local.register_table("shop.orders", place)
    with pytest.raises(Invalid, match="cannot read the metadata"):
        local.register_view("shop.view", place)
    assert messages(local) == []


def test_metadata_without_its_current_snapshot_is_not_registered(local, tmp_path, mark):
    place = hostile(tmp_path / "other", mark, snapshots=[], refs={}, **{"snapshot-log": []})
    with pytest.raises(Invalid, match="lacks its own current snapshot"):
        local.register_table("shop.orders", place)
    assert messages(local) == []
