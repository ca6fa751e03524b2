"""Clients that upload and commit on one branch at once: each object is in one commit."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import httpx

from tests.faces.lakefs.lakefs_bench import KEY, SECRET
from tests.profile import counted

CLIENTS = 8
ROUNDS = counted(6, 60)


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
