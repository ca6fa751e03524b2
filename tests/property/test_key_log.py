"""Logs by path and by prefix are those of a plain search, whatever became of the key packs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from lochan.assembly import open_store
from lochan.base.errors import LochanError
from lochan.base.ids import ID_BYTES
from lochan.codec.forms import CHECKSUM_BYTES
from lochan.codec.key_packs import KeyPack, KeyPackBuilder
from lochan.kernel import build, key_log
from lochan.kernel import key_packs as kernel
from lochan.persist import key_packs as rows
from lochan.service import file_history
from lochan.testing.postgres import MISSING, find_binaries, shared_server
from tests.profile import counted
from tests.property.key_log_world import KeyLogWorld, pack_rows

STEPS = 30
WORLDS = counted(25, 300)
MUTANT_WORLDS_MAX = 25

Patch = Callable[[pytest.MonkeyPatch], None]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits of more than three keys do not list them, and packs of a run may be several."""
    monkeypatch.setattr(build, "COMMIT_OWN_KEYS_MAX", 3)
    monkeypatch.setattr(kernel, "KEY_PACK_BYTES_MAX", 100)


def differences(world: KeyLogWorld, monkeypatch: pytest.MonkeyPatch) -> int:
    """Goes through random steps and searches; returns how many searches were wrong."""
    wrong = 0
    for _ in range(STEPS):
        world.step()
        world.disturb()
        for _ in range(2):
            monkeypatch.setattr(
                file_history, "FILE_LOG_SCANNED_MAX", world.pick.choice((1, 3, 8, 1_000))
            )
            found, expected = world.search()
            wrong += found != expected
    return wrong


@pytest.mark.parametrize("seed", range(WORLDS))
def test_a_log_of_files_is_that_of_a_plain_search(seed, monkeypatch):
    world = KeyLogWorld(seed)
    assert differences(world, monkeypatch) == 0


def test_random_histories_use_packs_and_reach_several_in_a_run(monkeypatch, record_property):
    """Else the other tests here would show nothing."""
    used, split, stored = 0, 0, 0
    right = kernel.KeyPacks.find

    def find(self, newest, sequence):
        nonlocal used, split
        pack = right(self, newest, sequence)
        used += pack is not None
        split += pack is not None and sequence % self.commits != 0
        return pack

    monkeypatch.setattr(kernel.KeyPacks, "find", find)
    for seed in range(5):
        world = KeyLogWorld(seed)
        assert differences(world, monkeypatch) == 0
        stored += len(list(pack_rows(world.bench)))
    record_property("counted", f"{used} packs used, {split} within runs, {stored} stored")
    assert min(used, split, stored) > 20


@pytest.mark.parametrize("seed", range(counted(2, 20)))
def test_a_log_of_files_is_exact_on_rocksdb(seed, monkeypatch, tmp_path: Path):
    store = open_store(f"rocksdb:{tmp_path / 'store'}")
    try:
        assert differences(KeyLogWorld(seed, store), monkeypatch) == 0
    finally:
        store.close()


@pytest.mark.skipif(find_binaries() is None, reason=MISSING)
def test_a_log_of_files_is_exact_on_postgres(monkeypatch):
    server = shared_server()
    assert server is not None
    store = open_store(server.url(schema=server.fresh_schema(), pool=4))
    try:
        assert differences(KeyLogWorld(1, store), monkeypatch) == 0
    finally:
        store.close()


def a_pack_omits_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    right = KeyPackBuilder.add

    def careless(self, obj_id, own, parent):
        return right(self, obj_id, own and own[1:], parent)

    monkeypatch.setattr(KeyPackBuilder, "add", careless)


def a_pack_forgets_commits_without_listed_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    right = KeyPackBuilder.add

    def careless(self, obj_id, own, parent):
        return right(self, obj_id, own or (), parent)

    monkeypatch.setattr(KeyPackBuilder, "add", careless)


def a_run_leaves_out_the_commit_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    right = kernel.build_key_pack

    def careless(lines, newest, sequence, commits):
        pack = right(lines, newest, sequence, commits)
        if len(pack) < 2:
            return pack
        ids = pack.ids[:-ID_BYTES]
        places = bytes(
            min(one, len(pack) - 2) if at % 2 == 0 else one for at, one in enumerate(pack.places)
        )
        unlisted = tuple(one for one in pack.unlisted if one < len(pack) - 1)
        return msgspec.structs.replace(pack, ids=ids, places=places, unlisted=unlisted)

    monkeypatch.setattr(kernel, "build_key_pack", careless)


def places_are_one_too_high(monkeypatch: pytest.MonkeyPatch) -> None:
    right = KeyPack.places_of

    def careless(self, first, end):
        return tuple(min(place + 1, len(self) - 1) for place in right(self, first, end))

    monkeypatch.setattr(KeyPack, "places_of", careless)


def a_page_begins_one_commit_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    right = key_log._Part.find_id
    monkeypatch.setattr(
        key_log._Part,
        "find_id",
        lambda self, place: right(self, min(place + 1, len(self.commits))),
    )


def damaged_packs_are_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    decode = msgspec.msgpack.Decoder(KeyPack).decode

    def careless(newest, sequence, raw):
        return decode(raw[:-CHECKSUM_BYTES])

    monkeypatch.setattr(rows, "decode_key_pack", careless)


def the_end_is_not_looked_for_in_packs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KeyPack, "find_place", lambda *_: None)


MUTANTS: tuple[Patch, ...] = (
    a_pack_omits_a_key,
    a_pack_forgets_commits_without_listed_keys,
    a_run_leaves_out_the_commit_after_it,
    places_are_one_too_high,
    a_page_begins_one_commit_too_late,
    damaged_packs_are_believed,
    the_end_is_not_looked_for_in_packs,
)


@pytest.mark.parametrize("mutant", MUTANTS, ids=[one.__name__ for one in MUTANTS])
def test_random_histories_find_every_mutant(mutant, monkeypatch):
    mutant(monkeypatch)
    for seed in range(MUTANT_WORLDS_MAX):
        world = KeyLogWorld(seed)
        try:
            if differences(world, monkeypatch):
                return
        except (LochanError, msgspec.DecodeError, IndexError, AssertionError):
            return
    pytest.fail(f"no difference in {MUTANT_WORLDS_MAX} histories")
