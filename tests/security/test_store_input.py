"""Wrong addresses, wrong directories and damaged bytes: typed errors, nothing written."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from zlib import crc32

import pytest
from rocksdict import Options, Rdict

from lochan.assembly import open_store
from lochan.base.errors import (
    Corrupt,
    Invalid,
    InvalidUrl,
    LochanError,
    NewerFormat,
    StoreLocked,
    TooLarge,
    Unavailable,
)
from lochan.kv.store import ABSENT, PRESENT, Adds, Partition, SetIf, Won
from lochan.stores.rocksdb.options import Parameters
from lochan.stores.rocksdb.rows import OPEN_NUMBER_KEY
from lochan.stores.rocksdb.store import RocksStore

PLACE = Partition(b"place")


def contents(path: Path) -> dict[str, bytes]:
    """Every file below, but RocksDB's diagnostics and lock, and the driver's own note."""
    return {
        str(file.relative_to(path)): file.read_bytes()
        for file in sorted(path.rglob("*"))
        if file.is_file() and not file.name.startswith(("LOG", "LOCK", "rocksdict-config"))
    }


def fill(path: Path, rows: int = 50) -> None:
    store = open_store(f"rocksdb:{path}")
    store.put_many([(PLACE, b"%03d" % number, b"value" * 20) for number in range(rows)])
    store.close()


def leave_unclosed(path: Path, flushed: int = 200) -> None:
    """Makes a directory as a kill leaves it: 200 rows in the log, none in a table."""
    other = path.with_name("living")
    store = open_store(f"rocksdb:{other}")
    for number in range(200):
        store.put_many([(PLACE, b"%03d" % number, bytes([number]) * 500)])
        if number + 1 == flushed:
            store.flush(store.epoch())
    shutil.copytree(other, path)
    store.close()


@pytest.mark.parametrize(
    "text",
    [
        "rocksdb:",
        "rocksdb:?cache_mb=1",
        "rocksdb://host/path",
        "rocksdb:{}?",
        "rocksdb:{}?cache_mb",
        "rocksdb:{}?cache_mb=",
        "rocksdb:{}?cache_mb=0",
        "rocksdb:{}?cache_mb=-1",
        "rocksdb:{}?cache_mb=1e3",
        "rocksdb:{}?cache_mb=٣",
        "rocksdb:{}?cache_mb=99999999999999999999",
        "rocksdb:{}?cache_mb=1&cache_mb=2",
        "rocksdb:{}?sync=true",
        "rocksdb:{}?recovery=hope",
        "rocksdb:{}?=1",
        "memory:x",
        "memory://",
        "nosuchstore:x",
        "no address",
        "",
    ],
)
def test_a_wrong_address_is_refused_and_creates_nothing(text: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidUrl):
        open_store(text.format(tmp_path / "store"))
    assert list(tmp_path.iterdir()) == []


def test_good_parameters_are_accepted(tmp_path: Path) -> None:
    for text in ("cache_mb=1", "cache_mb=65536&recovery=strict", "recovery=point-in-time"):
        open_store(f"rocksdb:{tmp_path / 'store'}?{text}").close()
    open_store(f"rocksdb://{tmp_path / 'store'}").close()


def test_a_path_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InvalidUrl, match="is a file"):
        open_store(f"rocksdb:{tmp_path / 'file'}")
    with pytest.raises(LochanError):
        open_store(f"rocksdb:{tmp_path / 'file' / 'below'}")
    assert contents(tmp_path) == {"file": b"mine"}


def test_a_missing_parent_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(InvalidUrl, match="does not exist"):
        open_store(f"rocksdb:{tmp_path / 'missing' / 'store'}")
    assert list(tmp_path.iterdir()) == []


def test_a_name_too_long_for_the_file_system_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Unavailable):
        open_store(f"rocksdb:{tmp_path / ('x' * 300)}")
    assert list(tmp_path.iterdir()) == []


def test_somebody_elses_directory_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(InvalidUrl, match="not a Lochan store"):
        open_store(f"rocksdb:{tmp_path}")
    assert contents(tmp_path) == {"thesis.tex": b"years of work"}


def test_somebody_elses_database_is_left_alone(tmp_path: Path) -> None:
    database = Rdict(str(tmp_path / "theirs"), Options(raw_mode=True))
    database[b"key"] = b"value"
    database.close()
    before = contents(tmp_path)
    with pytest.raises(InvalidUrl, match="not a Lochan store"):
        open_store(f"rocksdb:{tmp_path / 'theirs'}")
    assert contents(tmp_path) == before


def test_a_dangling_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(InvalidUrl):
        open_store(f"rocksdb:{tmp_path / 'link'}")
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.skipif(not Path("/sys/kernel").is_dir(), reason="needs Linux's read-only /sys")
def test_a_place_where_nothing_can_be_created_is_unavailable() -> None:
    with pytest.raises(Unavailable, match="cannot use"):
        open_store("rocksdb:/sys/kernel/lochan")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere; run as another user")
def test_a_read_only_directory_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir(mode=0o555)
    with pytest.raises(Unavailable, match="cannot write"):
        open_store(f"rocksdb:{tmp_path / 'store'}")
    assert contents(tmp_path) == {}


def test_a_second_open_is_told_who_owns_the_store(tmp_path: Path) -> None:
    path = tmp_path / "store"
    store = open_store(f"rocksdb:{path}")
    store.put_many([(PLACE, b"a", b"x")])
    before = {file.name: file.stat().st_mtime_ns for file in path.iterdir()}
    with pytest.raises(StoreLocked, match=r"already open.*stop that process"):
        open_store(f"rocksdb:{path}")
    assert {file.name: file.stat().st_mtime_ns for file in path.iterdir()} == before
    assert store.get(PLACE, b"a") is not None
    store.close()
    open_store(f"rocksdb:{path}").close()


@pytest.mark.slow
def test_a_second_process_is_told_who_owns_the_store(tmp_path: Path) -> None:
    path = tmp_path / "store"
    store = open_store(f"rocksdb:{path}")
    before = {file.name: file.stat().st_mtime_ns for file in path.iterdir()}
    code = (
        "import sys; from lochan.assembly import open_store\n"
        "from lochan.base.errors import StoreLocked\n"
        "try: open_store(sys.argv[1])\n"
        "except StoreLocked as error: print(error); sys.exit(7)\n"
    )
    command = [sys.executable, "-c", code, f"rocksdb:{path}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 7, done.stderr
    assert "only one process may open it" in done.stdout
    assert {file.name: file.stat().st_mtime_ns for file in path.iterdir()} == before
    store.close()


@pytest.mark.parametrize("name", ["MANIFEST", "CURRENT", "LOCHAN"])
@pytest.mark.parametrize("damage", ["cut", "flip", "garbage", "gone"])
def test_a_damaged_directory_is_corrupt_and_not_started_anew(
    name: str, damage: str, tmp_path: Path
) -> None:
    path = tmp_path / "store"
    fill(path)
    (file,) = path.glob(f"{name}*")
    raw = file.read_bytes()
    middle = len(raw) // 2
    changed = {
        "cut": raw[:middle],
        "flip": raw[:middle] + bytes([raw[middle] ^ 0x10]) + raw[middle + 1 :],
        "garbage": b"\xa5" * len(raw),
        "gone": b"",
    }[damage]
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes(changed)
    before = contents(path)
    with pytest.raises((Corrupt, InvalidUrl)) as caught:
        open_store(f"rocksdb:{path}")
    assert isinstance(caught.value, InvalidUrl) == (name == "LOCHAN" and damage == "gone")
    assert contents(path) == before
    if damage != "gone":
        file.write_bytes(raw)
        store = open_store(f"rocksdb:{path}")
        assert len(store.scan(PLACE, b"", None, 100).entries) == 50
        store.close()


def test_a_directory_marked_by_a_newer_version_is_refused(tmp_path: Path) -> None:
    fill(tmp_path / "store")
    (tmp_path / "store" / "LOCHAN").write_bytes(
        b"lochan-rocksdb 2 ready %08x\n" % crc32(b"lochan-rocksdb 2 ready")
    )
    before = contents(tmp_path)
    with pytest.raises(NewerFormat):
        open_store(f"rocksdb:{tmp_path / 'store'}")
    assert contents(tmp_path) == before


def test_a_flipped_version_of_the_mark_is_corrupt_and_no_newer_version(tmp_path: Path) -> None:
    fill(tmp_path / "store")
    file = tmp_path / "store" / "LOCHAN"
    file.write_bytes(file.read_bytes().replace(b"lochan-rocksdb 1 ", b"lochan-rocksdb 3 "))
    with pytest.raises(Corrupt):
        open_store(f"rocksdb:{tmp_path / 'store'}")


def test_a_lost_table_is_corrupt(tmp_path: Path) -> None:
    fill(tmp_path / "store")
    for table in (tmp_path / "store").glob("*.sst"):
        table.unlink()
    with pytest.raises(Corrupt):
        open_store(f"rocksdb:{tmp_path / 'store'}")


def test_a_lost_log_is_corrupt_until_the_operator_says_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "store"
    leave_unclosed(path)
    for log in path.glob("*.log"):
        log.unlink()
    for _ in range(2):
        with pytest.raises(Corrupt, match="lost rows"):
            open_store(f"rocksdb:{path}")
    store = open_store(f"rocksdb:{path}?recovery=point-in-time")
    outcome = store.set_if(PLACE, b"000", b"again", ABSENT)
    assert isinstance(outcome, Won)
    assert int.from_bytes(outcome.stamp, "big") >> 40 == 2, "stamps go on even so"
    store.close()
    open_store(f"rocksdb:{path}").close()


def test_a_damaged_table_is_corrupt_and_never_the_end_of_data(tmp_path: Path) -> None:
    path = tmp_path / "store"
    store = open_store(f"rocksdb:{path}")
    rows = [(PLACE, b"%05d" % number, os.urandom(400)) for number in range(1_000)]
    store.put_many(rows)
    store.close()
    (table,) = path.glob("*.sst")
    raw = bytearray(table.read_bytes())
    raw[len(raw) // 4] ^= 1
    table.write_bytes(raw)
    again = open_store(f"rocksdb:{path}")
    with pytest.raises(Corrupt):
        again.scan(PLACE, b"", None, 10_000)
    with pytest.raises(Corrupt):
        again.drop_partition(PLACE)
    outcomes: list[bytes | None] = []
    for _, key, value in rows:
        try:
            entry = again.get(PLACE, key)
        except Corrupt:
            outcomes.append(None)
        else:
            assert entry is not None
            assert entry.value == value
            outcomes.append(value)
    assert None in outcomes
    with pytest.raises(Corrupt):
        again.get_many([(PLACE, key) for _, key, _ in rows])
    damaged = rows[outcomes.index(None)]
    with pytest.raises(Corrupt):
        again.set_if(PLACE, damaged[1], b"x", ABSENT)
    with pytest.raises(Corrupt):
        again.add_many(Adds([(PLACE, damaged[1], b"x")], 1))
    with pytest.raises(Corrupt):
        again.apply(Adds([damaged], 1), SetIf(PLACE, b"row", b"x", ABSENT))
    assert again.get(PLACE, b"row") is None
    again.close()


def log_of(path: Path) -> tuple[Path, bytes]:
    """Returns the log that holds the rows, and its bytes."""
    (log,) = path.glob("*.log")
    return log, log.read_bytes().rstrip(b"\0")


@pytest.mark.parametrize("damage", ["cut", "flip", "zeros"])
def test_damage_to_what_was_never_acknowledged_is_mended(damage: str, tmp_path: Path) -> None:
    path = tmp_path / "store"
    leave_unclosed(path, flushed=190)
    log, whole = log_of(path)
    for back in (1, 300, 700, 4_000):
        torn = tmp_path / f"torn{back}"
        shutil.copytree(path, torn)
        changed = bytearray(whole)
        if damage == "cut":
            del changed[-back:]
        elif damage == "flip":
            changed[-back] ^= 0x20
        else:
            changed[-back : -back + 512 if back > 512 else None] = bytes(min(back, 512))
        (torn / log.name).write_bytes(changed)
        store = open_store(f"rocksdb:{torn}")
        rows = store.scan(PLACE, b"", None, 1_000).entries
        assert [entry.key for entry in rows] == [b"%03d" % n for n in range(len(rows))]
        assert 190 <= len(rows) < 200
        store.close()
        open_store(f"rocksdb:{torn}").close()


@pytest.mark.parametrize("damage", ["cut", "flip"])
def test_damage_to_what_was_acknowledged_is_refused_and_nothing_is_changed(
    damage: str, tmp_path: Path
) -> None:
    path = tmp_path / "store"
    leave_unclosed(path, flushed=190)
    log, whole = log_of(path)
    for position in (40, len(whole) // 2, len(whole) - 6_000):
        changed = bytearray(whole)
        if damage == "cut":
            del changed[position:]
        else:
            changed[position] ^= 1
        log.write_bytes(changed)
        before = contents(path)
        for _ in range(2):
            with pytest.raises(Corrupt, match="recovery=point-in-time"):
                open_store(f"rocksdb:{path}")
        assert contents(path) == before
    store = open_store(f"rocksdb:{path}?recovery=point-in-time")
    kept = len(store.scan(PLACE, b"", None, 1_000).entries)
    assert 180 < kept < 190
    store.close()
    again = open_store(f"rocksdb:{path}")
    assert len(again.scan(PLACE, b"", None, 1_000).entries) == kept
    again.close()


@pytest.mark.parametrize("raw", [b"", b"x", b"x" * 11])
def test_a_row_shorter_than_its_header_is_corrupt(raw: bytes, tmp_path: Path) -> None:
    store = RocksStore(tmp_path / "store", Parameters())
    store._db.put(b"\x05place" + b"short", raw)
    names = [(PLACE, b"short")]
    for call in (
        lambda: store.get(PLACE, b"short"),
        lambda: store.get_many(names),
        lambda: store.get_many(names * 20),
        lambda: store.scan(PLACE, b"", None, 10),
        lambda: store.set_if(PLACE, b"short", b"x", ABSENT),
        lambda: store.set_if(PLACE, b"short", b"x", PRESENT),
        lambda: store.delete_if(PLACE, b"short", PRESENT),
        lambda: store.add_many(Adds([(PLACE, b"short", b"x")], 1)),
        lambda: store.hold(PLACE, b"short"),
    ):
        with pytest.raises(Corrupt):
            call()
    assert store._db.get(b"\x05place" + b"short") == raw
    store.close()


@pytest.mark.parametrize("raw", [b"", b"1", b"\xff" * 8, b"\0" * 9])
def test_a_damaged_number_of_openings_is_corrupt(raw: bytes, tmp_path: Path) -> None:
    store = RocksStore(tmp_path / "store", Parameters())
    store._db.put(OPEN_NUMBER_KEY, raw)
    store.close()
    for _ in range(2):
        with pytest.raises(Corrupt):
            open_store(f"rocksdb:{tmp_path / 'store'}")


def test_oversized_rows_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    for text in ("memory:", f"rocksdb:{tmp_path / 'store'}"):
        store = open_store(text)
        epoch = store.epoch()
        with pytest.raises(Invalid):
            store.put_many([(PLACE, b"fine", b""), (PLACE, b"k" * 4_097, b"")])
        with pytest.raises(Invalid):
            store.put_many([(PLACE, b"fine", b""), (Partition(b"p" * 256), b"k", b"")])
        with pytest.raises(TooLarge):
            store.put_many([(PLACE, b"fine", b""), (PLACE, b"k", bytes(5 * 1_024 * 1_024))])
        assert store.epoch() == epoch
        assert store.scan(PLACE, b"", None, 10).entries == []
        store.close()
