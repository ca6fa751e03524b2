"""Merges, transplants, picks and reverts of contents: the kernel's, under the catalog's rules.

The kernel compares elements; here conflicts get messages and contents, two sides that made the same
namespace agree, resolved contents become stored values, and the rules of namespaces hold for the
result as for any commit. What a caller may not read is in no conflict: then the refusal names
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, Protocol

import msgspec

from lochan.base.errors import Invalid, KeysConflict
from lochan.base.ids import ContentId, ObjId, content_id_from_uuid_bytes, find_uuid_bytes, uuid_of
from lochan.base.keys import (
    Key,
    Universe,
    file_key,
    file_path,
    is_record,
    ordered,
    table_key,
)
from lochan.catalog.commit import check_stands_on
from lochan.catalog.conflicts import key_of, merge_conflict, refuse, text_of
from lochan.catalog.contents import find_raw_content_id, load_content_ids
from lochan.catalog.hidden_keys import Readable, hidden_refusal, hides_some, shown_conflicts
from lochan.catalog.identities import SharedContent, find_shared
from lochan.catalog.namespaces import check_left_empty, check_parents, is_namespace, namespaces_of
from lochan.catalog.types import ContentTypes
from lochan.codec.elements import pack_table, same_state
from lochan.index.difference import Difference
from lochan.index.node import Change
from lochan.kernel.build import Head
from lochan.kernel.context import RepositoryContext
from lochan.kernel.merge import Carried, Rewrite, carry, kept
from lochan.kernel.merge_choices import Behaviour, Choices, KeyChoice, MergeConflict
from lochan.kernel.plan import CommitPlan
from lochan.kernel.provenance import Provenance
from lochan.kernel.views import CommitView
from lochan.model.commits import ContentKey
from lochan.model.contents import Content, with_id
from lochan.model.requests import KeyResolution
from lochan.model.results import ContentConflict, KeyOutcome, PathOutcome

_NO_PATHS: Final[Mapping[str, str]] = {}


class Resolutions(msgspec.Struct, frozen=True):
    """Choices as elements, and the values that resolved contents need stored."""

    choices: Choices
    values: Mapping[bytes, tuple[ObjId, bytes]]
    contents: Mapping[bytes, Content]
    """Resolved contents by element."""

    resolved: Mapping[bytes, Content]
    """Resolved contents by key."""


class MergeRights(Protocol):
    """What the caller of a merge may do to its target, decided on the head that is planned on."""

    def check_head(self, head: Head) -> None:
        """Raises Denied unless the caller may merge on this head; called by each attempt, first."""
        ...

    def readable(self) -> Readable | None:
        """Returns which keys of the branch the caller may read; None for all."""
        ...


class Carrier(Protocol):
    """What the kernel's proposals of the merge family have in common."""

    @property
    def base(self) -> CommitView | None:
        """From where the sides parted, known after planning."""
        ...

    @property
    def carried(self) -> Sequence[Carried]:
        """What the source changed, known after planning."""
        ...

    def plan(self, head: Head) -> Sequence[CommitPlan]:
        """Plans commits on a head."""
        ...


MakeCarrier = Callable[[Choices], Carrier]


def behaviour_of(text: str) -> Behaviour:
    """Reads a behaviour by its name on the wire."""
    try:
        return Behaviour(text)
    except ValueError:
        known = ", ".join(one.value for one in Behaviour)
        raise Invalid(f"not a merge behaviour: {text[:40]!r}; use one of {known}") from None


