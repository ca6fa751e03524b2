"""What the catalog sees of a reference: contents at one commit, and a block's changes over them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

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


class Staged(msgspec.Struct, frozen=True, kw_only=True):
    """A content to be put; its metadata must be written first, unless its file is there already.

    What is `automatic` nobody asked for by name, a namespace that something else needs.
    """

    content: Iceberg | Namespace
    metadata: Metadata | None = None
    automatic: bool = False

    @property
    def location(self) -> str | None:
        """Where the metadata is or will be; a namespace has none."""
        return None if isinstance(self.content, Namespace) else self.content.metadata_location


Changes = Mapping[ContentKey, Staged | None]
"""What shall be at keys; None takes them away."""


class State(Protocol):
    """Contents at one commit, whatever else happens."""

    def find(self, keys: Collection[ContentKey]) -> dict[ContentKey, Content]:
        """Returns what the keys hold, those that hold something."""
        ...

    def below(self, namespace: ContentKey) -> Iterable[tuple[ContentKey, str]]:
        """Returns keys in a namespace, at any depth, with their types; the root holds all."""
        ...

    def metadata(self, content: Iceberg) -> Metadata:
        """Returns the metadata of a table or view."""
        ...

    def is_written(self, location: str) -> bool:
        """Tells whether metadata is a file already; what is only staged may never become one."""
        ...


class Pinned:
    """What a reference held when it was first looked at."""

    def __init__(self, repository: Repository, files: MetadataFiles, ref: str) -> None:
        self._repository = repository
        self._files = files
        self._spec = ref
        self._known: dict[ContentKey, Content | None] = {}
        self._reference: Reference | None = None

    def find(self, keys: Collection[ContentKey]) -> dict[ContentKey, Content]:
        """Returns what the keys hold, those that hold something."""
        unknown = [key for key in dict.fromkeys(keys) if key not in self._known]
        if unknown:
            found, reference = self._repository.contents.get_many(self._spec, unknown)
            self._pinned_to(reference)
            self._known |= dict.fromkeys(unknown)
            self._known |= dict(found)
        held = ((key, self._known[key]) for key in keys)
        return {key: content for key, content in held if content is not None}

    def below(self, namespace: ContentKey) -> Iterable[tuple[ContentKey, str]]:
        """Returns keys in a namespace, at any depth, with their types; the root holds all."""
        found = self._repository.contents.iterate(self._spec, prefix=namespace or None)
        return ((entry.key, entry.type) for entry in found if entry.key != namespace)

    def metadata(self, content: Iceberg) -> Metadata:
        """Returns the metadata of a table or view."""
        return self._files.read(content.metadata_location)

    def is_written(self, location: str) -> bool:
        """Tells that whatever is referred to is a file."""
        return bool(location)

    def pin(self) -> Reference:
        """Returns the commit that is looked at, and by which reference it was reached."""
        if self._reference is None:
            page = self._repository.contents.entries(self._spec, 1)
            if page.reference is None:
                raise Corrupt("a listing does not tell what was listed")
            return self._pinned_to(page.reference)
        return self._reference

    def _pinned_to(self, reference: Reference) -> Reference:
        if self._reference is None:
            self._reference = reference
            self._spec = f"{reference.name or ''}@{reference.hash}"
        return self._reference


class Overlay:
    """A state with changes over it that are not committed yet."""

    def __init__(self, base: Pinned) -> None:
        self.base = base
        self._changes: dict[ContentKey, Staged | None] = {}
        self._unwritten: dict[str, Metadata] = {}

    def stage(self, changes: Changes) -> None:
        """Adds changes; whoever looks after this sees them."""
        self._changes |= changes
        for staged in changes.values():
            if staged is not None and staged.location and staged.metadata is not None:
                self._unwritten[staged.location] = staged.metadata

    def changes(self) -> Changes:
        """Returns all changes, with what must be written for them, under whichever key it is."""
        return {key: staged and self._whole(staged) for key, staged in self._changes.items()}

    def find(self, keys: Collection[ContentKey]) -> dict[ContentKey, Content]:
        """Returns what the keys hold, those that hold something."""
        found = self.base.find([key for key in keys if key not in self._changes])
        staged = ((key, self._changes.get(key)) for key in keys)
        return found | {key: one.content for key, one in staged if one is not None}

    def below(self, namespace: ContentKey) -> Iterable[tuple[ContentKey, str]]:
        """Returns keys in a namespace, at any depth, with their types; the root holds all."""
        found = dict(self.base.below(namespace))
        for key, staged in self._changes.items():
            if len(key) > len(namespace) and key[: len(namespace)] == namespace:
                found.pop(key, None)
                if staged is not None:
                    found[key] = type_of(staged.content)
        return found.items()

    def metadata(self, content: Iceberg) -> Metadata:
        """Returns the metadata of a table or view, also where its file is not written yet."""
        unwritten = self._unwritten.get(content.metadata_location)
        return self.base.metadata(content) if unwritten is None else unwritten

    def is_written(self, location: str) -> bool:
        """Tells whether metadata is a file already; what is only staged may never become one."""
        return location not in self._unwritten

    def _whole(self, staged: Staged) -> Staged:
        unwritten = self._unwritten.get(staged.location or "")
        return msgspec.structs.replace(staged, metadata=unwritten)


def check_branch(ref: str, reference: Reference) -> str:
    """Returns the name of the branch that a text names; NotABranch if it is anything else."""
    is_named = ref in (reference.name, DEFAULT_BRANCH)
    if reference.kind != "BRANCH" or reference.name is None or not is_named:
        raise NotABranch(f"{ref!r} is not a branch; it can be read, and changes go to branches")
    return reference.name
