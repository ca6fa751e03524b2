"""Callers who may use some branches only: they name no commits by ids, and can do their work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from lochan.faces.lakefs.face import LakefsFace
from lochan.transport.routes import Face
from tests.security.guarded_wire import GuardedWire, allow, principal
from tests.wire.harness import NO_BODY, Answer

REPOSITORY = "/api/v1/repositories/default"
OWN = f"{REPOSITORY}/branches/mine%2Fone"
NAME = "will"


class LimitedWire(GuardedWire):
    def faces(self) -> Sequence[Face]:
        return [LakefsFace(self.repositories, self.control(), "default", self.authentication())]

    def limited(self, method: str, target: str, body: Any = NO_BODY) -> Answer:
        """Sends a request of a caller with rights on its own branches."""
        return self.send_as(NAME, method, target, body)


@pytest.fixture
def wire() -> LimitedWire:
    rights = {"repositories": ("default",), "references": ("mine/*",)}
    made = LimitedWire([principal(NAME, [allow("read", "write", "import_files", **rights)])])
    made.send("POST", f"{REPOSITORY}/branches/main/objects?path=a", b"plain")
    made.send("POST", f"{REPOSITORY}/branches/main/commits", {"message": "one"})
    made.send("POST", f"{REPOSITORY}/branches", {"name": "mine/one", "source": "main"})
    return made


def test_the_outcome_of_an_import_is_shown_with_its_commit(wire):
    (wire.imported / "file").write_bytes(b"1")
    place = {"type": "common_prefix", "path": f"file://{wire.imported}/", "destination": "in/"}
    body = {"paths": [place], "commit": {"message": "imported"}}
    started = wire.limited("POST", f"{OWN}/import", body)
    assert started.status == 202, started.body
    done = wire.limited("GET", f"{OWN}/import?id={started.json['id']}")
    assert done.status == 200, done.body
    head = wire.limited("GET", OWN).json["commit_id"]
    assert done.json["completed"]
    assert (done.json["commit"]["id"], done.json["commit"]["message"]) == (head, "imported")
    # The outcome stays what it was when the branch is elsewhere.
    wire.limited("PUT", f"{OWN}/hard_reset?ref=mine%2Fone~1")
    left = wire.limited("GET", f"{OWN}/import?id={started.json['id']}")
    assert left.json["commit"]["id"] == head


def test_commits_are_reverted_merged_and_picked_by_the_names_of_branches(wire):
    assert wire.limited("POST", f"{OWN}/objects?path=b", b"2").status == 201
    made = wire.limited("POST", f"{OWN}/commits", {"message": "mine"})
    assert made.status == 201, made.body
    by_id = wire.limited("GET", f"{REPOSITORY}/commits/{made.json['id']}")
    assert by_id.status == 404
    shown = wire.limited("GET", f"{REPOSITORY}/refs/mine%2Fone/commits?amount=1")
    assert shown.json["results"][0]["id"] == made.json["id"]
    other = {"name": "mine/two", "source": "mine/one~1"}
    assert wire.limited("POST", f"{REPOSITORY}/branches", other).status == 201
    for target, body in (
        (f"{REPOSITORY}/branches/mine%2Ftwo/cherry-pick", {"ref": "mine/one"}),
        (f"{OWN}/revert", {"ref": "mine/one", "parent_number": 1}),
        (f"{REPOSITORY}/refs/mine%2Ftwo/merge/mine%2Fone", {"allow_empty": True}),
    ):
        answer = wire.limited("POST", target, body)
        assert answer.status < 300, (target, answer.body)
