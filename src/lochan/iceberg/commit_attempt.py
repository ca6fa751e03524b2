"""Committing changes of the catalog, directly or collected in a block.

The steps of one attempt, and what a crash after each leaves:

1. Read what the change touches, at the head of the branch. (Nothing.)
2. Check requirements, build new metadata. (Nothing.)
3. Write each metadata file at a place of its own. (Files that nobody refers to.)
4. Commit all keys at once, expecting them as they were read in 1. (Everything is done.)

A certain conflict in 4 removes the files of 3, as nobody can have heard of them. Where the outcome
is unknown, or anything else went wrong in 4, they stay: they may be what the branch refers to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

import msgspec
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NoSuchNamespaceError,
)

from lochan.base.errors import (
    Conflict,
    HeadConflict,
    Invalid,
    KeysConflict,
    ReferenceNotFound,
    Unknown,
)
from lochan.base.pipeline_limits import (
    ICEBERG_COMMIT_ATTEMPTS_MAX,
)
from lochan.iceberg.files import Metadata, MetadataFiles
from lochan.iceberg.names import parents_of, text_of
from lochan.iceberg.state import Changes, Overlay, Pinned, Repository, Staged, State, check_branch
from lochan.model.commits import (
    CommitMeta,
    Committed,
    ContentKey,
    Delete,
    Operation,
    Put,
    RecordJob,
)
from lochan.model.contents import Content, Namespace
from lochan.model.results import ContentConflict

_Result = TypeVar("_Result")


class Change(msgspec.Struct, Generic[_Result], frozen=True):
    """What a method wants to be committed, in words and by key, and what it returns then."""

    message: str
    changes: Changes
    result: _Result


Plan = Callable[[State], Change[_Result]]
"""Looks at a state and says what to change; called again on a newer one after a conflict."""


class Work(Protocol):
    """Where the catalog's methods look, and what they hand their changes to."""

    ref: str

    def state(self) -> State:
        """Returns what there is to see now."""
        ...

    def change(self, plan: Plan[_Result]) -> _Result:
        """Makes the change that is planned."""
        ...


class Direct:
    """Commits every change at once."""

    def __init__(
        self, repository: Repository, files: MetadataFiles, ref: str, said: CommitMeta
    ) -> None:
        self._repository = repository
        self._files = files
        self.ref = ref
        self._said = said

    def state(self) -> State:
        """Returns what the reference holds now."""
        return Pinned(self._repository, self._files, self.ref)

    def change(self, plan: Plan[_Result]) -> _Result:
        """Commits what is planned; plans again, a few times, if somebody else was faster."""
        attempts_left = ICEBERG_COMMIT_ATTEMPTS_MAX
        with as_pyiceberg_says():
            while True:
                state = Pinned(self._repository, self._files, self.ref)
                planned = plan(state)
                wanted = with_parents(state, planned.changes)
                try:
                    swing = CommitAttempt(self._repository, self._files, self.ref, state)
                    meta = msgspec.structs.replace(self._said, message=planned.message)
                    swing.commit(meta, wanted)
                except Conflict:
                    attempts_left -= 1
                    if not attempts_left:
                        raise
                else:
                    return planned.result


class Collected:
    """Collects changes over the state of one commit; commits them together."""

    def __init__(
        self, repository: Repository, files: MetadataFiles, ref: str, expected: str | None
    ) -> None:
        self._repository = repository
        self._files = files
        head = Pinned(repository, files, ref)
        self.ref = check_branch(ref, head.pin())
        base = Pinned(repository, files, f"{self.ref}@{expected}") if expected else head
        # Whatever is read in the block is read at one commit, the one that it expects at its end.
        self.expected = base.pin().hash
        self._overlay: Overlay | None = Overlay(base)
        self._jobs: list[RecordJob] = []
        self.messages: list[str] = []

    def state(self) -> State:
        """Returns what the branch held, with the changes; after the end what it holds now."""
        return self._overlay or Pinned(self._repository, self._files, self.ref)

    def change(self, plan: Plan[_Result]) -> _Result:
        """Adds what is planned to the changes."""
        overlay = self._ongoing()
        with as_pyiceberg_says():
            planned = plan(overlay)
        overlay.stage(with_parents(overlay, planned.changes))
        self.messages.append(planned.message)
        return planned.result

    def record_job(self, job: RecordJob) -> None:
        """Adds the record of a job, which is committed with the changes."""
        self._ongoing()
        self._jobs.append(job)

    def commit(self, meta: CommitMeta) -> Committed | None:
        """Commits all changes, None if there are none; the block has ended, whatever happens."""
        overlay, self._overlay = self._ongoing(), None
        with as_pyiceberg_says():
            swing = CommitAttempt(self._repository, self._files, self.ref, overlay.base)
            return swing.commit(meta, overlay.changes(), self._jobs)

    def discard(self) -> None:
        """Ends the block without a trace."""
        self._overlay = None

    def _ongoing(self) -> Overlay:
        if self._overlay is None:
            raise Invalid("the block has ended; load the table from the catalog again")
        return self._overlay