def read_resolutions(
    context: RepositoryContext,
    types: ContentTypes,
    default: str,
    keys: Mapping[ContentKey, KeyResolution],
    paths: Mapping[str, str] = _NO_PATHS,
) -> Resolutions:
    """Turns contents that the caller names into elements; `paths` has behaviours for files."""
    choices: dict[bytes, KeyChoice] = {
        bytes(file_key(path)): KeyChoice(behaviour_of(behaviour))
        for path, behaviour in paths.items()
    }
    values: dict[bytes, tuple[ObjId, bytes]] = {}
    contents: dict[bytes, Content] = {}
    by_key: dict[bytes, Content] = {}
    for key, resolution in keys.items():
        raw = bytes(table_key(key))
        expected = resolved = None
        has_expected = resolution.expected_target is not msgspec.UNSET
        has_resolved = resolution.resolved is not msgspec.UNSET
        if not isinstance(resolution.expected_target, msgspec.UnsetType | None):
            expected, _ = _element(context, types, key, resolution.expected_target, None)
        if not isinstance(resolution.resolved, msgspec.UnsetType | None):
            target = resolution.expected_target
            known = None if isinstance(target, msgspec.UnsetType) or target is None else target.id
            resolved, values[raw] = _element(context, types, key, resolution.resolved, known or "")
            contents[resolved] = by_key[raw] = resolution.resolved
        choices[raw] = KeyChoice(
            behaviour_of(resolution.behaviour), expected, has_expected, resolved, has_resolved
        )
    made = Choices(behaviour_of(default), choices, both_made_namespace)
    return Resolutions(made, values, contents, by_key)


def both_made_namespace(change: Difference, target: bytes | None) -> bool:
    """Returns whether both sides made a namespace of the same name; the target's is kept."""
    made = change.left is None and change.key[0] == Universe.TABLES
    return made and is_namespace(change.right) and is_namespace(target)


def _element(
    context: RepositoryContext,
    types: ContentTypes,
    key: ContentKey,
    content: Content,
    instead: str | None,
) -> tuple[bytes, tuple[ObjId, bytes]]:
    """Returns a content as element and value; without an id it gets `instead`, "" for a new one."""
    content_id = content.id
    if content_id is None:
        if instead is None:
            raise Invalid(f"the expected target content of '{text_of(key)}' needs its content ID")
        content_id = instead or content_id_from_uuid_bytes(uuid_of(context.random.random_bytes(16)))
    value = types.encode(with_id(content, content_id), content_id)
    raw_id = find_uuid_bytes(ContentId(content_id))
    return pack_table(types.payload_of(content), value[0], raw_id), value


