"""Nothing of a hidden object, branch or repository is in any byte of the answers of lakeFS and S3.

As `test_hidden_files.py` for the port of files: a caller may see one branch and the objects below
one prefix. All hidden paths, bytes, types, metadata and messages contain one word. Every operation
is called with every combination of visible and hidden references and paths.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote, unquote

import msgspec
import pytest

from lochan.faces.lakefs.face import LakefsFace
from lochan.faces.s3.face import S3Face
from lochan.faces.s3.operations import OPERATIONS_S3
from lochan.transport.routes import Face
from lochan.wire.operations_lakefs import OPERATIONS_LAKEFS
from tests.security.guarded_wire import GuardedWire, allow, principal
from tests.security.test_hidden_words import WORD, Request, holds_the_word
from tests.wire.harness import Answer

READER, WRITER = "rita", "will"
REPOSITORY = "/api/v1/repositories/default"
PATHS = ("seen/a", "seen/c", "veil/k", "seen/staged", "nothing")


class CopySource(msgspec.Struct, frozen=True):
    """No body, and the source of a copy in a header."""

    header: str


class ObjectsWire(GuardedWire):
    """The faces of the port for files."""

    def faces(self) -> Sequence[Face]:
        authentication = self.authentication()
        lakefs = LakefsFace(self.repositories, self.control(), "default", authentication)
        return [lakefs, S3Face(self.repositories, authentication)]


class ObjectsWorld:
    """A repository of which a caller sees two branches and one prefix of objects."""

    def __init__(self) -> None:
        seen = {"repositories": ("default",), "references": ("open", "mine"), "paths": ("seen/*",)}
        self.wire = ObjectsWire(
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
            self.send("POST", "/branches", {"name": name, "source": "main"})
        self.put("open", "seen/b", b"plain")
        self.put("open", f"veil/{WORD}-2", b"plain")
        self.commit("open", "plain")
        self.send("POST", "/branches", {"name": "veiled", "source": "open"})
        self.send("POST", "/branches", {"name": f"{WORD}-branch", "source": "open"})
        self.put("veiled", "seen/c", WORD.encode())
        self.put("veiled", "seen/a", WORD.encode())
        self.veiled = self.commit("veiled", WORD)
        self.send("POST", "/tags", {"id": f"{WORD}-tag", "ref": "veiled"})
        self.send("POST", "/metadata", {"metadata": {"note": WORD}})
        self.send("PUT", "/settings/branch_protection", [{"pattern": f"{WORD}*"}])
        # What is staged, and what is being uploaded, is hidden by the same rules.
        self.put("open", "seen/staged", b"plain")
        self.put("open", f"veil/{WORD}-staged", WORD.encode())
        self.put("veiled", f"seen/{WORD}-staged", WORD.encode())
        for key in (f"open/veil/{WORD}-upload", f"veiled/seen/{WORD}-upload"):
            begun = self.wire.send("POST", f"/default/{key}?uploads=")
            assert begun.status == 200, begun.body
        self.upload = begun.body.split(b"<UploadId>")[1].partition(b"<")[0].decode()
        place = {"name": f"{WORD}-repository", "storage_namespace": "local://x"}
        assert self.wire.send("POST", "/api/v1/repositories", place).status == 201

    def send(self, method: str, target: str, body: Any) -> Answer:
        answer = self.wire.send(method, REPOSITORY + target, body)
        assert answer.status < 300, (target, answer.body)
        return answer

    def put(self, branch: str, path: str, body: bytes) -> None:
        note = WORD if branch == "veiled" or not path.startswith("seen/") else "plain"
        headers = {"x-lakefs-meta-note": note, "content-type": f"text/{note}"}
        target = f"{REPOSITORY}/branches/{branch}/objects?path={quote(path, safe='')}"
        answer = self.wire.send("POST", target, body, headers)
        assert answer.status == 201, answer.body

    def commit(self, branch: str, message: str) -> str:
        made = self.send("POST", f"/branches/{branch}/commits", {"message": message})
        return str(made.json["id"])

    def references(self) -> list[str]:
        return [
            *("open", "mine", "veiled", "main", "nothing", "open~1", "veiled~1", "open@", "open$"),
            *("veiled$", "veiled@", self.veiled, self.veiled[:12], self.first, f"{self.veiled}~1"),
        ]


def lakefs_reads(world: ObjectsWorld) -> Iterator[Request]:
    for path in ("", "/branches", "/tags", "/metadata"):
        yield Request("GET", REPOSITORY + path)
    for path in ("branch_protection", "gc_rules"):
        yield Request("GET", f"{REPOSITORY}/settings/{path}")
    for path in ("/repositories", "/user", "/config", "/config/version", "/config/storage"):
        yield Request("GET", f"/api/v1{path}")
    yield Request("GET", "/api/v1/config/garbage-collection")
    for name in ("open", "veiled", "main", "nothing"):
        at = f"{REPOSITORY}/branches/{name}"
        yield Request("GET", at)
        yield Request("GET", f"{REPOSITORY}/tags/{name}")
        yield Request("GET", f"{at}/import?id=nothing")
        for more in ("", "?delimiter=/", "?amount=1", "?prefix=veil/", "?after=seen/z"):
            yield Request("GET", f"{at}/diff{more}")
        for path in PATHS:
            yield Request("GET", f"{at}/objects/stage_allowed?path={path}")
            yield Request("GET", f"{at}/staging/backing?path={path}")
    for ref in world.references():
        at = f"{REPOSITORY}/refs/{ref}"
        yield Request("GET", f"{REPOSITORY}/commits/{ref}")
        for path in PATHS:
            for word in ("objects", "objects/stat", "objects/underlyingProperties"):
                yield Request("GET", f"{at}/{word}?path={path}")
            yield Request("GET", f"{at}/objects?path={path}&presign=true")
            yield Request("GET", f"{at}/commits?objects={path}")
        for more in ("", "?delimiter=/", "?amount=1", "?prefix=veil/", "?prefix=seen/&after=s"):
            yield Request("GET", f"{at}/objects/ls{more}")
        for more in ("", "?prefixes=veil/", "?prefixes=s&prefixes=v", "?amount=1"):
            yield Request("GET", f"{at}/commits{more}")
        for other in world.references():
            yield Request("GET", f"{at}/merge/{other}")
            yield Request("GET", f"{REPOSITORY}/refs/open/commits?stop_at={other}")
            for more in ("", "?type=two_dot&include_right_stats=true", "?delimiter=/&amount=1"):
                yield Request("GET", f"{at}/diff/{other}{more}")


def lakefs_writes(world: ObjectsWorld) -> Iterator[Request]:
    for branch in ("open", "mine", "veiled", "main", "nothing"):
        at = f"{REPOSITORY}/branches/{branch}"
        for path in PATHS:
            yield Request("POST", f"{at}/objects?path={path}", b"new")
            yield Request("DELETE", f"{at}/objects?path={path}-2")
            target = f"{at}/objects/stat/user_metadata?path={path}"
            yield Request("PUT", target, {"set": {"a": "b"}})
            yield Request("PUT", at, {"type": "object", "path": path})
            foreign = {"physical_address": f"file://{world.wire.imported}/x", "checksum": ""}
            yield Request("PUT", f"{at}/objects?path={path}", {**foreign, "size_bytes": 1})
            forged = {"staging": {"physical_address": "x#lochan=forged"}, "checksum": ""}
            yield Request("PUT", f"{at}/staging/backing?path={path}", {**forged, "size_bytes": 1})
            parts = f"{at}/staging/pmpu"
            place = {"physical_address": "x"}
            yield Request("POST", f"{parts}?path={path}&parts=1")
            yield Request("PUT", f"{parts}/{world.upload}/parts/1?path={path}", place)
            one = {**place, "parts": [{"part_number": 1, "etag": "x"}]}
            yield Request("PUT", f"{parts}/{world.upload}?path={path}", one)
            yield Request("DELETE", f"{parts}/{world.upload}?path={path}", place)
            for source in world.references():
                body = {"src_path": path, "src_ref": source}
                yield Request("POST", f"{at}/objects/copy?dest_path=seen/new", body)
        yield Request("POST", f"{at}/objects/delete", {"paths": ["seen/a", "veil/k"]})
        yield Request("PUT", at, {"type": "common_prefix", "path": "veil/"})
        prefix = {"type": "common_prefix", "path": f"file://{world.wire.imported}/"}
        paths = [{**prefix, "destination": "veil/"}]
        yield Request("POST", f"{at}/import", {"paths": paths, "commit": {"message": "m"}})
        yield Request("DELETE", f"{at}/import?id=nothing")
        yield Request("POST", f"{at}/commits", {"message": "m", "allow_empty": True})
        for other in world.references():
            yield Request("PUT", f"{at}/hard_reset?ref={other}")
            yield Request("POST", f"{at}/revert", {"ref": other, "parent_number": 1})
            yield Request("POST", f"{at}/cherry-pick", {"ref": other})
            yield Request("POST", f"{REPOSITORY}/refs/{other}/merge/{branch}", {})
    for other in world.references():
        yield Request("POST", f"{REPOSITORY}/branches", {"name": "mine-2", "source": other})
        yield Request("POST", f"{REPOSITORY}/branches", {"name": "veiled", "source": other})
        yield Request("POST", f"{REPOSITORY}/tags", {"id": "veiled", "ref": other})
    yield Request("DELETE", f"{REPOSITORY}/tags/veiled")
    yield Request("DELETE", f"{REPOSITORY}/branches/veiled")
    yield Request("POST", f"{REPOSITORY}/metadata", {"metadata": {"a": "b"}})
    yield Request("DELETE", f"{REPOSITORY}/metadata", {"keys": ["a"]})
    yield Request("PUT", f"{REPOSITORY}/settings/branch_protection", [])
    rules = {"default_retention_days": 1, "branches": []}
    yield Request("PUT", f"{REPOSITORY}/settings/gc_rules", rules)
    yield Request("DELETE", f"{REPOSITORY}/settings/gc_rules")
    yield Request("POST", "/api/v1/statistics", {"events": []})
    place = {"name": "another", "storage_namespace": "local://x"}
    yield Request("POST", "/api/v1/repositories", place)
    yield Request("DELETE", REPOSITORY)


def lakefs_access(world: ObjectsWorld) -> Iterator[Request]:
    users = "/api/v1/auth/users"
    yield Request("GET", users)
    yield Request("POST", users, {"id": "eve"})
    for name in ("ada", READER, "nothing"):
        yield Request("GET", f"{users}/{name}")
        yield Request("GET", f"{users}/{name}/credentials")
        yield Request("POST", f"{users}/{name}/credentials")
        yield Request("GET", f"{users}/{name}/credentials/x")
        yield Request("DELETE", f"{users}/{name}/credentials/x")
        yield Request("DELETE", f"{users}/{name}")


def s3_requests(world: ObjectsWorld) -> Iterator[Request]:
    yield Request("GET", "/")
    for more in (
        "location",
        "versioning",
        "uploads",
        "uploads&prefix=open/",
        "uploads&max-uploads=1",
    ):
        yield Request("GET", f"/default?{more}=")
    yield Request("HEAD", "/default")
    yield Request("PUT", "/default")
    prefixes = ["", "o", "v", WORD[:3], *(f"{ref}/" for ref in world.references())]
    for prefix in [*prefixes, "open/veil/", "open/seen/", "veiled/seen/", "main/veil/"]:
        for more in ("", "&delimiter=/", "&max-keys=1", "&list-type=2", "&list-type=2&max-keys=1"):
            yield Request("GET", f"/default?prefix={prefix}{more}")
    for ref in world.references():
        for path in PATHS:
            at = f"/default/{ref}/{path}"
            yield Request("GET", at)
            yield Request("HEAD", at)
            yield Request("GET", f"{at}?tagging=")
            yield Request("GET", f"{at}?uploadId={world.upload}")
            yield Request("PUT", at, b"new")
            yield Request("POST", f"{at}?uploads=")
            part = f"{at}?partNumber=1&uploadId={world.upload}"
            yield Request("PUT", part, b"part")
            number = b"<Part><PartNumber>1</PartNumber><ETag>x</ETag></Part>"
            whole = b"<CompleteMultipartUpload>" + number + b"</CompleteMultipartUpload>"
            yield Request("POST", f"{at}?uploadId={world.upload}", whole)
            yield Request("DELETE", f"{at}?uploadId={world.upload}")
            yield Request("DELETE", f"{at}-2")
            source = CopySource(f"/default/{ref}/{path}")
            yield Request("PUT", "/default/open/seen/copied", source)
            yield Request("PUT", "/default/main/veil/copied", source)
            yield Request(
                "PUT", f"/default/open/seen/u?partNumber=1&uploadId={world.upload}", source
            )
        keys = [f"<Object><Key>{ref}/{path}-3</Key></Object>" for path in PATHS]
        yield Request("POST", "/default?delete=", f"<Delete>{''.join(keys)}</Delete>".encode())


def holds_it(answer: Answer) -> bool:
    """Returns whether an answer has the word, also in headers or percent-encoded."""
    shown = answer.body.decode("utf-8", "replace") + json.dumps(answer.headers)
    return holds_the_word(answer) or WORD in unquote(shown).lower()


@pytest.mark.parametrize("name", [READER, WRITER])
@pytest.mark.parametrize(
    ("make", "operations"),
    [
        (
            [lakefs_reads, lakefs_writes, lakefs_access],
            {each.id for each in OPERATIONS_LAKEFS if each.needs != "nothing"},
        ),
        ([s3_requests], {each.id for each in OPERATIONS_S3}),
    ],
    ids=["lakeFS", "S3"],
)
def test_no_byte_of_any_answer_about_objects_holds_what_is_hidden(name, make, operations):
    world = ObjectsWorld()
    tried: set[str] = set()
    statuses: dict[int, int] = {}
    leaks: list[str] = []
    for request in itertools.chain.from_iterable(each(world) for each in make):
        target, body, headers = request.target, request.body, {}
        if isinstance(body, CopySource):
            headers["x-amz-copy-source"], body = body.header, b""
        served = len(world.wire.reached)
        answer = world.wire.send_as(name, request.method, target, body, headers)
        tried |= set(world.wire.reached[served:])
        statuses[answer.status] = statuses.get(answer.status, 0) + 1
        if holds_it(answer):
            leaks.append(f"{request.method} {target}: {answer.body[:300]!r}")
        assert answer.status < 500 or answer.status == 501, (request, answer.body)
    assert not leaks, "\n".join(leaks[:20])
    assert tried >= operations, operations - tried
    assert statuses[200] > 40, statuses


def test_the_search_can_fail() -> None:
    world = ObjectsWorld()
    for target in (
        f"{REPOSITORY}/refs/veiled/objects?path=seen/a",
        f"{REPOSITORY}/refs/open/objects/ls",
        f"{REPOSITORY}/branches/open/diff",
        f"{REPOSITORY}/refs/veiled/commits",
        "/api/v1/repositories",
        "/default/veiled/seen/a",
        "/default?prefix=open/",
        "/default?uploads=",
    ):
        assert holds_it(world.wire.send("GET", target)), target
