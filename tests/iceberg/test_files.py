"""Metadata files: their names, their packing, and what is kept of them."""

from __future__ import annotations

import gzip
import re
import zlib
from pathlib import Path

import msgspec
import pytest
from pyiceberg.table import StaticTable

from lochan.base.errors import Corrupt, Invalid, TooLarge
from lochan.base.limits.iceberg import ICEBERG_METADATA_BYTES_MAX, ICEBERG_METADATA_CACHE_BYTES_MAX
from lochan.iceberg.files import MetadataFiles, new_location, warehouse_location
from tests.iceberg.rows import SCHEMA, held, metadata_files, numbers, rows

NAME = re.compile(r"(\d{5})-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\.metadata\.json")


def test_each_commit_has_a_metadata_file_of_its_own_and_they_are_numbered(local, warehouse):
    table = local.create_table("shop.orders", schema=SCHEMA)
    places = [table.metadata_location]
    for number in range(3):
        table.append(rows(number))
        places.append(table.metadata_location)
    names = [place.rpartition("/")[2] for place in places]
    assert all(NAME.fullmatch(name) for name in names)
    assert [name[:5] for name in names] == ["00000", "00001", "00002", "00003"]
    assert len(set(places)) == 4
    log = [entry.metadata_file for entry in table.metadata.metadata_log]
    assert log == places[:-1]
    assert all(Path(place[7:]).exists() for place in places)


def test_metadata_is_packed_where_the_table_asks_for_it(catalog):
    table = catalog.create_table(
        "shop.orders", schema=SCHEMA, properties={"write.metadata.compression-codec": "gzip"}
    )
    table.append(rows(1))
    place = Path(table.metadata_location[7:])
    assert place.name.startswith("00001-")
    assert place.name.endswith(".gz.metadata.json")
    assert msgspec.json.decode(gzip.decompress(place.read_bytes()))["format-version"] == 2
    assert numbers(StaticTable.from_metadata(table.metadata_location)) == [1]
    fresh = catalog.on(catalog.repository)
    assert held(fresh) == [1]
    with table.transaction() as transaction:
        transaction.set_properties({"write.metadata.compression-codec": "none"})
    assert NAME.fullmatch(table.metadata_location.rpartition("/")[2])
    assert held(fresh) == [1]


def test_metadata_goes_where_the_table_wants_it(local, warehouse):
    table = local.create_table(
        "shop.orders", schema=SCHEMA, properties={"write.metadata.path": f"{warehouse}/meta/"}
    )
    table.append(rows(1))
    assert table.metadata_location.startswith(f"{warehouse}/meta/00001-")


def test_numbers_go_on_from_names_that_have_one_and_begin_anew_else():
    metadata = {"location": "s3://b/t"}
    uuid = "6c97e413-d51b-4538-ac70-12fe2a85cb83"
    for previous, number in {
        None: "00000",
        f"s3://b/t/metadata/00041-{uuid}.metadata.json": "00042",
        f"s3://b/t/metadata/00041-{uuid}.gz.metadata.json": "00042",
        f"s3://b/t/metadata/99999-{uuid}.metadata.json": "100000",
        "s3://b/t/metadata/v3.metadata.json": "00000",
        "anything": "00000",
    }.items():
        name = new_location(metadata, previous)
        assert name.startswith(f"s3://b/t/metadata/{number}-"), previous


def test_packed_metadata_is_known_by_its_bytes_whatever_its_name(tmp_path):
    place = tmp_path / "v1.metadata.json"
    place.write_bytes(gzip.compress(b'{"a": 1}'))
    assert MetadataFiles({}).read(f"file://{place}") == {"a": 1}
    assert MetadataFiles({}).read(str(place)) == {"a": 1}


@pytest.mark.parametrize(
    "raw",
    [b"", b"[]", b"{", b'{"a": \xff}', gzip.compress(b'{"a": 1}')[:-9], b"\x1f\x8bnothing"],
    ids=["empty", "a list", "cut", "not text", "packed and cut", "not packed"],
)
def test_what_is_no_metadata_is_corrupt(tmp_path, raw):
    place = tmp_path / "x.metadata.json"
    place.write_bytes(raw)
    with pytest.raises(Corrupt, match=r"x\.metadata\.json"):
        MetadataFiles({}).read(f"file://{place}")


def test_a_file_that_unpacks_without_end_is_refused(tmp_path):
    packing = zlib.compressobj(9, wbits=31)
    zeros = bytes(1_024 * 1_024)
    parts = [packing.compress(zeros) for _ in range(ICEBERG_METADATA_BYTES_MAX // len(zeros) + 1)]
    place = tmp_path / "x.metadata.json"
    place.write_bytes(b"".join([*parts, packing.flush()]))
    with pytest.raises(TooLarge, match="more than"):
        MetadataFiles({}).read(f"file://{place}")


def test_what_was_read_is_kept_and_no_more_than_fits(tmp_path):
    files = MetadataFiles({})
    size = ICEBERG_METADATA_CACHE_BYTES_MAX // 3
    places = []
    for number in range(4):
        place = tmp_path / f"{number}.metadata.json"
        place.write_bytes(msgspec.json.encode({"n": number, "fill": "x" * size}))
        places.append(f"file://{place}")
    first = files.read(places[0])
    assert files.read(places[0]) is first
    for place in places[1:]:
        files.read(place)
    assert files.read(places[0]) is not first
    newest = files.read(places[3])
    assert files.read(places[3]) is newest


def test_what_was_removed_is_not_remembered(tmp_path):
    files, place = MetadataFiles({}), f"file://{tmp_path}/x.metadata.json"
    files.write(place, {"a": 1})
    assert files.read(place) == {"a": 1}
    files.remove(place)
    with pytest.raises(FileNotFoundError):
        files.read(place)
    files.remove(place)


def test_a_metadata_file_is_never_overwritten(tmp_path):
    files, place = MetadataFiles({}), f"file://{tmp_path}/x.metadata.json"
    files.write(place, {"a": 1})
    with pytest.raises(FileExistsError):
        files.write(place, {"a": 2})
    assert MetadataFiles({}).read(place) == {"a": 1}


def test_a_catalog_that_knows_nothing_yet_reads_what_others_wrote(catalog, warehouse):
    catalog.create_table("shop.orders", schema=SCHEMA).append(rows(1))
    assert held(catalog.on(catalog.repository)) == [1]
    assert len(metadata_files(warehouse)) == 2


def test_a_directory_is_a_warehouse_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert warehouse_location("lake") == f"file://{tmp_path}/lake"
    assert warehouse_location(f"{tmp_path}/") == f"file://{tmp_path}"
    assert warehouse_location("s3://bucket/lake/") == "s3://bucket/lake"
    assert warehouse_location("file:/lake/") == "file:/lake"


@pytest.mark.parametrize("warehouse", ["lake#1", "s3://bucket/a?b"])
def test_a_warehouse_whose_name_readers_would_cut_is_refused(warehouse):
    with pytest.raises(Invalid, match=r"contains # or \?"):
        warehouse_location(warehouse)


def test_a_tables_own_properties_do_not_say_how_its_files_are_reached(local):
    table = local.create_table(
        "shop.orders", schema=SCHEMA, properties={"py-io-impl": "os.system", "s3.endpoint": "evil"}
    )
    table.append(rows(1))
    assert held(local) == [1]
    assert "s3.endpoint" not in local.load_table("shop.orders").io.properties
