"""`lochan fs`, `lochan commit` and `lochan reset`, on a server and on a store."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.shell import Shell
from tests.client.serving import serving


@pytest.fixture(params=["server", "store"])
def files(request: pytest.FixtureRequest, place: Path) -> Iterator[Shell]:
    """Commands on an empty catalog of a server, or on the store of the directory."""
    if request.param == "store":
        yield Shell("--store", f"rocksdb:{place / 'store'}")
        return
    with serving("memory:", "other", imports=[f"file://{place / 'source'}"]) as url:
        yield Shell("--url", url)


def paths(shell: Shell, *words: str) -> list[str]:
    return [one["path"] for one in shell.lines("fs", "ls", *words)]


def put(shell: Shell, address: str, body: bytes) -> None:
    shell.run("fs", "cp", "-", address, stdin=body)


def test_files_are_written_listed_read_and_described(files):
    put(files, "main:a.txt", b"hello\n")
    put(files, "main:d/b.bin", b"\0\xff")
    assert paths(files, "main:") == ["a.txt", "d/"]
    assert paths(files, "-r", "main:") == ["a.txt", "d/b.bin"]
    assert paths(files, "main:d/") == ["d/b.bin"]
    assert "a.txt" in files.out("fs", "ls", "-l", ":")
    assert "no files" in files.out("fs", "ls", "main:nothing")
    assert files.run("fs", "cat", "main:a.txt", "main:d/b.bin").stdout_bytes == b"hello\n\0\xff"
    document = files.one("fs", "cat", "main:d/b.bin")
    assert base64.b64decode(document["base64"]) == b"\0\xff"
    stat = files.one("fs", "stat", "main:a.txt")
    assert (stat["size"], stat["path"]) == (6, "a.txt")
    assert "sha256" in files.out("fs", "stat", "main:a.txt")
    missing = files.run("fs", "stat", "main:nothing", code=4)
    assert "nothing" in missing.stderr
    files.run("fs", "ls", "local", code=2)
    files.run("fs", "ls", "nothing:", code=4)


def test_a_copy_reports_how_many_bytes_it_has_copied(files, place):
    said = files.run("fs", "cp", "-", "main:a", stdin=b"hello\n").stdout
    assert "copied 1 files, 6 bytes" in said
    document = files.run("fs", "cp", "-", "main:b", "--json", stdin=b"four").stdout
    assert '"size":4' in document
    assert "6 bytes" in files.out("fs", "cp", "main:a", "main:c")
    assert "6 bytes" in files.out("fs", "cp", "main:a", str(place / "down"))


def test_folders_are_copied_both_ways(files, place):
    source = place / "source"
    for number in range(30):
        path = source / f"d{number % 3}" / f"{number}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes([number]) * (number * 1_000))
    (source / "link").symlink_to("/etc/passwd")
    done = files.out("fs", "cp", "-r", "--parallel", "4", str(source), "main:up/")
    assert "copied 30 files" in done
    assert len(paths(files, "-r", "main:up/")) == 30
    copied = files.lines("fs", "cp", "-r", "main:up/", "target")
    assert len(copied) == 30
    for number in range(30):
        name = Path(f"d{number % 3}") / f"{number}.bin"
        assert (place / "target" / name).read_bytes() == (source / name).read_bytes()
    assert len(list((place / "target").rglob("*.bin"))) == 30
    assert not list((place / "target").rglob(".lochan-*"))
    files.run("fs", "cp", str(source), "main:x", code=2)
    files.run("fs", "cp", "-r", "main:nothing/", "target", code=4)
    files.run("fs", "cp", "a", "b", code=2)


def test_one_file_keeps_its_name_and_is_copied_within_the_repository(files, place):
    (place / "one.csv").write_bytes(b"1")
    files.run("fs", "cp", "one.csv", "main:d/", "--type", "text/csv", "--metadata", "k=v")
    stat = files.one("fs", "stat", "main:d/one.csv")
    assert (stat["contentType"], stat["metadata"]) == ("text/csv", {"k": "v"})
    files.run("fs", "cp", "main:d/one.csv", "main:copy.csv")
    assert files.one("fs", "stat", "main:copy.csv")["sha256"] == stat["sha256"]
    refused = files.run("fs", "cp", "one.csv", "main:d/", "--no-replace", code=3)
    assert "one.csv" in refused.stderr
    files.run("fs", "cp", "main:d/one.csv", ".")
    assert files.run("fs", "cp", "main:d/one.csv", "-").stdout_bytes == b"1"


@pytest.mark.parametrize("path", ["../out", "a/../../out", "/etc/out", "a//b", "."])
def test_a_download_never_leaves_its_folder(files, place, path):
    put(files, f"main:d/{path}", b"1")
    refused = files.run("fs", "cp", "-r", "main:d/", "target", code=2)
    assert "cannot be the name of a file" in refused.stderr
    assert not list(place.rglob("out"))
    files.run("fs", "cp", f"main:d/{path}", "named")
    assert (place / "named").read_bytes() == b"1"


def test_what_is_staged_is_shown_committed_and_dropped(files):
    put(files, "main:a", b"1")
    put(files, "main:d/b", b"22")
    staged = files.lines("fs", "diff", "main:")
    assert [one["path"] for one in staged] == ["a", "d/b"]
    files.run("fs", "diff", "main:", "--exit-code", code=1)
    done = files.one("commit", "main", "-m", "first", "--author", "Ada")
    head = done["targetBranch"]["hash"]
    assert files.head("main") == head
    assert files.lines("fs", "diff", "main:") == []
    refused = files.run("commit", "main", "-m", "again", code=2)
    assert "nothing is staged" in refused.stderr
    files.run("commit", "-m", "empty", "--allow-empty")
    put(files, "main:a", b"333")
    put(files, "main:c", b"4")
    assert "~" in files.out("fs", "diff", "main:")
    files.run("reset", "main", "--path", "a")
    assert [one["path"] for one in files.lines("fs", "diff", "main:")] == ["c"]
    files.run("reset", "main", "--hard", head, code=3)
    files.run("reset", "main", "--hard", head, "--discard-staged")
    assert files.head("main") == head
    assert paths(files, "-r", "main:") == ["a", "d/b"]
    files.run("reset", "main", "--discard-staged", code=2)
    files.run("reset", "main")


def test_differences_sums_and_removals(files):
    put(files, "main:a", b"1")
    put(files, "main:d/b", b"22")
    files.run("commit", "-m", "first")
    files.run("branch", "create", "dev")
    put(files, "dev:d/c", b"333")
    files.run("fs", "rm", "dev:a")
    files.run("commit", "dev", "-m", "second")
    changes: list[Any] = files.lines("fs", "diff", "main:", "dev:")
    assert [(one["path"], one["before"] is None) for one in changes] == [
        ("a", False),
        ("d/c", True),
    ]
    sums = files.lines("fs", "du", "dev:")
    assert sums == [
        {"files": 2, "size": 5, "path": "d/"},
        {"files": 2, "size": 5, "path": "dev:"},
    ]
    assert files.lines("fs", "du", "-s", "dev:d/")[0]["size"] == 5
    files.run("fs", "rm", "-r", "dev:d/")
    assert paths(files, "-r", "dev:") == []
    missing = files.run("fs", "rm", "dev:nothing", code=4)
    assert "nothing was removed" in missing.stderr
    files.run("merge", "dev", "--path", "a=DROP")
    assert paths(files, "-r", "main:") == ["a", "d/b", "d/c"]


def test_an_address_may_name_another_repository(place):
    with serving("memory:", "other") as url:
        shell = Shell("--url", url)
        put(shell, "lochan://other@main/a", b"1")
        assert paths(shell, "main:") == []
        assert paths(shell, "lochan://other@main/") == ["a"]
        shell.run("fs", "cp", "lochan://other@main/a", "main:b")
        assert shell.run("fs", "cat", "main:b").stdout_bytes == b"1"


def test_objects_are_imported(place):
    (place / "source").mkdir()
    (place / "source" / "x").write_bytes(b"1")
    with serving("memory:", imports=[f"file://{place / 'source'}"]) as url:
        shell = Shell("--url", url)
        done = shell.one("fs", "import", f"file://{place / 'source'}", "main:in/", "-m", "import")
        assert done["objects"] == 1
        assert paths(shell, "-r", "main:") == ["in/x"]
        refused = shell.run("fs", "import", "file:///etc", "main:in/", code=7)
        assert "/etc" in refused.stderr
