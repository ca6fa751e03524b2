"""Nothing that is hidden from a caller is in any byte of any answer.

A caller may read one branch and one prefix of keys. All hidden branches, keys, contents and
messages contain one word; names that requests need exist a second time without it. Every operation
of every face is called with every combination of visible and hidden references, commits and keys,
and page tokens are decoded and searched as well.
"""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from lochan.wire.operations_v1 import OPERATIONS_V1
from lochan.wire.operations_v2 import OPERATIONS_V2
from tests.security.guarded_wire import GuardedWire, allow, principal
from tests.wire.harness import EMPTY, NO_BODY, Answer, delete, namespace, put, table

WORD = "zebrafinch"
READER, WRITER = "rita", "will"
SEEN = ("seen", "seen.*")
HERE = ("default",)


class Request(msgspec.Struct, frozen=True):
    method: str
    target: str
    body: Any = NO_BODY


class World:
    """A repository of which a caller sees one branch and one prefix."""

    def __init__(self) -> None:
        self.wire = wire = GuardedWire(
            [
                principal(
                    READER, [allow("read", repositories=HERE, references=("open",), keys=SEEN)]
                ),
                principal(
                    WRITER,
                    [
                        allow(
                            *("read", "write"),
                            repositories=HERE,
                            references=("open", "mine/*"),
                            keys=SEEN,
                        ),
                        allow("create_reference", repositories=HERE, references=("mine/*",)),
                    ],
                ),
            ]
        )
        wire.send("POST", "/api/v2/repositories", {"name": f"{WORD}-repository"})
        wire.commit(
            "main",
            put("seen", content=namespace("seen")),
            put("veil", content=namespace("veil", properties={"note": WORD})),
            put(WORD, content=namespace(WORD)),
            put("seen", "a"),
            put("veil", "k", content=hidden()),
            put(WORD, "t", content=hidden()),
            message="plain",
        )
        # Made from a commit that has no hidden message in its history.
        wire.branch("open", "main")
        self.first = wire.head("open")
        wire.commit("open", put("seen", "b"), put("veil", "l", content=hidden()), message="plain")
        wire.branch("veiled", "open")
        self.veiled_first = wire.commit(
            "veiled", put("seen", "c"), put("veil", "m", content=hidden()), message=WORD
        )
        wire.commit("veiled", put("seen", "a", content=self.changed("veiled")), message=WORD)
        wire.commit("veiled", delete("veil", "k"), put(WORD, "u", content=hidden()), message=WORD)
        wire.branch(f"{WORD}-branch", "veiled")
        wire.branch("mine/x", "open")
        self.merge_veiled_into_open()
        wire.commit("open", put("seen", "d"), message="plain")
        wire.commit("veiled", put("seen", "d", content=hidden()), message=WORD)
        self.heads = {name: wire.head(name) for name in ("open", "veiled", "main", "mine/x")}

    def changed(self, branch: str) -> dict[str, Any]:
        """Returns the table `seen.a` with another location, which contains the word."""
        found = self.wire.v2("GET", f"/trees/{branch}/contents/seen.a").json["content"]
        return {**found, "metadataLocation": f"s3://{WORD}/2.json"}

    def merge_veiled_into_open(self) -> None:
        """Gives `open` a second parent that is hidden, with a message that is not."""
        body = {"fromRefName": "veiled", "fromHash": self.veiled_first, "message": "plain"}
        head = self.wire.head("open")
        answer = self.wire.v2("POST", f"/trees/open@{head}/history/merge", body)
        assert answer.status == 200, answer.body

    def references(self) -> list[str]:
        """Returns specifications of visible and hidden commits."""
        return [
            "open",
            "veiled",
            "main",
            "-",
            "mine/x@",
            f"open@{self.first}",
            f"open@{self.heads['veiled']}",
            f"open@{self.veiled_first}",
            f"@{self.heads['veiled']}",
            f"@{self.veiled_first}",
            f"@{self.first}",
            "open~1",
            "open~1^2",
            "open^2",
            f"open@{self.veiled_first}~1",
            "veiled~1",
            "open*1",
            "nothing",
        ]


def hidden() -> dict[str, Any]:
    """Returns a table whose content contains the word."""
    return table(metadataLocation=f"s3://{WORD}/1.json")


KEYS = ("seen.a", "seen", "veil.k", "veil", "veil.m", "nothing.here")
FILTERS = (
    "",
    "entry.contentType=='ICEBERG_TABLE'",
    "entry.key.startsWith('zebra')",
    "entry.elements[3]=='x'",
)