class CatalogMerge:
    """A proposal of the merge family, under the rules of the catalog."""

    def __init__(
        self,
        context: RepositoryContext,
        types: ContentTypes,
        rights: MergeRights,
        expected: CommitView | None,
        make: MakeCarrier,
        resolutions: Resolutions,
        provenance: Provenance,
    ) -> None:
        self._context = context
        self._types = types
        self._rights = rights
        self.expected = expected
        self._make = make
        self._resolutions = resolutions
        self._provenance = provenance
        self.incarnation: int | None = None
        self.base: CommitView | None = None
        self.target: CommitView | None = None
        self.touched: tuple[bytes, ...] = ()

    def plan(self, head: Head) -> Sequence[CommitPlan]:
        """Plans the commits; reports every conflict in words."""
        self._rights.check_head(head)
        head.check_again(self._move_to)
        return self.plan_again(head)

    def _move_to(self, head: Head) -> bool:
        """Decides on a later head, which becomes the target; what was planned holds there, too."""
        self._rights.check_head(head)
        self.target = head.view
        return True

    def plan_again(self, head: Head) -> Sequence[CommitPlan]:
        """Plans on the head of an earlier try of the same request, for its outcomes."""
        self.target = head.view
        if self.expected is not None and self.expected.obj_id != head.view.obj_id:
            check_stands_on(head, self.expected)
        plans = self._planned(head)
        base = "" if self.base is None else self.base.obj_id.hex()
        hidden = msgspec.structs.replace(self._provenance, base=base).headers()
        return [
            msgspec.structs.replace(plan, hidden=hidden, objects=self._values(plan))
            for plan in plans
        ]

    def outcomes(self, conflicts: Sequence[ContentConflict]) -> tuple[KeyOutcome, ...]:
        """Returns for every touched key what was to be done with it, and what it conflicts with."""
        by_key = {one.key: one for one in conflicts if one.path is None and one.key is not None}
        tables = [raw for raw in self.touched if raw[0] == Universe.TABLES]
        if by_key:
            tables = ordered([*tables, *(bytes(table_key(key)) for key in by_key)])
        of = self._resolutions.choices.of
        found = []
        for raw in tables:
            key = key_of(raw)
            found.append(KeyOutcome(key, of(raw).behaviour.value, by_key.get(key)))
        return tuple(found)

    def path_outcomes(self, conflicts: Sequence[ContentConflict]) -> tuple[PathOutcome, ...]:
        """Returns the same for every touched file."""
        by_path = {one.path: one for one in conflicts if one.path is not None}
        files = {
            file_path(Key(raw)): raw
            for raw in self.touched
            if raw[0] == Universe.FILES and not is_record(raw)
        }
        files |= {path: bytes(file_key(path)) for path in by_path}
        choice = self._resolutions.choices.of
        return tuple(
            PathOutcome(path, choice(raw).behaviour.value, by_path.get(path))
            for path, raw in sorted(files.items(), key=lambda item: item[1])
        )

    def _planned(self, head: Head) -> Sequence[CommitPlan]:
        carrier = self._make(self._resolutions.choices)
        try:
            plans = self._carry(carrier, head)
            self._check_resolved(head, carrier.carried)
            shared = partial(find_shared, self._context, self._types, head, carrier.carried)
            head.excuse(partial(_is_forced_still, self._resolutions.choices))
            return _check_rules(
                head,
                plans,
                self._resolutions.choices,
                shared,
                lambda choices: self._make(choices).plan(head),
                self._rights.readable(),
            )
        finally:
            self.base = carrier.base
            changes = [change for one in carrier.carried for change in one.changes]
            self.touched = tuple(ordered(change.key for change in changes))

    def _carry(self, carrier: Carrier, head: Head) -> Sequence[CommitPlan]:
        try:
            return carrier.plan(head)
        except KeysConflict as refusal:
            conflicts = [one for one in refusal.details if isinstance(one, MergeConflict)]
            made = self._resolutions.contents
            if hides_some((one.key for one in conflicts), self._rights.readable()):
                raise hidden_refusal() from None
            raise merge_conflict(
                self._context, self._types, conflicts, made, head.unpublished
            ) from None

    def _check_resolved(self, head: Head, carried: Sequence[Carried]) -> None:
        """Refuses a resolved content with the id of a content that is on neither side."""
        found = self._resolutions.resolved.items()
        resolved = {key: one for key, one in found if one.id is not None}
        if not resolved:
            return
        sides: dict[bytes, set[bytes | None]] = {}
        for change in (change for one in carried for change in one.changes):
            if change.key in resolved:
                sides.setdefault(change.key, set()).update((change.left, change.right))
        given = [(key, one) for key, one in resolved.items() if key in sides]
        current = head.find(ordered(key for key, _ in given))
        for key, content in given:
            elements = [one for one in {*sides[key], current[key]} if one is not None]
            ids = load_content_ids(self._context, self._types, elements, head.unpublished)
            if content.id not in ids.values():
                raise Invalid(
                    f"The resolved content of '{text_of(key_of(key))}' has the content ID "
                    f"'{content.id}', which is on neither side; leave it out for a new content"
                )

    def _values(self, plan: CommitPlan) -> list[tuple[ObjId, bytes]]:
        values = self._resolutions.values
        if not values:
            return []
        return [values[op.key] for op in plan.operations if op.key in values]


