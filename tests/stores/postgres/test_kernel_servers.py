"""Two servers with several threads each on one branch: every commit is there, once, in order."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from lochan.base.ids import ObjId
from lochan.testing.invariants import all_rows, check_content, line_of
from lochan.testing.postgres import PostgresServer
from tests.architecture.tree import ROOT
from tests.stores.postgres.conftest import Open
from tests.stores.postgres.kernel_bench import MAIN, Write, connect, create, operation_of, tally

THREADS = 4
COMMITS = 25


def serve(url: str, mode: str) -> dict[str, ObjId]:
    """Lets two processes commit at one moment; returns what was acknowledged."""
    command = [sys.executable, "-m", "tests.stores.postgres.committer", url]
    arguments = [str(THREADS), str(COMMITS), mode]
    servers = [
        subprocess.Popen(
            [*command, name, *arguments],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("left", "right")
    ]
    for server in servers:
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
    for server in servers:
        assert server.stdin is not None
        server.stdin.write("go\n")
        server.stdin.flush()
    reports = [json.loads(server.communicate(timeout=60)[0]) for server in servers]
    assert [server.returncode for server in servers] == [0, 0]
    return {name: ObjId(bytes.fromhex(raw)) for report in reports for name, raw in report.items()}


@pytest.mark.parametrize("mode", ["adaptive", "held"])
def test_two_processes_on_one_branch(
    opened: Open, server: PostgresServer, schema: str, mode: str
) -> None:
    store = opened()
    create(store)
    acknowledged = serve(server.url(schema=schema), mode)
    sent = {
        f"{name} {thread} {number}"
        for name in ("left", "right")
        for thread in range(THREADS)
        for number in range(COMMITS)
    }
    found = tally(store, acknowledged, sent)
    print(f"{mode}: {found}")
    assert found.acknowledged == len(sent) == 2 * THREADS * COMMITS
    assert (found.losses, found.duplicates, found.strangers) == (0, 0, 0)
    context = connect(store)
    row = all_rows(context)[MAIN]
    head = ObjId(row.pointer)
    order = [operation_of(view) for view in line_of(context, head)]
    assert len(order) == len(sent), "what is there was acknowledged"
    for name in ("left", "right"):
        for thread in range(THREADS):
            mine = [one for one in order if one.startswith(f"{name} {thread} ")]
            assert mine == [f"{name} {thread} {number}" for number in range(COMMITS)]

    def fold(content: dict[bytes, bytes], view) -> None:
        write = Write(operation_of(view), operation_of(view))
        content[write.keys[0]] = write.element

    check_content(context, head, fold)
    assert row.version < len(sent), "some were chained"
