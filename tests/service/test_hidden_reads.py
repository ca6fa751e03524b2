"""Nothing of what a caller may not read is in any answer, and what is hidden looks absent.

All that is hidden carries one word; no answer, error or token may show it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

from lochan.access.policy import Call
from lochan.base.errors import ContentNotFound, Denied, NamespaceNotFound, NotFound
from lochan.model.commits import Delete, Put
from lochan.model.results import Page
from lochan.model.specs import ReferenceSpec, parse_spec
from lochan.service.pages import Selection
from lochan.service.repository import Repository
from tests.service.bench import Bench, key, names, new, pages, space, use_cases
from tests.service.limited import (
    CANARY,
    EVERYTHING,
    Refusals,
    absent,
    allow,
    caller,
    enforced,
    hidden_world,
    outcome,
    ruled_viewer,
    shows,
    viewer,
)

MAIN, DEV, FIRST = parse_spec("main"), parse_spec("dev"), parse_spec("main~4")

Read = Callable[[Repository, Call], Any]

SPECS = [parse_spec(text) for text in ("main", "dev", "moved", "main~1", "main^1", "main^2", "-")]
FILTERS = {
    "entries": ["entry.name != 'nothing'", "entry.namespace != 'open' || true"],
    "log": ["operations.exists(o, o.type == 'PUT')", "commit.message != ''"],
    "references": ["commit.message != 'nothing'", "ref.name != 'nothing'"],
    "diff": ["key.name != 'nothing'"],
}


def every_page(read: Callable[[str | None], Page[Any]]) -> list[Any]:
    """All pages, with their tokens."""
    found, token = [], None
    while True:
        found.append(read(token))
        token = found[-1].token
        if token is None:
            return found


def entries_of(spec: ReferenceSpec, text: str, limit: int | None) -> Read:
    return lambda one, call: every_page(
        lambda token: one.contents.entries(call, spec, limit, token, filter=text, with_content=True)
    )


def references_of(text: str, limit: int | None) -> Read:
    return lambda one, call: every_page(
        lambda token: one.references.list(call, limit, token, filter=text, fetch_all=True)
    )


def reference_log_of(name: str) -> Read:
    return lambda one, call: every_page(lambda token: one.references.log(call, name, 2, token))


def log_of(spec: ReferenceSpec, text: str, *, whole: bool) -> Read:
    return lambda one, call: every_page(
        lambda token: one.history.log(call, spec, 2, token, filter=text, fetch_all=whole)
    )


def diff_of(right: ReferenceSpec, text: str, limit: int | None) -> Read:
    return lambda one, call: every_page(
        lambda token: one.history.diff(call, FIRST, right, limit, token, filter=text)
    )


READS: dict[str, Sequence[Read]] = {
    "references.get": [
        lambda one, call: one.references.get(call, "main", fetch_all=True),
        lambda one, call: one.references.get(call, "dev", fetch_all=True),
        lambda one, call: one.references.get(call, "-", fetch_all=True),
    ],
    "references.list": [
        references_of(text, limit)
        for text in ("", *FILTERS["references"])
        for limit in (None, 1, 2)
    ],
    "references.recent_changes": [
        lambda one, call: one.references.recent_changes(call, "main"),
        lambda one, call: one.references.recent_changes(call, "moved", scan_commits=True),
    ],
    "references.log": [reference_log_of(name) for name in ("main", "moved", "dev")],
    "contents.entries": [
        entries_of(spec, text, limit)
        for spec in SPECS
        for text in ("", *FILTERS["entries"])
        for limit in (None, 1, 3)
    ],
    "contents.entry_pages": [
        lambda one, call: one.contents.entry_pages(call, MAIN, Selection(), 1, with_content=True),
        lambda one, call: one.contents.entry_pages(call, MAIN, Selection(), 9, with_content=True),
    ],
    "contents.get": [lambda one, call: one.contents.get(call, MAIN, key("open.c"))],
    "contents.get_many": [
        lambda one, call: one.contents.get_many(call, MAIN, [key("open.c"), key("open.a")])
    ],
    "jobs.find": [lambda one, call: one.jobs.find(call, MAIN, key("open.c"), ["nightly"])],
    "jobs.list": [lambda one, call: one.jobs.list(call, MAIN, key("open.c"))],
    "history.log": [
        log_of(spec, text, whole=whole)
        for spec in SPECS
        for text in ("", *FILTERS["log"])
        for whole in (True, False)
    ],
    "history.diff": [
        diff_of(right, text, limit)
        for right in SPECS
        for text in ("", *FILTERS["diff"])
        for limit in (None, 1)
    ],
    "history.between": [lambda one, call: one.history.between(call, parse_spec("main~2"), MAIN)],
    "namespaces.get": [lambda one, call: one.namespaces.get(call, MAIN, ("open",))],
    "namespaces.list": [
        lambda one, call: one.namespaces.list(call, MAIN),
        lambda one, call: one.namespaces.list(call, DEV),
    ],
    "settings.get": [lambda one, call: one.settings.get(call, [])],
    "settings.find": [lambda one, call: one.settings.find(call, "METADATA")],
    "metadata.get": [lambda one, call: one.metadata.get(call)],
    "protection.get": [lambda one, call: one.protection.get(call)],
    "protection.check_write": [lambda one, call: one.protection.check_write(call, "main")],
    "commit_log.get": [
        partial(lambda spec, one, call: one.commit_log.get(call, spec), spec) for spec in SPECS
    ],
    "commit_log.page": [
        partial(lambda spec, one, call: one.commit_log.page(call, spec, 100), spec)
        for spec in SPECS
    ],
    "commit_log.find_id": [lambda one, call: one.commit_log.find_id(call, "0" * 10)],
    "commit_log.merge_base": [lambda one, call: one.commit_log.merge_base(call, MAIN, DEV)],
    "objects.get": [
        lambda one, call: one.objects.get(call, [one.references.get(call, "main").hash])
    ],
}

WRITES = {
    *("references.create", "references.create_many", "references.assign", "references.delete"),
    *("commits.commit", "merges.merge", "merges.transplant", "merges.cherry_pick"),
    *("merges.revert", "merges.rebase", "merges.fast_forward", "merges.force"),
    *("namespaces.create", "namespaces.delete", "namespaces.update"),
    *("settings.update", "settings.change", "settings.remove", "objects.put"),
    *("metadata.update", "protection.replace"),
    *("files.copy", "files.update", "files.delete", "files.delete_many", "uploads.begin"),
    *("multiparts.create", "multiparts.begin_part", "multiparts.complete", "multiparts.abort"),
    *("multiparts.list_parts", "multiparts.list_uploads"),
    *("addresses.reserve", "addresses.link", "resets.reset", "resets.hard_reset"),
    *("imports.import_files", "files.stage_foreign", "import_jobs.start", "import_jobs.cancel"),
    *("multiparts.create_signed", "multiparts.sign_parts"),
}

# Hidden paths have tests of their own: `test_file_rights.py`.
FILE_READS = {
    *("files.stat", "files.open", "files.open_stored", "files.presign", "file_listings.list"),
    *("file_listings.uncommitted", "file_history.diff", "file_history.log"),
    "import_jobs.status",
}

# Hidden events have tests of their own: `tests/security/test_stream_rights.py`.
EVENT_READS = {
    *("event_streams.scope", "event_streams.position_at", "event_streams.reads_log"),
    *("event_streams.reads_every_log", "event_streams.rights", "event_streams.shown"),
}


@pytest.fixture(scope="module")
def world() -> Bench:
    """Only read by the tests here."""
    return enforced(hidden_world())


@pytest.fixture(params=[viewer, ruled_viewer], ids=["by patterns", "by conditions"])
def ann(request) -> Call:
    return request.param()


def test_every_use_case_that_reads_is_tried(world):
    assert set(READS) | WRITES | FILE_READS | EVENT_READS == set(use_cases(world.repository))


@pytest.mark.parametrize("name", READS)
def test_no_answer_shows_what_is_hidden(world, ann, name):
    for read in READS[name]:
        answer = outcome(partial(read, world.repository, ann))
        assert not shows(answer), answer


def test_the_word_is_found_where_everything_may_be_read(world):
    """The test above can fail: without limits, the answers of most use cases show the word."""
    found = {
        name
        for name, reads in READS.items()
        if any(shows(outcome(partial(read, world.repository, EVERYTHING))) for read in reads)
    }
    assert set(READS) - found == {
        *("references.recent_changes", "history.between", "settings.get"),
        *("jobs.find", "namespaces.get", "settings.find", "metadata.get", "protection.get"),
        *("protection.check_write", "commit_log.find_id", "commit_log.merge_base"),
    }


def test_what_may_be_read_is_shown(world, ann):
    one = world.repository
    entries = one.contents.entries(ann, MAIN, with_content=True).items
    assert names(entries) == ["open", "open.a", "open.b", "open.c", "open.d"]
    assert [entry.content is not None for entry in entries] == [True, True, True, False, True]
    assert names(one.references.list(ann).items) == ["dev", "main", "moved"]
    assert len(one.history.log(ann, MAIN).items) == 4
    content, reference = one.contents.get(ann, MAIN, key("open.a"))
    assert (content.metadata_location, reference.name) == ("changed", "main")
    found, _ = one.contents.get_many(ann, MAIN, [key("open.a"), key("open.c"), key(f"{CANARY}.x")])
    assert [found_key for found_key, _ in found] == [key("open.a")]


@pytest.mark.parametrize(
    "read",
    [
        lambda one, call, name: one.contents.get(call, MAIN, key(f"{name}.x")),
        lambda one, call, name: one.contents.get(call, MAIN, key(name)),
        lambda one, call, name: one.contents.get_many(call, MAIN, [key(f"{name}.x")]),
        lambda one, call, name: one.contents.entries(call, MAIN, keys=[key(f"{name}.x")]),
        lambda one, call, name: one.contents.entries(call, MAIN, prefix=key(name)),
        lambda one, call, name: one.contents.entries(call, MAIN, start=key(name)),
        lambda one, call, name: one.history.diff(call, FIRST, MAIN, prefix=key(name)),
        lambda one, call, name: one.history.diff(call, FIRST, MAIN, keys=[key(f"{name}.x")]),
        lambda one, call, name: one.jobs.find(call, MAIN, key(f"{name}.x"), [name]),
        lambda one, call, name: one.jobs.list(call, MAIN, key(f"{name}.x")),
        lambda one, call, name: one.namespaces.get(call, MAIN, (name,)),
        lambda one, call, name: one.namespaces.list(call, MAIN, (name,)),
        lambda one, call, name: one.references.get(call, name),
        lambda one, call, name: one.references.list(call, prefix=name),
        lambda one, call, name: one.references.recent_changes(call, name),
        lambda one, call, name: one.references.log(call, name),
        lambda one, call, name: one.contents.entries(call, parse_spec(name)),
        lambda one, call, name: one.contents.get(call, parse_spec(name), key("open.a")),
        lambda one, call, name: one.contents.get(call, parse_spec(f"{name}~99"), key("open.a")),
        lambda one, call, name: one.contents.get(call, parse_spec(f"{name}^2"), key("open.a")),
        lambda one, call, name: one.contents.get(call, parse_spec(f"{name}*1"), key("open.a")),
        lambda one, call, name: one.contents.get(call, parse_spec(f"{name}@{'1' * 64}"), ("a",)),
        lambda one, call, name: one.contents.get(call, parse_spec(f"{name}@{'1' * 10}"), ("a",)),
        lambda one, call, name: one.jobs.list(call, parse_spec(name), key("open.a")),
        lambda one, call, name: one.history.log(call, parse_spec(name), fetch_all=True),
        lambda one, call, name: one.history.diff(call, MAIN, parse_spec(name)),
        lambda one, call, name: one.history.diff(call, parse_spec(name), MAIN),
        lambda one, call, name: one.history.between(call, MAIN, parse_spec(name)),
        lambda one, call, name: one.namespaces.list(call, parse_spec(name)),
    ],
)
def test_what_is_hidden_is_answered_as_what_is_absent(world, ann, read):
    hidden = outcome(lambda: read(world.repository, ann, CANARY))
    missing = outcome(lambda: read(world.repository, ann, absent(CANARY)))
    assert absent(repr(hidden)) == repr(missing)


def test_a_key_may_be_hidden_on_one_side_of_a_difference(world):
    ann = caller(
        allow("view_reference", "read_content", references=("main", "dev")),
        allow("read_entries", references=("main",)),
        allow("read_entries", references=("dev",), keys=("open.*",)),
    )
    changes = world.history.diff(ann, FIRST, DEV).items
    assert names(changes) == ["open.a", "open.b", "open.c", "open.d"]
    changes = world.history.diff(ann, DEV, FIRST).items
    assert names(changes) == ["open.a", "open.b", "open.c", "open.d"]


def test_contents_in_a_difference_need_their_own_right(world):
    ann = caller(allow("view_reference", "read_entries"))
    assert len(world.contents.entries(ann, MAIN).items) > 5
    with pytest.raises(Denied):
        world.history.diff(ann, FIRST, MAIN)


def test_operations_are_shown_by_their_keys(world, ann):
    newest, merged, second, first = world.history.log(ann, MAIN, fetch_all=True).items
    assert [one.key for one in newest.operations] == [key("open.a")]
    assert [(type(one), one.key) for one in merged.operations] == [(Put, key("open.d"))]
    assert second.operations == ()
    assert len(first.operations) == 3


def test_a_removal_is_shown_by_its_name_alone():
    one = hidden_world()
    one.remove("open.c", f"{CANARY}.x")
    (entry,) = enforced(one).history.log(viewer(), MAIN, 1, fetch_all=True).items
    assert entry.operations == (Delete(key=key("open.c")),)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"operations.exists(o, o.key.startsWith('{CANARY}'))", 0),
        ("operations.exists(o, o.name == 'd')", 1),
        ("operations.all(o, o.name != 'nothing')", 4),
    ],
)
def test_a_filter_of_a_log_sees_the_operations_that_are_shown(world, ann, text, found):
    assert len(world.history.log(ann, MAIN, filter=text).items) == found


def test_a_filter_is_not_evaluated_on_what_is_hidden(world, ann):
    """It fails on hidden elements; the caller must not notice."""
    one = world.repository
    fails = f"int({{}}.namespace == '{CANARY}' ? 'x' : '1') == 1"
    with pytest.raises(Exception, match="filter failed"):
        one.contents.entries(EVERYTHING, MAIN, filter=fails.format("entry"))
    assert len(one.contents.entries(ann, MAIN, filter=fails.format("entry")).items) == 5
    with pytest.raises(Exception, match="filter failed"):
        one.history.diff(EVERYTHING, FIRST, MAIN, filter=fails.format("key"))
    found = one.history.diff(ann, FIRST, MAIN, filter=fails.format("key")).items
    assert names(found) == ["open", "open.a", "open.b", "open.d"]
    fails = f"int(ref.name == '{CANARY}' ? 'x' : '1') == 1"
    with pytest.raises(Exception, match="filter failed"):
        one.references.list(EVERYTHING, filter=fails)
    assert len(one.references.list(ann, filter=fails).items) == 3


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6])
def test_pages_are_as_if_what_is_hidden_were_absent(world, limit):
    """With rights by patterns every page is full, and the last one has no token."""
    sizes = [len(page.items) for page in entry_pages(world, viewer(), limit)]
    assert sizes == [limit] * (5 // limit) + ([5 % limit] if 5 % limit else [])
    changes = pages(lambda token: world.history.diff(viewer(), FIRST, MAIN, limit, token))
    assert names(changes) == ["open", "open.a", "open.b", "open.d"]


def entry_pages(world: Bench, ann: Call, limit: int) -> list[Page[Any]]:
    return every_page(lambda token: world.contents.entries(ann, MAIN, limit, token))


def test_namespaces_are_those_of_readable_keys(world, ann):
    assert [one.elements for one in world.repository.namespaces.list(ann, MAIN)] == [("open",)]
    with pytest.raises(NamespaceNotFound):
        world.repository.namespaces.get(ann, MAIN, (CANARY,))


def test_a_namespace_whose_content_is_hidden_is_listed_by_its_name():
    one = Bench()
    one.commit(space("full", owner="someone"), space("bare", owner="someone"), new("full.a"))
    ann = caller(allow("view_reference", "read_entries"), allow("read_content", keys=("full",)))
    full, bare = enforced(one).repository.namespaces.list(ann, MAIN)[::-1]
    assert (full.elements, full.properties) == (("full",), {"owner": "someone"})
    assert (bare.elements, bare.id, bare.properties) == (("bare",), None, {})


def test_jobs_are_those_of_readable_contents(world):
    one = world.repository
    (found,) = one.jobs.list(EVERYTHING, MAIN, key("open.c")).items
    assert found.job == CANARY
    for read in (
        lambda: one.jobs.list(viewer(), MAIN, key("open.c")),
        lambda: one.jobs.find(viewer(), MAIN, key("open.c"), [CANARY]),
    ):
        with pytest.raises(ContentNotFound):
            read()
    assert one.jobs.list(viewer(), MAIN, key("open.a")).items == ()


def test_a_repository_without_any_right_looks_absent(world):
    stranger = caller(allow("*", repositories=("other",)))
    for reads in READS.values():
        for read in reads:
            found = outcome(partial(read, world.repository, stranger))
            assert found[1:3] == ("not_found", "there is no repository 'repo'")
    with pytest.raises(NotFound, match="there is no repository 'repo'"):
        world.repository.describe(stranger)
    for text in ("no-such-branch", "1" * 64, f"@{'1' * 10}", f"@{'1' * 64}~99", "main^2", "-"):
        with pytest.raises(NotFound, match="there is no repository 'repo'"):
            world.contents.entries(stranger, parse_spec(text))
    assert world.repository.describe(viewer()).default_branch == "main"


def test_what_is_left_out_is_no_refusal_and_what_is_named_is_recorded_as_one():
    """The audit log has the attempts to read hidden keys and commits; the answers do not."""
    one = hidden_world()
    refusals = Refusals()
    server = enforced(one, refusals)
    ann, head = viewer(), one.head(CANARY)
    for reads in READS.values():
        for read in reads:
            outcome(partial(read, server.repository, ann))
    attempts = {(event.action, event.reference, event.keys) for event in refusals.events}
    assert not shows(attempts)
    refusals.events.clear()
    for attempt in (
        lambda: server.contents.get(ann, MAIN, key(f"{CANARY}.x")),
        lambda: server.contents.get_many(ann, MAIN, [key("open.a"), key(f"{CANARY}.x")]),
        lambda: server.contents.entries(ann, MAIN, keys=[key(f"{CANARY}.x")]),
        lambda: server.repository.jobs.list(ann, MAIN, key(f"{CANARY}.x")),
        lambda: server.contents.get(ann, parse_spec(CANARY), key("open.a")),
        lambda: server.contents.get(ann, parse_spec(f"main@{head}"), key("open.a")),
        lambda: server.contents.get(ann, parse_spec(head), key("open.a")),
        lambda: server.references.get(ann, CANARY),
    ):
        outcome(attempt)
    hidden = (f"{CANARY}.x",)
    assert [(event.action.value, event.reference, event.keys) for event in refusals.events] == [
        ("read_content", "main", hidden),
        ("read_content", "main", hidden),
        ("read_entries", "main", hidden),
        ("read_content", "main", hidden),
        ("read_content", CANARY, ()),
        ("read_content", None, ()),
        ("read_content", None, ()),
        ("view_reference", CANARY, ()),
    ]
    assert {event.principal for event in refusals.events} == {"ann"}