class CarryContents:
    """Carries changes as the kernel does, under the rules of the catalog; for rebases.

    What both sides changed is reported as the kernel reports it, without contents. `rewrite`
    changes the headers of the commits.
    """

    def __init__(
        self,
        context: RepositoryContext,
        types: ContentTypes,
        readable: Readable | None = None,
        rewrite: Rewrite = kept,
    ) -> None:
        self._context = context
        self._types = types
        self._readable = readable
        self._rewrite = rewrite

    def __call__(
        self, head: Head, carried: Sequence[Carried], choices: Choices
    ) -> Sequence[CommitPlan]:
        """Plans the commits that carry changes onto a head, one after the other."""
        carried = [
            msgspec.structs.replace(one, headers=self._rewrite(one.headers)) for one in carried
        ]
        plans = self._carried(head, carried, choices)
        shared = partial(find_shared, self._context, self._types, head, carried)
        again = partial(self._carried, head, carried)
        return _check_rules(head, plans, choices, shared, again, self._readable)

    def _carried(
        self, head: Head, carried: Sequence[Carried], choices: Choices
    ) -> Sequence[CommitPlan]:
        try:
            return carry(head, carried, choices)
        except KeysConflict as refusal:
            conflicts = [one for one in refusal.details if isinstance(one, MergeConflict)]
            if hides_some((one.key for one in conflicts), self._readable):
                raise hidden_refusal() from None
            raise


def _is_forced_still(choices: Choices, one: Difference, own: Change | None) -> bool:
    """Returns whether a merge does the same to a key, by force, after the head has changed it.

    It does if it leads to another state than both. A table must have stayed the same content:
    whether a content is under one key, and every key in a namespace, depends on no more than that.
    """
    key, choice = one.key, choices.of(one.key)
    is_forced = choice.behaviour is Behaviour.FORCE and not choice.has_expected_target
    if own is None or not is_forced:
        return False
    if any(same_state(key, own[1], state) for state in (one.left, one.right)):
        return False
    if key[0] == Universe.FILES:
        return not is_record(key)
    return _is_same_table(one.left, one.right)


def _is_same_table(left: bytes | None, right: bytes | None) -> bool:
    if left is None or right is None or is_namespace(left) or is_namespace(right):
        return False
    content_id = find_raw_content_id(left)
    return content_id is not None and content_id == find_raw_content_id(right)


def _check_rules(
    head: Head,
    plans: Sequence[CommitPlan],
    choices: Choices,
    find: Callable[[Sequence[CommitPlan]], list[SharedContent]],
    again: Callable[[Choices], Sequence[CommitPlan]],
    readable: Readable | None,
) -> Sequence[CommitPlan]:
    """Returns the plans, or plans without what gives way to the target; else refuses them.

    A content that is under another key already, as `find` reports it, gives way where the target is
    to be taken on conflict: its key is planned again as DROP. A rename that is dropped may leave
    its old key, which others then share, so this goes on; each round drops one more key at least.
    """
    while shared := find(plans):
        dropped = [
            one.key
            for one in shared
            if choices.of(one.key).behaviour is Behaviour.TAKE_TARGET_ON_CONFLICT
        ]
        if not dropped:
            if hides_some((key for one in shared for key in (one.key, one.other)), readable):
                raise hidden_refusal()
            raise refuse([one.conflict() for one in shared])
        keys = {**choices.keys, **dict.fromkeys(dropped, KeyChoice(Behaviour.DROP))}
        choices = msgspec.structs.replace(choices, keys=keys)
        plans = again(choices)
    _check_namespaces(head, plans, readable)
    return plans


def _check_namespaces(head: Head, plans: Sequence[CommitPlan], readable: Readable | None) -> None:
    """Refuses what would leave a key without its namespaces, after any of the commits."""
    lines = [[op for op in plan.operations if op.key[0] == Universe.TABLES] for plan in plans]
    keys = ordered(op.key for line in lines for op in line)
    current = {**head.find(keys), **head.find(ordered(namespaces_of(keys)))}
    staged: dict[bytes, bytes | None] = {}
    found: dict[tuple[str, ContentKey | None], ContentConflict] = {}
    for line in lines:
        before = {op.key: staged.get(op.key, current[op.key]) for op in line}
        staged.update({op.key: op.element for op in line})
        new = [op.key for op in line if op.element is not None and before[op.key] is None]
        removed = [
            op.key for op in line if is_namespace(before[op.key]) and not is_namespace(op.element)
        ]
        broken = check_parents(new, staged, current)
        if removed:
            broken += check_left_empty(head, removed, staged)
        found |= {(one.kind, one.key): one for one in broken}
    if found:
        raise refuse(shown_conflicts(list(found.values()), readable, head, staged))
