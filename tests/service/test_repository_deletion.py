"""A repository is deleted once, its name is free afterwards, and other servers notice it."""

from __future__ import annotations

import pytest

from lochan.access.policy import Call
from lochan.base.errors import NotFound, Unavailable, Unknown
from lochan.kernel.check_findings import RowKind
from lochan.kernel.check_store import CheckOptions, check_store
from lochan.kernel.repository import Ports
from lochan.service.repositories import Repositories
from lochan.stores.memory.store import MemoryStore
from lochan.testing.ports import ManualClock, RecordedWaiting, SeededRandom

CALL = Call()


def ports():
    clock = ManualClock()
    return Ports(clock, SeededRandom(1), RecordedWaiting(clock))


class LossyStore(MemoryStore):
    """Loses the reply to the first conditional deletion, or the deletion itself."""

    def __init__(self, error, *, is_done):
        super().__init__()
        self._error = error
        self._is_done = is_done

    def delete_if(self, partition, key, expected):
        error, self._error = self._error, None
        if error is None:
            return super().delete_if(partition, key, expected)
        if self._is_done:
            super().delete_if(partition, key, expected)
        raise error


def test_a_deleted_repository_is_not_found_and_can_be_created_again():
    repositories = Repositories(MemoryStore(), ports())
    first = repositories.create(CALL, "one")
    repositories.create(CALL, "other")
    repositories.delete(CALL, "one")
    for use in (repositories.open, repositories.look_into):
        with pytest.raises(NotFound):
            use("one")
    with pytest.raises(NotFound):
        repositories.delete(CALL, "one")
    assert repositories.names(CALL).items == ("other",)
    again = repositories.create(CALL, "one")
    assert again.context.instance != first.context.instance
    report = check_store(repositories.store, ports(), CheckOptions())
    # A store that was opened by its class alone has no mark of its format.
    assert [one.kind for one in report.findings] == [RowKind.FORMAT]


@pytest.mark.parametrize("is_done", [False, True])
def test_a_deletion_whose_reply_is_lost_is_done_once(is_done):
    repositories = Repositories(LossyStore(Unknown("lost"), is_done=is_done), ports())
    repositories.create(CALL, "one")
    repositories.delete(CALL, "one")
    with pytest.raises(NotFound):
        repositories.open("one")


def test_a_deletion_that_had_no_effect_leaves_the_repository():
    repositories = Repositories(LossyStore(Unavailable("away"), is_done=False), ports())
    repositories.create(CALL, "one")
    with pytest.raises(Unavailable):
        repositories.delete(CALL, "one")
    assert repositories.open("one").name == "one"
    repositories.delete(CALL, "one")


def test_another_server_closes_what_was_deleted_or_replaced():
    store = MemoryStore()
    here, there = Repositories(store, ports()), Repositories(store, ports())
    for name in ("gone", "replaced", "kept"):
        here.create(CALL, name)
        there.open(name)
    here.delete(CALL, "gone")
    here.delete(CALL, "replaced")
    new = here.create(CALL, "replaced")
    kept = there.open("kept")
    there.drop_deleted()
    with pytest.raises(NotFound):
        there.open("gone")
    assert there.open("replaced").context.instance == new.context.instance
    assert there.open("kept") is kept
