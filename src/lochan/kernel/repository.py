"""Creating, opening and deleting a repository.

Creation writes, in this order, so that a crash leaves nothing visible:

1. the description and empty settings, under a new random instance id, and a row in the list of
   instances that contains the name to be;
2. the row of `int/refs`, the index of names, pointing at the empty commit;
3. its default branch, like any other;
4. the repository's own row in the list of repositories, if the name is still free: now it exists.

What a crash before 4 leaves is unreachable. The list of instances is for the check of a store only:
it finds a repository whose row in the list of repositories is lost.

Deletion writes, in this order:

1. a row in the list of deleted repositories, which counts only if step 2 was done;
2. removes the row in the list of repositories, on condition that it is that of the same instance:
   now the name is free;
3. removes the row in the list of instances; a crash before that leaves an instance that the check
   of a store reports.

What else the repository has in the store is reached by the row of step 1 only, until it is erased
(`transfer/erasure.py`).
"""

from __future__ import annotations

from itertools import islice
from typing import Final

import msgspec

from lochan.base.errors import AlreadyExists, Corrupt, NotFound, Unknown
from lochan.base.ids import EMPTY_ID, INSTANCE_ID_BYTES, ROOT_INSTANCE, InstanceId
from lochan.base.names import REFS_NAME, RefName, ref_name
from lochan.base.ports import Clock, Random, Waiting
from lochan.codec.forms import encode_row
from lochan.codec.rows import (
    DESCRIPTION_FORM,
    REPOSITORY_FORM,
    DeletedRow,
    Description,
    ReferenceRow,
    RepositoryRow,
    SettingsRow,
)
from lochan.kernel.context import RepositoryContext, Tuning
from lochan.kernel.provenance import UNNAMED, Initiator
from lochan.kernel.references import NewReferenceRow, ReferenceIndex
from lochan.kernel.settled import SettledMove
from lochan.kv.store import Entry, Kind, Store, Won, partition
from lochan.persist.rows import Doubt, RowTable, add_row, scan_all

REPOSITORIES_PLACE: Final = partition(ROOT_INSTANCE, Kind.REPOSITORIES)
INSTANCES_PLACE: Final = partition(ROOT_INSTANCE, Kind.META, b"instances")
DELETED_PLACE: Final = partition(ROOT_INSTANCE, Kind.META, b"deleted")
DESCRIPTION_KEY: Final = b"description"
SETTINGS_KEY: Final = b"settings"
_INDEX_CREATED: Final = Doubt("the index of references was created", "create it again")
_SEED_BYTES = 16
_KEY_BYTES = 32


class Ports(msgspec.Struct, frozen=True):
    """Clock, randomness and waiting, which are passed in from outside."""

    clock: Clock
    random: Random
    waiting: Waiting


def create_repository(
    store: Store,
    ports: Ports,
    name: str,
    default_branch: str = "main",
    tuning: Tuning | None = None,
    operation: bytes = b"",
    who: Initiator = UNNAMED,
    storage: str = "",
) -> RepositoryContext:
    """Creates a repository with an empty default branch; stores the operation id, if given.

    `storage` is the URL of the place for the bytes of its files.
    """
    ref_name(name)
    branch = ref_name(default_branch)
    instance = InstanceId(ports.random.random_bytes(16))
    description = Description(
        1,
        name,
        branch,
        ports.clock.now_us(),
        ports.random.random_bytes(_SEED_BYTES),
        ports.random.random_bytes(_KEY_BYTES),
        operation,
        storage,
    )
    place = partition(instance, Kind.META)
    listed = RepositoryRow(1, name, instance)
    store.put_many(
        [
            (INSTANCES_PLACE, instance, encode_row(listed)),
            (place, DESCRIPTION_KEY, encode_row(description)),
            (place, SETTINGS_KEY, encode_row(SettingsRow(1, instance))),
        ]
    )
    written = ports.random.random_bytes(16)
    row = ReferenceRow(1, REFS_NAME, "INTERNAL", EMPTY_ID, 1, 0, written, description.created_us)
    context = join(store, instance, description, ports, tuning)
    # Changes are reported from the moment on at which the repository exists.
    observer, context.observer = context.observer, None
    add_row(context.references, row, context.retry(), _INDEX_CREATED)
    default = NewReferenceRow(RefName(branch), "BRANCH", EMPTY_ID)
    (made,) = ReferenceIndex(context).create_many([default], who)
    repositories = RowTable(
        store, REPOSITORIES_PLACE, REPOSITORY_FORM, lambda entry: entry.name.encode()
    )
    doubt = Doubt(f"{name!r} was created", "open it")
    if not add_row(repositories, listed, context.retry(), doubt):
        raise AlreadyExists(f"there is a repository {name!r} already")
    context.observer = observer
    if observer is not None:
        observer.settle(context, SettledMove(made, made.moves[0]))
    return context


