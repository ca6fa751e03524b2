"""The generator: repeatable, counted, paced, and honest about errors."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from contextlib import suppress
from random import Random

import msgspec
import pytest

from lochan.base.errors import Invalid, Unavailable
from lochan.cli.generate.plan import GenerateOptions, Plan, make_content
from lochan.cli.generate.worker import Progress, Worker
from lochan.embedded import open_repository
from lochan.model.contents import type_of
from tests.cli.shell import Shell

LONG = "stuff.s-${every,15,uuid}.key_${every,2,uuid}.${uuid}_0"


class Stopwatch:
    """A clock that is wound by hand."""

    def __init__(self) -> None:
        self.at_ns = 0

    def now_us(self) -> int:
        return self.at_ns // 1_000

    def monotonic_ns(self) -> int:
        return self.at_ns

    def sleep(self, pause_s: float) -> None:
        self.at_ns += int(pause_s * 1e9)


def keys(shell: Shell) -> list[str]:
    return [".".join(one["name"]["elements"]) for one in shell.lines("content")]


def test_a_run_makes_what_was_asked_for(shell):
    done = shell.one("generate", "-n", "30", "-t", "5", "--puts-per-commit", "2", "-w", "3")
    assert (done["commits"], done["puts"], done["errors"], done["workers"]) == (30, 60, 0, 3)
    assert [one["commits"] for one in done["deciles"]] == [3] * 10
    assert len(shell.lines("log")) == 30
    tables = [key for key in keys(shell) if key != "generated"]
    assert set(tables) <= {f"generated.table_{number}" for number in range(5)}
    assert done["namespaces"] == 1


def test_long_patterns_make_their_namespaces(shell):
    done = shell.one("generate", "-n", "20", "-t", "60", "--puts-per-commit", "3", "-w", "2",
                     "--key-pattern", LONG)  # fmt: skip
    found = shell.lines("content")
    assert done["namespaces"] == sum(one["type"] == "NAMESPACE" for one in found)
    assert {len(one["name"]["elements"]) for one in found} == {1, 2, 3, 4}


def test_the_same_seed_makes_the_same_keys_whatever_the_workers(shell, local):
    options = ("generate", "-n", "40", "-t", "20", "--key-pattern", LONG, "--seed", "7")
    shell.run(*options, "-w", "4")
    local.run(*options)
    assert keys(shell) == keys(local)
    local.run(*options[:-1], "8")
    assert keys(shell) != keys(local)


def test_branches_and_tags_are_made_and_used(shell):
    done = shell.one("generate", "-n", "12", "-b", "3", "-T", "1")
    assert done["tags"] == 12
    assert [one["name"] for one in shell.lines("branch")] == ["generated-1", "generated-2", "main"]
    assert [len(shell.lines("log", name)) for name in ("main", "generated-1")] == [4, 4]
    again = shell.one("generate", "-n", "12", "-b", "3", "-T", "1")
    assert (again["commits"], again["tags"]) == (12, 0)


@pytest.mark.parametrize("kind", ["ICEBERG_TABLE", "ICEBERG_VIEW", "DELTA_LAKE_TABLE"])
def test_every_type_is_generated(shell, kind):
    shell.run("generate", "-n", "3", "--type", kind, "--author", "Ada", "--message", "no {number}")
    assert kind in [one["type"] for one in shell.lines("content")]
    meta = shell.lines("log")[0]["commitMeta"]
    assert (meta["authors"], meta["message"]) == (["Ada"], "no 2")


def test_people_see_deciles_and_a_summary(shell):
    printed = shell.out("generate", "-n", "10", "-w", "2")
    assert "commits/s" in printed.splitlines()[0]
    assert "10 commits with 10 puts" in printed


def test_a_wrong_wish_is_refused_before_anything_is_made(shell):
    shell.run("generate", "--key-pattern", "${nothing}", code=2)
    shell.run("generate", "--key-pattern", "${int,2}", "-t", "3", code=2)
    shell.run("generate", "-n", "0", code=2)
    shell.run("generate", "-D", "nowhere", code=4)
    assert shell.lines("log") == []


@pytest.mark.slow
def test_an_error_ends_the_run_unless_it_shall_go_on(shell):
    # A table stands where the generator needs a namespace.
    shell.put("generated", "s3://in-the-way")
    printed = shell.run("generate", "-n", "5", "--json", code=3)
    assert '"commits":0' in printed.stdout
    assert '"errors":1' in printed.stdout
    done = shell.one("generate", "-n", "5", "--continue-on-error")
    assert (done["commits"], done["errors"]) == (0, 5)


def test_commits_are_spread_over_the_duration():
    watch = Stopwatch()
    progress = Progress(watch, 10)
    with open_repository("memory:") as catalog:
        plan = Plan(GenerateOptions(commits=10))
        Worker(
            catalog,
            plan,
            ["main"],
            progress,
            duration_s=100,
            continue_on_error=False,
            sleep=watch.sleep,
        ).run()
    summary = progress.summary(1)
    assert summary.seconds == 90.0
    assert [one.seconds for one in summary.deciles] == [0.0, *[10.0] * 9]
    assert summary.commits_per_second == 0.1


def test_a_run_that_is_stopped_counts_what_was_done():
    progress = Progress(Stopwatch(), 100)
    assert [progress.next_number() for _ in range(3)] == [0, 1, 2]
    progress.count(commits=1, puts=1)
    progress.stopped.set()
    assert progress.next_number() is None
    assert progress.summary(1).commits == 1


@pytest.mark.slow
def test_who_interrupts_a_run_gets_its_summary_at_once(shell, place):
    # Paced so slowly that the workers sleep for hours between two commits.
    options = ["-n", "1000", "-w", "2", "--duration", "10000000", "--json", *shell.always]
    started = subprocess.Popen(
        [sys.executable, "-m", "lochan", "generate", *options],
        cwd=place,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        while not shell.lines("log"):
            assert started.poll() is None
        started.send_signal(signal.SIGINT)
        out, _ = started.communicate(timeout=60)
    finally:
        started.kill()
        started.wait()
    assert started.returncode == 130
    assert msgspec.json.decode(out)["commits"] >= 1


def test_the_first_error_is_the_one_that_is_told():
    progress = Progress(Stopwatch(), 5)
    first = Unavailable("first")
    progress.fail(first, continues=False)
    progress.fail(Unavailable("second"), continues=False)
    assert progress.failure is first
    assert progress.next_number() is None


def test_tenths_add_up_when_commits_do_not_divide_by_ten():
    watch = Stopwatch()
    progress = Progress(watch, 23)
    for _ in range(23):
        watch.sleep(1)
        progress.count(commits=1, puts=1)
    deciles = progress.summary(1).deciles
    assert sum(one.commits for one in deciles) == 23
    assert {one.commits_per_second for one in deciles} == {1.0}


def test_a_content_keeps_its_id_and_changes_its_state():
    with open_repository("memory:") as catalog:
        plan = Plan(GenerateOptions(commits=2))
        progress = Progress(Stopwatch(), 2)
        Worker(catalog, plan, ["main"], progress, duration_s=0, continue_on_error=False,
               sleep=lambda _: None).run()  # fmt: skip
        key = plan.step(0).keys[0]
        now, _ = catalog.contents.get("main", key)
        before, _ = catalog.contents.get("main~1", key)
    assert now.id == before.id
    assert now != before
    made = make_content("ICEBERG_TABLE", key, 5, now)
    assert (made.id, type_of(made)) == (now.id, "ICEBERG_TABLE")


def test_a_type_that_is_not_generated_is_refused():
    with pytest.raises(Invalid, match="NAMESPACE"):
        Plan(GenerateOptions(kind="NAMESPACE"))


def test_steps_touch_different_keys_of_the_plan():
    plan = Plan(GenerateOptions(tables=50, puts=10, commits=20))
    steps = [plan.step(number) for number in range(20)]
    assert {len(set(one.keys)) for one in steps} == {10}
    assert len({key for one in steps for key in one.keys}) > 40
    assert steps[3] == Plan(GenerateOptions(tables=50, puts=10, commits=20)).step(3)
    assert Random("1/0").random() != Random("1/1").random()


@pytest.mark.slow
def test_people_see_a_bar_while_it_runs(shell, place):
    inside, outside = pty.openpty()
    started = subprocess.Popen(
        [sys.executable, "-m", "lochan", "generate", "-n", "400", *shell.always],
        cwd=place,
        stdout=subprocess.DEVNULL,
        stderr=outside,
    )
    os.close(outside)
    shown = b""
    try:
        # Reading fails with an error of its own when the other end is closed.
        with suppress(OSError):
            while part := os.read(inside, 4_096):
                shown += part
        assert started.wait(60) == 0
    finally:
        started.kill()
        started.wait()
        os.close(inside)
    assert b"/400" in shown
    assert b"Traceback" not in shown
