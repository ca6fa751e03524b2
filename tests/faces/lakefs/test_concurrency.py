"""Clients that upload and commit on one branch at once: each object is in one commit."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import httpx

from tests.faces.lakefs.lakefs_bench import KEY, SECRET
from tests.profile import counted

CLIENTS = 16
ROUNDS = counted(4, 60)


def test_every_commit_succeeds_and_every_conditional_upload_is_in_exactly_one(repository):
    begin = Barrier(CLIENTS)
    base = f"{repository.bench.url}/api/v1/repositories/{repository.name}/branches/main"

    def work(number: int) -> list[tuple[int, int]]:
        with httpx.Client(auth=(KEY, SECRET), timeout=120) as client:
            begin.wait()
            statuses = []
            for at in range(ROUNDS):
                params, headers = {"path": f"{number}/{at}"}, {"if-none-match": "*"}
                upload = client.post(
                    f"{base}/objects", params=params, headers=headers, content=b"x"
                )
                commit = client.post(f"{base}/commits", json={"message": f"{number} {at}"})
                statuses.append((upload.status_code, commit.status_code))
            return statuses

    with ThreadPoolExecutor(CLIENTS) as pool:
        statuses = [pair for pairs in pool.map(work, range(CLIENTS)) for pair in pairs]
    assert statuses == [(201, 201)] * CLIENTS * ROUNDS
    assert repository.done("GET", "/branches/main/diff")["results"] == []
    log = repository.paged("/refs/main/commits", 1_000)
    assert len(log) == CLIENTS * ROUNDS + 1
    added = []
    for commit in log[:-1]:
        path = f"/refs/{commit['parents'][0]}/diff/{commit['id']}"
        changes = repository.paged(path, 1_000, type="two_dot")
        assert all(change["type"] == "added" for change in changes)
        added += [change["path"] for change in changes]
    wanted = [f"{number}/{at}" for number in range(CLIENTS) for at in range(ROUNDS)]
    assert sorted(added) == sorted(wanted)


def test_overtaken_commits_succeed_whichever_connection_carries_them(repository):
    base = f"{repository.bench.url}/api/v1/repositories/{repository.name}/branches/main"
    headers = {"connection": "close"}

    # Every request over a connection of its own.
    def send(path: str, **more: Any) -> httpx.Response:
        return httpx.post(f"{base}{path}", auth=(KEY, SECRET), headers=headers, **more)

    for name in ("a", "b", "c"):
        assert send("/objects", params={"path": name}, content=b"1").status_code == 201
    commits = [send("/commits", json={"message": name}) for name in ("a", "b", "c", "d")]
    assert [one.status_code for one in commits] == [201, 201, 201, 400]
    assert commits[3].json() == {"message": "commit: no changes"}
    log = repository.done("GET", "/refs/main/commits")["results"]
    assert [one["message"] for one in log] == ["c", "b", "a", "Repository created"]


def test_one_client_that_commits_twice_is_refused_whichever_connection_carries_it(repository):
    base = f"{repository.bench.url}/api/v1/repositories/{repository.name}/branches/main"
    headers = {"connection": "close"}
    for at in range(2):
        sent = [
            httpx.post(f"{base}{path}", auth=(KEY, SECRET), headers=headers, **more)
            for path, more in (
                ("/objects", {"params": {"path": "a"}, "content": b"%d" % at}),
                ("/commits", {"json": {"message": "m"}}),
                ("/commits", {"json": {"message": "m"}}),
            )
        ]
        assert [one.status_code for one in sent] == [201, 201, 400]


def test_clients_that_share_a_pool_of_connections_all_commit(repository):
    base = f"{repository.bench.url}/api/v1/repositories/{repository.name}/branches/main"
    begin = Barrier(CLIENTS)
    limits = httpx.Limits(max_connections=CLIENTS, max_keepalive_connections=CLIENTS)
    with httpx.Client(auth=(KEY, SECRET), timeout=120, limits=limits) as pool:

        def work(number: int) -> list[int]:
            begin.wait()
            statuses = []
            for at in range(ROUNDS):
                params = {"path": f"{number}/{at}"}
                sent = pool.post(f"{base}/objects", params=params, content=b"x")
                done = pool.post(f"{base}/commits", json={"message": f"{number} {at}"})
                statuses += [sent.status_code, done.status_code]
            return statuses

        with ThreadPoolExecutor(CLIENTS) as threads:
            statuses = [one for some in threads.map(work, range(CLIENTS)) for one in some]
    assert statuses == [201] * 2 * CLIENTS * ROUNDS
    assert len(repository.paged("/refs/main/commits", 1_000)) == CLIENTS * ROUNDS + 1
