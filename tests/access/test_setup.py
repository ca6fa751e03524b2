"""Set-up happens once, is finished by any caller, and leaves no store that cannot be entered."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from lochan.access.directory import Directory
from lochan.access.names import EVERYONE
from lochan.base.errors import Conflict, Unavailable, Unknown
from lochan.kv.store import Store
from lochan.testing.faults import (
    Fault,
    FaultKind,
    FaultyStore,
    ListedFaults,
    PlannedCall,
    SimulatedCrash,
)
from tests.access.bench import DirectoryBench, ids, policy, setup_row


def entered(one: Directory, token: str = "firsttoken") -> bool:
    """Whether the holder of a token is there with the policy of administrators."""
    row = one.find_token(token)
    if row is None:
        return False
    policies = one.policies_for(row.user, one.groups_of(row.user))
    return [(found.policy.id, found.via) for found in policies] == [("admin", "group:admins")]


def test_nothing_is_set_up_at_first():
    bench = DirectoryBench()
    assert bench.directory.find_setup() is None
    assert bench.entries() == []


def test_set_up_makes_the_first_user_three_groups_their_policies_and_a_token():
    bench = DirectoryBench()
    one = bench.directory
    assert one.set_up(setup_row())
    assert ids(one.list_users().items) == ["root"]
    assert ids(one.list_groups().items) == ["admins", "readers", "writers"]
    assert ids(one.list_policies().items) == ["admin", "reader", "writer"]
    assert [one.attached_to("group", name)[0].id for name in ("admins", "writers", "readers")] == [
        "admin",
        "writer",
        "reader",
    ]
    assert one.groups_of("root") == ("admins",)
    assert ids(one.list_tokens("root").items) == ["firsttoken"]
    assert one.attached_to("group", EVERYONE) == ()
    assert entered(one)
    assert entered(bench.again().directory)


def test_a_second_set_up_changes_nothing_and_its_token_never_counts():
    bench = DirectoryBench()
    assert bench.directory.set_up(setup_row())
    before = bench.entries()
    for other in (
        setup_row("mallory", "secondtoken"),
        setup_row("root", "secondtoken"),
        setup_row("mallory", "firsttoken"),
        msgspec.structs.replace(setup_row(), digest=b"another secret"),
    ):
        assert not bench.again().directory.set_up(other)
    assert bench.entries() == before
    assert bench.directory.find_token("secondtoken") is None


def test_the_same_request_again_has_the_same_answer():
    bench = DirectoryBench()
    assert bench.directory.set_up(setup_row())
    assert bench.directory.set_up(setup_row(created_us=99, incarnation=b"j" * 16))
    assert bench.again().directory.set_up(setup_row())
    assert entered(bench.directory)


def crashed_at(number: int, kind: FaultKind, store: Store) -> bool:
    """Sets up on a server that dies at a call; returns whether it did."""
    faulty = FaultyStore(store, ListedFaults({number: Fault(kind)}))
    try:
        DirectoryBench(faulty).directory.set_up(setup_row())
    except SimulatedCrash:
        return True
    return False


def crashes(then: Callable[[DirectoryBench], None]) -> int:
    """Crashes at every call, before and after it, and checks what is left each time."""
    count = 0
    for kind in (FaultKind.CRASH_BEFORE, FaultKind.CRASH_AFTER):
        number = 1
        while crashed_at(number, kind, (bench := DirectoryBench()).store):
            then(bench.again())
            number += 1
        count += number - 1
    return count


def test_a_crash_at_any_call_leaves_nothing_set_up_or_a_token_that_counts():
    outcomes = set()

    def look(bench: DirectoryBench) -> None:
        done = bench.directory.find_setup() is not None
        assert entered(bench.directory) == done
        outcomes.add(done)
        if not done:
            assert bench.directory.list_users().items == ()
            assert bench.directory.list_groups().items == ()

    assert crashes(look) > 60
    assert outcomes == {True, False}


def test_after_a_crash_at_any_call_the_same_request_succeeds():
    def repeat(bench: DirectoryBench) -> None:
        assert bench.directory.set_up(setup_row())
        assert entered(bench.directory)

    assert crashes(repeat) > 60


def test_after_a_crash_at_any_call_another_one_sets_up_or_is_refused():
    results = set()

    def other(bench: DirectoryBench) -> None:
        done = bench.directory.set_up(setup_row("oidc:other", "secondtoken"))
        assert entered(bench.directory, "secondtoken") == done
        assert entered(bench.directory) != done
        assert len(bench.directory.list_users().items) == 1
        results.add(done)

    assert crashes(other) > 60
    assert results == {True, False}


class FaultAtWrite:
    """A plan that does something to one write, by its number."""

    def __init__(self, number: int, kind: FaultKind) -> None:
        self._number = number
        self._fault = Fault(kind, 3 if kind is FaultKind.LATE else 0)
        self.writes = 0

    def decide(self, call: PlannedCall) -> Fault:
        if FaultKind.LOST_REPLY not in call.possible:
            return Fault(FaultKind.OK)
        self.writes += 1
        return self._fault if self.writes == self._number else Fault(FaultKind.OK)


@pytest.mark.parametrize("kind", [FaultKind.LOST_REPLY, FaultKind.LATE, FaultKind.NOT_APPLIED])
def test_a_write_that_fails_at_any_call_is_resolved_or_can_be_sent_again(kind):
    for number in range(1, 1_000):
        bench = DirectoryBench()
        plan = FaultAtWrite(number, kind)
        try:
            assert bench.again(FaultyStore(bench.store, plan)).directory.set_up(setup_row())
        except Unavailable:
            assert bench.directory.find_setup() is None, "nothing was changed"
        except Unknown:
            assert kind is FaultKind.NOT_APPLIED
        assert bench.directory.set_up(setup_row())
        assert entered(bench.directory)
        if plan.writes < number:
            break
    assert number > 25


def test_a_server_that_is_late_brings_nothing_back_that_was_deleted_since():
    """It has read that set-up is not finished; another server has finished it meanwhile."""
    bench = DirectoryBench()
    late = bench.again()
    begun = late.directory._rows.setup.begin(setup_row(), late.directory._retry())
    assert not begun.finished
    one = bench.directory
    assert one.find_setup() is not None
    one.delete_group("readers")
    one.delete_policy("reader")
    one.detach("group", "writers", "writer")
    one.delete_token("firsttoken")
    late.directory._finish_setup(begun)
    assert ids(one.list_groups().items) == ["admins", "writers"]
    assert ids(one.list_policies().items) == ["admin", "writer"]
    assert one.attached_to("group", "writers") == ()
    assert one.find_token("firsttoken") is None


def test_set_up_is_refused_where_a_group_of_that_name_was_made_by_other_means():
    bench = DirectoryBench()
    bench.directory.create_group("admins")
    bench.directory.put_policy(policy("everything"))
    with pytest.raises(Conflict, match="admins"):
        bench.directory.set_up(setup_row())
    assert bench.directory.find_setup() is None
    bench.directory.delete_group("admins")
    assert bench.directory.set_up(setup_row())


def test_the_proof_of_the_key_is_replaced():
    bench = DirectoryBench()
    bench.directory.replace_key_check(b"nothing is set up")
    assert bench.directory.find_setup() is None
    bench.directory.set_up(setup_row())
    bench.directory.replace_key_check(b"other")
    for one in (bench, bench.again()):
        found = one.directory.find_setup()
        assert found is not None
        assert (found.key_check, found.finished) == (b"other", True)
