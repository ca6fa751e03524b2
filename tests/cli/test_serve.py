"""`lochan serve` and `lochan demo` as processes of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.architecture.tree import ROOT
from tests.cli.shell import Shell
from tests.transport.certificates import CertificateFiles

# They start processes.
pytestmark = pytest.mark.slow

LOCHAN = [sys.executable, "-m", "lochan"]


@contextmanager
def process(*words: str, where: Path, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """Runs a command beside the test, and ends it."""
    outside = {key: value for key, value in os.environ.items() if not key.startswith("LOCHAN_")}
    started = subprocess.Popen(
        [*LOCHAN, *words],
        cwd=where,
        env=outside | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield started
    finally:
        started.kill()
        started.communicate()


def ran(*words: str, where: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end."""
    return subprocess.run(
        words,
        cwd=where,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def stopped(started: subprocess.Popen[str], number: signal.Signals) -> tuple[int, str]:
    started.send_signal(number)
    out, errors = started.communicate(timeout=60)
    return started.returncode, out + errors


def ready(started: subprocess.Popen[str]) -> Any:
    assert started.stdout is not None
    return msgspec.json.decode(started.stdout.readline())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_says_where_it_is_is_found_and_stops_when_told(place, number):
    with process("serve", "--port", "0", "--json", where=place) as server:
        report = ready(server)
        assert report["url"].startswith("http://127.0.0.1:")
        Shell().put("orders", "s3://1")
        assert Shell().one("config")["where"] == report["url"]
        code, output = stopped(server, number)
        assert (code, output) == (0, "")
    assert not (place / ".lochan/server.json").exists()
    # The same data, now without a server.
    assert Shell().location("orders") == "s3://1"


def test_settings_come_from_flag_environment_and_file(place):
    (place / "lochan.toml").write_text('store = "memory:"\nport = 1\n')
    with process("serve", "--json", where=place, LOCHAN_PORT="0") as server:
        report = ready(server)
        assert report["store"] == "memory:"
        assert not report["url"].endswith(":1")
    assert "port" in Shell().run("serve", "--port", "many", code=2).stderr
    assert "only this machine" in Shell().run("serve", "--host", "0.0.0.0", code=2).stderr


def test_other_machines_are_served_with_users_and_tls_or_with_a_warning(place):
    files = CertificateFiles(place)
    everywhere = ("serve", "--port", "0", "--host", "0.0.0.0")
    tls = ("--tls-certificate", str(files.certificate), "--tls-key", str(files.key))
    users = ("--setup-user", "ada", "--setup-token-file", str(place / "token"))
    for missing, named in ((users, "TLS"), (tls, "authentication")):
        refused = ran(*LOCHAN, *everywhere, *missing, where=place)
        assert refused.returncode == 2
        assert f"without {named}" in refused.stderr
        assert not (place / "token").exists()
    with process(*everywhere, "--insecure-remote", where=place) as server:
        assert server.stdout is not None
        first, second = server.stdout.readline(), server.stdout.readline()
        assert first.startswith("serving http://0.0.0.0:")
        assert second.startswith("INSECURE: without authentication")
        assert "without TLS" in second
        code, output = stopped(server, signal.SIGTERM)
        assert code == 0
        assert "WARNING lochan.serve: insecure remote" in output
        assert "authentication=off tls=off" in output
    with process(*everywhere, *tls, *users, "--json", where=place) as server:
        report = ready(server)
        assert report["url"].startswith("https://0.0.0.0:")
        assert report["insecure"] == ""
        token = (place / "token").read_text().strip()
        code, output = stopped(server, signal.SIGTERM)
        assert (code, output) == (0, "")
    assert token.startswith("lochan_")


def test_a_second_server_on_the_same_store_is_refused_and_told_of_the_first(place):
    with process("serve", "--port", "0", "--json", where=place) as server:
        report = ready(server)
        refused = ran(*LOCHAN, "serve", "--port", "0", where=place)
    assert refused.returncode == 6
    assert report["url"] in refused.stderr


def test_a_server_that_was_killed_is_not_found_any_more(place):
    with process("serve", "--port", "0", "--json", where=place) as server:
        ready(server)
        Shell().put("orders", "s3://1")
        server.kill()
        server.wait(60)
    assert (place / ".lochan/server.json").exists()
    assert Shell().location("orders") == "s3://1"


def without_spark(place: Path) -> dict[str, str]:
    """Returns an environment without pyspark; tests/spark runs the demo with it."""
    hidden = place / "hidden"
    hidden.mkdir()
    (hidden / "pyspark.py").write_text("raise ModuleNotFoundError('none', name='pyspark')\n")
    inherited = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": os.pathsep.join(filter(None, (str(hidden), inherited)))}


def test_the_demo_tells_its_whole_story_and_ends_when_told_once(place):
    temporary = place / "temporary"
    temporary.mkdir()
    surroundings = {"TMPDIR": str(temporary), "LOCHAN_STORE": "nowhere:"}
    done = ran(*LOCHAN, "demo", "--once", where=place, **surroundings, **without_spark(place))
    assert (done.returncode, done.stderr) == (0, "")
    chapters = [line for line in done.stdout.splitlines() if line[:1].isdigit()]
    assert [line.split(".")[0] for line in chapters] == [str(number) for number in range(1, 14)]
    assert "sales.photos and 3 files" in done.stdout
    assert "refused: there is no file 'photos/2026/lake.jpg'" in done.stdout
    assert "skipped, pyspark is missing: `pip install 'lochan[spark]'`" in done.stdout
    assert "the merge is refused, nothing was written" in done.stdout
    assert "sent 2 times with one idempotency key, committed 1 time" in done.stdout
    assert "The demo is finished" in done.stdout
    assert list(temporary.iterdir()) == []


def test_the_demo_serves_on_until_it_is_stopped_and_keeps_named_data(place):
    with process("demo", "--data", "kept", where=place, **without_spark(place)) as demo:
        assert demo.stdout is not None
        lines = iter(demo.stdout.readline, "")
        url = (
            next(line for line in lines if "serves an empty catalog" in line).split()[6].rstrip(",")
        )
        assert next(line for line in lines if "runs until Ctrl-C" in line)
        assert len(Shell("--url", url).lines("log")) > 3
        code, output = stopped(demo, signal.SIGINT)
    assert code == 0
    assert "stopped" in output
    assert len(Shell("--store", "rocksdb:kept/store").lines("log")) > 3
    assert "not empty" in Shell().run("demo", "--data", "kept", code=2).stderr


def test_make_passes_once_on_to_the_demo():
    for words, expected in (
        (["ONCE=1"], "lochan demo --report build/demo --once"),
        ([], "lochan demo --report build/demo \n"),
    ):
        shown = ran("make", "-n", "demo", *words, where=ROOT)
        assert expected in shown.stdout.replace("  ", " ")
