"""Namespaces as version 1 of the API knows them: read, made, changed and taken away one by one.

A namespace exists explicitly, as a content of its own, or implicitly, because keys lie below it.
Each write is one commit. What it relies on was read at one commit, and the write expects it: if
the same namespace is changed meanwhile, the write is refused by a conflict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import TypeVar

import msgspec

from lochan.access.policy import Call
from lochan.base.errors import (
    Invalid,
    KeysConflict,
    LochanError,
    NamespaceExists,
    NamespaceNotEmpty,
    NamespaceNotFound,
    TooLarge,
)
from lochan.base.limits.requests import NAMESPACES_LISTED_MAX
from lochan.catalog.conflicts import NAMESPACE_NOT_EMPTY
from lochan.kernel.plan import ConflictKind
from lochan.model.commits import (
    CommitMeta,
    Committed,
    ContentKey,
    Delete,
    Operation,
    Put,
)
from lochan.model.contents import Content, Namespace
from lochan.model.references import Reference
from lochan.model.requests import CommitRequest
from lochan.model.results import ContentConflict
from lochan.model.specs import ReferenceSpec
from lochan.service.commits import CommitWrites
from lochan.service.contents import Contents
from lochan.service.pages import Selection
from lochan.service.pending_writes import PendingWrite

_Answer = TypeVar("_Answer")
_TYPE = "NAMESPACE"


class _Seen(msgspec.Struct, frozen=True):
    """A name as it was at one commit: what it holds, and whether keys lie below it."""

    content: Content | None
    has_keys: bool
    reference: Reference


class Namespaces:
    """The namespaces of one repository."""

    def __init__(self, contents: Contents, writes: CommitWrites) -> None:
        self._contents = contents
        self._writes = writes

    def get(self, call: Call, spec: ReferenceSpec, elements: ContentKey) -> Namespace:
        """Returns a namespace; an implicit one has no id and no properties."""
        seen = self._read(call, spec, elements)
        if isinstance(seen.content, Namespace):
            return seen.content
        if seen.content is not None or not seen.has_keys:
            raise _not_found(elements)
        return Namespace(elements=elements)

    def list(
        self, call: Call, spec: ReferenceSpec, prefix: ContentKey = ()
    ) -> tuple[Namespace, ...]:
        """Returns a namespace and all below it, implicit ones too, in the order of their keys."""
        explicit: dict[ContentKey, Namespace] = {}
        implicit: set[ContentKey] = set()
        shortest = max(len(prefix), 1)
        for page in self._contents.entry_pages(call, spec, Selection(prefix=prefix or None)):
            named = [entry.key for entry in page.items if entry.type == _TYPE]
            if named and page.reference is not None:
                found, _ = self._contents.get_many(call, pinned(page.reference), named)
                explicit |= {key: one for key, one in found if isinstance(one, Namespace)}
                # One whose content the caller may not read is listed by its name.
                implicit.update(named)
            for entry in page.items:
                implicit.update(entry.key[:size] for size in range(shortest, len(entry.key)))
            if len(explicit) + len(implicit) > NAMESPACES_LISTED_MAX:
                raise TooLarge(
                    f"there are more than {NAMESPACES_LISTED_MAX} namespaces; list entries in pages"
                )
        return tuple(
            explicit[key] if key in explicit else Namespace(elements=key)
            for key in sorted(explicit.keys() | implicit)
        )

    def create(
        self, call: Call, branch: str, expected: ReferenceSpec | None, namespace: Namespace
    ) -> PendingWrite[Namespace]:
        """Makes a namespace; NamespaceExists if the name is taken, by whatever."""
        key = namespace.elements
        new = msgspec.structs.replace(namespace, id=None)
        put = Put(key=key, content=new)

        def plan() -> _Write:
            seen = self._read(call, _at(branch, expected), key)
            if seen.content is not None or seen.has_keys:
                raise _exists(key, seen.content)
            return _Write("create", expected, put)

        def answer(committed: Committed) -> Namespace:
            ids = {added.key: added.content_id for added in committed.added}
            return msgspec.structs.replace(new, id=ids.get(key))

        return self._commit(call, branch, put, plan, answer)

    def delete(
        self, call: Call, branch: str, expected: ReferenceSpec | None, elements: ContentKey
    ) -> PendingWrite[None]:
        """Takes an empty namespace away."""
        removal = Delete(key=elements)

        def plan() -> _Write:
            seen = self._read(call, _at(branch, expected), elements)
            if seen.content is not None and not isinstance(seen.content, Namespace):
                raise _not_found(elements)
            if seen.has_keys:
                raise _not_empty(elements)
            if seen.content is None:
                raise _not_found(elements)
            return _Write("delete", expected or pinned(seen.reference), removal)

        return self._commit(call, branch, removal, plan, _nothing)

    def update(
        self,
        call: Call,
        branch: str,
        expected: ReferenceSpec | None,
        elements: ContentKey,
        updates: Mapping[str, str],
        removals: AbstractSet[str],
    ) -> PendingWrite[None]:
        """Changes properties; an implicit namespace becomes an explicit one."""

        def plan() -> _Write:
            seen = self._read(call, _at(branch, expected), elements)
            content = seen.content
            if content is None and seen.has_keys:
                content = Namespace(elements=elements)
            if not isinstance(content, Namespace):
                raise _not_found(elements)
            properties = {k: v for k, v in content.properties.items() if k not in removals}
            changed = msgspec.structs.replace(content, properties=properties | dict(updates))
            put = Put(key=elements, content=changed)
            return _Write("update properties for", expected or pinned(seen.reference), put)

        some = Put(key=elements, content=Namespace(elements=elements))
        return self._commit(call, branch, some, plan, _nothing)

    def _read(self, call: Call, spec: ReferenceSpec, elements: ContentKey) -> _Seen:
        """Reads what there is under a name, all at one commit."""
        if not elements:
            raise Invalid("Namespace name must not be empty")
        found, reference = self._contents.get_many(call, spec, [elements])
        # The key itself comes first, so a second entry lies below it.
        below = self._contents.entries(call, pinned(reference), 2, prefix=elements)
        has_keys = any(entry.key != elements for entry in below.items)
        return _Seen(found[0][1] if found else None, has_keys, reference)

    def _commit(
        self,
        call: Call,
        branch: str,
        operation: Operation,
        plan: Callable[[], _Write],
        answer: Callable[[Committed], _Answer],
    ) -> PendingWrite[_Answer]:
        """Commits one operation; a refusal is reported in the words of namespaces.

        `operation` has the key and the kind of the one that is planned.
        """
        key = operation.key

        def request() -> CommitRequest:
            write = plan()
            meta = CommitMeta(message=f"{write.verb} namespace '{'.'.join(key)}'")
            return CommitRequest(
                branch=branch, expected=write.expected, meta=meta, operations=(write.operation,)
            )

        def refused(error: LochanError) -> Committed:
            raise _translated(error, key) from None

        return self._writes.build(call, branch, [operation], request, refused).then(answer)


class _Write(msgspec.Struct, frozen=True):
    """A write of one namespace: its verb, the commit it expects, and its operation."""

    verb: str
    expected: ReferenceSpec | None
    operation: Operation


def pinned(reference: Reference) -> ReferenceSpec:
    """Returns exactly the commit that was read, under the name it was reached by."""
    return ReferenceSpec(reference.name, reference.hash)


def _at(branch: str, expected: ReferenceSpec | None) -> ReferenceSpec:
    if expected is None:
        return ReferenceSpec(branch)
    return msgspec.structs.replace(expected, name=branch)


def _nothing(_: Committed) -> None:
    return None


def _text(elements: Iterable[str]) -> str:
    """Returns a name as Nessie's messages have it: dots inside an element are replaced."""
    return ".".join(element.replace(".", "\x1d") for element in elements)


def _translated(error: LochanError, key: ContentKey) -> LochanError:
    """Returns what a conflict on the namespace's own key means; any other as it is."""
    for one in error.details if isinstance(error, KeysConflict) else ():
        if isinstance(one, ContentConflict) and one.key == key:
            if one.kind == ConflictKind.KEY_EXISTS.value:
                return _exists(key, one.target)
            if one.kind == ConflictKind.KEY_DOES_NOT_EXIST.value:
                return _not_found(key)
            if one.kind == NAMESPACE_NOT_EMPTY:
                return _not_empty(key)
    return error


def _exists(key: ContentKey, content: Content | None) -> NamespaceExists:
    if content is None or isinstance(content, Namespace):
        return NamespaceExists(f"Namespace '{_text(key)}' already exists", key)
    return NamespaceExists(f"Another content object with name '{_text(key)}' already exists", key)


def _not_found(key: ContentKey) -> NamespaceNotFound:
    return NamespaceNotFound(f"Namespace '{_text(key)}' does not exist", key)


def _not_empty(key: ContentKey) -> NamespaceNotEmpty:
    return NamespaceNotEmpty(f"Namespace '{_text(key)}' is not empty", key)
