"""Merges, transplants, picks and reverts of contents: the kernel's, under the catalog's rules.

The kernel compares elements; here conflicts get words and contents, two sides that made the same
namespace agree, resolved contents become stored values, and the rules of namespaces hold for the
result as for any commit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from lochan.base.errors import Invalid, KeysConflict
from lochan.base.ids import ContentId, ObjId, content_id_from_uuid_bytes, find_uuid_bytes, uuid_of
from lochan.base.keys import Universe, ordered, table_key
from lochan.catalog.commit import check_stands_on
from lochan.catalog.conflicts import key_of, merge_conflict, refuse, text_of
from lochan.catalog.contents import payload_at
from lochan.catalog.namespaces import check_left_empty, check_parents, parents_of
from lochan.catalog.types import NAMESPACE_PAYLOAD, ContentTypes
from lochan.codec.elements import pack_table
from lochan.kernel.build import Head
from lochan.kernel.merge import Behaviour, Carried, Choices, KeyChoice, MergeConflict, carry
from lochan.kernel.parts import Parts
from lochan.kernel.plan import CommitPlan
from lochan.kernel.provenance import Provenance
from lochan.kernel.views import CommitView
from lochan.model.commits import ContentKey
from lochan.model.contents import Content, with_id
from lochan.model.results import ContentConflict, KeyOutcome


class KeyWish(msgspec.Struct, frozen=True, kw_only=True):
    """The caller's word on one key of a merge; None as a content means that there is none."""

    behaviour: str = "NORMAL"
    expected_target: Content | msgspec.UnsetType | None = msgspec.UNSET
    resolved: Content | msgspec.UnsetType | None = msgspec.UNSET


class Wishes(msgspec.Struct, frozen=True):
    """Choices as elements, and the values that resolved contents need stored."""

    choices: Choices
    values: Mapping[bytes, tuple[ObjId, bytes]]
    contents: Mapping[bytes, Content]


class Carrier(Protocol):
    """What the kernel's members of the merge family have in common."""

    @property
    def base(self) -> CommitView | None:
        """From where the sides parted, known after planning."""
        ...

    @property
    def touched(self) -> tuple[bytes, ...]:
        """The keys that the source changed, known after planning."""
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


def read_wishes(
    parts: Parts, types: ContentTypes, default: str, keys: Mapping[ContentKey, KeyWish]
) -> Wishes:
    """Turns contents that the caller names into elements."""
    choices: dict[bytes, KeyChoice] = {}
    values: dict[bytes, tuple[ObjId, bytes]] = {}
    contents: dict[bytes, Content] = {}
    for key, wish in keys.items():
        raw = bytes(table_key(key))
        expected = resolved = None
        has_expected = wish.expected_target is not msgspec.UNSET
        has_resolved = wish.resolved is not msgspec.UNSET
        if not isinstance(wish.expected_target, msgspec.UnsetType | None):
            expected, _ = _element(parts, types, key, wish.expected_target, None)
        if not isinstance(wish.resolved, msgspec.UnsetType | None):
            target = wish.expected_target
            known = None if isinstance(target, msgspec.UnsetType) or target is None else target.id
            resolved, values[raw] = _element(parts, types, key, wish.resolved, known or "")
            contents[resolved] = wish.resolved
        choices[raw] = KeyChoice(
            behaviour_of(wish.behaviour), expected, has_expected, resolved, has_resolved
        )
    return Wishes(Choices(behaviour_of(default), choices), values, contents)


def _element(
    parts: Parts, types: ContentTypes, key: ContentKey, content: Content, instead: str | None
) -> tuple[bytes, tuple[ObjId, bytes]]:
    """Returns a content as element and value; without an id it gets `instead`, "" for a new one."""
    content_id = content.id
    if content_id is None:
        if instead is None:
            raise Invalid(f"the expected target content of '{text_of(key)}' needs its content ID")
        content_id = instead or content_id_from_uuid_bytes(uuid_of(parts.chance.random_bytes(16)))
    value = types.encode(with_id(content, content_id), content_id)
    raw_id = find_uuid_bytes(ContentId(content_id))
    return pack_table(types.payload_of(content), value[0], raw_id), value


