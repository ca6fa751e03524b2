"""`lochan store`: counts, copies and erasure, for people and for programs."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from lochan.assembly.server_file import server_file, write_server_file
from lochan.cli.main import commands
from lochan.client import Client
from lochan.embedded.stores import ServerSource, copy_store
from lochan.service import stores
from lochan.transfer.store_copy import CopyProgress
from tests.cli.shell import Shell
from tests.client.serving import serving


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


def test_a_store_that_a_server_has_open_is_used_through_it(place, monkeypatch):
    monkeypatch.setattr(stores, "ERASE_GRACE_S", 0)
    store = f"rocksdb:{place / 'store'}"
    with serving(store, "sales") as url:
        shell, beside = Shell("--url", url), Shell("--store", store)
        head = shell.put("orders", "s3://1")
        # Without the file of the server, only this process could open the store.
        assert "already open" in beside.run("store", "stats", code=6).stderr
        file = server_file(store)
        assert file is not None
        write_server_file(file, url)
        exact = beside.lines("store", "stats", "--exact")
        assert {one["repository"] for one in exact} == {"", "default", "sales"}
        assert shell.lines("store", "stats")
        target = f"sqlite:{place / 'two.db'}"
        assert "copied 2 repositories" in Shell().out("store", "copy", store, target)
        assert Shell("--store", target).head() == head
        copied = Shell().one("store", "copy", url, f"sqlite:{place / 'three.db'}")
        assert copied["repositories"] == 2
        plan = beside.one("store", "erase", "sales")
        assert shell.one("store", "erase", "sales", "--token", plan["token"])["done"]
        assert "sales" not in {one["repository"] for one in shell.lines("store", "stats")}
        file.unlink()


def test_a_copy_that_a_server_began_is_continued_without_it(place):
    store, target = f"rocksdb:{place / 'store'}", f"sqlite:{place / 'two.db'}"
    with serving(store) as url:
        Shell("--url", url).put("orders", "s3://1")
        file = server_file(store)
        assert file is not None
        write_server_file(file, url)

        class Stopped(Exception):
            pass

        def stop(progress: CopyProgress) -> None:
            if progress.objects:
                raise Stopped

        with Client(url) as client, pytest.raises(Stopped):
            copy_store(store, target, stop, ServerSource(client))
        file.unlink()
    assert Shell().one("store", "copy", store, target)["resumed"]
    assert Shell("--store", target).head() == Shell("--store", store).head()
