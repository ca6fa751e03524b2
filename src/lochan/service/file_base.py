"""What the use cases on files have in common: the files that a caller may see, and decisions.

A name of a branch alone means its files with what is staged. Then the policy decides on the row
under which the files are read, in each round of the reader (`staging/reader.py`). Everything else,
a tag, a hash, relative steps, means the files of one commit, which the resolver finds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import msgspec

from lochan.access.policy import Action, Call
from lochan.base.errors import LochanError, NotABranch, PathNotFound
from lochan.base.ids import ObjId
from lochan.base.keys import Key, file_path
from lochan.base.names import RefName
from lochan.catalog.types import ContentTypes
from lochan.codec.elements import decode_file
from lochan.codec.rows import ReferenceRow
from lochan.kernel.context import RepositoryContext
from lochan.kernel.references import ReferenceIndex
from lochan.model.entries import FileEntry
from lochan.model.files import WriteCondition, sha256_bytes
from lochan.model.specs import ReferenceSpec
from lochan.service.claims import Claims, RepositoryWrites
from lochan.service.file_places import FilePlaces
from lochan.service.file_sources import FileSources
from lochan.service.policy import Access
from lochan.service.protection import BranchProtection
from lochan.service.readable_keys import covers
from lochan.service.resolve import Resolved, Resolver
from lochan.staging.conditions import ALWAYS, Condition, IfAbsent, IfMatches
from lochan.staging.staging import Staging

_Answer = TypeVar("_Answer")

_WRITES: Final = frozenset((Action.WRITE_CONTENT, Action.DELETE_CONTENT, Action.IMPORT_FILES))


class FileContext(msgspec.Struct, frozen=True):
    """What use cases on files work with, built once for each open repository."""

    context: RepositoryContext
    types: ContentTypes
    resolver: Resolver
    claims: Claims
    access: Access
    names: ReferenceIndex
    staging: Staging
    places: FilePlaces
    protection: BranchProtection


class FileUseCases(RepositoryWrites):
    """Use cases on the files of one repository."""

    def __init__(self, files: FileContext) -> None:
        super().__init__(files.context, files.types, files.resolver, files.claims, files.access)
        self._names = files.names
        self._staging = files.staging
        self._sources = FileSources(files.context, files.staging.reader)
        self._places = files.places
        self._protection = files.protection

    def _read(
        self,
        call: Call,
        action: Action,
        spec: ReferenceSpec,
        look_live: Callable[[Resolved, ReferenceRow], _Answer],
        look_at: Callable[[Resolved], _Answer],
    ) -> _Answer:
        """Returns what is found in a branch with its staged files, or in a commit."""
        if not is_live(spec):
            return look_at(self._resolver.read(call, action, spec))

        def look(row: ReferenceRow) -> _Answer:
            return look_live(self._resolver.read_live(call, action, row), row)

        name = self._resolver.name(spec.name or "")
        try:
            return self._staging.reader.read(name, look)
        except NotABranch:
            return look_at(self._resolver.read(call, action, spec))
        except LochanError:
            # An error must not show that a reference exists.
            self._access.decide(call, action, name)
            raise

    def _find(self, call: Call, spec: ReferenceSpec, keys: Sequence[Key]) -> list[FileEntry | None]:
        """Returns the files that a caller may read, None for any other."""

        def shown(
            resolved: Resolved, find: Callable[[Sequence[Key]], list[bytes | None]]
        ) -> list[bytes | None]:
            self._resolver.record_hidden(call, Action.READ_CONTENT, resolved, keys)
            readable = [key for key in keys if covers(resolved.keys, key)]
            found = dict(zip(readable, find(readable), strict=True))
            return [found.get(key) for key in keys]

        reader = self._staging.reader

        def committed(resolved: Resolved) -> list[bytes | None]:
            return shown(
                resolved, lambda some: list(reader.committed(resolved.view, some).values())
            )

        elements = self._read(
            call,
            Action.READ_CONTENT,
            spec,
            lambda resolved, row: shown(resolved, lambda some: reader.elements(row, some)),
            committed,
        )
        return [None if element is None else decode_file(element) for element in elements]

    def _get(self, call: Call, spec: ReferenceSpec, key: Key) -> FileEntry:
        (entry,) = self._find(call, spec, [key])
        if entry is None:
            raise PathNotFound(f"there is no file {file_path(key)!r} in {spec.text()!r}")
        return entry

    def _decide(
        self, call: Call, branch: str, keys: Sequence[Key], *actions: Action
    ) -> ReferenceRow:
        """Returns the row of a branch on whose files a caller may do all of this.

        To a protected branch no caller may write, whatever its rights.
        """
        name = self._resolver.name(branch)
        try:
            row = self._staging.rows.load(name).row
        except LochanError:
            for action in actions:
                self._access.decide(call, action, name, keys=keys)
            raise
        for action in actions:
            pointer = ObjId(row.pointer)
            self._access.decide(call, action, name, row.incarnation, pointer, keys)
        if not _WRITES.isdisjoint(actions):
            self._protection.check_write(call, name)
        return row

    def _may_read(self, call: Call, branch: RefName, key: Key) -> bool:
        return covers(self._access.key_right(call, Action.READ_CONTENT, branch), key)


def is_live(spec: ReferenceSpec) -> bool:
    """Returns whether a specification means a branch as it is now, if its name is one."""
    return spec.name is not None and spec.hash is None and not spec.steps


def staged_condition(condition: WriteCondition) -> Condition:
    """Returns what a staged write has to compare."""
    if condition.if_absent:
        return IfAbsent()
    if not condition.if_match and not condition.if_sha256:
        return ALWAYS
    sha256 = sha256_bytes(condition.if_sha256) if condition.if_sha256 else b""
    return IfMatches("" if condition.if_match == "*" else condition.if_match, sha256)


def actions_of_write(action: Action, condition: WriteCondition) -> tuple[Action, ...]:
    """Returns what a write is decided on: its outcome shows what a condition compares."""
    is_conditional = condition != WriteCondition()
    return (action, Action.READ_CONTENT) if is_conditional else (action,)