class CatalogMerge:
    """A member of the merge family, under the rules of the catalog."""

    def __init__(
        self,
        parts: Parts,
        types: ContentTypes,
        expected: CommitView | None,
        make: MakeCarrier,
        wishes: Wishes,
        said: Provenance,
    ) -> None:
        self._parts = parts
        self._types = types
        self._expected = expected
        self._make = make
        self._wishes = wishes
        self._said = said
        self.incarnation: int | None = None
        self.base: CommitView | None = None
        self.target: CommitView | None = None
        self.touched: tuple[bytes, ...] = ()

    def plan(self, head: Head) -> Sequence[CommitPlan]:
        """Plans the commits; tells every conflict in words."""
        self.target = head.view
        if self._expected is not None and self._expected.obj_id != head.view.obj_id:
            check_stands_on(head, self._expected)
        plans = self._planned(head)
        _check_namespaces(head, plans)
        base = "" if self.base is None else self.base.obj_id.hex()
        hidden = msgspec.structs.replace(self._said, base=base).headers()
        return [
            msgspec.structs.replace(plan, hidden=hidden, objects=self._values(plan))
            for plan in plans
        ]

    def outcomes(self, conflicts: Sequence[ContentConflict]) -> tuple[KeyOutcome, ...]:
        """Tells for every touched key what was to be done with it, and what stood in the way."""
        by_key = {conflict.key: conflict for conflict in conflicts}
        tables = [key_of(raw) for raw in self.touched if raw[0] == Universe.TABLES]
        further = {key for key in by_key if key is not None}.difference(tables)
        if further:
            tables = sorted([*tables, *further])
        return tuple([KeyOutcome(key, self._behaviour(key), by_key.get(key)) for key in tables])

    def _behaviour(self, key: ContentKey) -> str:
        return self._wishes.choices.of(bytes(table_key(key))).behaviour.value

    def _planned(self, head: Head) -> Sequence[CommitPlan]:
        carrier = self._make(self._wishes.choices)
        try:
            plans = carrier.plan(head)
        except KeysConflict as refusal:
            self.base, self.touched = carrier.base, carrier.touched
            rest = _without_agreed(refusal)
            if rest:
                made = self._wishes.contents
                raise merge_conflict(
                    self._parts, self._types, rest, made, head.unpublished
                ) from None
            plans = self._make(_agreeing(refusal, self._wishes.choices)).plan(head)
        self.base, self.touched = carrier.base, carrier.touched
        return plans

    def _values(self, plan: CommitPlan) -> list[tuple[ObjId, bytes]]:
        values = self._wishes.values
        if not values:
            return []
        return [values[op.key] for op in plan.operations if op.key in values]


def carry_contents(
    head: Head, carried: Sequence[Carried], choices: Choices
) -> Sequence[CommitPlan]:
    """Carries changes as the kernel does, under the rules of the catalog; for rebases.

    What both sides changed is told as the kernel tells it, without contents.
    """
    try:
        plans = carry(head, carried, choices)
    except KeysConflict as refusal:
        rest = _without_agreed(refusal)
        if rest:
            raise KeysConflict(refusal.message, tuple(rest)) from None
        plans = carry(head, carried, _agreeing(refusal, choices))
    _check_namespaces(head, plans)
    return plans


def _check_namespaces(head: Head, plans: Sequence[CommitPlan]) -> None:
    """Refuses what would leave a key without its namespaces, after any of the commits."""
    lines = [[op for op in plan.operations if op.key[0] == Universe.TABLES] for plan in plans]
    keys = ordered(op.key for line in lines for op in line)
    parents = {parent for key in keys for parent in parents_of(key)}
    current = head.find(keys) | head.find(ordered(parents.difference(keys)))
    staged: dict[bytes, bytes | None] = {}
    found: dict[tuple[str, ContentKey | None], ContentConflict] = {}
    for line in lines:
        before = {op.key: staged.get(op.key, current[op.key]) for op in line}
        staged.update([(op.key, op.element) for op in line])
        new = [op.key for op in line if op.element is not None and before[op.key] is None]
        removed = [
            op.key for op in line if _is_namespace(before[op.key]) and not _is_namespace(op.element)
        ]
        told = check_parents(new, staged, current)
        if removed:
            told += check_left_empty(head, removed, staged)
        found |= {(one.kind, one.key): one for one in told}
    if found:
        raise refuse(list(found.values()))


def _without_agreed(refusal: KeysConflict) -> list[MergeConflict]:
    """Returns the conflicts but for namespaces that both sides made."""
    conflicts = [one for one in refusal.details if isinstance(one, MergeConflict)]
    return [one for one in conflicts if not _same_namespace(one)]


def _agreeing(refusal: KeysConflict, choices: Choices) -> Choices:
    """Returns choices that keep the target's namespaces where both sides made one."""
    keys = [one.key for one in refusal.details if isinstance(one, MergeConflict)]
    taken = dict.fromkeys(keys, KeyChoice(Behaviour.TAKE_TARGET_ON_CONFLICT))
    return Choices(choices.default, {**choices.keys, **taken})


def _is_namespace(element: bytes | None) -> bool:
    return element is not None and payload_at(element) == NAMESPACE_PAYLOAD


def _same_namespace(conflict: MergeConflict) -> bool:
    """Tells whether both sides made a namespace of the same name; the target's is kept."""
    made = conflict.base is None and conflict.key[0] == Universe.TABLES
    return made and _is_namespace(conflict.source) and _is_namespace(conflict.target)