def reads_v2(world: World) -> Iterator[Request]:
    """Yields every read of version 2 with every reference and key."""
    yield Request("GET", "/config")
    yield Request("GET", "/config/repository?type=GARBAGE_COLLECTOR")
    yield Request("GET", "/repositories")
    for more in ("", "?fetch=ALL", "?max-records=1", "?filter=ref.name.startsWith('z')"):
        yield Request("GET", f"/trees{more}")
    for ref in world.references():
        at = f"/trees/{ref}"
        for more in ("", "?fetch=ALL"):
            yield Request("GET", at + more)
        yield Request("GET", f"{at}/recent-changes?scan-commits=10")
        yield Request("GET", f"{at}/reflog?max-records=50")
        for more in ("", "?fetch=ALL", "?fetch=ALL&max-records=1", f"?limit-hash={world.first}"):
            yield Request("GET", f"{at}/history{more}")
        for one, more in itertools.product(
            FILTERS, ("", "&content=true", "&max-records=1&content=true", "&prefix-key=veil")
        ):
            yield Request("GET", f"{at}/entries?filter={one}{more}")
        for key in KEYS:
            yield Request("GET", f"{at}/contents/{key}")
            yield Request("GET", f"{at}/entries?key={key}&content=true")
            yield Request("GET", f"{at}/jobs?key={key}")
        several = "&".join(f"key={key}" for key in KEYS)
        yield Request("GET", f"{at}/contents?{several}")
        named = {"requestedKeys": [{"elements": key.split(".")} for key in KEYS]}
        yield Request("POST", f"{at}/contents", named)
        for other in world.references():
            yield Request("GET", f"{at}/diff/{other}")
            yield Request(
                "GET", f"{at}/diff/{other}?max-records=1&min-key=seen&filter=key.name!='a'"
            )


def _moves_v2(world: World, branch: str, *, dry_run: bool) -> Iterator[Request]:
    """Yields merges, picks and moves into a branch, and new references, from every branch."""
    at = f"/trees/{branch}/history"
    for name, digits in world.heads.items():
        source = {"fromRefName": name, "fromHash": digits, "dryRun": dry_run}
        yield Request("POST", f"{at}/merge", source)
        yield Request("POST", f"{at}/merge", {**source, "returnConflictAsResult": True})
        resolved = [{"key": {"elements": ["veil", "k"]}, "mergeBehavior": "DROP"}]
        yield Request("POST", f"{at}/merge", {**source, "keyMergeModes": resolved})
        picked = {"fromRefName": name, "hashesToTransplant": [digits], "dryRun": dry_run}
        yield Request("POST", f"{at}/transplant", {**picked, "returnConflictAsResult": True})
        yield Request("POST", f"{at}/revert", {"hashes": [digits], "dryRun": dry_run})
        for word in ("rebase", "fast-forward", "force"):
            field = "onto" if word == "rebase" else "source"
            moved = {field: f"{name}@{digits}", "dryRun": dry_run}
            yield Request("POST", f"{at}/{word}", moved)
        yield Request("POST", f"{at}/cherry-pick", {"range": f"{EMPTY}..{digits}"})
        yield Request(
            "PUT",
            f"/trees/{branch}?type=branch",
            {"type": "BRANCH", "name": name, "hash": digits},
        )
        yield Request(
            "POST",
            "/trees?name=mine/new&type=BRANCH",
            {"type": "BRANCH", "name": name, "hash": digits},
        )
        yield Request(
            "POST",
            "/trees/many",
            {"references": [{"name": "mine/n", "source": f"{name}@{digits}"}]},
        )


def writes_v2(world: World) -> Iterator[Request]:
    """Yields every write of version 2, from hidden sources and on hidden keys."""
    heads = world.heads
    for branch, sent in itertools.product(
        (
            f"open@{heads['open']}",
            f"open@{world.first}",
            f"veiled@{heads['veiled']}",
            f"mine/x@{heads['mine/x']}",
        ),
        (True, False),
    ):
        at = f"/trees/{branch}/history"
        for operations in (
            [put("veil", "k")],
            [delete("veil", "k")],
            [put("seen", "a")],
            [put("seen", "a", content=hidden()), put("veil", "new")],
            [delete("seen"), delete("veil")],
            [put("veil", "k", "deeper")],
            [put("seen", "a", "deeper")],
            [put("veil", content=namespace("veil"))],
            [{"type": "UNCHANGED", "key": {"elements": ["veil", "k"]}}],
        ):
            body = {"commitMeta": {"message": "m"}, "operations": operations}
            yield Request("POST", f"{at}/commit", body)
        yield from _moves_v2(world, branch, dry_run=sent)
        yield Request("DELETE", f"/trees/{branch}?type=branch")
    yield Request("POST", "/objects/get", {"ids": list(heads.values())})
    yield Request("POST", "/objects/put", {"objects": []})
    yield Request("POST", "/config/repository", {"config": {"type": "GARBAGE_COLLECTOR"}})
    yield Request("POST", "/repositories", {"name": "another"})


