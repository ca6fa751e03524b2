"""The server of a lake: started for a store, shared where one runs, ended with its owner."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys

import pytest

from lochan.base.errors import InvalidUrl, StoreLocked, Unavailable
from lochan.client import Client
from lochan.embedded import open_repository
from lochan.spark.lake_server import open_server


def is_alive(url: str) -> bool:
    try:
        with Client(url, attempts_max=1) as client:
            return bool(client.config().default_branch)
    except Unavailable:
        return False


def test_a_server_that_is_named_is_used_and_never_ended(server):
    service = open_server(server)
    assert (service.url, service.child) == (server, None)
    service.close()
    assert is_alive(server)


def test_a_store_gets_a_server_that_ends_with_the_service(tmp_path):
    service = open_server(f"rocksdb:{tmp_path}/store", "other")
    with Client(service.url, "other") as client:
        client.references.create("etl")
    service.close()
    service.close()
    assert not is_alive(service.url)
    with open_repository(f"rocksdb:{tmp_path}/store", "other") as repository:
        assert repository.references.get("etl").name == "etl"


def test_a_store_that_a_server_has_is_reached_through_that_server(tmp_path):
    store = f"rocksdb:{tmp_path}/store"
    first = open_server(store)
    try:
        second = open_server(store)
        assert (second.url, second.child) == (first.url, None)
        second.close()
        assert is_alive(first.url)
    finally:
        first.close()


def test_a_store_that_is_open_in_another_way_is_locked(tmp_path):
    store = f"rocksdb:{tmp_path}/store"
    with open_repository(store), pytest.raises(StoreLocked, match="name its server"):
        open_server(store)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows which files a process has")
def test_the_note_of_a_neighbouring_store_is_not_believed(tmp_path):
    neighbour = open_server(f"rocksdb:{tmp_path}/one")
    try:
        with (
            open_repository(f"rocksdb:{tmp_path}/two"),
            pytest.raises(StoreLocked, match="serves another store"),
        ):
            open_server(f"rocksdb:{tmp_path}/two")
    finally:
        neighbour.close()


def test_what_the_server_says_when_it_cannot_start_is_told(tmp_path):
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "file").write_text("not a store")
    with pytest.raises(Unavailable, match="holds files that are not a Lochan store"):
        open_server(f"rocksdb:{tmp_path}/store")


def test_an_address_without_a_scheme_is_refused():
    with pytest.raises(InvalidUrl, match="rocksdb:PATH"):
        open_server("my-catalog")


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="only Linux can wait for any process")
def test_a_server_ends_when_the_process_that_started_it_is_killed(tmp_path):
    program = (
        "from lochan.spark.lake_server import open_server\n"
        f"service = open_server('rocksdb:{tmp_path}/store')\n"
        "print(service.child.pid, flush=True)\n"
        "input()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        server = int(parent.stdout.readline())
        handle = os.pidfd_open(server)
        try:
            assert not select.select([handle], [], [], 0)[0]
            parent.send_signal(signal.SIGKILL)
            parent.wait()
            assert select.select([handle], [], [], 120)[0]
        finally:
            os.close(handle)
    with open_repository(f"rocksdb:{tmp_path}/store") as repository:
        assert repository.config().default_branch == "main"
