"""Addresses: our parameters for us, the rest for libpq, no password in any message."""

from __future__ import annotations

import traceback

import psycopg
import pytest

from lochan.assembly import open_store
from lochan.base.errors import InvalidUrl, LochanError, Unavailable
from lochan.kv.url import parse_store_url
from lochan.stores.postgres.address import read_address
from lochan.testing.postgres import GUARDED_USER, PostgresServer
from tests.stores.postgres.conftest import Open

SECRET = "hunter2secret"


def printed(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)) + repr(error)


def test_our_parameters_are_ours_and_the_rest_is_libpqs() -> None:
    url = "postgresql://me:pw@h1:1,h2:2/db?pool=7&sslmode=require&schema=s1&lock_timeout_ms=5"
    address = read_address(parse_store_url(url + "&statement_timeout_ms=9&application_name=x%20y"))
    assert (address.pool, address.schema) == (7, "s1")
    assert (address.statement_timeout_ms, address.lock_timeout_ms) == (9, 5)
    conninfo = address._conninfo
    assert conninfo["sslmode"] == "require"
    assert conninfo["application_name"] == "x y"
    assert (conninfo["host"], conninfo["port"], conninfo["dbname"]) == ("h1,h2", "1,2", "db")
    assert {"pool", "schema"}.isdisjoint(conninfo)
    assert conninfo["connect_timeout"] == "5"
    assert "pw" not in repr(address)


@pytest.mark.parametrize(
    "rest",
    [
        "",
        "host/db",
        f"//me:{SECRET}/x@host/db",
        f"//me:{SECRET}@x@host/db",
        f"//me:a?{SECRET}@host/db",
        f"//me:{SECRET}@host:port/db",
        f"//me:{SECRET}@host:1/db?nonsense=1",
        f"//me:{SECRET}@host:1/db?sslmode",
        f"//me:{SECRET}@[::1/db",
        f"//me:{SECRET}@host/db?password=a%2",
        "//host/db?pool=0",
        "//host/db?pool=101",
        "//host/db?pool=x",
        "//host/db?pool=1&pool=2",
        "//host/db?schema=Upper",
        "//host/db?schema=pg_catalog",
        '//host/db?schema=a"b',
        "//host/db?lock_timeout_ms=-1",
        "//host/db?statement_timeout_ms=999999999",
    ],
)
def test_the_error_for_a_bad_address_does_not_contain_the_password(rest: str) -> None:
    with pytest.raises(InvalidUrl) as caught:
        open_store(f"postgresql:{rest}")
    assert SECRET not in printed(caught.value)


def test_the_error_for_a_failed_connection_does_not_contain_the_password(
    server: PostgresServer,
) -> None:
    urls = [
        f"postgresql://me:{SECRET}@127.0.0.1:1/db",
        f"postgresql://127.0.0.1:1/db?user=me&password={SECRET}",
        server.url(user=f"{GUARDED_USER}:{SECRET}"),
        f"postgresql://me:{SECRET}@127.0.0.1:{server.port}/no_such_database",
        f"postgresql://me:{SECRET}@host.invalid/db",
    ]
    for url in urls:
        with pytest.raises(Unavailable, match="cannot connect to postgresql://") as caught:
            open_store(url)
        assert SECRET not in printed(caught.value)


def test_a_password_is_used_and_never_printed(
    server: PostgresServer, database: psycopg.Connection, schema: str
) -> None:
    secret = "p@ss/w?rd:#1"
    quoted = "p%40ss%2Fw%3Frd%3A%231"
    database.execute(f"DROP ROLE IF EXISTS {GUARDED_USER}".encode())
    database.execute(f"CREATE ROLE {GUARDED_USER} LOGIN SUPERUSER PASSWORD '{secret}'".encode())
    store = open_store(server.url(user=f"{GUARDED_USER}:{quoted}", schema=schema))
    assert secret not in repr(store)
    assert quoted not in repr(store)
    assert "***" in repr(store)
    database.execute(f'DROP SCHEMA "{schema}" CASCADE'.encode())
    database.execute(f"ALTER ROLE {GUARDED_USER} PASSWORD 'another'".encode())
    with pytest.raises(LochanError) as caught:
        store.get(b"partition", b"key")  # type: ignore[arg-type]
    assert secret not in printed(caught.value)
    store.close()
    database.execute(f"DROP OWNED BY {GUARDED_USER} CASCADE".encode())
    database.execute(f"DROP ROLE {GUARDED_USER}".encode())


def test_a_commit_is_durable_whatever_the_operator_prefers(opened: Open) -> None:
    store = opened(
        options="-c synchronous_commit=off -c default_transaction_isolation=serializable"
    )
    session = store._pool.take()  # type: ignore[attr-defined]
    settings = [
        session.execute(b"SELECT current_setting(%b)", (name,))[0][0]
        for name in ("synchronous_commit", "default_transaction_isolation", "enable_seqscan")
    ]
    store._pool.give(session)  # type: ignore[attr-defined]
    assert settings == ["on", "read committed", "off"]
    assert store.capabilities.durable_on_return
