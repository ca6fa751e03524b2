"""Commits of other references are not read by their hashes, whatever reference is named with them.

A right on a reference is one on its history by first parents. What is not in it is answered as if
it did not exist, and the proof costs nothing where everything may be read.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from lochan.access.policy import Action, Call
from lochan.base.errors import Denied, Invalid, ReferenceNotFound
from lochan.base.ids import EMPTY_ID, ObjId
from lochan.base.names import RefName
from lochan.model.references import Annotation
from lochan.model.requests import NewReference, TransplantRequest
from lochan.model.specs import ReferenceSpec, parse_spec
from lochan.service.repository import Repository
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
UNKNOWN = "0123456789abcdef" * 4

Read = Callable[[Repository, Call, ReferenceSpec], Any]

BY_SPEC: dict[str, Read] = {
    "get": lambda one, call, spec: one.contents.get(call, spec, key("open.a")),
    "get_many": lambda one, call, spec: one.contents.get_many(call, spec, [key("open.a")]),
    "entries": lambda one, call, spec: one.contents.entries(call, spec, with_content=True),
    "log": lambda one, call, spec: one.history.log(call, spec, fetch_all=True),
    "diff from": lambda one, call, spec: one.history.diff(call, spec, MAIN),
    "diff to": lambda one, call, spec: one.history.diff(call, MAIN, spec),
    "between": lambda one, call, spec: one.history.between(call, spec, MAIN),
    "jobs": lambda one, call, spec: one.jobs.list(call, spec, key("open.a")),
    "namespaces": lambda one, call, spec: one.namespaces.list(call, spec),
}


@pytest.fixture(scope="module")
def plain() -> Bench:
    return hidden_world()


@pytest.fixture(scope="module")
def world(plain) -> Bench:
    """Only read by the tests here."""
    return enforced(plain)


def same_answer(world: Bench, call: Call, read: Read, hidden: str, unknown: str) -> None:
    """What is hidden is answered as what does not exist, but for its name."""
    one = world.repository
    first = outcome(lambda: read(one, call, parse_spec(hidden)))
    second = outcome(lambda: read(one, call, parse_spec(unknown)))
    assert first[0] is ReferenceNotFound
    head = world.references.get(EVERYTHING, CANARY).hash
    assert repr(first).replace(head, UNKNOWN) == repr(second)


@pytest.mark.parametrize("read", BY_SPEC.values(), ids=BY_SPEC)
@pytest.mark.parametrize("form", ["main@{}", "@{}", "main@{}~1", "@{}~99", "moved@{}^2", "@{}*1"])
def test_a_commit_of_a_hidden_branch_is_answered_as_an_unknown_one(world, read, form):
    head = world.references.get(EVERYTHING, CANARY).hash
    same_answer(world, viewer(), read, form.format(head), form.format(UNKNOWN))


@pytest.mark.parametrize("name", ["main", "moved"])
def test_what_a_branch_was_merged_from_is_not_part_of_it(world, name):
    """The merge is one commit before the head."""
    for spec in ("~1^2", "~1^2~1", "^1^2", "~1^2^1"):
        for read in BY_SPEC.values():
            found = outcome(partial(read, world.repository, viewer(), parse_spec(f"{name}{spec}")))
            assert found[0] is ReferenceNotFound
            assert found[2] == f"Commit '{spec}' not found"
            assert not shows(found)
    assert world.contents.get(EVERYTHING, parse_spec("main~1^2"), key(f"{CANARY}.x"))


def test_the_history_of_a_branch_is_read_in_every_way(world):
    line = [entry.meta.hash for entry in world.history.log(viewer(), MAIN).items]
    ways = ["main", "main~0", f"main@{line[0]}", "main^1", f"main@{line[2]}", f"main@{line[0]}~3"]
    ways += [f"main@{EMPTY_ID.hex()}", "main*2100-01-01T00:00:00Z", f"main@{line[1]}^1"]
    for text in ways:
        allowed = world.contents.entries(EVERYTHING, parse_spec(text)).reference
        assert world.contents.entries(viewer(), parse_spec(text)).reference == allowed, text


def test_where_a_log_ends_is_a_commit_of_its_branch(world):
    head = world.references.get(EVERYTHING, CANARY).hash
    log = world.history.log
    for hidden, unknown in ((head, UNKNOWN), (f"{head}~1", f"{UNKNOWN}~1")):
        ends = [parse_spec(text) for text in (hidden, unknown)]
        first, second = (outcome(partial(log, viewer(), MAIN, limit_hash=end)) for end in ends)
        assert repr(first).replace(head, UNKNOWN) == repr(second)
    line = log(viewer(), MAIN).items
    assert log(viewer(), MAIN, limit_hash=parse_spec(line[2].meta.hash)).items == line[:3]
    with pytest.raises(ReferenceNotFound):
        log(viewer(), MAIN, limit_hash=parse_spec("~1^2"))


def test_a_commit_alone_needs_a_right_on_all_references(world):
    head = parse_spec(world.references.get(EVERYTHING, "main").hash)
    assert world.contents.entries(EVERYTHING, head).reference.kind == "DETACHED"
    same = caller(allow(*READS))
    assert world.contents.entries(same, head) == world.contents.entries(EVERYTHING, head)
    for ann in (viewer(), caller(allow(*READS), deny("view_reference", references=(CANARY,)))):
        with pytest.raises(ReferenceNotFound, match="not found"):
            world.contents.entries(ann, head)


def test_a_right_on_logs_of_all_references_shows_no_contents_of_hidden_ones(world):
    """Under the name of a branch with rights on keys, too."""
    ann = caller(
        allow("view_reference", "read_log"),
        allow("read_entries", "read_content", references=("main",)),
        deny("read_entries", references=(CANARY,)),
    )
    head = world.references.get(EVERYTHING, CANARY).hash
    with pytest.raises(ReferenceNotFound):
        world.history.log(ann, parse_spec(f"main@{head}"), fetch_all=True)
    alone = world.history.log(ann, parse_spec(head), fetch_all=True).items
    assert {entry.operations for entry in alone} == {()}
    assert len(alone) == 4


def test_rights_on_some_keys_of_all_references_are_not_widened_by_a_name(world):
    ann = caller(
        allow("view_reference"),
        allow("read_entries", "read_content", keys=("open.*",)),
        allow("read_entries", "read_content", references=("main",)),
    )
    head = world.references.get(EVERYTHING, CANARY).hash
    assert shows(world.contents.entries(ann, MAIN))
    assert not shows(world.contents.entries(ann, parse_spec(head)))
    with pytest.raises(ReferenceNotFound):
        world.contents.entries(ann, parse_spec(f"main@{head}"))


def test_the_hash_of_a_tag_is_peeled_before_the_proof(plain):
    tags = hidden_world()
    for name, spec in (("seen", "main~1"), ("hidden", CANARY)):
        note = Annotation(message=f"tag {name}")
        new = NewReference(kind="TAG", name=name, source=parse_spec(spec), annotation=note)
        tags.run(tags.references.create(ME, new))
    server = enforced(tags)
    rows = {}
    for name in ("seen", "hidden"):
        found = tags.repository.context.references.fetch(RefName(name))
        assert found is not None
        rows[name] = found.row.pointer.hex()
    ann = viewer()
    by_tag = server.contents.entries(ann, parse_spec(f"main@{rows['seen']}"))
    assert by_tag == server.contents.entries(ann, parse_spec("main~1"))
    hidden = outcome(lambda: server.contents.entries(ann, parse_spec(f"main@{rows['hidden']}")))
    assert hidden[2] == f"Commit '{rows['hidden']}' not found"
    assert not shows(hidden)


@pytest.mark.parametrize(
    "read",
    [
        lambda one, call, spec, token: one.contents.entries(call, spec, 1, token),
        lambda one, call, spec, token: one.history.log(call, spec, 1, token),
        lambda one, call, spec, token: one.history.diff(call, parse_spec("main~3"), spec, 1, token),
    ],
    ids=["entries", "log", "diff"],
)
def test_a_token_of_another_caller_opens_nothing(world, read):
    head = world.references.get(EVERYTHING, CANARY).hash
    for hidden in (f"main@{head}", "main~1^2", CANARY, f"@{head}"):
        spec = parse_spec(hidden)
        token = read(world.repository, EVERYTHING, spec, None).token
        assert token is not None
        for used in (spec, parse_spec("main"), parse_spec(f"main@{head}")):
            with pytest.raises((ReferenceNotFound, Invalid)):
                read(world.repository, viewer(), used, token)


def test_where_a_page_goes_on_is_proved_if_the_specification_leaves_the_branch(world):
    """`main^2` may lead elsewhere when the next page is read; the token alone proves nothing."""
    resolver = world.repository._resolver
    head = ObjId(bytes.fromhex(world.references.get(EVERYTHING, CANARY).hash))
    for ann, refused in ((viewer(), True), (EVERYTHING, False)):
        start = resolver.read(ann, Action.READ_ENTRIES, MAIN)
        read_on = partial(
            resolver.read_at, ann, Action.READ_ENTRIES, parse_spec("main^2"), start, head
        )
        if refused:
            with pytest.raises(ReferenceNotFound, match=r"Commit '\^2' not found"):
                read_on()
        else:
            assert read_on().view.obj_id == head


def test_pages_go_on_though_the_branch_is_moved_away():
    """A token proves what the first page has resolved; the rights are those of the caller."""
    one = hidden_world()
    server = enforced(one)
    first = server.contents.entries(viewer(), MAIN, 2)
    log = server.history.log(viewer(), MAIN, 2)
    one.references.assign(ME, "main", None, parse_spec("moved~3"))
    rest = pages(lambda token: server.contents.entries(viewer(), MAIN, 2, token), token=first.token)
    assert names([*first.items, *rest]) == ["open", "open.a", "open.b", "open.c", "open.d"]
    older = pages(lambda token: server.history.log(viewer(), MAIN, 2, token), token=log.token)
    assert len([*log.items, *older]) == 4


def test_a_page_is_limited_to_the_rights_of_its_own_caller(world):
    token = world.contents.entries(EVERYTHING, MAIN, 1).token
    page = world.contents.entries(viewer(), MAIN, None, token, with_content=True)
    assert names(page.items) == ["open.a", "open.b", "open.c", "open.d"]
    assert not shows(page)
    token = world.history.log(EVERYTHING, MAIN, 1, fetch_all=True).token
    assert not shows(world.history.log(viewer(), MAIN, None, token, fetch_all=True))


FORMS = ["main", "main~1", "main^1", "main@{old}", "main@{old}~1", "@{old}", "main~1^2", "moved"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", BY_SPEC)
def test_a_caller_with_all_rights_costs_no_call_to_the_store(plain, name, form):
    old = plain.log()[1].meta.hash
    spec = parse_spec(form.format(old=old))
    open_server, open_counts = plain.counted()
    server, counts = counted(plain)
    for call, one, seen in ((ME, open_server, open_counts), (EVERYTHING, server, counts)):
        seen.reset()
        outcome(partial(BY_SPEC[name], one.repository, call, spec))
    assert counts.calls == open_counts.calls


def test_listings_cost_no_call_more_with_all_rights(plain):
    open_server, open_counts = plain.counted()
    server, counts = counted(plain)
    for call, one, seen in ((ME, open_server, open_counts), (EVERYTHING, server, counts)):
        seen.reset()
        one.references.list(call, fetch_all=True)
        one.references.log(call, "moved")
        one.references.recent_changes(call, "main")
    assert counts.calls == open_counts.calls


def test_a_proof_takes_few_calls_whatever_the_history():
    one = Bench()
    one.fill("ns.a")
    old = one.head()
    for number in range(300):
        one.change("ns.a", f"place {number}")
    server, counts = counted(one)
    ann = caller(allow(*READS, references=("main",)))
    spec = parse_spec(f"main@{old}")
    counts.reset()
    server.contents.get(ann, spec, key("ns.a"))
    limited = sum(counts.calls.values())
    again, open_counts = one.counted()
    open_counts.reset()
    again.contents.get(ME, spec, key("ns.a"))
    assert limited - sum(open_counts.calls.values()) <= 20
    counts.reset()
    server.contents.get(ann, spec, key("ns.a"))
    # Commits never change: the second proof reads nothing but the row.
    assert sum(counts.calls.values()) == 1


def test_an_action_that_is_not_allowed_is_refused_where_the_reference_is_seen(world):
    ann = caller(allow("view_reference", references=("main",)))
    for spec in ("main", "main~99", f"main@{UNKNOWN}"):
        for read in BY_SPEC.values():
            with pytest.raises(Denied):
                read(world.repository, ann, parse_spec(spec))


@pytest.mark.parametrize("steps", ["", "~1", "~99", "^2", "*1"])
@pytest.mark.parametrize("operation", ["cherry_pick", "transplant"])
def test_a_hidden_commit_is_picked_like_an_unknown_one(world, operation, steps):
    """The steps were taken before a decision, so their errors showed that a commit exists."""
    call = viewer(allow("merge", references=("main",)))

    def pick(one: Repository, call: Call, spec: ReferenceSpec) -> Any:
        request = TransplantRequest(branch="main", source="main", hashes=(spec,), dry_run=True)
        return getattr(one.merges, operation)(call, request)

    head = world.references.get(EVERYTHING, CANARY).hash
    same_answer(world, call, pick, f"@{head}{steps}", f"@{UNKNOWN}{steps}")
