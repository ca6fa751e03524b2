"""Every command does what its help promises, for people and for programs."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from lochan import __version__
from lochan.cli.main import commands
from lochan.client import Client
from lochan.embedded import open_repository
from lochan.model.commits import CommitMeta, Put
from lochan.model.contents import Namespace
from tests.cli.shell import Shell
from tests.kernel.check.newer import make_reference_newer


def test_the_version_is_told():
    assert Shell().out("--version") == f"lochan {__version__}\n"


def test_branches_are_made_listed_shown_moved_and_deleted(shell):
    first = shell.put("orders", "s3://1")
    shell.put("orders", "s3://2")
    assert f"created branch dev at {first[:12]}" in shell.out("branch", "create", "dev", "main~1")
    assert [one["name"] for one in shell.lines("branch")] == ["dev", "main"]
    assert [one["name"] for one in shell.lines("branch", "list", "--prefix", "d")] == ["dev"]
    assert "dev " in shell.out("branch")
    shown = shell.one("branch", "show", "dev")
    assert shown["hash"] == first
    assert shown["metadata"]["numCommitsBehind"] == 1
    assert "behind" in shell.out("branch", "show", "dev")
    assert "2" in shell.out("branch", "list", "-l")
    shell.run("branch", "assign", "dev", "main")
    assert shell.head("dev") == shell.head("main")
    shell.run("branch", "delete", "dev", "--expected", first, code=3)
    assert first not in shell.out("branch", "delete", "dev")
    shell.run("branch", "show", "dev", code=4)
    bare = shell.one("branch", "create", "bare", "--bare", "--expires-in", "7d")
    assert "expiresAt" in bare
    shell.run("branch", "create", "no", "--expires-in", "soon", code=2)
    shell.run("branch", "delete", "a", "b", "--expected", first, code=2)


def test_tags_are_made_listed_shown_moved_and_deleted(shell):
    head = shell.put("orders", "s3://1")
    shell.run("tag", "create", "v1", "-m", "the first")
    (tag,) = shell.lines("tag")
    assert (tag["name"], tag["hash"], tag["annotation"]["message"]) == ("v1", head, "the first")
    assert "the first" in shell.out("tag")
    assert "the first" in shell.out("tag", "show", "v1")
    shell.run("branch", "show", "v1", code=4)
    later = shell.put("orders", "s3://2")
    assert shell.one("tag", "assign", "v1", "main")["hash"] == later
    shell.run("tag", "delete", "v1")
    assert "no tags" in shell.out("tag")


def test_contents_are_put_listed_shown_and_deleted(shell):
    shell.run("content", "put", "sales.orders", "--location", "s3://1", code=3)
    shell.put("sales.orders", "s3://1", "-", "-p")
    first = shell.one("content", "get", "sales.orders")
    shell.put("sales.orders", "s3://2")
    again = shell.one("content", "get", "sales.orders")
    assert (first["id"], again["metadataLocation"]) == (again["id"], "s3://2")
    shell.run("content", "put", "v", "--type", "ICEBERG_VIEW", "--location", "s3://v")
    shell.run("content", "put", "n", "--type", "NAMESPACE", "--set", 'properties={"a":"b"}')
    shell.run("content", "put", "x", "--type", "NEW_THING", "--set", "size=3", "--set", "word=hi")
    assert shell.one("content", "get", "x")["size"] == 3
    assert shell.one("content", "get", "x")["word"] == "hi"
    keys = [".".join(one["name"]["elements"]) for one in shell.lines("content")]
    assert keys == ["n", "sales", "sales.orders", "v", "x"]
    below = shell.lines("content", "list", "--prefix", "sales", "-l")
    assert [one["content"]["type"] for one in below] == ["NAMESPACE", "ICEBERG_TABLE"]
    assert "s3://2" in shell.out("content", "list", "-l")
    assert '"metadataLocation": "s3://2"' in shell.out("content", "get", "sales.orders")
    shell.run("content", "delete", "x", "v", "-m", "tidy")
    assert shell.lines("log", "-n", "1")[0]["commitMeta"]["message"] == "tidy"
    shell.run("content", "get", "x", code=4)
    shell.run("content", "delete", "x", code=4)
    shell.run("content", "put", "y", "--set", "nothing", code=2)
    shell.run("content", "put", "y", "--type", "ICEBERG_TABLE", code=2)


def test_a_content_is_read_from_a_file_or_a_pipe(shell, place):
    text = '{"type":"UDF","metadataLocation":"s3://u","versionId":"1","signatureId":"1"}'
    (place / "udf.json").write_text(text)
    shell.run("content", "put", "f", "--file", "udf.json")
    shell.run("content", "put", "g", "--file", "-", stdin=text)
    assert shell.one("content", "get", "g")["type"] == "UDF"
    shell.run("content", "put", "h", "--file", "-", stdin="no json", code=2)


def test_a_stale_hash_is_refused_where_it_matters(shell):
    old = shell.put("orders", "s3://1")
    shell.put("orders", "s3://2")
    stale = ("content", "put", "orders", "--location", "s3://3", "--expected", old)
    assert "error:" in shell.run(*stale, code=3).stderr
    shell.run("content", "put", "other", "--location", "s3://o", "--expected", old)
    assert shell.location("orders") == "s3://2"


def test_the_log_is_shown_whole_in_part_and_with_operations(shell):
    hashes = [shell.put("orders", f"s3://{number}") for number in range(25)]
    table = shell.out("log").splitlines()
    assert len(table) == 22
    assert "-n NUMBER prints more" in table[-1]
    assert len(shell.lines("log")) == 25
    assert [one["commitMeta"]["hash"] for one in shell.lines("log", "-n", "2")] == hashes[:-3:-1]
    assert len(shell.lines("log", "main~20")) == 5
    assert len(shell.lines("log", "--until", hashes[20])) == 5
    (one,) = shell.lines("log", "-n", "1", "-o")
    assert one["operations"][0]["key"]["elements"] == ["orders"]
    assert "put orders" in shell.out("log", "-o", "-n", "1")
    matching = shell.lines("log", "--filter", "commit.message == 'nothing'")
    assert matching == []


def test_differences_are_shown_and_told_by_the_exit_code(shell):
    shell.put("orders", "s3://1")
    shell.run("branch", "create", "dev")
    assert "no differences" in shell.out("diff", "main", "dev", "--exit-code")
    shell.put("orders", "s3://2", "dev")
    shell.put("new", "s3://n", "dev")
    found = {one["key"]["elements"][0]: one for one in shell.lines("diff", "main", "dev")}
    assert found["new"]["from"] is None
    assert found["orders"]["to"]["metadataLocation"] == "s3://2"
    table = shell.out("diff", "main", "dev", "--exit-code", code=1)
    assert table.splitlines()[1].startswith("+  new")
    assert len(shell.lines("diff", "dev", "--prefix", "new")) == 1


def test_the_ref_log_is_shown(shell):
    shell.run("branch", "create", "dev")
    shell.put("orders", "s3://1", "dev")
    assert [one["kind"] for one in shell.lines("reflog", "dev")] == ["commit", "create"]
    assert "create" in shell.out("reflog", "dev", "-n", "5")


def diverged(shell: Shell) -> None:
    shell.put("orders", "s3://1")
    shell.run("branch", "create", "dev")
    shell.put("orders", "s3://dev", "dev")
    shell.put("items", "s3://items", "dev")
    shell.put("orders", "s3://main")


def test_a_merge_shows_conflicts_and_takes_decisions(shell):
    diverged(shell)
    printed = shell.out("merge", "dev", code=3)
    assert "orders" in printed
    assert "nothing was written" in printed
    outcome = shell.one("merge", "dev", code=3)
    assert (outcome["wasApplied"], outcome["wasSuccessful"]) == (False, False)
    assert "would have" in shell.out("merge", "dev", "--dry-run", "--default", "FORCE")
    assert shell.location("orders") == "s3://main"
    done = shell.out("merge", "dev", "--key", "orders=FORCE", "-m", "both", "--author", "Ada")
    assert "merged dev into main" in done
    assert shell.location("orders") == "s3://dev"
    meta = shell.lines("log", "-n", "1")[0]["commitMeta"]
    assert (meta["message"], meta["authors"]) == ("both", ["Ada"])
    assert "nothing to do" in shell.out("merge", "dev")
    shell.run("merge", "dev", "--key", "orders=SIDEWAYS", code=2)


def test_a_merge_takes_resolutions_from_files(shell, place):
    diverged(shell)
    there = shell.one("content", "get", "orders")
    (place / "both.json").write_bytes(
        b'{"type":"ICEBERG_TABLE","id":"%s","metadataLocation":"s3://both","snapshotId":1,'
        b'"schemaId":0,"specId":0,"sortOrderId":0}' % there["id"].encode()
    )
    shell.run("merge", "dev", "--resolve", "orders=both.json")
    assert shell.location("orders") == "s3://both"
    shell.run("merge", "dev", "--resolve", "orders", code=2)


def test_a_branch_moves_ahead_or_is_overwritten(shell):
    shell.put("orders", "s3://1")
    shell.run("branch", "create", "dev")
    ahead = shell.put("items", "s3://i", "dev")
    shell.run("merge", "dev", "--ff-only")
    assert shell.head() == ahead
    shell.put("orders", "s3://2")
    shell.put("items", "s3://j", "dev")
    shell.run("merge", "dev", "--ff-only", code=3)
    shell.run("merge", "dev", "--overwrite")
    assert shell.head() == shell.head("dev")
    shell.run("merge", "dev", "--overwrite", "--ff-only", code=2)


def test_commits_are_transplanted_picked_reverted_and_rebased(shell):
    shell.put("base", "s3://b")
    shell.run("branch", "create", "dev")
    hashes = [shell.put(f"t{number}", f"s3://{number}", "dev") for number in range(4)]
    assert "transplanted 2 commits" in shell.out("transplant", "dev", *hashes[:2])
    assert "picked 1 commit" in shell.out("cherry-pick", hashes[3])
    assert shell.location("t3") == "s3://3"
    shell.run("cherry-pick", f"{hashes[1]}..{hashes[2]}", "--squash", "-m", "one")
    wrong = shell.put("t0", "s3://wrong")
    assert "reverted 1" in shell.out("revert", wrong)
    assert shell.location("t0") == "s3://0"
    shell.run("branch", "create", "mine", "main~1")
    shell.put("own", "s3://own", "mine")
    shell.put("more", "s3://more")
    assert "rebased mine onto main" in shell.out("rebase", "main", "-b", "mine")
    log = [one["commitMeta"]["message"] for one in shell.lines("log", "mine", "-n", "2")]
    assert log == ["Put own", "Put more"]


def test_config_is_shown_and_settings_are_kept(shell, place):
    assert shell.one("config")["defaultBranch"] == "main"
    assert "defaultBranch" in shell.out("config")
    rules = '{"type":"GARBAGE_COLLECTOR","defaultCutoffPolicy":"P30D"}'
    shell.run("config", "set", "-", stdin=rules)
    assert "P30D" in shell.out("config", "get", "GARBAGE_COLLECTOR")
    assert "P30D" in shell.out("config")
    shell.run("config", "set", "-", stdin="[]", code=2)


def test_another_repository_is_another_catalog(shell):
    shell.put("orders", "s3://1")
    assert shell.lines("content", "--repository", "other") == []
    shell.run("content", "--repository", "nowhere", code=4)


def test_the_stores_are_listed():
    assert {one["scheme"] for one in Shell().one("stores")} >= {"memory", "rocksdb"}
    assert "memory:" in Shell().out("stores")


# click asks bash for its version.
@pytest.mark.slow
@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_every_shell_gets_its_completion(name):
    assert "_LOCHAN_COMPLETE" in Shell().out("completion", name)


def test_names_of_branches_are_completed_from_the_server(shell):
    shell.run("branch", "create", "feature")
    url = shell.always[1]
    words = {
        "_LOCHAN_COMPLETE": "bash_complete",
        "COMP_WORDS": "lochan log fea",
        "COMP_CWORD": "2",
        "LOCHAN_URL": url,
    }
    result = CliRunner().invoke(commands, [], env=words, prog_name="lochan")
    assert result.output.split() == ["plain,feature"]


def test_no_text_of_others_can_steer_a_terminal(shell):
    with Client(shell.always[1]) as client:
        meta = CommitMeta(message="\x1b[2J[bold]wiped[/bold]", authors=("\x07Eve",))
        client.commits.commit("main", meta, [Put(key=("n",), content=Namespace(elements=("n",)))])
    shown = shell.out("log")
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "\\x1b[2J[bold]wiped[/bold]" in shown


def test_a_check_needs_the_store_itself(shell):
    assert "stop the server" in shell.run("check", code=6).stderr


def test_a_healthy_store_is_whole_and_a_damaged_one_is_not(local, place: Path):
    local.put("orders", "s3://1")
    shown = local.out("check")
    assert "whole" in shown
    assert "1 contents" in shown
    assert "not judged: claims" in shown
    printed = local.one("check")
    assert (printed["verdict"], printed["findings"]) == ("whole", [])
    assert set(printed) == {"verdict", "findings", "untold", "progress", "unjudged"}
    _damage(place / ".lochan/store")
    assert "damaged" in local.out("check", code=8)
    printed = local.one("check", code=8)
    assert printed["verdict"] == "damaged"
    assert set(printed["findings"][0]) == {
        "severity",
        "problem",
        "kind",
        "row",
        "what",
        "meaning",
        "referredBy",
        "repository",
    }
    assert printed["findings"][0]["severity"] == "damage"
    assert printed["findings"][0]["problem"] == "missing"


def test_a_check_makes_no_repository_and_checks_all_if_asked(local, place: Path):
    local.put("orders", "s3://1")
    assert (
        "no repository 'elsewhere'" in local.run("check", "--repository=elsewhere", code=4).stderr
    )
    assert local.one("check", "--all")["progress"]["repositories"] == 1
    local.run("branch", "--repository=second")
    assert local.one("check", "--all", "--history")["progress"]["repositories"] == 2
    assert local.one("check", "--repository=second")["progress"]["repositories"] == 1


def test_a_branch_of_a_newer_format_is_listed_and_has_an_exit_code_of_its_own(local, place: Path):
    local.put("orders", "s3://1")
    local.run("branch", "create", "newer")
    with open_repository(f"rocksdb:{place / '.lochan/store'}") as repository:
        make_reference_newer(repository._repository.context, "newer")
        repository._store.flush(repository._store.epoch())
    shown = local.out("branch")
    assert "main" in shown
    assert "newer format: upgrade Lochan" in shown
    refused = local.run("log", "newer", code=9)
    assert "upgrade Lochan" in refused.stderr
    assert "newer format" in local.out("check", code=9)
    assert local.one("check", code=9)["findings"][0]["problem"] == "newer_format"


def _damage(store: Path) -> None:
    """Takes one object away."""
    from lochan.assembly import open_store
    from lochan.base.ids import obj_id_from_hex
    from lochan.embedded import open_repository
    from lochan.kv.store import Kind, partition

    with open_repository(f"rocksdb:{store}") as repository:
        head = obj_id_from_hex(repository.references.get().hash)
        instance = repository._repository.context.instance
    opened = open_store(f"rocksdb:{store}")
    try:
        opened.delete(partition(instance, Kind.OBJECTS, head[:2]), head)
        opened.flush(opened.epoch())
    finally:
        opened.close()


@pytest.mark.parametrize("name", ["a/./b", "a/..", "a//b"])
def test_a_name_that_no_address_can_hold_is_refused(shell, name):
    assert "name" in shell.run("branch", "create", name, "main", code=2).output
    assert "name" in shell.run("tag", "create", name, "main", code=2).output
