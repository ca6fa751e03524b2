"""Logs in pages: whole, ids, by key; ahead and behind; each against a plain list."""

from __future__ import annotations

from random import Random

import pytest

from lochan.base.errors import Invalid
from lochan.base.ids import EMPTY_ID, ObjId
from lochan.base.names import RefName
from lochan.kernel import logs as logs_module
from lochan.kernel.context import RepositoryContext
from lochan.kernel.logs import Logs, key_prefix, only_key
from lochan.kernel.merge import Behaviour, Choices, MergeProposal
from lochan.kernel.publish import Publisher
from lochan.kernel.repository import open_repository
from tests.kernel.reading import body_of, message_of
from tests.kernel.workbench import Bench, Wants, element, plan, put, table, wants
from tests.property.merge_world import MergeWorld


def grown(count: int) -> Bench:
    bench = Bench()
    bench.commit(*[wants(number) for number in range(count)])
    return bench


def pages(ask, limit, attribute):
    """All pages of a listing, flattened."""
    found, token, asked = [], None, 0
    while True:
        page = ask(limit, token)
        found += getattr(page, attribute)
        asked += 1
        if page.token is None:
            return found, asked
        token = page.token


@pytest.mark.parametrize("count", [0, 1, 2, 20, 21, 22, 41, 100])
@pytest.mark.parametrize("limit", [1, 3, 20, 21, 1_000])
def test_pages_of_both_logs_are_the_whole_line(count, limit):
    bench = Bench()
    for number in range(0, count, 50):
        bench.commit(*[wants(n) for n in range(number, min(count, number + 50))])
    line = [view.obj_id for view in bench.log()[::-1]]
    head = ObjId(bench.row().pointer)
    logs = Logs(bench.context)
    whole, _ = pages(lambda n, token: logs.page(head, n, token), limit, "commits")
    assert [view.obj_id for view in whole] == line
    ids, asked = pages(lambda n, token: logs.ids(head, n, token), limit, "ids")
    assert ids == line
    assert asked == max(1, -(-count // limit))


def test_the_log_of_ids_reads_one_commit_in_twenty():
    bench = Bench()
    for start in range(0, 400, 50):
        bench.commit(*[wants(n) for n in range(start, start + 50)])
    context = open_repository(bench.store, bench.ports, "repo")
    found = Logs(context).ids(ObjId(bench.row().pointer), 400)
    assert len(found.ids) == 400
    assert found.token is None
    assert context.views.reads <= 21


def test_a_page_goes_on_where_it_was_though_the_branch_moved():
    bench = grown(10)
    logs = Logs(bench.context)
    line = [view.obj_id for view in bench.log()[::-1]]
    first = logs.page(ObjId(bench.row().pointer), 4)
    bench.commit(wants(99))
    second = logs.page(ObjId(bench.row().pointer), 100, first.token)
    assert [view.obj_id for view in (*first.commits, *second.commits)] == line


def test_a_token_fits_its_own_listing_only():
    bench = grown(5)
    logs, head = Logs(bench.context), ObjId(bench.row().pointer)
    token = logs.page(head, 2).token
    assert token is not None
    with pytest.raises(Invalid):
        logs.ids(head, 2, token)
    by_key = logs.touching(head, key_prefix(b"t"), 2).token
    assert by_key is not None
    with pytest.raises(Invalid):
        logs.touching(head, only_key(table(1)), 2, by_key)
    with pytest.raises(Invalid):
        logs.page(head, 0)


def many(numbers, name: str) -> Wants:
    return Wants(plan([put(table(n), element(n + len(name))) for n in numbers], name))


def test_the_log_of_a_key_finds_commits_that_list_their_keys_and_those_that_do_not(monkeypatch):
    bench = grown(3)
    large = range(1_000, 2_200)
    bench.commit(many(large, "large"))
    bench.commit(wants(7), wants(1_100, "small"))
    assert body_of(bench.log()[3]).own is None
    head = ObjId(bench.row().pointer)
    logs = Logs(bench.context)

    def messages(keys):
        return [message_of(view) for view in logs.touching(head, keys, 100).commits]

    assert messages(only_key(table(1_100))) == ["small", "large"]
    assert messages(only_key(table(2))) == ["put 2"]
    assert messages(only_key(table(5_555))) == []
    assert messages(key_prefix(table(1)[:-2])) == ["put 7", "put 2", "put 1", "put 0"]
    assert messages(key_prefix(b"f")) == []


def test_a_page_by_key_looks_at_a_bounded_number_of_commits(monkeypatch):
    monkeypatch.setattr(logs_module, "LOG_SCANNED_MAX", 7)
    bench = grown(30)
    logs, head = Logs(bench.context), ObjId(bench.row().pointer)
    page = logs.touching(head, only_key(table(0)), 5)
    assert page.commits == ()
    assert page.token is not None
    found, asked = pages(
        lambda n, token: logs.touching(head, only_key(table(0)), n, token), 5, "commits"
    )
    assert [view.body.message for view in found] == ["put 0"]
    assert asked == 5


def ancestors(context: RepositoryContext, head: ObjId) -> set[ObjId]:
    """All commits reachable by any parent."""
    seen, work = set(), [head]
    while work:
        one = work.pop()
        if one not in seen and one != EMPTY_ID:
            seen.add(one)
            body = body_of(context.views.load(one))
            work += [ObjId(raw) for raw in body.parents]
    return seen


def line(context: RepositoryContext, head: ObjId) -> list[ObjId]:
    return [] if head == EMPTY_ID else list(Logs(context).ids(head, 1_000).ids)


@pytest.mark.parametrize("seed", range(25))
def test_ahead_and_behind_count_what_only_one_line_has(seed):
    world = MergeWorld(seed)
    pick = Random(seed)
    world.edit("main", world.keys(3, 30))
    for name in ("one", "two"):
        world.branch(name, "main")
    names = ["main", "one", "two"]
    for _ in range(15):
        name, source = pick.sample(names, 2)
        if pick.random() < 0.3:
            proposal = MergeProposal(
                world.context, world.head(source), "m", Choices(Behaviour.FORCE)
            )
            Publisher(world.context, RefName(name)).publish([proposal])
        else:
            key = world.keys(1, 30)[0]
            world.publishers[name] = Publisher(world.context, RefName(name))
            value = world.element(key, pick.randrange(10**6))
            world.publish(name, Wants(plan([put(key, value)], "edit")))
        left, right = world.head(name), world.head(source)
        told = Logs(world.context).ahead_behind(left, right)
        mine, theirs = (line(world.context, one.obj_id) for one in (left, right))
        assert told.ahead == len(set(mine) - ancestors(world.context, right.obj_id))
        assert told.behind == len(set(theirs) - ancestors(world.context, left.obj_id))