def requests_v1(world: World) -> Iterator[Request]:
    """Yields every operation of version 1."""
    heads = world.heads
    for path in ("/config", "/trees", "/trees?fetch=ALL", "/trees/tree"):
        yield Request("GET", path)
    for name, digits in itertools.product(
        ("open", "veiled", "main"), ("", *heads.values(), world.veiled_first)
    ):
        on = f"&hashOnRef={digits}" if digits else ""
        yield Request("GET", f"/trees/tree/{name}?fetch=ALL")
        yield Request("GET", f"/trees/tree/{name}/entries?maxRecords=3{on}")
        yield Request(
            "GET", f"/trees/tree/{name}/log?fetch=ALL{on.replace('hashOnRef', 'endHash')}"
        )
        yield Request("GET", f"/namespaces/{name}?name=veil{on}")
        yield Request("GET", f"/namespaces/{name}?name={on}")
        for key in KEYS:
            yield Request("GET", f"/contents/{key}?ref={name}{on}")
            yield Request("GET", f"/namespaces/namespace/{name}/{key}?x=1{on}")
        named = {"requestedKeys": [{"elements": key.split(".")} for key in KEYS]}
        yield Request("POST", f"/contents?ref={name}{on}", named)
        for other in ("open", "veiled", "main"):
            yield Request("GET", f"/diffs/{name}{'*' + digits if digits else ''}...{other}")
            source = {"fromRefName": other, "fromHash": heads[other]}
            expected = f"expectedHash={digits or heads[name]}"
            yield Request("POST", f"/trees/branch/{name}/merge?{expected}", source)
            picked = {"fromRefName": other, "hashesToTransplant": [heads[other]]}
            yield Request("POST", f"/trees/branch/{name}/transplant?{expected}&message=m", picked)
            made = {"type": "BRANCH", "name": "mine-v1", "hash": heads[other]}
            yield Request("POST", f"/trees/tree?sourceRefName={other}", made)
            yield Request("PUT", f"/trees/branch/{name}?{expected}", {**made, "name": other})
        operations = {
            "commitMeta": {"message": "m"},
            "operations": [put("veil", "k"), delete("seen", "a")],
        }
        yield Request("POST", f"/trees/branch/{name}/commit?{expected}", operations)
        yield Request("PUT", f"/namespaces/namespace/{name}/veil", namespace("veil"))
        yield Request("POST", f"/namespaces/namespace/{name}/veil", {"propertyUpdates": {"a": "b"}})
        yield Request("DELETE", f"/namespaces/namespace/{name}/veil")
        yield Request("DELETE", f"/namespaces/namespace/{name}/seen")
        yield Request("DELETE", f"/trees/branch/{name}?{expected}")


def holds_the_word(answer: Answer) -> bool:
    """Returns whether an answer, or a token in it, contains the word."""
    texts = [answer.body, json.dumps(answer.headers).encode()]
    texts += [_decoded(part) for part in answer.body.split(b'"') if len(part) > 30]
    return any(WORD.encode() in text.lower() for text in texts)


def _decoded(part: bytes) -> bytes:
    try:
        return base64.urlsafe_b64decode(part + b"=" * (-len(part) % 4))
    except ValueError:
        return b""


def follow(wire: GuardedWire, name: str, prefix: str, request: Request) -> Iterator[Answer]:
    """Yields the answers of all pages of a request."""
    answer = wire.send_as(name, request.method, prefix + request.target, request.body)
    yield answer
    for _ in range(20):
        token = answer.json.get("token") if answer.body and answer.status == 200 else None
        if not token or request.method != "GET":
            return
        mark = "&" if "?" in request.target else "?"
        parameter = "pageToken" if prefix == "/api/v1" else "page-token"
        target = f"{prefix}{request.target}{mark}{parameter}={token}"
        answer = wire.send_as(name, request.method, target)
        yield answer


@pytest.mark.parametrize("name", [READER, WRITER])
@pytest.mark.parametrize(
    ("prefix", "make", "operations"),
    [
        ("/api/v2", [reads_v2, writes_v2], OPERATIONS_V2),
        ("/api/v1", [requests_v1], OPERATIONS_V1),
    ],
    ids=["version 2", "version 1"],
)
def test_no_byte_of_any_answer_holds_what_is_hidden(name, prefix, make, operations):
    world = World()
    tried: set[str] = set()
    statuses: dict[int, int] = {}
    leaks: list[str] = []
    for request in itertools.chain.from_iterable(each(world) for each in make):
        tried.add(world.wire.route_of(request.method, prefix + request.target))
        for answer in follow(world.wire, name, prefix, request):
            statuses[answer.status] = statuses.get(answer.status, 0) + 1
            if holds_the_word(answer):
                leaks.append(f"{request.method} {prefix}{request.target}: {answer.body[:300]!r}")
            assert answer.status < 500, (request, answer.body)
    assert not leaks, "\n".join(leaks[:20])
    assert tried - {""} == {each.id for each in operations}, "an operation is not tried"
    assert statuses[200] > 40, statuses


def test_the_search_can_fail():
    world = World()
    answer = world.wire.send("GET", "/api/v2/trees/veiled/entries?content=true")
    assert holds_the_word(answer)
    assert holds_the_word(world.wire.send("GET", "/api/v2/trees/veiled/history"))
    assert holds_the_word(world.wire.send("GET", "/api/v2/trees"))
