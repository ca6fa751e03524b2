"""One client shared by many threads or tasks."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from lochan.client import AsyncClient, Client
from lochan.model.commits import Put
from tests.client.test_contract import messages, table


def test_threads_share_one_client(address):
    with Client(address) as client:

        def commit(number: int) -> None:
            operations = [Put(key=(f"t{number}",), content=table(number))]
            client.commits.commit("main", f"commit {number}", operations)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(commit, range(60)))
        assert sorted(messages(client, "main")) == sorted(f"commit {n}" for n in range(60))


def test_tasks_share_one_asynchronous_client(address):
    async def commit(client: AsyncClient, number: int) -> None:
        operations = [Put(key=(f"t{number}",), content=table(number))]
        await client.commits.commit("main", f"commit {number}", operations)

    async def run() -> list[str]:
        async with AsyncClient(address) as client:
            await asyncio.gather(*(commit(client, number) for number in range(60)))
            return [entry.meta.message async for entry in client.history.iterate("main")]

    assert sorted(asyncio.run(run())) == sorted(f"commit {n}" for n in range(60))
