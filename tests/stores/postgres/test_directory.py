"""The directory on PostgreSQL: two servers share users, groups, policies and credentials."""

from __future__ import annotations

from threading import Thread

import pytest

from lochan.base.errors import LochanError, NotFound
from lochan.base.limits.access import ACCESS_STALE_MS
from tests.access.bench import DirectoryBench, policy, setup_row, state
from tests.access.changes import CHANGES, small_office
from tests.stores.postgres.conftest import Open


def test_every_change_is_the_same_as_in_memory(opened: Open) -> None:
    for change in CHANGES:
        memory = small_office()
        CHANGES[change](memory)
        first, second = DirectoryBench(opened()), DirectoryBench(opened(), seed=2)
        _clear(first)
        small_office(first.store)
        CHANGES[change](first)
        assert state(second.directory) == state(memory.directory), change


def test_a_revoked_token_is_gone_for_both_servers_after_the_stated_time(opened: Open) -> None:
    first, second = DirectoryBench(opened()), DirectoryBench(opened(), seed=2)
    first.directory.create_user("alice")
    first.directory.add_token(first.token("alice"))
    before = second.directory.revision.read()
    assert second.directory.find_token("tok1") is not None
    first.directory.delete_token("tok1")
    second.clock.advance_us(ACCESS_STALE_MS * 1_000 + 1)
    assert second.directory.revision.read() != before
    for one in (first, second):
        assert one.directory.find_token("tok1") is None
        with pytest.raises(NotFound):
            one.directory.delete_token("tok1")


def test_two_servers_that_set_up_at_once_agree_on_one_token(opened: Open) -> None:
    benches = [DirectoryBench(opened(), seed=number) for number in range(2)]
    answers: dict[int, bool] = {}

    def set_up(number: int) -> None:
        row = setup_row(f"root{number}", f"token{number}", incarnation=bytes([number]) * 16)
        answers[number] = benches[number].directory.set_up(row)

    threads = [Thread(target=set_up, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers.values()) == [False, True]
    for bench in benches:
        found = {number: bench.directory.find_token(f"token{number}") for number in range(2)}
        assert {number: row is not None for number, row in found.items()} == answers


def test_members_that_join_while_their_group_is_deleted_are_in_none_or_in_the_new_one(
    opened: Open,
) -> None:
    first, second = DirectoryBench(opened()), DirectoryBench(opened(), seed=2)
    first.directory.put_policy(policy("p"))
    users = [f"u{number}" for number in range(20)]
    for user in users:
        first.directory.create_user(user)
    first.directory.create_group("g")
    failures: list[LochanError] = []

    def join() -> None:
        for user in users:
            try:
                second.directory.add_member(user, "g")
            except NotFound:
                continue
            except LochanError as error:
                failures.append(error)

    thread = Thread(target=join)
    thread.start()
    for _ in range(4):
        first.directory.delete_group("g")
        first.directory.create_group("g")
    thread.join()
    assert not failures
    first.directory.delete_group("g")
    assert first.keys("members/", "attached/") == []
    first.directory.create_group("g")
    assert first.directory.list_members("g").items == ()


def _clear(bench: DirectoryBench) -> None:
    """Removes everything about access."""
    for entry in bench.entries():
        bench.store.delete(bench.partition, entry.key)