def open_repository(
    store: Store, ports: Ports, name: str, tuning: Tuning | None = None
) -> RepositoryContext:
    """Opens a repository; NotFound if there is none of that name."""
    listed = store.get(REPOSITORIES_PLACE, name.encode())
    if listed is None:
        raise NotFound(f"there is no repository {name!r}")
    instance = read_instance(listed)
    described = store.get(partition(instance, Kind.META), DESCRIPTION_KEY)
    if described is None:
        raise Corrupt(f"the repository {name!r} has lost its description")
    description = read_description(described, name)
    return join(store, instance, description, ports, tuning)


def delete_repository(context: RepositoryContext) -> None:
    """Deletes a repository; NotFound if its name is gone, or is that of another one by now."""
    store, name, retry = context.store, context.description.name, context.retry()
    is_known = True
    while True:
        listed = store.get(REPOSITORIES_PLACE, name.encode())
        if listed is None or read_instance(listed) != context.instance:
            if is_known:
                raise NotFound(f"there is no repository {name!r}")
            # An earlier try has removed it: its reply was lost.
            break
        now_us = context.clock.now_us()
        deleted = encode_row(DeletedRow(1, name, context.instance, now_us))
        store.put_many([(DELETED_PLACE, context.instance, deleted)])
        try:
            outcome = store.delete_if(REPOSITORIES_PLACE, name.encode(), listed.stamp)
        except Unknown:
            is_known = False
        else:
            if isinstance(outcome, Won):
                break
        retry.again()
    store.delete(INSTANCES_PLACE, context.instance)


def read_instance(listed: Entry) -> InstanceId:
    """Reads a row of the list of repositories; Corrupt unless it is that of its name."""
    row = REPOSITORY_FORM.decode(listed.value)
    if row.name.encode() != listed.key or len(row.instance) != INSTANCE_ID_BYTES:
        raise Corrupt(f"the row of the repository {listed.key!r} is that of {row.name!r}")
    return InstanceId(row.instance)


def read_description(described: Entry, name: str) -> Description:
    """Reads a description; Corrupt unless it is that of the repository."""
    description = DESCRIPTION_FORM.decode(described.value)
    if description.name != name:
        raise Corrupt(f"the repository {name!r} has the description of {description.name!r}")
    return description


def list_repositories(store: Store, start: str, limit: int) -> list[tuple[str, Entry]]:
    """Returns repositories in the order of their names, from `start` on; fewer only at the end.

    The order is that of bytes. Each comes with its row, which `read_instance` decodes.
    """
    found = scan_all(store, REPOSITORIES_PLACE, start.encode(), None, limit)
    return [(entry.key.decode(), entry) for entry in islice(found, limit)]


def join(
    store: Store,
    instance: InstanceId,
    description: Description,
    ports: Ports,
    tuning: Tuning | None = None,
) -> RepositoryContext:
    """Builds the context of a repository; reads and writes nothing."""
    return RepositoryContext(
        store, instance, description, ports.clock, ports.random, ports.waiting, tuning=tuning
    )
