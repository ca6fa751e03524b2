"""Ids of list elements, keys and values in footers: all else stays byte for byte, or is refused."""

from __future__ import annotations

import base64
import shutil
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from lochan.spark.schemas import has_types
from lochan.spark.write.element_ids import add_element_ids, footer_with_ids
from lochan.spark.write.parquet_footers import EncryptedError, insert_ids, read_elements
from tests.profile import counted

PLAIN = st.sampled_from(
    [
        *(BooleanType(), IntegerType(), LongType(), DoubleType(), StringType(), BinaryType()),
        *(DateType(), TimestampType(), TimestamptzType(), DecimalType(20, 4), FixedType(3)),
    ]
)


def structs(inner: st.SearchStrategy[IcebergType]) -> st.SearchStrategy[StructType]:
    return st.lists(inner, min_size=1, max_size=3).map(
        lambda kinds: StructType(
            *[NestedField(0, f"f{number}", kind) for number, kind in enumerate(kinds)]
        )
    )


KINDS = st.recursive(
    PLAIN,
    lambda inner: (
        inner.map(lambda kind: ListType(0, kind, False))
        | st.tuples(PLAIN, inner).map(lambda kinds: MapType(0, kinds[0], 0, kinds[1], False))
        | structs(inner)
    ),
    max_leaves=8,
)
# Beyond 63 and 8,191 an id takes one byte more.
SCHEMAS = st.tuples(structs(KINDS), st.sampled_from([1, 60, 8_180, 2**31 - 500])).map(
    lambda drawn: numbered(*drawn)
)


def numbered(struct: StructType, first: int) -> Schema:
    ids = iter(range(first, first + 400))
    return assign_fresh_schema_ids(Schema(*struct.fields), lambda: next(ids))


def bare(field: pa.Field, *, is_element: bool = False) -> pa.Field:
    """Returns a field as Spark writes it: without the ids of what is in lists and maps."""
    kind = field.type
    if pa.types.is_struct(kind):
        kind = pa.struct([bare(each) for each in kind])
    elif pa.types.is_map(kind):
        key, value = bare(kind.key_field, is_element=True), bare(kind.item_field, is_element=True)
        kind = pa.map_(key, value)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        kind = type_of_list(kind)(bare(kind.value_field, is_element=True))
    return pa.field(field.name, kind, field.nullable, None if is_element else field.metadata)


def type_of_list(kind: pa.DataType):
    return pa.large_list if pa.types.is_large_list(kind) else pa.list_


def written(schema: pa.Schema) -> bytes:
    """Returns a file of two rows, all NULL, which has everything that a footer has."""
    out = pa.BufferOutputStream()
    rows = pa.Table.from_arrays([pa.nulls(2, field.type) for field in schema], schema=schema)
    pq.write_table(rows, out, store_schema=False, row_group_size=1, write_page_index=True)
    return out.getvalue().to_pybytes()


def footer_of(file: bytes) -> bytes:
    length = int.from_bytes(file[-8:-4], "little")
    return file[-8 - length : -8]


@settings(max_examples=counted(60, 2_000), deadline=None)
@given(SCHEMAS)
def test_a_file_gets_exactly_the_bytes_that_pyarrow_writes_with_all_ids(schema):
    full = schema_to_pyarrow(schema)
    want = footer_of(written(full))
    have = footer_of(written(pa.schema([bare(field) for field in full])))
    assert footer_with_ids(schema, have) == want
    assert footer_with_ids(schema, want) == want
    assert insert_ids(have, read_elements(have), {}) == have
    assert (have == want) is not has_types(schema, ListType, MapType)


LISTED = numbered(
    StructType(
        NestedField(0, "l", ListType(0, StructType(NestedField(0, "x", LongType())), False)),
        NestedField(0, "m", MapType(0, StringType(), 0, LongType(), False)),
    ),
    1,
)
BARE = written(pa.schema([bare(field) for field in schema_to_pyarrow(LISTED)]))
DATA = st.data()


@settings(max_examples=counted(300, 20_000), deadline=None)
@given(DATA)
def test_a_broken_footer_is_refused_or_read_and_nothing_else(data):
    raw = bytearray(footer_of(BARE))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, max(0, len(raw) - 1)))
        end = at + data.draw(st.integers(0, 3))
        raw[at:end] = data.draw(st.binary(max_size=4))
    try:
        made = footer_with_ids(LISTED, bytes(raw))
    except ValueError:
        return
    # What was taken is taken again, with nothing more to add.
    assert footer_with_ids(LISTED, made) == made


@settings(max_examples=counted(200, 20_000), deadline=None)
@given(st.binary(max_size=200))
def test_bytes_that_are_no_footer_are_refused(raw):
    with pytest.raises(ValueError, match="it"):
        footer_with_ids(LISTED, raw)


def test_structs_in_structs_to_any_depth_are_stepped_over():
    # Field 1 is a struct whose field 1 is a struct, and so on; then the end of each.
    raw = b"\x1c" * 100_000 + b"\x00" * 100_001
    with pytest.raises(ValueError, match="its footer has no schema"):
        read_elements(raw)


def test_a_list_that_says_it_is_longer_than_the_footer_is_refused():
    with pytest.raises(ValueError, match="ends early"):
        read_elements(b"\x29\xfc\xff\xff\xff\xff\x0f")


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (Schema(LISTED.fields[0]), "has 2 parts, and the table has 1"),
        (Schema(LISTED.fields[1], LISTED.fields[0]), "has 1 parts, and the table has 2"),
        (
            Schema(NestedField(1, "l", StringType()), LISTED.fields[1]),
            "l has 1 parts, and the table has 0",
        ),
    ],
)
def test_a_file_with_other_columns_than_the_table_is_refused(schema, message):
    with pytest.raises(ValueError, match=message):
        footer_with_ids(schema, footer_of(BARE))


