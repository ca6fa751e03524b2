"""An overtaken commit is told apart from a second one, over whatever connections they come."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

from lochan.access.policy import Call
from lochan.base.errors import ReferenceNotFound
from lochan.base.limits.files import (
    STAGED_NOTES_ELSEWHERE_US,
    STAGED_NOTES_MAX,
    STAGED_NOTES_OF_CALLER_MAX,
    STAGED_NOTES_US,
)
from lochan.service.staged_heads import StagedHeads
from lochan.testing.ports import ManualClock

ADA, BOB = Call("ada"), Call("bob")


class World:
    """Notes, and their clock."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.head = ""
        lock: Any = nullcontext()
        self.heads = StagedHeads(self.read_head, self.clock, lock)

    def read_head(self, branch: str) -> str:
        if branch == "absent":
            raise ReferenceNotFound("absent")
        return self.head

    def stage(self, connection: str, head: str, call: Call = ADA, branch: str = "main") -> None:
        self.head = head
        self.heads.note(call, branch, connection)

    def commit(self, connection: str, call: Call = ADA, branch: str = "main") -> str:
        return self.heads.take(call, branch, connection)


@pytest.fixture
def world():
    return World()


def test_over_one_connection_several_files_are_one_commit(world):
    for head in ("h1", "h2", "h3"):
        world.stage("c1", head)
    assert [world.commit("c1") for _ in range(2)] == ["h1", ""]


def test_a_commit_takes_what_was_staged_over_another_connection(world):
    world.stage("c1", "h1")
    assert [world.commit(one) for one in ("c2", "c2", "c3")] == ["h1", "", ""]


def test_a_connection_keeps_its_own_note_when_another_one_commits_first(world):
    world.stage("c1", "h1")
    assert [world.commit(one) for one in ("c2", "c1", "c1")] == ["h1", "h1", ""]


def test_of_several_notes_a_commit_takes_its_own_and_then_the_oldest(world):
    for connection, head in (("c1", "h1"), ("c2", "h2"), ("c3", "h3")):
        world.stage(connection, head)
        world.clock.advance_us(1)
    assert [world.commit(one) for one in ("c3", "c8", "c9", "c8")] == ["h3", "h1", "h2", ""]


def test_clients_that_share_connections_have_a_note_for_each_file(world):
    # Two connections in use, and three clients that each stage one file over whichever is free.
    world.stage("c1", "h1")
    world.stage("c2", "h1")
    world.clock.advance_us(1)
    world.stage("c2", "h2")
    assert [world.commit(one) for one in ("c2", "c1", "c2")] == ["h1", "h1", "h2"]
    assert world.commit("c1") == ""


def test_notes_belong_to_a_caller_and_a_branch(world):
    world.stage("c1", "h1")
    assert world.commit("c1", BOB) == world.commit("c1", branch="dev") == ""
    other = Call("ada", credential="another key")
    assert world.commit("c1", other) == ""
    assert world.commit("c1") == "h1"


@pytest.mark.parametrize(
    ("connection", "limit_us"), [("c1", STAGED_NOTES_US), ("c2", STAGED_NOTES_ELSEWHERE_US)]
)
def test_notes_count_for_some_time(world, connection, limit_us):
    world.stage("c1", "h1")
    world.clock.advance_us(limit_us - 1)
    assert world.commit(connection) == "h1"
    world.stage("c1", "h2")
    world.clock.advance_us(limit_us)
    assert world.commit(connection) == ""


def test_a_branch_that_cannot_be_read_leaves_no_note(world):
    world.stage("c1", "h1", branch="absent")
    assert world.commit("c1", branch="absent") == ""


def test_what_is_dropped_is_forgotten(world):
    world.stage("c1", "h1")
    world.stage("c2", "h1")
    world.heads.forget(ADA, "main")
    assert world.commit("c1") == world.commit("c2") == ""


def test_there_are_so_many_notes_at_most(world):
    for at in range(STAGED_NOTES_OF_CALLER_MAX + 1):
        world.stage(f"c{at}", f"h{at}")
    assert world.commit("c1") == "h1"
    # That of the first connection was forgotten: it gets the oldest that others may take.
    assert world.commit("c0") == "h2"
    for at in range(STAGED_NOTES_MAX):
        world.stage("c", "h", branch=f"b{at}")
    assert world.commit("c3") == ""
    assert world.commit("c", branch="b0") == "h"
