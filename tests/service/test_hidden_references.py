"""Branches and tags that a caller may not view are in no listing, log, distance or filter."""

from __future__ import annotations

from functools import partial

import pytest

from lochan.access.enforcement import EnforcedPolicy
from lochan.base.errors import Denied, NotFound, ReferenceNotFound, Unauthenticated
from lochan.kernel.repository import Ports
from lochan.model.requests import MoveRequest, RevertRequest
from lochan.model.specs import ReferenceSpec, parse_spec
from lochan.service.repositories import Repositories
from lochan.stores.memory.store import MemoryStore
from lochan.testing.ports import ManualClock, RecordedWaiting, SeededRandom
from tests.service.bench import ME, Bench, key, names, pages
from tests.service.limited import (
    CANARY,
    EVERYTHING,
    READS,
    allow,
    caller,
    counted,
    deny,
    enforced,
    hidden_world,
    outcome,
    shows,
    viewer,
)

MAIN = parse_spec("main")


@pytest.fixture(scope="module")
def world() -> Bench:
    """Only read by the tests here."""
    return enforced(hidden_world())


def test_pages_of_references_are_as_if_hidden_ones_were_absent():
    one = Bench()
    for number in range(12):
        one.branch(f"b{number:02}")
    ann = caller(allow(*READS), deny(*READS, references=("b00", "b03", "b04", "b10", "b11")))
    server = enforced(one)
    shown = ["b01", "b02", "b05", "b06", "b07", "b08", "b09", "main"]
    for limit in range(1, 10):
        sizes, token = [], None
        while True:
            page = server.references.list(ann, limit, token)
            sizes.append(len(page.items))
            token = page.token
            if token is None:
                break
        assert sizes == [limit] * (8 // limit) + ([8 % limit] if 8 % limit else [])
        assert names(pages(partial(server.references.list, ann, limit))) == shown


def test_the_head_of_a_reference_is_described_with_the_right_on_its_log(world):
    found = {
        one.name: one.metadata for one in world.references.list(viewer(), fetch_all=True).items
    }
    assert {name: meta.head is not None for name, meta in found.items()} == {
        "dev": False,
        "main": True,
        "moved": True,
    }
    # The number of commits and the distance are those of references that one may view.
    assert (found["dev"].total, found["dev"].ahead, found["dev"].behind) == (5, 1, 0)
    assert world.references.get(viewer(), "dev", fetch_all=True).metadata == found["dev"]


def test_a_distance_needs_both_references(world):
    ann = caller(allow(*READS, references=("dev",)))
    (dev,) = world.references.list(ann, fetch_all=True).items
    assert dev.metadata.head is not None
    assert (dev.metadata.ahead, dev.metadata.behind) == (None, None)
    assert dev.metadata.common_ancestor is None


def test_a_filter_does_not_see_a_message_without_the_right_on_the_log(world):
    text = f"commit.message.contains('{CANARY}')"
    assert names(world.references.list(EVERYTHING, filter=text).items) == ["dev", CANARY]
    assert world.references.list(viewer(), filter=text).items == ()


def test_the_log_of_a_reference_names_the_sources_that_one_may_view(world):
    sources = {move.source for move in world.references.log(EVERYTHING, "moved").items}
    assert {CANARY, "main"} <= sources
    sources = {move.source for move in world.references.log(viewer(), "moved").items}
    assert sources == {"", "main"}
    assert not shows(world.references.log(viewer(), "main"))


def test_sources_are_left_out_in_every_form_that_is_recorded():
    one = hidden_world()
    main, hidden = one.head(), one.head(CANARY)
    for text in (f"{CANARY}~1", f"{CANARY}@{hidden}", f"main@{main}", f"main@{main}~1", main):
        one.merges.force(ME, MoveRequest(branch="moved", source=parse_spec(text)))
    revert = RevertRequest(branch="main", expected=None, hashes=(ReferenceSpec(None, main),))
    one.run(one.merges.revert(ME, revert))
    server = enforced(one)
    log = {name: server.references.log(viewer(), name).items for name in ("main", "moved")}
    assert not shows(log)
    moves = [move.source for move in log["moved"] if move.kind == "force"]
    assert moves[-2:] == ["", ""]
    assert len(moves) == 5
    assert all(moves[:-2])
    assert [move.source for move in log["main"] if move.kind == "revert"] == [f"@{main}"]


def test_a_hidden_reference_is_not_found_and_one_that_is_seen_is_refused(world):
    with pytest.raises(ReferenceNotFound, match=f"Named reference '{CANARY}' not found"):
        world.references.get(viewer(), CANARY)
    with pytest.raises(Denied):
        world.history.log(viewer(), parse_spec("dev"))
    with pytest.raises(Denied):
        world.references.log(viewer(), "dev")
    with pytest.raises(ReferenceNotFound):
        world.references.get(viewer(), "int/refs")


def test_a_call_without_rights_is_not_authenticated(world):
    for read in (
        lambda: world.references.list(ME),
        lambda: world.references.get(ME, "main"),
        lambda: world.contents.entries(ME, parse_spec("no-such-branch")),
        lambda: world.contents.get(ME, MAIN, key("open.a")),
        lambda: world.history.log(ME, MAIN),
        lambda: world.repository.objects.get(ME, []),
        lambda: world.repository.describe(ME),
    ):
        with pytest.raises(Unauthenticated):
            read()


def test_reads_of_a_batch_are_decided_for_each_caller(world):
    """Rows are read once for all of them; what one of them may read does not help another."""
    one = world.repository
    spec = parse_spec(CANARY)
    with one.reading(["main", CANARY]):
        assert one.contents.get(EVERYTHING, spec, key(f"{CANARY}.x"))
        hidden = outcome(lambda: one.contents.get(viewer(), spec, key("open.a")))
        missing = outcome(lambda: one.contents.get(viewer(), parse_spec("zinzibar"), key("open.a")))
        assert repr(hidden).replace(CANARY, "zinzibar") == repr(missing)
        assert one.contents.get(viewer(), MAIN, key("open.a"))
        assert names(one.contents.entries(EVERYTHING, MAIN).items)[-1] == f"{CANARY}.y"
        assert not shows(one.contents.entries(viewer(), MAIN))


@pytest.mark.parametrize("bad", ["\xe9", "\ud800", "int/refs", "x" * 3_000, "a\0b"])
def test_a_bad_name_in_a_batch_fails_its_own_read_only(bad):
    server, counts = counted(hidden_world())
    one = server.repository
    with one.reading(["main", bad, "dev"]):
        counts.reset()
        assert one.contents.get(viewer(), MAIN, key("open.a"))
        assert one.contents.get(viewer(), parse_spec("dev"), key("open.a"))
        with pytest.raises((NotFound, Denied)):
            one.references.get(viewer(), bad)


def test_repositories_are_listed_that_one_sees():
    clock = ManualClock()
    ports = Ports(clock, SeededRandom(1), RecordedWaiting(clock))
    one = Repositories(MemoryStore(), ports, policy=EnforcedPolicy())
    made = ("a", f"b-{CANARY}", "c", f"d-{CANARY}", "e", f"f-{CANARY}")
    for name in made:
        one.create(EVERYTHING, name)
    ann = caller(allow("list_repositories", "view_reference", repositories=("a", "c", "e")))
    for limit in (None, 1, 2, 3, 4):
        assert pages(partial(one.names, ann, limit)) == ["a", "c", "e"]
        assert not shows(one.names(ann, limit))
    assert one.names(EVERYTHING).items == made
    with pytest.raises(Denied):
        one.names(caller(allow("view_reference")))
    with pytest.raises(Unauthenticated):
        one.names(ME)


def test_objects_are_fetched_with_the_right_to_read_everything():
    server = enforced(hidden_world())
    head = server.references.get(EVERYTHING, "main").hash
    assert len(server.repository.objects.get(EVERYTHING, [head])) == 1
    for ann in (
        caller(allow(*READS)),
        caller(allow(*READS, "exchange_objects"), deny("read_content", keys=(f"{CANARY}.*",))),
        caller(allow(*READS, "exchange_objects"), deny("view_reference", references=(CANARY,))),
        caller(allow(*READS, "exchange_objects"), deny("read_log", references=(CANARY,))),
        caller(allow("exchange_objects"), allow("view_reference", references=("main",))),
    ):
        with pytest.raises((Denied, NotFound)):
            server.repository.objects.get(ann, [head])
