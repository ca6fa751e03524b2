"""CockroachDB through the PostgreSQL store, on a stand-in: what is sent, and what errors mean."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
import pytest

from lochan.assembly import open_store
from lochan.base.errors import LochanError, Unavailable, Unknown
from lochan.kv.store import PRESENT, Adds, Lost, SetIf, Store, Won
from lochan.stores.memory.store import MemoryStore
from lochan.stores.postgres import cockroach
from lochan.stores.postgres.cockroach import CONFLICTS_MAX
from lochan.testing.contracts import PLAIN_CONTRACTS, DurabilityContract, WalkContract
from lochan.testing.contracts.sample_rows import OBJECTS, REFERENCES, create, fetch
from lochan.testing.postgres import PostgresServer
from tests.stores.postgres.cockroach_proxy import CockroachProxy
from tests.stores.postgres.test_failures import READS, WRITES
from tests.stores.repository_suite import history

ROW = SetIf(REFERENCES, b"main", b"two", PRESENT)
CHANGES = {**WRITES, "apply": lambda store: store.apply(Adds([(OBJECTS, b"o", b"")], 1), ROW)}


@pytest.fixture(scope="module")
def proxy(server: PostgresServer) -> Iterator[CockroachProxy]:
    with CockroachProxy(server.port) as proxy:
        yield proxy
        assert proxy.refused == []
        assert len(proxy.statements) > 100


@pytest.fixture
def url(server: PostgresServer, proxy: CockroachProxy, schema: str) -> str:
    proxy.plan = lambda _: None
    return server.url(schema=schema, pool=4, port=proxy.port)


@pytest.fixture
def cockroach_store(url: str) -> Iterator[Store]:
    store = open_store(url)
    yield store
    store.close()


SUITES = (*PLAIN_CONTRACTS, DurabilityContract, WalkContract)


class TestCockroachStandIn(*SUITES):  # type: ignore[misc]
    @pytest.fixture
    def stores(self, url: str) -> Iterator[list[Store]]:
        stores = [open_store(url)]
        yield stores
        stores[-1].close()

    @pytest.fixture
    def store(self, stores: list[Store]) -> Store:
        return stores[-1]

    @pytest.fixture
    def reopen(self, stores: list[Store], url: str) -> Callable[[], Store]:
        def again() -> Store:
            stores[-1].close()
            stores.append(open_store(url))
            return stores[-1]

        return again


def test_the_same_history_has_the_same_ids(cockroach_store: Store) -> None:
    assert history(cockroach_store) == history(MemoryStore())
    assert not cockroach_store.capabilities.row_locks


class Errors:
    """Plans an error for some statements that write."""

    def __init__(self, state: str, when: str = "before", times: int = 1_000) -> None:
        self.state, self.when, self.left = state, when, times
        self.happened = 0

    def __call__(self, text: str) -> tuple[str, str] | None:
        if text.startswith(("SET", "CREATE")) or not self.left:
            return None
        self.left -= 1
        self.happened += 1
        return self.when, self.state


@pytest.mark.parametrize("name", CHANGES)
def test_a_conflict_is_sent_again_and_then_done(
    cockroach_store: Store, proxy: CockroachProxy, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lochan.stores.postgres.cockroach.time.sleep", lambda _: None)
    create(cockroach_store, b"main", b"one")
    proxy.plan = errors = Errors("40001", times=3)
    outcome = CHANGES[name](cockroach_store)
    assert errors.happened == 3
    assert not isinstance(outcome, Lost)


@pytest.mark.parametrize("name", [*CHANGES, *READS])
def test_conflicts_without_an_end_have_no_effect(
    cockroach_store: Store, proxy: CockroachProxy, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lochan.stores.postgres.cockroach.time.sleep", lambda _: None)
    create(cockroach_store, b"main", b"one")
    proxy.plan = errors = Errors("40001")
    with pytest.raises(Unavailable, match="40001"):
        {**CHANGES, **READS}[name](cockroach_store)
    assert errors.happened == CONFLICTS_MAX + 1
    proxy.plan = lambda _: None
    assert fetch(cockroach_store, b"main").value == b"one"


@pytest.mark.parametrize("state", ["40003", "57014", "XXUUU", "58C00", "08006", "57P01"])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("name", CHANGES)
def test_an_ambiguous_write_is_unknown_and_sent_once(
    cockroach_store: Store, proxy: CockroachProxy, name: str, when: str, state: str
) -> None:
    create(cockroach_store, b"main", b"one")
    proxy.plan = errors = Errors(state, when)
    with pytest.raises(Unknown, match=state):
        CHANGES[name](cockroach_store)
    assert errors.happened == 1


@pytest.mark.parametrize("state", ["40003", "57014", "XXUUU"])
@pytest.mark.parametrize("name", READS)
def test_an_error_of_a_read_is_unavailable(
    cockroach_store: Store, proxy: CockroachProxy, name: str, state: str
) -> None:
    create(cockroach_store, b"main", b"one")
    proxy.plan = Errors(state)
    with pytest.raises(Unavailable, match=state):
        READS[name](cockroach_store)


def test_a_lost_reply_is_resolved_by_sending_the_same_write_again(
    cockroach_store: Store, proxy: CockroachProxy
) -> None:
    create(cockroach_store, b"main", b"one")
    entry = fetch(cockroach_store, b"main")
    proxy.plan = Errors("40003", "after", times=1)
    with pytest.raises(Unknown):
        cockroach_store.set_if(REFERENCES, b"main", b"two", entry.stamp)
    assert isinstance(cockroach_store.set_if(REFERENCES, b"main", b"two", entry.stamp), Lost)
    assert fetch(cockroach_store, b"main").value == b"two"
    fresh = fetch(cockroach_store, b"main")
    assert isinstance(cockroach_store.set_if(REFERENCES, b"main", b"3", fresh.stamp), Won)


@pytest.mark.parametrize("version", ["CockroachDB CCL v22.2.9 (x)", "CockroachDB dev", ""])
def test_an_older_version_is_refused(server: PostgresServer, schema: str, version: str) -> None:
    refused = pytest.raises(Unavailable, match=r"older than CockroachDB 23\.1")
    with CockroachProxy(server.port, version) as proxy, refused:
        open_store(server.url(schema=schema, port=proxy.port))


def test_only_listed_errors_prove_that_nothing_was_written() -> None:
    def kind(state: str | None, *, broken: bool = False) -> type[LochanError]:
        error = psycopg.Error("x")
        error.sqlstate = state
        return type(cockroach.write_failure(error, broken=broken))

    assert kind("40001") is Unavailable
    assert kind("53200") is Unavailable
    assert kind("55P03") is Unavailable
    for state in ("40003", "57014", "XX000", "58C01", "40P01", "25P02", None):
        assert kind(state) is Unknown
    assert kind("40001", broken=True) is Unknown
