"""Nothing of a hidden file or branch is in any byte of any answer about files.

As `test_hidden_words.py` for tables: a caller may see one branch and the files below one prefix.
All hidden paths, bytes, types, metadata and messages contain one word. Every operation on files is
called with every combination of visible and hidden references and paths.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, unquote

import pytest

from lochan.wire.operations_files import OPERATIONS_FILES
from tests.security.guarded_wire import GuardedWire, allow, principal
from tests.security.test_hidden_words import WORD, Request, follow, holds_the_word
from tests.wire.harness import EMPTY, Answer

READER, WRITER = "rita", "will"
SEEN = ("seen/*",)
HERE = ("default",)
PREFIX = "/files/v1"


class FilesWorld:
    """A repository of which a caller sees one branch and one prefix of files."""

    def __init__(self) -> None:
        seen = {"repositories": HERE, "references": ("open", "mine"), "paths": SEEN, "keys": ("x",)}
        self.wire = wire = GuardedWire(
            [
                principal(READER, [allow("read", **seen)]),
                principal(WRITER, [allow("read", "write", **seen)]),
            ]
        )
        self.put("main", "seen/a", b"plain")
        self.put("main", "veil/k", f"{WORD} inside".encode())
        self.put("main", f"{WORD}/x", b"plain")
        self.put("main", f"veil/{WORD}", b"x" * 20_000)
        self.first = self.commit("main", "plain")
        for name in ("open", "mine"):
            wire.branch(name, "main")
        self.put("open", "seen/b", b"plain")
        self.put("open", f"veil/{WORD}-2", b"plain")
        self.commit("open", "plain")
        wire.branch("veiled", "open")
        self.put("veiled", "seen/c", WORD.encode())
        self.put("veiled", "seen/a", WORD.encode())
        self.veiled = self.commit("veiled", WORD)
        # What is staged is hidden by the same rules.
        self.put("open", "seen/staged", b"plain")
        self.put("open", f"veil/{WORD}-staged", WORD.encode())
        self.put("veiled", f"seen/{WORD}-staged", WORD.encode())

    def put(self, branch: str, path: str, body: bytes) -> None:
        hidden = branch == "veiled" or not path.startswith("seen/")
        headers = {"lochan-metadata": f"note={WORD if hidden else 'plain'}"}
        headers["content-type"] = f"text/{WORD if hidden else 'plain'}"
        target = f"{PREFIX}/refs/{branch}/file?path={quote(path, safe='')}"
        answer = self.wire.send("PUT", target, body, headers)
        assert answer.status == 200, answer.body

    def commit(self, branch: str, message: str) -> str:
        body = {"commitMeta": {"message": message}, "operations": []}
        answer = self.wire.send("POST", f"{PREFIX}/refs/{branch}/commit", body)
        assert answer.status == 200, answer.body
        return str(answer.json["targetBranch"]["hash"])

    def references(self) -> list[str]:
        return [
            *("open", "mine", "veiled", "main", "-", "nothing", "open~1", "veiled~1"),
            *(f"@{self.veiled}", f"open@{self.veiled}", f"@{self.first}", f"open@{self.first}"),
            f"open@{EMPTY}",
        ]


PATHS = ("seen/a", "seen/c", "veil/k", "seen/staged", "nothing")


def reads(world: FilesWorld) -> Iterator[Request]:
    for ref in world.references():
        at = f"/refs/{ref}"
        for path in PATHS:
            for word in ("file", "stat", "presigned"):
                yield Request("GET", f"{at}/{word}?path={path}")
            yield Request("GET", f"{at}/log?path={path}")
        for more in (
            "",
            "?delimiter=/",
            "?max-records=1",
            "?prefix=veil/",
            "?prefix=seen/&after=s",
        ):
            yield Request("GET", f"{at}/files{more}")
            yield Request("GET", f"{at}/uncommitted{more.partition('&')[0]}")
        yield Request("GET", f"{at}/log?prefix=v&prefix=s")
        for other in world.references():
            for more in ("", "?delimiter=/&since-base=true", "?max-records=1&prefix=v"):
                yield Request("GET", f"{at}/diff/{other}{more}")


def writes(world: FilesWorld) -> Iterator[Request]:
    for ref in ("open", "mine", "veiled", "main", "nothing"):
        at = f"/refs/{ref}"
        for path in PATHS:
            yield Request("PUT", f"{at}/file?path={path}", b"new")
            yield Request("DELETE", f"{at}/file?path={path}-2")
            yield Request("POST", f"{at}/update", {"path": path, "contentType": "x"})
            token = {"path": path, "token": "forged"}
            yield Request("POST", f"{at}/reserve", {"path": path})
            yield Request("POST", f"{at}/link", token)
            yield Request("POST", f"{at}/reset", {"path": path})
            for source, condition in itertools.product(
                world.references(), ({}, {"ifAbsent": True}, {"ifMatch": "x"})
            ):
                body = {"path": "seen/new", "sourceRef": source, "sourcePath": path}
                yield Request("POST", f"{at}/copy", {**body, "condition": condition})
        yield Request("POST", f"{at}/delete", {"paths": ["seen/a", "veil/k"]})
        yield Request("POST", f"{at}/reset", {"prefix": "veil/"})
        sources = [{"url": f"file://{world.wire.imported}", "prefix": "veil/"}]
        meta = {"message": "m"}
        yield Request("POST", f"{at}/import", {"sources": sources, "commitMeta": meta})
        yield Request("POST", f"{at}/commit", {"commitMeta": meta, "operations": []})
        for target in world.references():
            yield Request("POST", f"{at}/hard-reset", {"target": target})


def holds_it(answer: Answer) -> bool:
    """Returns whether an answer has the word, also in percent-encoded headers."""
    return holds_the_word(answer) or WORD in unquote(json.dumps(answer.headers)).lower()


@pytest.mark.parametrize("name", [READER, WRITER])
def test_no_byte_of_any_answer_about_files_holds_what_is_hidden(name):
    world = FilesWorld()
    tried: set[str] = set()
    statuses: dict[int, int] = {}
    leaks: list[str] = []
    for request in itertools.chain(reads(world), writes(world)):
        tried.add(world.wire.route_of(request.method, PREFIX + request.target))
        answers: Any = (
            follow(world.wire, name, PREFIX, request)
            if "/file?" not in request.target
            else [world.wire.send_as(name, request.method, PREFIX + request.target, request.body)]
        )
        for answer in answers:
            statuses[answer.status] = statuses.get(answer.status, 0) + 1
            if holds_it(answer):
                leaks.append(f"{request.method} {request.target}: {answer.body[:300]!r}")
            assert answer.status < 500, (request, answer.body)
    assert not leaks, "\n".join(leaks[:20])
    assert tried - {""} == {each.id for each in OPERATIONS_FILES}, "an operation is not tried"
    assert statuses[200] > 40, statuses


def test_the_search_can_fail():
    world = FilesWorld()
    for target in (
        "/refs/veiled/file?path=seen/a",
        "/refs/main/stat?path=veil/k",
        "/refs/open/files",
        "/refs/open/uncommitted",
    ):
        assert holds_it(world.wire.send("GET", PREFIX + target)), target
