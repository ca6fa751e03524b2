"""A client in forked processes: each of them gets the answers to its own requests only."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from threading import Event, Thread
from typing import Any

import httpx
import pytest

from lochan.base.errors import Invalid
from lochan.client import AsyncClient, Client
from lochan.model.commits import Put
from lochan.testing.forks import ForkedChild, error_kind
from tests.client.test_contract import messages, table
from tests.crash.preforked import WARNINGS
from tests.profile import counted

pytestmark = pytest.mark.slow

BRANCHES = 50
CHILDREN = 4
REQUESTS = counted(200, 2_000)


@pytest.fixture
def branches(address: str) -> list[str]:
    """Names of branches; the reply to a request for one shows whether it is the right reply."""
    names = [f"branch-{number}" for number in range(BRANCHES)]
    with Client(address) as client:
        for name in names:
            client.references.create(name)
    return names


def own_answers(client: Client, names: list[str], first: int) -> int:
    """Returns how many of the answers belong to their request."""
    right = 0
    for turn in range(REQUESTS):
        name = names[(first + turn) % len(names)]
        right += client.references.get(name).name == name
    return right


@contextmanager
def busy(work: Callable[[int], object], threads: int = 4) -> Iterator[None]:
    """Threads that work while others fork."""
    over = Event()
    failures: list[BaseException] = []

    def run(number: int) -> None:
        try:
            while not over.is_set():
                work(number)
        except BaseException as error:
            failures.append(error)
            raise

    workers = [Thread(target=run, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    try:
        yield
    finally:
        over.set()
        for worker in workers:
            worker.join()
    assert failures == []


def test_parent_and_children_each_get_their_own_answers(address: str, branches: list[str]) -> None:
    with Client(address) as client:
        client.config()
        children = [
            ForkedChild(partial(own_answers, client, branches, 11 * first))
            for first in range(1, CHILDREN + 1)
        ]
        assert own_answers(client, branches, 0) == REQUESTS
        assert [child.result() for child in children] == [REQUESTS] * CHILDREN
        assert own_answers(client, branches, 5) == REQUESTS


async def _own_answers(client: AsyncClient, names: list[str], first: int) -> int:
    async def one(turn: int) -> bool:
        name = names[(first + turn) % len(names)]
        return (await client.references.get(name)).name == name

    right = 0
    for turn in range(0, REQUESTS, 4):
        right += sum(await asyncio.gather(*(one(turn + more) for more in range(4))))
    return right


def _run_own_answers(client: AsyncClient, names: list[str], first: int) -> int:
    return asyncio.run(_own_answers(client, names, first))


def test_asynchronous_clients_of_parent_and_children_get_their_own_answers(
    address: str, branches: list[str]
) -> None:
    loop = asyncio.new_event_loop()
    client = AsyncClient(address)
    try:
        loop.run_until_complete(client.config())
        children = [
            ForkedChild(partial(_run_own_answers, client, branches, first)) for first in (7, 21)
        ]
        assert loop.run_until_complete(_own_answers(client, branches, 0)) == REQUESTS
        assert [child.result() for child in children] == [REQUESTS] * 2
        assert loop.run_until_complete(_own_answers(client, branches, 5)) == REQUESTS
    finally:
        loop.run_until_complete(client.close())
        loop.close()


def test_threads_that_use_the_client_do_not_hold_up_a_child(
    address: str, branches: list[str]
) -> None:
    """A thread may have a lock of the pool at the moment of the fork."""
    with Client(address) as client:

        def work() -> bool:
            right = client.references.get(branches[1]).name == branches[1]
            client.close()
            return right

        with busy(lambda number: client.references.get(branches[number])):
            for _ in range(counted(15, 150)):
                assert ForkedChild(work).result() is True


def test_commits_of_parent_and_children_are_all_there_once(address: str) -> None:
    with Client(address) as client:

        def work(who: int) -> None:
            for number in range(10):
                operations = [Put(key=(f"t{who}-{number}",), content=table(number))]
                client.commits.commit("main", f"{who} {number}", operations)

        client.config()
        children = [ForkedChild(partial(work, who)) for who in range(1, CHILDREN + 1)]
        work(0)
        for child in children:
            child.result()
        expected = sorted(f"{who} {number}" for who in range(CHILDREN + 1) for number in range(10))
        assert sorted(messages(client, "main")) == expected


def inherited_sockets(inodes: set[int]) -> list[int]:
    """Returns those of some sockets that this process has open."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):
            inode = os.stat(f"/proc/self/fd/{name}").st_ino
            if inode in inodes:
                found.append(inode)
    return sorted(found)


