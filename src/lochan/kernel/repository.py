"""Creating and opening a repository.

Creation writes, in this order, so that a crash leaves nothing visible:

1. the description, under a fresh instance id that nobody knows yet, and beside it the operation of
   whoever creates it with an idempotency key;
2. the row of `int/refs`, the index of names, pointing at the empty commit;
3. its default branch, like any other;
4. the repository's own row in the list of repositories, if the name is still free: now it exists.

What a crash before 4 leaves is unreachable.
"""

from __future__ import annotations

import msgspec

from lochan.base.errors import AlreadyExists, Corrupt, NotFound, Unavailable, Unknown
from lochan.base.ids import EMPTY_ID, ROOT_INSTANCE, InstanceId
from lochan.base.names import REFS_NAME, RefName, ref_name
from lochan.base.ports import Chance, Clock, Waiting
from lochan.codec.rows import Description, ReferenceRow, decode_description, encode_row
from lochan.kernel.parts import DEFAULT_TUNING, Parts, Tuning
from lochan.kernel.references import Names, NewReference
from lochan.kv.store import ABSENT, Kind, Store, Won, partition
from lochan.persist.references import References

_PLACE = partition(ROOT_INSTANCE, Kind.REPOSITORIES)
_DESCRIPTION = b"description"
_OPERATION = b"operation"
_SEED_BYTES = 16
_KEY_BYTES = 32


class Ports(msgspec.Struct, frozen=True):
    """The doors to the world that a repository needs."""

    clock: Clock
    chance: Chance
    waiting: Waiting


def create_repository(
    store: Store,
    ports: Ports,
    name: str,
    default_branch: str = "main",
    tuning: Tuning = DEFAULT_TUNING,
    operation: bytes = b"",
) -> Parts:
    """Creates a repository with an empty default branch; remembers an operation that is given."""
    ref_name(name)
    branch = ref_name(default_branch)
    instance = InstanceId(ports.chance.random_bytes(16))
    description = Description(
        1,
        name,
        branch,
        ports.clock.now_us(),
        ports.chance.random_bytes(_SEED_BYTES),
        ports.chance.random_bytes(_KEY_BYTES),
    )
    place = partition(instance, Kind.META)
    rows = [(place, _DESCRIPTION, encode_row(description))]
    store.put_many([*rows, (place, _OPERATION, operation)] if operation else rows)
    written = ports.chance.random_bytes(16)
    row = ReferenceRow(1, REFS_NAME, "INTERNAL", EMPTY_ID, 1, 0, written, description.created_us)
    References(store, instance).update(row, None)
    parts = _parts(store, instance, description, ports, tuning)
    Names(parts).create_many([NewReference(RefName(branch), "BRANCH", EMPTY_ID)], who="")
    _claim_name(store, name, instance)
    return parts


def open_repository(
    store: Store, ports: Ports, name: str, tuning: Tuning = DEFAULT_TUNING
) -> Parts:
    """Opens a repository; NotFound if there is none of that name."""
    listed = store.get(_PLACE, name.encode())
    if listed is None:
        raise NotFound(f"there is no repository {name!r}")
    instance = InstanceId(listed.value)
    described = store.get(partition(instance, Kind.META), _DESCRIPTION)
    if described is None:
        raise Corrupt(f"the repository {name!r} has lost its description")
    return _parts(store, instance, decode_description(described.value), ports, tuning)


def was_created_by(parts: Parts, operation: bytes) -> bool:
    """Tells whether a repository was created by an operation that was given then."""
    found = parts.store.get(partition(parts.instance, Kind.META), _OPERATION)
    return found is not None and found.value == operation


def list_repositories(store: Store, start: str, limit: int) -> list[str]:
    """Returns names of repositories in order, from `start` on; fewer only where there are no more.

    The order is that of bytes.
    """
    return [name for name, _ in list_instances(store, start, limit)]


def list_instances(store: Store, start: str, limit: int) -> list[tuple[str, InstanceId]]:
    """Returns the same with the instance that each name stands for."""
    found: list[tuple[str, InstanceId]] = []
    at: bytes | None = start.encode()
    while at is not None and len(found) < limit:
        page = store.scan(_PLACE, at, None, limit - len(found))
        found += [(entry.key.decode(), InstanceId(entry.value)) for entry in page.entries]
        at = page.next_start
    return found


def _claim_name(store: Store, name: str, instance: InstanceId) -> None:
    """Step 4; a lost reply is resolved by sending again and looking."""
    try:
        outcome = store.set_if(_PLACE, name.encode(), instance, ABSENT)
    except Unknown:
        try:
            outcome = store.set_if(_PLACE, name.encode(), instance, ABSENT)
        except Unavailable as error:
            text = f"it is unknown whether {name!r} was created; open it"
            raise Unknown(text, public=text) from error
    if isinstance(outcome, Won):
        return
    current = outcome.current
    if current is None:
        current = store.get(_PLACE, name.encode()) or ABSENT
    if current is ABSENT or current.value != instance:
        raise AlreadyExists(f"there is a repository {name!r} already")


def _parts(
    store: Store, instance: InstanceId, description: Description, ports: Ports, tuning: Tuning
) -> Parts:
    return Parts(
        store, instance, description, ports.clock, ports.chance, ports.waiting, tuning=tuning
    )
