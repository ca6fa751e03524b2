"""Checking a store: the mark of its format, the list of repositories, and repositories in turn.

A repository is listed twice, by name and by instance. So one whose row in the list is lost is still
found; a creation that stopped before its last step differs from it by never having been used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from lochan.base.errors import Corrupt, LochanError, NewerFormat, NotFound
from lochan.base.ids import EMPTY_ID, InstanceId
from lochan.base.names import REFS_NAME, RefName
from lochan.codec.rows import DELETED_FORM, REPOSITORY_FORM, RepositoryRow
from lochan.kernel.check import RepositoryCheck
from lochan.kernel.check_findings import (
    Findings,
    Problem,
    Report,
    ReportProgress,
    RowKind,
    Unjudged,
)
from lochan.kernel.check_trees import Decode
from lochan.kernel.context import RepositoryContext
from lochan.kernel.repository import (
    DELETED_PLACE,
    DESCRIPTION_KEY,
    INSTANCES_PLACE,
    REPOSITORIES_PLACE,
    Ports,
    join,
    read_description,
    read_instance,
)
from lochan.kv.format import FORMAT_KEY, FORMAT_PARTITION, check_mark
from lochan.kv.store import Entry, Kind, Store, partition
from lochan.persist.references import References
from lochan.persist.rows import scan_all

CheckRows = Callable[[Store, Findings], Sequence[Unjudged]]
"""Checks rows of the store that a layer above writes; returns what it cannot judge."""


class CheckOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What to check: some repositories or all, contents if they can be read, all history or not.

    `others` are checks of rows that belong to no repository.
    """

    names: Sequence[str] | None = None
    decode: Decode | None = None
    history: bool = False
    unreferenced: bool = False
    others: Sequence[CheckRows] = ()


def check_store(
    store: Store, ports: Ports, options: CheckOptions, report: ReportProgress | None = None
) -> Report:
    """Checks a store without writing to it; NotFound if a repository that was named is not there.

    The store may be served meanwhile, where its database allows a second process.
    """
    findings = Findings(report)
    _check_format(store, findings)
    listed = _listed(store, options.names)
    unjudged: list[Unjudged] = []
    for entry in listed:
        name = findings.repository = entry.key.decode("utf-8", "replace")
        findings.count("repositories")
        context = _open(store, ports, entry, findings)
        if context is not None:
            check = RepositoryCheck(
                findings,
                context,
                options.decode,
                history=options.history,
                unreferenced=options.unreferenced,
            )
            unjudged += [msgspec.structs.replace(one, repository=name) for one in check.run()]
    findings.repository = ""
    deleted = _check_deleted(store, findings)
    _check_instances(store, findings, options.names, deleted)
    if deleted and options.names is None:
        why = "nothing refers to their rows; `lochan store erase` erases them"
        unjudged.append(Unjudged("deleted repositories", len(deleted), why))
    for check_rows in options.others:
        unjudged += check_rows(store, findings)
    return findings.report(tuple(unjudged))


def _check_format(store: Store, findings: Findings) -> None:
    entry = store.get(FORMAT_PARTITION, FORMAT_KEY)
    if entry is not None:
        findings.attempt(RowKind.FORMAT, "format", check_mark, entry)
    elif not _is_empty(store):
        what = "the mark of the storage format is missing"
        findings.add(RowKind.FORMAT, "format", Problem.MISSING, what)


def _is_empty(store: Store) -> bool:
    """Returns whether no repository was ever created here; then a mark is not required."""
    places = (REPOSITORIES_PLACE, INSTANCES_PLACE)
    return not any(next(scan_all(store, place, limit=1), None) for place in places)


def _listed(store: Store, names: Sequence[str] | None) -> list[Entry]:
    if names is None:
        return list(scan_all(store, REPOSITORIES_PLACE))
    found = [(name, store.get(REPOSITORIES_PLACE, name.encode())) for name in names]
    for name, entry in found:
        if entry is None and not _was_made(store, name):
            raise NotFound(f"there is no repository {name!r}; `lochan check --all` checks all")
    return [entry for _, entry in found if entry is not None]


def _was_made(store: Store, name: str) -> bool:
    """Returns whether an instance was ever created for a name; its state is reported later."""
    for entry in scan_all(store, INSTANCES_PLACE):
        try:
            if REPOSITORY_FORM.decode(entry.value).name == name:
                return True
        except (Corrupt, NewerFormat):
            continue
    return False


