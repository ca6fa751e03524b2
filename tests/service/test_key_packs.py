"""Key packs: what they cost, who builds them, and that a log never depends on them."""

from __future__ import annotations

import pytest

from lochan.base.errors import Corrupt
from lochan.base.ids import ObjId
from lochan.base.keys import file_key
from lochan.codec.forms import encode_row
from lochan.codec.key_packs import KeyPack, KeyPackBuilder, decode_key_pack
from lochan.kernel.key_log import Search, SearchedKeys, search_line
from lochan.kernel.repository import Ports
from lochan.model.specs import parse_spec
from lochan.service.repositories import Repositories
from lochan.service.sweeps import KeyPackSweep, SweepFailure
from tests.property.key_log_world import pack_rows
from tests.service.bench import ME, Bench, pages, writes

RUN = 8
COMMITS = 40
MAIN = parse_spec("main")


@pytest.fixture
def bench() -> Bench:
    """Five runs of commits; every tenth commit changes `rare`, the others change `often`."""
    one = Bench(key_pack_commits=RUN)
    for number in range(COMMITS):
        one.put("rare" if number % 10 == 0 else "often", b"%d" % number)
        one.commit_files("main", str(number))
    return one


RARE = ["30", "20", "10", "0"]


def rare(bench: Bench, limit: int = 100) -> list[str]:
    log = bench.repository.file_history.log
    found = pages(lambda token: log(ME, MAIN, paths=["rare"], limit=limit, token=token))
    return [entry.meta.message for entry in found]


def build(bench: Bench) -> int:
    assert not bench.repository.context.key_packs.build_due()
    return len(list(pack_rows(bench)))


def test_commits_note_runs_and_write_no_pack(bench):
    assert list(pack_rows(bench)) == []
    assert bench.repository.context.key_packs.has_due
    assert build(bench) == COMMITS // RUN
    assert rare(bench) == rare(bench.again()) == RARE


def test_a_run_costs_one_read_and_one_write_and_its_commits_are_in_memory():
    one = Bench(key_pack_commits=RUN)
    counted, counts = one.counted()
    for number in range(RUN):
        counted.put("often", b"%d" % number)
        counted.commit_files("main", str(number))
    before = dict(counts.calls)
    counted.repository.context.key_packs.build_due()
    made = {name: counts.calls[name] - before.get(name, 0) for name in counts.calls}
    assert {name: count for name, count in made.items() if count} == {"get": 1, "put_many": 1}


def test_a_search_by_packs_reads_one_row_for_a_run(bench):
    build(bench)
    reading, counts = bench.counted()
    log = reading.repository.file_history.log
    log(ME, MAIN, paths=["missing"])
    first = sum(counts.calls.values())
    assert log(ME, MAIN, paths=["never"]).items == ()
    assert sum(counts.calls.values()) - first <= 1
    # The row of the branch, its head and its repository; then the packs.
    assert first <= COMMITS // RUN + 8
    assert not writes(counts)


def test_a_search_without_packs_reads_as_before_and_writes_nothing(bench):
    reading, counts = bench.counted()
    before = counts.calls["get_many"]
    assert rare(reading) == RARE
    assert counts.calls["get_many"] - before <= COMMITS // 20 + 3 * len(RARE) + 2
    assert not writes(counts)
    assert reading.repository.context.key_packs.has_due
    assert build(reading) == COMMITS // RUN


def test_every_damaged_byte_of_a_pack_is_noticed_and_the_answer_stays(bench):
    build(bench)
    place, entry = next(iter(pack_rows(bench)))
    for at in range(len(entry.value)):
        raw = bytearray(entry.value)
        raw[at] ^= 0x11
        bench.store.put_many([(place, entry.key, bytes(raw))])
        if at % 7 == 0:
            assert rare(bench.again()) == RARE
        with pytest.raises(Corrupt):
            decode_key_pack(ObjId(entry.key), COMMITS, bytes(raw))
    other = bench.again()
    assert rare(other) == RARE
    build(other)
    assert entry.value in [row.value for _, row in pack_rows(bench)]


def test_the_pack_of_another_commit_or_of_a_newer_format_is_not_used(bench):
    build(bench)
    (place, one), (_, two) = list(pack_rows(bench))[:2]
    bench.store.put_many([(place, one.key, two.value)])
    assert rare(bench.again()) == RARE
    pack = KeyPackBuilder(COMMITS, 100)
    pack.add(ObjId(one.key), (), ObjId(two.key))
    newer = encode_row(pack.build())
    bench.store.put_many([(place, one.key, newer.replace(b"\x98\x01", b"\x98\x02", 1))])
    assert rare(bench.again()) == RARE


def test_what_a_pack_says_is_checked_against_itself():
    newest, parent = ObjId(b"n" * 32), ObjId(b"p" * 32)
    good = KeyPack(1, 9, newest, parent, (), (b"fa",), b"\1\0\0\0", b"\0\0")
    assert decode_key_pack(newest, 9, encode_row(good)) == good
    for field, value in {
        "sequence": 8,
        "ids": parent,
        "parent": b"short",
        "unlisted": (1,),
        "keys": (b"fa", b"fb"),
        "ends": b"\2\0\0\0",
        "places": b"\1\0",
    }.items():
        values = {name: getattr(good, name) for name in KeyPack.__struct_fields__}
        with pytest.raises(Corrupt):
            decode_key_pack(newest, 9, encode_row(KeyPack(**{**values, field: value})))


def test_a_key_that_may_not_be_read_counts_as_never_changed_in_packs_too(bench):
    build(bench)
    context = bench.again().repository.context
    head = context.views.load(ObjId(bytes.fromhex(bench.head())))
    hidden = bytes(file_key("rare"))
    for covers, count in ((None, COMMITS), (lambda key: key != hidden, COMMITS - len(RARE))):
        wanted = SearchedKeys([], [(b"f\x01", b"g")], covers)
        found = search_line(context, head, Search(wanted=wanted, found_max=99, scanned_max=99))
        assert (len(found.commits), found.further) == (count, None)


def test_a_server_builds_the_packs_of_open_repositories_and_reports_what_it_cannot_read(bench):
    context = bench.repository.context
    ports = Ports(context.clock, context.random, context.waiting)
    repositories = Repositories(bench.store, ports)
    reported: list[SweepFailure] = []
    sweep = KeyPackSweep(repositories, reported.append)
    assert not sweep.turn()
    opened = repositories.open("repo")
    opened.context.key_packs._note(ObjId(b"x" * 32), COMMITS)
    assert not sweep.turn()
    assert [(one.sweep, one.repository, one.error) for one in reported] == [
        ("key packs", "repo", "corrupt")
    ]
    opened.context.key_packs._note(ObjId(bytes.fromhex(bench.head())), COMMITS)
    assert not sweep.turn()
    assert len(list(pack_rows(bench))) == 1
    assert len(reported) == 1
