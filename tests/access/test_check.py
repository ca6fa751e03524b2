"""`lochan check` reads the rows of access and reports those that are not as they were written."""

from __future__ import annotations

import msgspec
import pytest

from lochan.access import records
from lochan.access.check import check_access
from lochan.access.records import ACCESS_PARTITION, SETUP_FORM, SETUP_KEY, owned_key, token_key
from lochan.access.revision import REVISION_KEY
from lochan.codec.forms import encode_row
from lochan.kernel.check_findings import Problem, Report, RowKind, Severity
from lochan.kernel.check_store import CheckOptions, check_store
from lochan.kernel.repository import Ports
from lochan.kv.store import Store
from lochan.persist.rows import scan_all
from lochan.testing.ports import ManualClock, RecordedWaiting, SeededRandom
from tests.service.access_bench import ADMIN, AccessBench, office


class NewerUser(msgspec.Struct, frozen=True, array_like=True):
    """A user as a newer Lochan may write it."""

    format: int
    id: str
    incarnation: str
    more: str = ""


@pytest.fixture
def bench() -> AccessBench:
    one, _ = office()
    one.access.create_token(ADMIN, "ada")
    one.access.create_access_key(ADMIN, "ada")
    return one


def checked(store: Store) -> Report:
    clock = ManualClock()
    ports = Ports(clock, SeededRandom(9), RecordedWaiting(clock))
    return check_store(store, ports, CheckOptions(others=(check_access,)))


def rows(store: Store) -> dict[bytes, bytes]:
    return {entry.key: entry.value for entry in scan_all(store, ACCESS_PARTITION)}


def put(store: Store, key: bytes, value: bytes) -> None:
    store.put_many([(ACCESS_PARTITION, key, value)])


def found(store: Store) -> list[tuple[Severity, Problem, str]]:
    report = checked(store)
    assert all(one.kind is RowKind.ACCESS for one in report.findings), report.findings
    return [(one.severity, one.problem, one.row) for one in report.findings]


def test_rows_as_they_were_written_are_whole_and_all_are_read(bench):
    report = checked(bench.store)
    assert (report.findings, report.unjudged) == ((), ())
    assert report.progress.access == len(rows(bench.store))
    kinds = {key.partition(b"/")[0] for key in rows(bench.store)}
    assert len(kinds) == 10, "a row of each kind"


def test_a_flipped_bit_in_any_row_is_found(bench):
    for key, value in rows(bench.store).items():
        if key == REVISION_KEY:
            # Any 16 bytes are a revision.
            continue
        for at in range(len(value)):
            put(bench.store, key, value[:at] + bytes((value[at] ^ 1,)) + value[at + 1 :])
            assert (Severity.DAMAGE, Problem.CORRUPT, key.decode()) in found(bench.store), key
        put(bench.store, key, value)
    assert found(bench.store) == []


def test_a_row_under_the_key_of_another_is_found(bench):
    before = rows(bench.store)
    for key, value in before.items():
        prefix = key.partition(b"/")[0]
        if key in (REVISION_KEY, SETUP_KEY):
            continue
        other = next((one for one in before if one != key and one.startswith(prefix)), None)
        moved = key + b"x" if other is None else other
        put(bench.store, moved, value)
        assert (Severity.DAMAGE, Problem.CORRUPT, moved.decode()) in found(bench.store)
        if other is not None:
            put(bench.store, other, before[other])


def test_a_row_of_a_newer_format_is_no_damage(bench):
    put(bench.store, records.user_key("eve"), encode_row(NewerUser(2, "eve", "not bytes")))
    assert found(bench.store) == [
        (Severity.NEWER_FORMAT, Problem.NEWER_FORMAT, "users/eve"),
    ]
    assert not checked(bench.store).damaged


def test_a_revision_that_was_cut_is_found(bench):
    put(bench.store, REVISION_KEY, b"short")
    assert found(bench.store) == [(Severity.DAMAGE, Problem.CORRUPT, "revision")]


def test_a_credential_that_its_user_cannot_find_is_reported(bench):
    made = bench.access.create_token(ADMIN, "ada").token
    key = owned_key("token", "ada", made.id)
    assert key in rows(bench.store)
    bench.store.delete(ACCESS_PARTITION, key)
    assert found(bench.store) == [
        (Severity.DAMAGE, Problem.INCONSISTENT, token_key(made.id).decode())
    ]


def test_set_up_that_stopped_half_way_is_reported(bench):
    row = SETUP_FORM.decode(rows(bench.store)[SETUP_KEY])
    put(bench.store, SETUP_KEY, encode_row(msgspec.structs.replace(row, finished=False)))
    assert found(bench.store) == [(Severity.UNFINISHED, Problem.UNFINISHED, "setup")]


def test_rows_of_an_unknown_kind_are_counted(bench):
    put(bench.store, b"robots/x", b"?")
    (unjudged,) = checked(bench.store).unjudged
    assert (unjudged.kind, unjudged.rows) == ("unknown access rows", 1)