def _open(
    store: Store, ports: Ports, listed: Entry, findings: Findings
) -> RepositoryContext | None:
    """Opens a repository; what keeps it from being opened is a finding."""
    name = listed.key.decode("utf-8", "replace")
    instance = findings.attempt(
        RowKind.REPOSITORY, repr(name), read_instance, listed, referred_by="list of repositories"
    )
    if instance is None:
        return None
    by = f"repository {name!r}"
    if store.get(INSTANCES_PLACE, instance) is None:
        what = "the repository is missing in the list of instances"
        findings.add(RowKind.REPOSITORY, instance.hex(), Problem.MISSING, what, by)
    described = store.get(partition(instance, Kind.META), DESCRIPTION_KEY)
    if described is None:
        what = "the repository has lost its description"
        findings.add(RowKind.DESCRIPTION, repr(name), Problem.MISSING, what, by)
        return None
    description = findings.attempt(
        RowKind.DESCRIPTION, repr(name), read_description, described, name, referred_by=by
    )
    return None if description is None else join(store, instance, description, ports)


def _check_deleted(store: Store, findings: Findings) -> set[bytes]:
    """Checks the list of deleted repositories; returns those that are in no other list by name."""
    deleted: set[bytes] = set()
    for entry in scan_all(store, DELETED_PLACE):
        try:
            row = DELETED_FORM.decode(entry.value)
            if row.instance != entry.key:
                raise Corrupt("the row is that of another instance")
            listed = store.get(REPOSITORIES_PLACE, row.name.encode())
            if listed is None or read_instance(listed) != row.instance:
                deleted.add(entry.key)
        except (Corrupt, NewerFormat) as error:
            name = "list of deleted repositories"
            findings.add_error(RowKind.REPOSITORY, entry.key.hex(), error, name)
    return deleted


def _check_instances(
    store: Store, findings: Findings, names: Sequence[str] | None, deleted: set[bytes]
) -> None:
    """Checks the list of instances; finds repositories that are not in the list of repositories."""
    for entry in scan_all(store, INSTANCES_PLACE):
        if entry.key in deleted:
            # Its deletion stopped before the last step, which only clears this list.
            continue
        try:
            row = REPOSITORY_FORM.decode(entry.value)
            if row.instance != entry.key:
                raise Corrupt("the row is that of another instance")
        except (Corrupt, NewerFormat) as error:
            findings.add_error(RowKind.REPOSITORY, entry.key.hex(), error, "list of instances")
            continue
        if names is not None and row.name not in names:
            continue
        listed = store.get(REPOSITORIES_PLACE, row.name.encode())
        try:
            instance = None if listed is None else read_instance(listed)
        except (Corrupt, NewerFormat):
            # Reported where the list itself is read.
            continue
        if instance != row.instance:
            _add_unlisted(store, findings, row, taken=listed is not None)


def _add_unlisted(store: Store, findings: Findings, row: RepositoryRow, *, taken: bool) -> None:
    """Reports a repository that cannot be opened, unless it is unused and its name is another's."""
    used = _was_used(store, InstanceId(row.instance))
    if taken and not used:
        # Two callers created it at the same time, and the other one was first.
        return
    what = "it was used and is not in the list of repositories"
    problem = Problem.MISSING
    if not used:
        what = "it is not in the list of repositories: its creation stopped half way"
        problem = Problem.UNFINISHED
    findings.add(RowKind.REPOSITORY, repr(row.name), problem, what, "list of instances")


def _was_used(store: Store, instance: InstanceId) -> bool:
    """Returns whether a repository is more than what its creation leaves."""
    references = References(store, instance)
    try:
        index = references.fetch(REFS_NAME)
        rows = list(scan_all(store, partition(instance, Kind.REFERENCES)))
        others = [entry.key.decode("utf-8", "replace") for entry in rows]
        heads = references.fetch_many([RefName(name) for name in others if name != REFS_NAME])
    except LochanError:
        # Something is there, even if it cannot be read.
        return True
    moved = any(one is not None and one.row.pointer != EMPTY_ID for one in heads)
    return index is not None and (len(heads) > 1 or moved)
