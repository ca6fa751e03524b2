"""A user's commit on keys and contents: validated on whatever the head is, then planned.

What a put expects is the content that was sent as expected, else what the key held at the expected
hash. The rules, each with its refusal:

* new content brings no id (Invalid), unless the same commit takes it away from another key; no
  two puts bring the same (Invalid);
* a put without an id needs a free key (Invalid; KEY_EXISTS if the key was taken since);
* a put on an existing key needs an expected content or hash (KEY_EXISTS);
* ids of the put, of what it expects and of what is there agree (Invalid), unless the same commit
  takes away what is there and the content comes from another key;
* what is there is what was expected (VALUE_DIFFERS, KEY_DOES_NOT_EXIST, CONTENT_ID_DIFFERS);
* the type of a content never changes (PAYLOAD_DIFFERS);
* parents are namespaces, and namespaces that go are empty (`namespaces.py`);
* a job is recorded for a content that the commit puts (Invalid).

Refusals by conflict are collected and reported together. Ids for new content and stored values are
made once, so that an attempt on another head keeps them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

import msgspec

from lochan.base.errors import Invalid, KeysConflict, ReferenceNotFound
from lochan.base.ids import ContentId, ObjId, content_id_from_uuid_bytes, find_uuid_bytes, uuid_of
from lochan.base.keys import job_key, table_key
from lochan.catalog.conflicts import Sides, in_words, refuse, sides_of, text_of
from lochan.catalog.contents import (
    NOTHING_UNPUBLISHED,
    load_content_ids,
    load_contents,
    payload_at,
)
from lochan.catalog.hidden_keys import Readable, hidden_refusal, hides_some, shown_conflicts
from lochan.catalog.jobs import encode_job
from lochan.catalog.namespaces import check_left_empty, check_parents, is_namespace, namespaces_of
from lochan.catalog.types import OTHER_PAYLOAD, ContentTypes
from lochan.codec.commits import Headers
from lochan.codec.elements import pack_table
from lochan.kernel.build import Head
from lochan.kernel.context import RepositoryContext
from lochan.kernel.plan import (
    CommitPlan,
    ConflictKind,
    KeyConflict,
    Operation,
    Unchanged,
    find_conflicts,
)
from lochan.kernel.views import CommitView
from lochan.model.commits import AddedContent, ContentKey, Delete, Put, RecordJob
from lochan.model.commits import Operation as ContentOperation
from lochan.model.contents import Content, type_of
from lochan.model.results import ContentConflict


class CommitRights(Protocol):
    """What the caller of a commit may do, decided on the head that is planned on."""

    def check_commit(
        self,
        head: Head,
        puts: Collection[bytes],
        deletes: Collection[bytes],
        relied: Collection[bytes],
    ) -> None:
        """Raises Denied unless the caller may do all of it; called by each attempt, first."""
        ...

    def readable(self) -> Readable | None:
        """Returns which keys of the branch the caller may read; None for all."""
        ...


class _Put(msgspec.Struct, frozen=True, gc=False):
    """A put, ready to be written: its element, and the object that stores the content."""

    sent: Put
    element: bytes
    content_id: str
    value: tuple[ObjId, bytes]
    expected: bytes | None


class CommitText(msgspec.Struct, frozen=True):
    """The message and the headers of a commit."""

    message: str
    headers: Headers
    hidden: Headers


class CatalogCommit:
    """A proposal that commits operations on keys and contents."""

    def __init__(
        self,
        context: RepositoryContext,
        types: ContentTypes,
        rights: CommitRights,
        expected: ObjId | None,
        operations: Sequence[ContentOperation],
        text: CommitText,
    ) -> None:
        self._context = context
        self._types = types
        self._rights = rights
        self._expected = expected
        self._text = text
        self.incarnation: int | None = None
        self._puts: dict[bytes, _Put] = {}
        self._deletes: dict[bytes, Delete] = {}
        self._relied: dict[bytes, ContentKey] = {}
        self._jobs: dict[tuple[bytes, str], RecordJob] = {}
        self._given_ids: set[str | None] = set()
        for sent in operations:
            self._take(sent)
        self._records = self._recorded() if self._jobs else []
        keys = {*self._puts, *self._deletes, *self._relied}
        if self._records:
            keys.update(record.key for record in self._records)
        self.keys = sorted(keys)
        # What has an id is there already and has its parents, unless it is being renamed.
        self._may_be_new = [
            key for key, put in self._puts.items() if put.sent.content.id is None or self._deletes
        ]
        self._parents = sorted(namespaces_of(self._may_be_new))
        self.added: tuple[AddedContent, ...] = ()
        self._unpublished = NOTHING_UNPUBLISHED

    def plan(self, head: Head) -> Sequence[CommitPlan]:
        """Validates everything on this head and plans one commit."""
        self._rights.check_commit(head, self._puts, self._deletes, self._relied)
        head.check_again(self._may_commit)
        try:
            return self._planned(head)
        except (Invalid, KeysConflict):
            # Such refusals show what the keys of the commit hold.
            if hides_some(self.keys, self._rights.readable()):
                raise hidden_refusal() from None
            raise

    def _may_commit(self, head: Head) -> bool:
        """Decides on a later head; on the keys it was decided, and they are the same there."""
        self._rights.check_commit(head, (), (), ())
        return True

    def _planned(self, head: Head) -> Sequence[CommitPlan]:
        self._unpublished = head.unpublished
        before, current = self._look(head)
        conflicts: list[Sides] = []
        staged: dict[bytes, bytes | None] = dict.fromkeys(self._deletes)
        operations: list[Operation] = []
        added: list[AddedContent] = []
        for key, put in self._puts.items():
            staged[key] = put.element
            wanted = self._expectation(key, put, before, current[key], conflicts)
            operations.append(Operation(key, put.element, wanted))
            if before[key] is None or key in self._deletes:
                if put.sent.content.id is None:
                    added.append(AddedContent(put.sent.key, put.content_id))
        nothing: list[KeyConflict] = []
        for key in self._deletes:
            if key not in self._puts:
                operations.append(Operation(key, None, before[key]))
                if before[key] is None:
                    # A key that is gone on both sides has nothing to be deleted.
                    absent = ConflictKind.KEY_DOES_NOT_EXIST
                    nothing.append(KeyConflict(key, absent, None, current[key]))
        operations += self._records
        # That a key is absent can be relied on, too.
        relied = [Unchanged(key, before[key]) for key in self._relied] if self._relied else ()
        plan = CommitPlan(
            operations,
            self._text.message,
            self._text.headers,
            self._text.hidden,
            relied,
            objects=[put.value for put in self._puts.values()],
            current=current,
        )
        self._check(head, plan, current, staged, conflicts, nothing)
        self.added = tuple(added)
        return [plan]

    def _recorded(self) -> list[Operation]:
        """Returns the records of jobs; a record of an earlier run of the same job is replaced."""
        operations = []
        for (key, name), job in self._jobs.items():
            put = self._puts.get(key)
            if put is None:
                raise Invalid(
                    f"A job is recorded with what it puts; nothing is put at {text_of(job.key)}"
                )
            raw = bytes(job_key(put.content_id, name))
            operations.append(Operation(raw, encode_job(job.facts)))
        return operations

    def _take(self, sent: ContentOperation) -> None:
        key = bytes(table_key(sent.key))
        if isinstance(sent, RecordJob):
            if (key, sent.job) in self._jobs:
                raise Invalid(f"A commit records a job once for {text_of(sent.key)}: {sent.job}")
            self._jobs[key, sent.job] = sent
            return
        known = key in self._puts or key in self._relied
        if isinstance(sent, Put):
            if known:
                raise Invalid(f"Duplicate keys are not allowed in a commit: {text_of(sent.key)}")
            given = sent.content.id
            if given is not None and given in self._given_ids:
                raise Invalid(f"A commit puts the content ID '{given}' under one key only")
            self._given_ids.add(given)
            self._puts[key] = self._prepared(sent)
        elif (
            key in self._deletes or key in self._relied or (known and not isinstance(sent, Delete))
        ):
            raise Invalid(f"Duplicate keys are not allowed in a commit: {text_of(sent.key)}")
        elif isinstance(sent, Delete):
            self._deletes[key] = sent
        else:
            self._relied[key] = sent.key

    def _prepared(self, sent: Put) -> _Put:
        content_id = sent.content.id
        raw_id = None if content_id is None else find_uuid_bytes(ContentId(content_id))
        if content_id is None:
            raw_id = uuid_of(self._context.random.random_bytes(16))
            content_id = content_id_from_uuid_bytes(raw_id)
        value = self._types.encode(sent.content, content_id)
        payload = self._types.payload_of(sent.content)
        expected = None
        if sent.expected is not None:
            if sent.expected.id is None or sent.expected.id != sent.content.id:
                raise Invalid(
                    f"Content ids for new and expected content for key '{text_of(sent.key)}' "
                    "must be the same"
                )
            value_id, _ = self._types.encode(sent.expected, content_id)
            expected = pack_table(self._types.payload_of(sent.expected), value_id, raw_id)
        return _Put(sent, pack_table(payload, value[0], raw_id), content_id, value, expected)

    def _look(
        self, head: Head
    ) -> tuple[Mapping[bytes, bytes | None], Mapping[bytes, bytes | None]]:
        """Returns what the keys hold at the expected hash, and what they hold now."""
        if self._expected is None or self._expected == head.view.obj_id:
            current = head.find(self.keys)
            return current, current
        expected = find_expected(head, self._expected)
        return head.find_both(expected, self.keys)

    def _expectation(
        self,
        key: bytes,
        put: _Put,
        before: Mapping[bytes, bytes | None],
        current: bytes | None,
        conflicts: list[Sides],
    ) -> bytes | None:
        """Applies the rules of one put; returns the element that it expects to find."""
        found = before[key]
        given = put.sent.content.id
        if found is None:
            if put.expected is not None:
                return put.expected
            if given is not None:
                self._check_renamed(put, before, conflicts)
            return None
        if given is None:
            if key in self._deletes:
                return found
            if self._expected is None:
                conflicts.append(Sides(key, ConflictKind.KEY_EXISTS, None, put.element, found))
                return found
            raise Invalid(
                f"New value to update existing key '{text_of(put.sent.key)}' has no content ID and "
                "the key is not deleted in the same commit"
            )
        if self._id_of(found) != given:
            if key in self._deletes:
                # What was here goes, and what another key held comes in its place.
                self._check_renamed(put, before, conflicts)
                return found
            raise Invalid(
                f"Key '{text_of(put.sent.key)}' already exists and belongs to another content: its "
                f"content ID is '{self._id_of(found)}', not '{given}'"
            )
        if self._type_changes(found, put.sent.content):
            conflicts.append(Sides(key, ConflictKind.PAYLOAD_DIFFERS, found, put.element, current))
        if put.expected is not None:
            return put.expected
        if self._expected is None:
            conflicts.append(Sides(key, ConflictKind.KEY_EXISTS, None, put.element, found))
        return found

    def _check_renamed(
        self, put: _Put, before: Mapping[bytes, bytes | None], conflicts: list[Sides]
    ) -> None:
        """Refuses an id for new content unless the commit takes that content from another key."""
        name, given = text_of(put.sent.key), put.sent.content.id
        for other in self._deletes:
            element = before[other]
            if element is not None and self._id_of(element) == given:
                if self._type_changes(element, put.sent.content):
                    key = bytes(table_key(put.sent.key))
                    conflicts.append(
                        Sides(key, ConflictKind.PAYLOAD_DIFFERS, element, put.element, element)
                    )
                return
        raise Invalid(f"New value for key '{name}' must not have a content ID: '{given}'")

    def _id_of(self, element: bytes) -> str:
        found = load_content_ids(self._context, self._types, [element], self._unpublished)
        return found[element]

    def _type_changes(self, element: bytes, content: Content) -> bool:
        payload = payload_at(element)
        if payload != self._types.payload_of(content):
            return True
        if payload != OTHER_PAYLOAD:
            return False
        stored = load_contents(self._context, self._types, [element], self._unpublished)[element]
        return type_of(stored) != type_of(content)

    def _check(
        self,
        head: Head,
        plan: CommitPlan,
        current: Mapping[bytes, bytes | None],
        staged: Mapping[bytes, bytes | None],
        conflicts: list[Sides],
        nothing: list[KeyConflict],
    ) -> None:
        """Raises all conflicts of the plan together."""
        seen = [*nothing]
        found = find_conflicts(plan, current)
        if found:
            reported = {one.key for one in conflicts} | {one.key for one in nothing}
            seen += [one for one in found if one.key not in reported]
        new = [key for key in self._may_be_new if current[key] is None]
        missing = check_parents(new, staged, head.find_steady(self._parents)) if new else []
        full = self._find_full(head, current, staged) if self._deletes else []
        if conflicts or seen or missing or full:
            made = {put.element: put.sent.content for put in self._puts.values()}
            # The content that a put expects may never have been stored.
            for put in self._puts.values():
                if put.expected is not None and put.sent.expected is not None:
                    made[put.expected] = put.sent.expected
            sides = [*conflicts, *sides_of(seen, dict(staged))]
            words = in_words(self._context, self._types, sides, made, self._unpublished)
            rules = shown_conflicts([*missing, *full], self._rights.readable(), head, staged)
            raise refuse([*words, *rules])

    def _find_full(
        self,
        head: Head,
        current: Mapping[bytes, bytes | None],
        staged: Mapping[bytes, bytes | None],
    ) -> list[ContentConflict]:
        """Returns which of the namespaces that the commit removes still contain keys."""
        removed = [
            key
            for key in self._deletes
            if is_namespace(current[key]) and not is_namespace(staged[key])
        ]
        return check_left_empty(head, removed, staged)


def find_expected(head: Head, expected: ObjId) -> CommitView:
    """Returns the commit that a writer expects; refuses one that the branch does not have.

    It is read only here, in the lane: a commit is prepared without the store.
    """
    try:
        view = head.commits.get_named(expected)
    except ReferenceNotFound:
        raise ReferenceNotFound(
            f"Could not find commit '{expected.hex()}' in reference '{head.row.name}'."
        ) from None
    check_stands_on(head, view)
    return view


def check_stands_on(head: Head, expected: CommitView) -> None:
    """Refuses an expected hash that is not in the branch's history."""
    if not head.stands_on(expected):
        raise ReferenceNotFound(
            f"Could not find commit '{expected.obj_id.hex()}' in reference '{head.row.name}'."
        )
