"""The contents of a reference at one commit, with changes over them that are not committed yet."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

import msgspec

from lochan.base.errors import Corrupt, NotABranch
from lochan.client import Client
from lochan.embedded import Embedded
from lochan.iceberg.files import Metadata, MetadataFiles
from lochan.model.commits import ContentKey
from lochan.model.contents import Content, IcebergTable, IcebergView, Namespace, type_of
from lochan.model.references import Reference
from lochan.model.requests import DEFAULT_BRANCH

Repository = Client | Embedded
"""A server's client and an embedded repository have the same groups of methods."""

Iceberg = IcebergTable | IcebergView


class StagedContent(msgspec.Struct, frozen=True, kw_only=True):
    """A content to be put; its metadata must be written first, unless the file exists already.

    An `automatic` content was not requested by name: a namespace that another content needs.
    """

    content: Iceberg | Namespace
    metadata: Metadata | None = None
    automatic: bool = False

    @property
    def location(self) -> str | None:
        """The location of the metadata file; a namespace has none."""
        return None if isinstance(self.content, Namespace) else self.content.metadata_location


Changes = Mapping[ContentKey, StagedContent | None]
"""The new contents of keys; None deletes a key."""


def files_of(changes: Changes) -> Iterator[tuple[str, Metadata]]:
    """Yields the locations and the metadata of the files that must be written for changes."""
    for staged in changes.values():
        if staged is not None and staged.location and staged.metadata is not None:
            yield staged.location, staged.metadata


class State:
    """The contents of a reference, read at the commit of the first read, and staged changes.

    Later commits on the reference have no effect on what is read.
    """

    def __init__(self, repository: Repository, files: MetadataFiles, ref: str) -> None:
        self._repository = repository
        self._files = files
        self._spec = ref
        self._read: dict[ContentKey, Content | None] = {}
        self._reference: Reference | None = None
        self._staged: dict[ContentKey, StagedContent | None] = {}
        self._unwritten: dict[str, Metadata] = {}

    def find(self, keys: Collection[ContentKey]) -> dict[ContentKey, Content]:
        """Returns the contents of those keys that have one, staged changes included."""
        found = self.find_committed([key for key in keys if key not in self._staged])
        staged = ((key, self._staged.get(key)) for key in keys)
        return found | {key: each.content for key, each in staged if each is not None}

    def find_committed(self, keys: Collection[ContentKey]) -> dict[ContentKey, Content]:
        """Returns the contents of those keys that have one at the commit."""
        unread = [key for key in dict.fromkeys(keys) if key not in self._read]
        if unread:
            found, reference = self._repository.contents.get_many(self._spec, unread)
            self._pin_to(reference)
            self._read |= dict.fromkeys(unread)
            self._read |= dict(found)
        contents = ((key, self._read[key]) for key in keys)
        return {key: content for key, content in contents if content is not None}

    def below(self, namespace: ContentKey) -> Iterable[tuple[ContentKey, str]]:
        """Returns the keys in a namespace, at any depth, with their types; () is the root."""
        entries = self._repository.contents.iterate(self._spec, prefix=namespace or None)
        committed = ((entry.key, entry.type) for entry in entries if entry.key != namespace)
        if not self._staged:
            return committed
        found = dict(committed)
        for key, staged in self._staged.items():
            if len(key) > len(namespace) and key[: len(namespace)] == namespace:
                found.pop(key, None)
                if staged is not None:
                    found[key] = type_of(staged.content)
        return found.items()

    def metadata(self, content: Iceberg) -> Metadata:
        """Returns the metadata of a table or view, even if its file is not written yet."""
        unwritten = self._unwritten.get(content.metadata_location)
        return self._files.read(content.metadata_location) if unwritten is None else unwritten

    def is_written(self, location: str) -> bool:
        """Returns whether metadata is in a file; the file of staged metadata may never exist."""
        return location not in self._unwritten

    def pin(self) -> Reference:
        """Returns the commit that is read, and the reference that led to it."""
        if self._reference is None:
            page = self._repository.contents.entries(self._spec, 1)
            if page.reference is None:
                raise Corrupt("the repository listed keys without their commit")
            return self._pin_to(page.reference)
        return self._reference

    def _pin_to(self, reference: Reference) -> Reference:
        if self._reference is None:
            self._reference = reference
            self._spec = f"{reference.name or ''}@{reference.hash}"
        return self._reference

    def stage(self, changes: Changes) -> None:
        """Adds changes; later reads include them."""
        self._staged |= changes
        self._unwritten |= dict(files_of(changes))

    def staged(self) -> Changes:
        """Returns all staged changes, each with its metadata that is not written yet."""
        return {
            key: staged
            and msgspec.structs.replace(staged, metadata=self._unwritten.get(staged.location or ""))
            for key, staged in self._staged.items()
        }


def check_branch(ref: str, reference: Reference) -> str:
    """Returns the name of the branch that a text names; NotABranch if it names anything else."""
    is_named = ref in (reference.name, DEFAULT_BRANCH)
    if reference.kind != "BRANCH" or reference.name is None or not is_named:
        raise NotABranch(f"{ref!r} is not a branch: it can be read but not changed; name a branch")
    return reference.name