class CommitAttempt:
    """One attempt to commit changes that were planned on a state."""

    def __init__(
        self, repository: Repository, files: MetadataFiles, ref: str, state: Pinned
    ) -> None:
        self._repository = repository
        self._files = files
        self._ref = ref
        self._state = state

    def commit(
        self, meta: CommitMeta, changes: Changes, jobs: Sequence[RecordJob] = ()
    ) -> Committed | None:
        """Writes metadata and commits; returns None if there was nothing to do."""
        operations = [*operations_of(self._state.find(changes), changes), *jobs]
        if not operations:
            return None
        reference = self._state.pin()
        branch = check_branch(self._ref, reference)
        self._write(changes)
        try:
            return self._swing(branch, meta, operations, reference.hash, changes)
        except (Conflict, ReferenceNotFound) as error:
            self._remove(changes)
            if isinstance(error, ReferenceNotFound):
                # The branch leads elsewhere by now, or is gone; to read again tells which.
                raise HeadConflict(error.message) from error
            raise

    def _write(self, changes: Changes) -> None:
        try:
            for location, metadata in _files_of(changes):
                self._files.write(location, metadata)
        except BaseException:
            # Nothing was sent, so nobody can refer to what was written.
            self._remove(changes)
            raise

    def _remove(self, changes: Changes) -> None:
        for location, _ in _files_of(changes):
            self._files.remove(location)

    def _swing(
        self,
        branch: str,
        meta: CommitMeta,
        operations: list[Operation],
        expected: str,
        changes: Changes,
    ) -> Committed:
        """Commits; a namespace that somebody else made meanwhile is as good as ours."""
        while True:
            try:
                return self._repository.commits.commit(branch, meta, operations, expected=expected)
            except KeysConflict as error:
                made = _made_by_others(error, changes)
                if not made:
                    raise
                operations = [each for each in operations if each.key not in made]


def with_parents(state: State, changes: Changes) -> dict[ContentKey, Staged | None]:
    """Returns the changes and the namespaces that what is new needs and nobody has made."""
    wanted = dict(changes)
    put = [key for key, staged in changes.items() if staged is not None]
    there = state.find(put)
    for key in put:
        if key in there:
            continue
        parents = list(parents_of(key))
        found = state.find(parents)
        for parent in parents:
            if wanted.get(parent) is not None:
                continue
            if parent not in found or parent in wanted:
                wanted[parent] = Staged(content=Namespace(elements=parent), automatic=True)
            elif not isinstance(found[parent], Namespace):
                raise NoSuchNamespaceError(f"Not a namespace: {text_of(parent)}")
    return wanted


def operations_of(before: Mapping[ContentKey, Content], changes: Changes) -> list[Operation]:
    """Returns what leads from the contents before to the wanted ones."""
    operations: list[Operation] = []
    for key, staged in changes.items():
        there = before.get(key)
        if staged is not None and staged.content == there:
            continue
        if there is not None and (staged is None or staged.content.id != there.id):
            operations.append(Delete(key=key))
        if staged is not None:
            operations.append(Put(key=key, content=staged.content))
    return operations


@contextmanager
def as_pyiceberg_says() -> Iterator[None]:
    """Says in pyiceberg's words what pyiceberg acts on: what may be tried again, and what not."""
    try:
        yield
    except Conflict as error:
        raise CommitFailedException(error.message) from error
    except Unknown as error:
        raise CommitStateUnknownException(error.message) from error


def _files_of(changes: Changes) -> Iterator[tuple[str, Metadata]]:
    for staged in changes.values():
        if staged is not None and staged.location and staged.metadata is not None:
            yield staged.location, staged.metadata


def _made_by_others(error: KeysConflict, changes: Changes) -> set[ContentKey]:
    """Returns the automatic namespaces of a conflict, if it is about such ones only."""
    keys: set[ContentKey] = set()
    for one in error.details:
        if not isinstance(one, ContentConflict) or one.key is None or one.kind != "KEY_EXISTS":
            return set()
        staged = changes.get(one.key)
        if staged is None or not staged.automatic:
            return set()
        keys.add(one.key)
    return keys
