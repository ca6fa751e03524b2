"""A miniature of the commit protocol: commits that name their parent, and a head moved by CAS.

The policies after an unknown outcome are those of the studies: only one of them is right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from lochan.base.errors import Unavailable, Unknown
from lochan.kv.store import ABSENT, Adds, Expected, Item, Outcome, Partition, SetIf, Store, Won
from lochan.testing.sim import Faults, History, Scenario, Server, World

COMMITS = Partition(b"commits")
HEADS = Partition(b"heads")
HEAD = b"main"

Policy = Callable[["Publish"], bool]
"""Returns whether the write that ended in Unknown has won; False means: try again."""


class Publish:
    """One conditional write of a commit and the head, which can be sent more than once."""

    def __init__(self, store: Store, commit: bytes, parent: bytes, expected: Expected) -> None:
        self.store = store
        self.commit = commit
        self._objects: list[Item] = [(COMMITS, commit, parent)]
        self._row = SetIf(HEADS, HEAD, commit, expected)

    def send(self) -> Outcome:
        return self.store.apply(Adds(self._objects, 1), self._row)


def commit(server: Server, payload: str, resolve: Policy) -> str:
    """Commits the payload once: each attempt is a commit of its own, named payload/attempt."""
    store = server.store
    for attempt in range(20):
        try:
            head = store.get(HEADS, HEAD)
        except Unavailable:
            continue
        parent = b"" if head is None else head.value
        mine = f"{payload}/{attempt}".encode()
        publish = Publish(store, mine, parent, ABSENT if head is None else head.stamp)
        try:
            if isinstance(publish.send(), Won):
                return payload
        except Unavailable:
            continue
        except Unknown:
            if resolve(publish):
                return payload
    raise AssertionError("twenty attempts are enough for every actor")


def retry_as_lost(_: Publish) -> bool:
    return False


def look_at_the_head(publish: Publish) -> bool:
    head = patient(lambda: publish.store.get(HEADS, HEAD))
    return head is not None and head.value == publish.commit


def walk_only(publish: Publish) -> bool:
    head = patient(lambda: publish.store.get(HEADS, HEAD))
    at = b"" if head is None else head.value
    while at and at != publish.commit:
        here = at
        entry = patient(lambda: publish.store.get(COMMITS, here))  # noqa: B023
        assert entry is not None
        at = entry.value
    return at == publish.commit


def resend_then_walk(publish: Publish) -> bool:
    while True:
        try:
            if isinstance(publish.send(), Won):
                return True
            return walk_only(publish)
        except (Unknown, Unavailable):
            continue


def patient(read: Callable):
    while True:
        try:
            return read()
        except Unavailable:
            continue


def chain(store: Store) -> list[str]:
    """Returns the payloads of the chain, newest first."""
    found = []
    entry = store.get(HEADS, HEAD)
    while entry is not None and entry.value:
        found.append(entry.value.decode().partition("/")[0])
        entry = store.get(COMMITS, entry.value)
        assert entry is not None, "a commit of the chain is missing"
    return found


def no_commit_twice(world: World, history: History) -> None:
    twice = [payload for payload, count in Counter(chain(world.store)).items() if count > 1]
    assert not twice, f"applied more than once: {twice}"


def every_acknowledged_commit_is_there(world: World, history: History) -> None:
    missing = {event.result for event in history.acknowledged("commit")} - set(chain(world.store))
    assert not missing, f"acknowledged and lost: {missing}"


def order_of_the_chain_is_order_in_time(world: World, history: History) -> None:
    newest_first = chain(world.store)
    done = [event for event in history.acknowledged("commit") if event.result in newest_first]
    for one in done:
        for other in done:
            if one.before(other):
                assert newest_first.index(one.result) > newest_first.index(other.result)


def committing(
    policy: Policy,
    *,
    committers: int = 3,
    each: int = 1,
    faults: Faults,
    atomic_apply: bool | None = None,
) -> Scenario:
    def actor(number: int) -> Callable[[Server], None]:
        def act(server: Server) -> None:
            for turn in range(each):
                server.do("commit", commit, server, f"{number}-{turn}", policy)

        return act

    return Scenario(
        name=f"{committers} committers, {policy.__name__}",
        servers={f"s{number}": [actor(number)] for number in range(committers)},
        checks={
            "no commit twice": no_commit_twice,
            "every acknowledged commit is there": every_acknowledged_commit_is_there,
            "order of the chain is order in time": order_of_the_chain_is_order_in_time,
        },
        faults=faults,
        atomic_apply=atomic_apply,
    )
