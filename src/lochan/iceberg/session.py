"""Sessions: how the catalog's methods read a reference and commit changes to it.

The steps of one commit, and what a crash after each leaves:

1. Read the keys that the change needs, at the head of the branch. (Nothing.)
2. Check requirements, build new metadata. (Nothing.)
3. Write each metadata file at a new location. (Files without a reference to them.)
4. Commit all keys at once, expecting them as they were read in step 1. (The change is done.)

If step 4 fails with a conflict, the files of step 3 are removed, as no commit refers to them. If
its outcome is unknown, or if it fails in another way, they stay: the branch may refer to them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Generic, TypeVar

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
from lochan.base.limits.iceberg import ICEBERG_COMMIT_ATTEMPTS_MAX
from lochan.iceberg.files import MetadataFiles
from lochan.iceberg.names import parents_of, text_of
from lochan.iceberg.state import Changes, Repository, StagedContent, State, check_branch, files_of
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
    """What a method commits: a message and the changes by key; and what the method returns."""

    message: str
    changes: Changes
    result: _Result


Plan = Callable[[State], Change[_Result]]
"""Computes a change from a state; called again with a newer state after a conflict."""


class Session(ABC):
    """Reads one reference of a repository and commits changes to it."""

    def __init__(self, repository: Repository, files: MetadataFiles, ref: str) -> None:
        self._repository = repository
        self._files = files
        self.ref = ref

    def state(self) -> State:
        """Returns the state of the reference now."""
        return State(self._repository, self._files, self.ref)

    @abstractmethod
    def change(self, plan: Plan[_Result]) -> _Result:
        """Makes the change that is planned."""

    def _commit(
        self, state: State, meta: CommitMeta, changes: Changes, jobs: Sequence[RecordJob] = ()
    ) -> Committed | None:
        """Writes metadata and commits; returns None if there was nothing to do."""
        operations = [*operations_of(state.find_committed(changes), changes), *jobs]
        if not operations:
            return None
        reference = state.pin()
        branch = check_branch(self.ref, reference)
        self._write(changes)
        try:
            return self._commit_operations(branch, meta, operations, reference.hash, changes)
        except (Conflict, ReferenceNotFound) as error:
            self._remove(changes)
            if isinstance(error, ReferenceNotFound):
                # The branch was moved or deleted; reading it again shows which.
                raise HeadConflict(error.message) from error
            raise

    def _write(self, changes: Changes) -> None:
        try:
            for location, metadata in files_of(changes):
                self._files.write(location, metadata)
        except BaseException:
            # Nothing was sent, so no commit refers to the files.
            self._remove(changes)
            raise

    def _remove(self, changes: Changes) -> None:
        for location, _ in files_of(changes):
            self._files.remove(location)

    def _commit_operations(
        self,
        branch: str,
        meta: CommitMeta,
        operations: list[Operation],
        expected: str,
        changes: Changes,
    ) -> Committed:
        """Commits; skips automatic namespaces that another commit created meanwhile."""
        while True:
            try:
                return self._repository.commits.commit(branch, meta, operations, expected=expected)
            except KeysConflict as error:
                existing = _existing_namespaces(error, changes)
                if not existing:
                    raise
                operations = [each for each in operations if each.key not in existing]


class DirectSession(Session):
    """Commits every change at once."""

    def __init__(
        self, repository: Repository, files: MetadataFiles, ref: str, meta: CommitMeta
    ) -> None:
        super().__init__(repository, files, ref)
        self._meta = meta

    def change(self, plan: Plan[_Result]) -> _Result:
        """Commits the planned change; after a conflict it plans again, a few times."""
        attempts_left = ICEBERG_COMMIT_ATTEMPTS_MAX
        with as_pyiceberg_errors():
            while True:
                state = self.state()
                planned = plan(state)
                changes = with_parents(state, planned.changes)
                meta = msgspec.structs.replace(self._meta, message=planned.message)
                try:
                    self._commit(state, meta, changes)
                except Conflict:
                    attempts_left -= 1
                    if not attempts_left:
                        raise
                else:
                    return planned.result


class BlockSession(Session):
    """Collects changes over the state of one commit; commits them together."""

    def __init__(
        self, repository: Repository, files: MetadataFiles, ref: str, expected: str | None
    ) -> None:
        head = State(repository, files, ref)
        super().__init__(repository, files, check_branch(ref, head.pin()))
        state = State(repository, files, f"{self.ref}@{expected}") if expected else head
        # All reads in the block see one commit, which is expected when the block commits.
        self.expected = state.pin().hash
        self._open_state: State | None = state
        self._jobs: list[RecordJob] = []
        self.messages: list[str] = []

    def state(self) -> State:
        """Returns the state with the changes; after the block, the state of the branch now."""
        return self._open_state or super().state()

    def change(self, plan: Plan[_Result]) -> _Result:
        """Adds the planned change to the others."""
        state = self._check_open()
        with as_pyiceberg_errors():
            planned = plan(state)
        state.stage(with_parents(state, planned.changes))
        self.messages.append(planned.message)
        return planned.result

    def record_job(self, job: RecordJob) -> None:
        """Adds the record of a job, which is committed with the changes."""
        self._check_open()
        self._jobs.append(job)

    def commit(self, meta: CommitMeta) -> Committed | None:
        """Commits all changes, None if there are none; the block ends, even if this fails."""
        state, self._open_state = self._check_open(), None
        with as_pyiceberg_errors():
            return self._commit(state, meta, state.staged(), self._jobs)

    def discard(self) -> None:
        """Ends the block without a commit."""
        self._open_state = None

    def _check_open(self) -> State:
        if self._open_state is None:
            raise Invalid("the block has ended; load the table from the catalog again")
        return self._open_state


def with_parents(state: State, changes: Changes) -> dict[ContentKey, StagedContent | None]:
    """Returns the changes, and the missing namespaces that new keys need."""
    complete = dict(changes)
    put = [key for key, staged in changes.items() if staged is not None]
    existing = state.find(put)
    for key in put:
        if key in existing:
            continue
        parents = list(parents_of(key))
        found = state.find(parents)
        for parent in parents:
            if complete.get(parent) is not None:
                continue
            if parent not in found or parent in complete:
                namespace = Namespace(elements=parent)
                complete[parent] = StagedContent(content=namespace, automatic=True)
            elif not isinstance(found[parent], Namespace):
                raise NoSuchNamespaceError(f"Not a namespace: {text_of(parent)}")
    return complete


def operations_of(before: Mapping[ContentKey, Content], changes: Changes) -> list[Operation]:
    """Returns the operations that turn the contents before into the new ones."""
    operations: list[Operation] = []
    for key, staged in changes.items():
        present = before.get(key)
        if staged is not None and staged.content == present:
            continue
        if present is not None and (staged is None or staged.content.id != present.id):
            operations.append(Delete(key=key))
        if staged is not None:
            operations.append(Put(key=key, content=staged.content))
    return operations


@contextmanager
def as_pyiceberg_errors() -> Iterator[None]:
    """Raises conflicts and unknown outcomes as the exceptions that pyiceberg's retries expect."""
    try:
        yield
    except Conflict as error:
        raise CommitFailedException(error.message) from error
    except Unknown as error:
        raise CommitStateUnknownException(error.message) from error


def _existing_namespaces(error: KeysConflict, changes: Changes) -> set[ContentKey]:
    """Returns the automatic namespaces in conflict; none if other keys are in conflict too."""
    keys: set[ContentKey] = set()
    for each in error.details:
        if not isinstance(each, ContentConflict) or each.key is None or each.kind != "KEY_EXISTS":
            return set()
        staged = changes.get(each.key)
        if staged is None or not staged.automatic:
            return set()
        keys.add(each.key)
    return keys