def test_a_file_with_another_id_than_the_table_is_refused():
    other = numbered(StructType(*LISTED.fields), 100)
    made = footer_with_ids(other, footer_of(BARE))
    with pytest.raises(ValueError, match="element has the id 102, which should be 3"):
        footer_with_ids(LISTED, made)


def test_duckdb_writes_the_same_footer_when_it_is_given_the_ids(tmp_path):
    rows = "select [{x: 1::bigint}] as l, map {'k': 2::bigint} as m"
    top = "l: {__duckdb_field_id: 1, element: {x: 4}}, m: {__duckdb_field_id: 2}"
    full = (
        "l: {__duckdb_field_id: 1, element: {__duckdb_field_id: 3, x: 4}}, "
        "m: {__duckdb_field_id: 2, key: 5, value: 6}"
    )
    assert [LISTED.find_field(name).field_id for name in ("l", "l.element", "l.element.x")] == [
        *(1, 3, 4)
    ]
    for name, ids in (("top", top), ("full", full)):
        duckdb.sql(f"copy ({rows}) to '{tmp_path / name}' (format parquet, field_ids {{{ids}}})")
    have, want = (footer_of((tmp_path / name).read_bytes()) for name in ("top", "full"))
    assert have != want
    assert footer_with_ids(LISTED, have) == want


class Kms(pe.KmsClient):  # type: ignore[misc]
    """Keeps nothing secret."""

    def __init__(self, _config):
        super().__init__()

    def wrap_key(self, key, _name):
        return base64.b64encode(key)

    def unwrap_key(self, key, _name):
        return base64.b64decode(key)


@pytest.mark.parametrize(("is_plain", "message"), [(False, "is encrypted"), (True, "is signed")])
def test_an_encrypted_or_signed_footer_is_refused(tmp_path, is_plain, message):
    path = tmp_path / "secret.parquet"
    factory = pe.CryptoFactory(Kms)
    config = pe.EncryptionConfiguration(
        footer_key="f", column_keys={"c": ["l.list.element.x"]}, plaintext_footer=is_plain
    )
    properties = factory.file_encryption_properties(pe.KmsConnectionConfig(), config)
    schema = schema_to_pyarrow(Schema(LISTED.fields[0]))
    with pq.ParquetWriter(path, schema, encryption_properties=properties) as writer:
        writer.write_table(pa.Table.from_arrays([pa.nulls(1, schema.types[0])], schema=schema))
    before = path.read_bytes()
    with pytest.raises(EncryptedError, match=message):
        add_element_ids(Schema(LISTED.fields[0]), str(path))
    assert path.read_bytes() == before


@pytest.fixture
def file(tmp_path) -> Path:
    path = tmp_path / "part-0.zstd.parquet"
    path.write_bytes(BARE)
    (tmp_path / ".part-0.zstd.parquet.crc").write_bytes(b"of other bytes")
    return path


WHOLE = written(schema_to_pyarrow(LISTED))


@pytest.mark.parametrize("prefix", ["", "file://", "file:"])
def test_a_file_is_replaced_whole_and_its_old_checksum_is_gone(file, prefix):
    file.chmod(0o640)
    add_element_ids(LISTED, f"{prefix}{file}")
    assert file.read_bytes() == WHOLE
    assert [each.name for each in file.parent.iterdir()] == [file.name]
    assert file.stat().st_mode & 0o777 == 0o640
    number = file.stat().st_ino
    add_element_ids(LISTED, str(file))
    assert file.stat().st_ino == number


def test_two_tasks_on_one_file_leave_it_whole(file, monkeypatch):
    seen = []
    real = shutil.copy

    def copy(source, target):
        # The other task does all of it while this one has read the footer and nothing more.
        monkeypatch.setattr(shutil, "copy", real)
        add_element_ids(LISTED, str(file))
        seen.append(file.read_bytes())
        return real(source, target)

    monkeypatch.setattr(shutil, "copy", copy)
    add_element_ids(LISTED, str(file))
    assert seen == [WHOLE]
    assert file.read_bytes() == WHOLE


@pytest.mark.parametrize("step", ["copy", "open", "unlink", "replace"])
def test_an_end_at_any_step_leaves_the_file_as_it_was_for_another_task(file, monkeypatch, step):
    class Killed(BaseException):
        pass

    def kill(*_args, **_words):
        raise Killed

    def no_writing(path, mode):
        return kill() if mode == "r+b" else real(path, mode)

    real = Path.open
    with monkeypatch.context() as patched:
        match step:
            case "copy":
                patched.setattr(shutil, "copy", kill)
            case "open":
                patched.setattr(Path, "open", no_writing)
            case _:
                patched.setattr(Path, step, kill)
        with pytest.raises(Killed):
            add_element_ids(LISTED, str(file))
    assert file.read_bytes() == BARE
    add_element_ids(LISTED, str(file))
    assert file.read_bytes() == WHOLE
    # What is left beside it is hidden, and no data file by its name.
    assert all(each.name.startswith(".") for each in file.parent.iterdir() if each != file)
    assert [each.name for each in file.parent.glob("*.parquet")] == [file.name]
