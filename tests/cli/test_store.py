"""`lochan store`: counts, copies and erasure, for people and for programs."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from lochan.cli.main import commands
from tests.cli.shell import Shell


@pytest.fixture
def filled(place) -> str:
    url = f"sqlite:{place / 'one.db'}"
    shell = Shell("--store", url)
    shell.put("orders", "s3://1")
    shell.put("orders", "s3://2")
    return url


def test_a_store_is_copied_and_the_copy_has_the_same_commits(filled, place):
    target = f"rocksdb:{place / 'two'}"
    assert "copied 1 repositories" in Shell().out("store", "copy", filled, target)
    assert Shell("--store", target).head() == Shell("--store", filled).head()
    again = Shell().run("store", "copy", filled, target, code=3)
    assert "the target is not empty" in again.stderr
    same = Shell().run("store", "copy", filled, filled, code=3)
    assert "cannot be copied to itself" in same.stderr
    report = Shell().one("store", "copy", filled, f"sqlite:{place / 'three.db'}")
    assert (report["repositories"], report["rounds"], report["resumed"]) == (1, 1, False)
    assert report["objects"] > 2


def test_what_is_no_store_is_not_copied(place):
    empty = f"sqlite:{place / 'empty.db'}"
    failed = Shell().run("store", "copy", empty, f"sqlite:{place / 'two.db'}", code=4)
    assert "there is no store to copy" in failed.stderr


def test_passwords_in_addresses_are_never_printed(place):
    source = f"sqlite:{place / 'one.db'}"
    for words in (
        ("store", "copy", "postgresql://ada:hunter2@127.0.0.1:1/x?connect_timeout=1", source),
        ("store", "copy", source, "nothing://ada:hunter2@host/x"),
        ("store", "copy", source, "postgresql://ada:hunter2\x01@127.0.0.1:1/x"),
        ("store", "stats", "--store", "nothing://ada:hunter2@host/x"),
        ("store", "erase", "x", "--store", "nothing://ada:hunter2@host/x"),
    ):
        printed = CliRunner().invoke(commands, list(words))
        assert printed.exit_code != 0
        assert "hunter2" not in printed.output


def test_the_contents_of_a_store_are_counted(filled):
    shell = Shell("--store", filled)
    counts = {(one["repository"], one["kind"]): one for one in shell.lines("store", "stats")}
    assert counts[("default", "objects")]["accuracy"] == "exact"
    assert counts[("default", "objects")]["rows"] > 2
    exact = {
        (one["repository"], one["kind"]): one for one in shell.lines("store", "stats", "--exact")
    }
    assert exact[("default", "objects")] == counts[("default", "objects")]
    shown = shell.out("store", "stats")
    assert "objects" in shown
    assert "(no repository)" in shown


def test_a_repository_is_erased_in_two_steps(place):
    url = f"rocksdb:{place / 'store'}"
    shell = Shell("--store", url)
    shell.run("branch", "create", "one", "--repository", "sales")
    shell.run("branch", "create", "one", "--repository", "kept")
    plan = shell.one("store", "erase", "sales")
    assert plan["done"] is False
    shown = shell.out("store", "erase", "sales")
    assert "nothing was erased" in shown
    assert f"--token {plan['token']}" in shown
    assert (
        "token is not that" in shell.run("store", "erase", "sales", "--token", "x", code=3).stderr
    )
    done = shell.one("store", "erase", "sales", "--token", plan["token"])
    assert done["done"]
    assert done["partitions"] > 2
    names = {one["repository"] for one in shell.lines("store", "stats")}
    assert names == {"", "kept"}
    shell.run("store", "erase", "sales", code=4)