def socket_inodes() -> set[int]:
    """Returns which sockets this process has open."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):
            text = os.readlink(f"/proc/self/fd/{name}")
            if text.startswith("socket:"):
                found.add(int(text[8:-1]))
    return found


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
def test_a_child_does_not_keep_the_connections_of_its_parent_open(address: str) -> None:
    before = socket_inodes()
    with Client(address) as client:
        with busy(lambda _: client.config(), threads=3):
            client.config()
        # Of both ends, as the server runs in this process too: neither is the child's.
        connections = socket_inodes() - before
        assert len(connections) >= 2
        assert ForkedChild(lambda: inherited_sockets(connections)).result() == []
        assert client.config().default_branch == "main"


def test_a_child_may_close_and_forget_the_client(address: str) -> None:
    clients = [Client(address)]
    client = clients[0]

    def work() -> str:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            clients[0].config()
            clients.clear()
            gc.collect()
            client.close()
        try:
            client.config()
        except RuntimeError as error:
            return str(error)
        return "answered"

    client.config()
    for _ in range(3):
        assert "closed" in ForkedChild(work).result()
        assert client.config().default_branch == "main"
    client.close()
    assert "closed" in ForkedChild(work_on_closed(client)).result()


def work_on_closed(client: Client) -> Callable[[], str]:
    def work() -> str:
        try:
            client.config()
        except RuntimeError as error:
            return str(error)
        return "answered"

    return work


def test_a_transport_of_the_callers_own_is_not_used_by_a_child(address: str) -> None:
    with Client(address, transport=httpx.HTTPTransport()) as client:
        client.config()
        assert ForkedChild(lambda: error_kind(client.config)).result() == Invalid.kind
        assert client.config().default_branch == "main"


SHARED: list[Any] = []


def _ask_shared(first: int) -> int:
    client, names = SHARED
    return own_answers(client, names, first)


def _ask_new(address: str, names: list[str], first: int) -> int:
    with Client(address) as client:
        return own_answers(client, names, first)


@contextmanager
def _forking() -> Iterator[None]:
    with warnings.catch_warnings():
        # From Python 3.12 on a fork beside threads is warned of, and is what is tested here.
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def test_workers_of_multiprocessing_get_their_own_answers(
    address: str, branches: list[str]
) -> None:
    with Client(address) as client, _forking():
        client.config()
        SHARED[:] = [client, branches]
        with multiprocessing.get_context("fork").Pool(3) as pool:
            counts = pool.map_async(_ask_shared, [3, 17, 29], 1)
            assert own_answers(client, branches, 0) == REQUESTS
            assert counts.get() == [REQUESTS] * 3
        with ProcessPoolExecutor(3, multiprocessing.get_context("fork")) as executor:
            done = executor.map(_ask_shared, [3, 17, 29])
            assert own_answers(client, branches, 0) == REQUESTS
            assert list(done) == [REQUESTS] * 3
        with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as executor:
            done = executor.map(_ask_new, [address] * 2, [branches] * 2, [3, 17])
            assert own_answers(client, branches, 0) == REQUESTS
            assert list(done) == [REQUESTS] * 2


ENDS = """
import os, sys
from lochan import Client
client = Client(sys.argv[1])
client.config()
for use in (False, True):
    if not os.fork():
        if use:
            client.config()
            client.close()
        sys.exit(3)
    assert os.waitstatus_to_exitcode(os.wait()[1]) == 3
    client.config()
client.close()
"""


def test_the_end_of_a_child_does_not_disturb_its_parent(address: str) -> None:
    done = subprocess.run(
        [sys.executable, *WARNINGS, "-c", ENDS, address], capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
