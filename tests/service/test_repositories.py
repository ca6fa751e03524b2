"""Many repositories on one store: opened once, made once, listed in order."""

from __future__ import annotations

from functools import partial

import pytest

from lochan.access.policy import Action, Call, Resource
from lochan.base.errors import AlreadyExists, Denied, Invalid, NotFound, Unknown
from lochan.base.ids import ROOT_INSTANCE
from lochan.kernel.repository import create_repository
from lochan.kv.store import Kind, Partition, partition
from lochan.kv.store import Page as Rows
from lochan.model.specs import parse_spec
from lochan.service.repositories import Repositories
from lochan.stores.memory.store import MemoryStore
from lochan.testing.faults import FaultKind, FaultyStore, PlannedCall
from tests.kernel.workbench import OnCalls
from tests.service.workbench import CALL, Service


def fresh(store=None, **more) -> Repositories:
    """A server's repositories, none of them made by it."""
    ports = Service().ports
    return Repositories(MemoryStore() if store is None else store, ports, **more)


def test_no_repository_has_the_name_of_an_api():
    with pytest.raises(Invalid, match="addresses begin with it"):
        fresh().create(CALL, "api")


def test_a_repository_is_made_opened_and_kept():
    store = MemoryStore()
    repositories = fresh(store)
    made = repositories.create(CALL, "one", "trunk")
    assert made.name == "one"
    assert made.info.default_branch == "trunk"
    assert made.references.get(CALL, "trunk").kind == "BRANCH"
    assert repositories.open("one") is made
    assert fresh(store).open("one").info == made.info


def test_a_missing_repository_is_not_found_and_not_made():
    repositories = fresh()
    with pytest.raises(NotFound, match="'nobody'"):
        repositories.open("nobody")
    assert repositories.names(CALL).items == ()


def test_a_name_is_made_once():
    repositories = fresh()
    repositories.create(CALL, "one")
    with pytest.raises(AlreadyExists):
        repositories.create(CALL, "one")


@pytest.mark.parametrize("name", ["", "../x", "a b", "a//b", "1a", "x" * 300, "\ud800", "int/x"])
def test_a_name_that_may_not_be_is_refused(name):
    repositories = fresh()
    for call in (repositories.open, partial(repositories.open_or_create, CALL)):
        with pytest.raises(Invalid):
            call(name)
    with pytest.raises(Invalid):
        repositories.create(CALL, name)


def test_repositories_do_not_see_each_other():
    service = Service()
    other = service.repositories.create(CALL, "other")
    service.put("t")
    assert service.repository.contents.entries(CALL, parse_spec("main")).items
    assert other.contents.entries(CALL, parse_spec("main")).items == ()


def test_opening_makes_what_is_missing_and_opens_what_is_there():
    store = MemoryStore()
    first = fresh(store).open_or_create(CALL, "one")
    assert fresh(store).open_or_create(CALL, "one").context.instance == first.context.instance


def at_the_claim(store, meanwhile, fault: FaultKind = FaultKind.OK) -> FaultyStore:
    """Does something before a repository's name is claimed, and something to the first claim."""
    seen = []

    def choose(call: PlannedCall) -> FaultKind | None:
        if not _claims(call) or seen:
            return None
        seen.append(call)
        meanwhile()
        return fault

    return FaultyStore(store, OnCalls(choose))


def _claims(call: PlannedCall) -> bool:
    place = partition(ROOT_INSTANCE, Kind.REPOSITORIES)
    return call.operation == "set_if" and call.partition == place


def test_of_two_servers_that_start_at_once_one_makes_it_and_the_other_opens_it():
    store = MemoryStore()
    made = []
    raced = at_the_claim(store, lambda: made.append(fresh(store).open_or_create(CALL, "one")))
    opened = fresh(raced).open_or_create(CALL, "one")
    assert len(made) == 1
    assert opened.context.instance == made[0].context.instance


def test_a_claim_whose_reply_was_lost_is_found_to_be_ones_own():
    store = MemoryStore()
    happened = []
    lossy = at_the_claim(store, lambda: happened.append(1), FaultKind.LOST_REPLY)
    opened = fresh(lossy).open_or_create(CALL, "one")
    assert happened
    assert fresh(store).open("one").context.instance == opened.context.instance


def test_an_outcome_that_stays_unknown_is_looked_at():
    store = MemoryStore()

    def choose(call: PlannedCall) -> FaultKind | None:
        return FaultKind.LOST_REPLY if _claims(call) else None

    ports = Service().ports
    with pytest.raises(Unknown, match=r"unknown whether 'one' was created .*; open it"):
        create_repository(FaultyStore(MemoryStore(), OnCalls(choose)), ports, "one")
    opened = fresh(FaultyStore(store, OnCalls(choose))).open_or_create(CALL, "one")
    assert fresh(store).open("one").context.instance == opened.context.instance


def test_names_are_listed_in_pages():
    repositories = fresh()
    assert repositories.names(CALL).items == ()
    names = ["a", "b", "c/d", "default", "e"]
    for name in reversed(names):
        repositories.create(CALL, name)
    page = repositories.names(CALL)
    assert page.items == tuple(names)
    assert page.token is None
    found: list[str] = []
    token = None
    while True:
        page = repositories.names(CALL, 2, token)
        assert len(page.items) <= 2
        found += page.items
        token = page.token
        if token is None:
            break
    assert found == names


class ShortPages(MemoryStore):
    """Gives one row at a time, as a store may."""

    def scan(self, partition: Partition, start: bytes, end: bytes | None, limit: int) -> Rows:
        return super().scan(partition, start, end, min(limit, 1))


def test_short_pages_of_a_store_are_not_the_end():
    repositories = fresh(ShortPages())
    for name in ("a", "b", "c"):
        repositories.create(CALL, name)
    assert repositories.names(CALL).items == ("a", "b", "c")
    assert repositories.names(CALL, 2).token == "c"


def test_a_page_that_ends_with_the_last_name_has_no_token():
    repositories = fresh()
    repositories.create(CALL, "a")
    repositories.create(CALL, "b")
    assert repositories.names(CALL, 2).token is None
    assert repositories.names(CALL, 1).token == "b"


@pytest.mark.parametrize(("limit", "token"), [(0, None), (-1, None), (1, "\x00"), (1, "a b")])
def test_pages_that_cannot_be_are_refused(limit, token):
    with pytest.raises(Invalid):
        fresh().names(CALL, limit, token)


def test_as_many_stay_open_as_are_allowed():
    store = MemoryStore()
    repositories = fresh(store, open_max=4)
    names = [f"r{number}" for number in range(10)]
    for name in names:
        repositories.create(CALL, name)
    kept = {**repositories._old, **repositories._young}
    assert 2 <= len(kept) <= 4
    assert "r9" in kept
    assert repositories.open("r0").name == "r0"
    assert len({**repositories._old, **repositories._young}) <= 4


def test_what_is_used_stays_open():
    store = MemoryStore()
    repositories = fresh(store, open_max=4)
    used = repositories.create(CALL, "used")
    for number in range(20):
        repositories.create(CALL, f"r{number}")
        assert repositories.open("used") is used


def test_creating_and_listing_are_decided_by_the_policy():
    class Closed:
        def decide(self, call: Call, action: Action, resource: Resource) -> None:
            raise Denied(f"{call.principal} {action.value} {resource.repository}")

    repositories = fresh(policy=Closed())
    with pytest.raises(Denied, match="alice create_repository one"):
        repositories.create(CALL, "one")
    with pytest.raises(Denied, match="list_repositories"):
        repositories.names(CALL)
