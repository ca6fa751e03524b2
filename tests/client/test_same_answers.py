"""The embedded library and the client answer the same, to good and to bad arguments.

Each method gets each text. Results are compared with the hashes of their own repository replaced by
names, errors by their class; one of them may be a subclass of the other, because the wire has fewer
kinds of error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from lochan.base.errors import Invalid, LochanError
from lochan.client import Client
from lochan.embedded import open_repository
from lochan.model.commits import CommitMeta, Delete, Put
from lochan.model.contents import IcebergTable
from lochan.model.references import Annotation
from tests.client.serving import serving

# Half of a surrogate pair, which no encoding of Unicode can express.
BROKEN = "x\udc80"

# `{dev}` is the head of the branch dev, `{main}` that of main.
SPECS = [
    *("", "-", "main", "dev", "v1", "a/b/c", "@", "main@", "@~1", "~1", "main~1", "main~0"),
    *("dev~1", "dev~2", "dev~999999999999", "main~99999999999999999999", "dev^", "dev^1", "dev^2"),
    *("dev*1", "dev*2024-01-01T00:00:00Z", "dev*9999-12-31T23:59:59Z", "dev*99999-01-01T00:00:00Z"),
    *("HEAD", "int/refs", "int/x", "main\0", BROKEN, "é", "../x", "main..dev", "MAIN", "nope"),
    *("{dev}", "@{dev}", "dev@{dev}", "dev@{main}", "main@{dev}", "dev@{dev}~1", "nope@{dev}"),
    *("0" * 64, "@" + "0" * 64, "main@" + "0" * 64, "2e1cfa82b035c26c", "x" * 300, "main "),
    *("dev" + "~1" * 50, "dev" + "~0" * 200, "a%2Fb%2Fc", "{main}..{dev}"),
]

METHODS: dict[str, Callable[[Any, str], Any]] = {
    "entries": lambda one, text: [entry.key for entry in one.contents.entries(text).items],
    "get": lambda one, text: one.contents.get(text, ("a",))[0].snapshot_id,
    "log": lambda one, text: [entry.meta.message for entry in one.history.log(text).items],
    "diff": lambda one, text: [entry.key for entry in one.history.diff("main", text).items],
    "get reference": lambda one, text: one.references.get(text).kind,
    "reflog": lambda one, text: [move.kind for move in one.references.log(text).items],
    "find jobs": lambda one, text: one.contents.find_jobs(text, ("a",), ["job"]),
    "merge": lambda one, text: _shown(one.merges.merge("main", text, dry_run=True)),
    "expect": lambda one, text: _shown(
        one.merges.merge("main", "dev", expected=text, dry_run=True)
    ),
    "fast-forward": lambda one, text: _shown(one.merges.fast_forward("main", text, dry_run=True)),
    "force": lambda one, text: _shown(one.merges.force("main", text, dry_run=True)),
    "rebase": lambda one, text: _shown(one.merges.rebase("main", text, dry_run=True)),
    "cherry-pick": lambda one, text: _shown(one.merges.cherry_pick("main", [text], dry_run=True)),
    "revert": lambda one, text: _shown(one.merges.revert("dev", [text], dry_run=True)),
    "transplant": lambda one, text: _shown(
        one.merges.transplant("main", "dev", [text], dry_run=True)
    ),
    "create": lambda one, text: one.references.create(_fresh(text), text).hash,
    "create as": lambda one, text: one.references.create(text, "main").name,
    "delete": lambda one, text: one.references.delete("absent", expected=text).name,
    "commit": lambda one, text: one.commits.commit(text, "m", [Delete(key=("zz",))]).hash,
    "namespace": lambda one, text: one.namespaces.delete(text, ("zz",)),
    "stat file": lambda one, text: one.files.stat(text, "f/1").size,
    "read file": lambda one, text: one.files.read(text, "f/1"),
    "open file": lambda one, text: one.files.open(text, "f/1").read(),
    "list files": lambda one, text: [each.path for each in one.files.list(text).items],
    "diff files": lambda one, text: [each.path for each in one.files.diff("main", text).items],
    "diff files back": lambda one, text: [each.path for each in one.files.diff(text, "dev").items],
    "log of files": lambda one, text: [
        entry.meta.message for entry in one.files.log(text, paths=["f/1"]).items
    ],
    "copy file": lambda one, text: one.files.copy("dev", "f/copy", "f/1", source=text).size,
    "copy to": lambda one, text: one.files.copy(text, "f/1", "f/nothing").size,
    "put file": lambda one, text: one.files.put(text, "f/nothing", b"1", if_match="x").size,
    "delete file": lambda one, text: one.files.delete(text, "f/nothing"),
    "uncommitted": lambda one, text: [each.path for each in one.files.uncommitted(text).items],
    "commit files": lambda one, text: one.files.commit(text, "m", expected="0" * 64).branch,
    "reset files": lambda one, text: one.files.reset(text, path="f/nothing"),
    "hard reset": lambda one, text: one.files.hard_reset("main", text, expected="0" * 64).hash,
    "presign": lambda one, text: one.files.presign(text, "f/1"),
    "reserve": lambda one, text: one.files.reserve(text, "f/1"),
    "link": lambda one, text: one.files.link(text, "f/1", "forged"),
    "import": lambda one, text: one.files.import_files(text, [("file:///x", "in/")], "m"),
}

# Every text may be a path, or part of one.
PATHS = [
    *("", ".", "..", "/", "//", "a//b", "f", "f/", "f/1", "f/2", "/f/1", "./f/1", "f/./1", "%2F"),
    *("f%2F1", "é", "e\u0301", "a\0", BROKEN, "x" * 1_024, "x" * 1_025, "é" * 512, "é" * 513, " "),
    *("a\nb", "a\r\nb", "a&path=b", "a+b", "a?b", "a#b", "\U0001f600", "\x7f", "-", "*", "~"),
]

PATH_METHODS: dict[str, Callable[[Any, str], Any]] = {
    "stat": lambda one, text: one.files.stat("main", text).size,
    "put": lambda one, text: one.files.put("paths", text, text.encode(errors="replace")).sha256,
    "read": lambda one, text: one.files.read("paths", text),
    "open": lambda one, text: one.files.open("paths", text, last=1).read(),
    "update": lambda one, text: one.files.update("paths", text, metadata={"k": text}).metadata,
    "metadata name": lambda one, text: (
        one.files.put("paths", "m", b"", metadata={text: "1"}).metadata
    ),
    "type": lambda one, text: one.files.put("paths", "t", b"", content_type=text).content_type,
    "if match": lambda one, text: (
        one.files.put("paths", "t", b"", if_match=text.replace("\udc80", "?")).size
    ),
    "if sha256": lambda one, text: one.files.put("paths", "t", b"", if_sha256=text).size,
    "sha256": lambda one, text: one.files.put("paths", "t", b"", sha256=text).size,
    "md5": lambda one, text: one.files.put("paths", "t", b"", md5=text).size,
    "copy": lambda one, text: one.files.copy("paths", "copy", text).size,
    "prefix": lambda one, text: [each.path for each in one.files.list("paths", text).items],
    "delimiter": lambda one, text: [
        each.path for each in one.files.list("paths", delimiter=text).items
    ],
    "after": lambda one, text: [each.path for each in one.files.list("paths", after=text).items],
    "diff": lambda one, text: [each.path for each in one.files.diff("main", "dev", text).items],
    "log": lambda one, text: [
        entry.meta.message for entry in one.files.log("dev", prefixes=[text]).items
    ],
    "reset": lambda one, text: one.files.reset("paths", path=text),
    "reset prefix": lambda one, text: one.files.reset("main", prefix=text),
    "delete": lambda one, text: one.files.delete("paths", text),
    "delete many": lambda one, text: one.files.delete_many("paths", [text]),
    "token": lambda one, text: one.files.list("main", token=text or "x"),
    "link token": lambda one, text: one.files.link("main", "a", text),
    "url": lambda one, text: one.files.import_files("main", [(text, "in/")], "m"),
}


def _fresh(text: str) -> str:
    """A name that no other text of the list gives."""
    return f"t-{ascii(text).encode().hex()[-100:]}"


def _shown(merged: Any) -> Any:
    return merged.successful, [outcome.key for outcome in merged.keys]


def table(number: int) -> IcebergTable:
    return IcebergTable(
        metadata_location=f"s3://{number}",
        snapshot_id=number,
        schema_id=0,
        spec_id=0,
        sort_order_id=0,
    )


def put(message: str | CommitMeta = "m", key: tuple[str, ...] = ("q",)) -> Callable[[Any], Any]:
    return lambda one: one.commits.commit("main", message, [Put(key=key, content=table(1))])


ARGUMENTS: dict[str, Callable[[Any], Any]] = {
    "message": put(BROKEN),
    "property": put(CommitMeta(message="m", properties=((BROKEN, (BROKEN,)),))),
    "author": put(CommitMeta(message="m", authors=(BROKEN,))),
    "key": put(key=(BROKEN,)),
    "read key": lambda one: one.contents.get("main", (BROKEN,)),
    "read keys": lambda one: one.contents.get_many("main", [(BROKEN,)]),
    "no elements": lambda one: one.contents.get("main", ()),
    "empty element": lambda one: one.contents.get("main", ("",)),
    "long key": lambda one: one.contents.get("main", ("k" * 100_000,)),
    "deep key": lambda one: one.contents.get("main", ("k",) * 1_000),
    "prefix": lambda one: one.contents.entries("main", prefix=(BROKEN,)),
    "filter": lambda one: one.contents.entries("main", filter=BROKEN),
    "token": lambda one: one.contents.entries("main", token=BROKEN),
    "limit 0": lambda one: one.contents.entries("main", 0),
    "limit below 0": lambda one: one.contents.entries("main", -1),
    "large limit": lambda one: one.contents.entries("main", 2**31),
    "namespace": lambda one: one.namespaces.create("main", (BROKEN,)),
    "no namespace": lambda one: one.namespaces.delete("main", ()),
    "annotation": lambda one: one.references.create(
        "t", "main", kind="TAG", annotation=Annotation(BROKEN)
    ),
    "kind": lambda one: one.references.create("t", "main", kind=BROKEN),
    "expiry": lambda one: one.references.create("t", "main", expires_us=2**70),
    "settings": lambda one: one.settings.update({"type": BROKEN}),
    "job": lambda one: one.contents.find_jobs("main", ("a",), [BROKEN]),
    "behaviour": lambda one: one.merges.merge("main", "dev", default=BROKEN),
    "no hashes": lambda one: one.merges.cherry_pick("main", []),
    "empty range": lambda one: one.merges.cherry_pick("main", [".."]),
    "no operations": lambda one: one.commits.commit("main", "m", []),
}


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[Any, Any]]:
    """A client and an embedded repository with the same branches and tables."""
    with serving() as url, Client(url) as client, open_repository("memory:") as embedded:
        for one in (client, embedded):
            one.commits.commit("main", "one", [Put(key=("a",), content=table(1))])
            one.references.create("dev")
            one.commits.commit("dev", "two", [Put(key=("b",), content=table(2))])
            one.references.create("v1", "main", kind="TAG")
            for path in ("f/1", "f/2"):
                one.files.put("dev", path, path.encode() * 10_000)
            one.files.commit("dev", "files")
            one.references.create("a/b/c", "dev")
            one.references.create("paths", "dev")
        yield client, embedded


def outcome(one: Any, call: Callable[[Any], Any]) -> Any:
    """A result without what differs between repositories, or the class of the error."""
    try:
        result = call(one)
    except LochanError as error:
        return type(error)
    return re.sub(r"[0-9a-f]{64}", "HASH", repr(result))


def _called(method: Callable[[Any, str], Any], text: str, one: Any) -> Any:
    """Calls a method with the hashes of its own repository."""
    for branch in ("dev", "main"):
        if f"{{{branch}}}" in text:
            text = text.replace(f"{{{branch}}}", one.references.get(branch).hash)
    return method(one, text)


def differ(left: Any, right: Any) -> bool:
    if isinstance(left, type) and isinstance(right, type):
        return not (issubclass(left, right) or issubclass(right, left))
    return bool(left != right)


@pytest.mark.parametrize("method", METHODS)
def test_a_text_means_the_same_to_both(both: tuple[Any, Any], method: str) -> None:
    different = {}
    for text in SPECS:
        left, right = (outcome(one, partial(_called, METHODS[method], text)) for one in both)
        if differ(left, right):
            different[text] = (left, right)
    assert different == {}


@pytest.mark.parametrize("method", PATH_METHODS)
def test_a_path_means_the_same_to_both(both: tuple[Any, Any], method: str) -> None:
    different = {}
    for text in PATHS:
        left, right = (outcome(one, partial(_called, PATH_METHODS[method], text)) for one in both)
        if differ(left, right):
            different[text] = (left, right)
    assert different == {}


@pytest.mark.parametrize("argument", ARGUMENTS)
def test_a_bad_argument_is_invalid_for_both(both: tuple[Any, Any], argument: str) -> None:
    for one in both:
        with pytest.raises(Invalid):
            ARGUMENTS[argument](one)


@pytest.mark.parametrize("text", ["dev", "nope", "HEAD", "dev~1", "main@{dev}", "dev@{dev}"])
def test_a_name_in_place_of_a_hash_is_refused_and_no_other_commit_is_taken(
    both: tuple[Any, Any], text: str
) -> None:
    for one in both:
        named = text.replace("{dev}", one.references.get("dev").hash)
        head = one.references.get("main").hash
        for call in (
            lambda one, named=named: one.merges.transplant("main", "dev", [named]),
            lambda one, named=named: one.merges.cherry_pick("main", [named]),
            lambda one, named=named: one.merges.revert("dev", [named]),
        ):
            with pytest.raises(Invalid, match="hash"):
                call(one)
        assert one.references.get("main").hash == head
