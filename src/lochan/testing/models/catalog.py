"""The rules of the catalog on plain dictionaries: namespaces, content ids, commits of users.

Keys are tuples of text, values are `Held`. A user's commit is accepted or refused by comparing what
its keys held at the commit that the user had read (the expected hash) with what they hold on the
head.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from lochan.testing.models.history import Content, History, Key, Value, applied
from lochan.testing.models.merges import Conflict, MergeRules, Outcome, Planned

Name = tuple[str, ...]

NAMESPACE: Final = "NAMESPACE"


class Held(msgspec.Struct, frozen=True):
    """What a key holds: a content with its id and type; `value` is all the rest of it."""

    content_id: str
    type: str
    value: str


class Put(msgspec.Struct, frozen=True):
    """Puts a content under a key; without an id it is a new one.

    `expected` is what the caller expects to be there, if the request contains it.
    """

    key: Name
    type: str
    value: str
    content_id: str | None = None
    expected: Held | None = None


class Delete(msgspec.Struct, frozen=True):
    """Deletes a key."""

    key: Name


class Unchanged(msgspec.Struct, frozen=True):
    """Relies on a key being as it was at the expected hash."""

    key: Name


Operation = Put | Delete | Unchanged


def parents_of(key: Name) -> Iterator[Name]:
    """Yields the keys of all namespaces that a key lies in, outermost first."""
    for length in range(1, len(key)):
        yield key[:length]


def is_namespace(value: Value | None) -> bool:
    """Returns whether a value is a namespace."""
    return isinstance(value, Held) and value.type == NAMESPACE


def broken_rules(
    content: Content, operations: Mapping[Key, Value | None], afterwards: Content | None = None
) -> list[Conflict]:
    """Returns what operations leave that must not be: keys without namespaces.

    What is there afterwards is given if there are more operations than those to be looked at.
    """
    after = applied(content, operations) if afterwards is None else afterwards
    found: dict[tuple[str, Key], Conflict] = {}
    for key, value in operations.items():
        if value is None or content.get(key) is not None:
            continue
        for parent in parents_of(_name(key)):
            if is_namespace(after.get(parent)):
                continue
            rule = "NAMESPACE_ABSENT" if after.get(parent) is None else "NOT_A_NAMESPACE"
            found[rule, parent] = Conflict(parent, rule)
    for key in operations:
        if is_namespace(content.get(key)) and not is_namespace(after.get(key)):
            name = _name(key)
            below = [one for one in after if _name(one)[: len(name)] == name and one != key]
            if below:
                found["NAMESPACE_NOT_EMPTY", key] = Conflict(key, "NAMESPACE_NOT_EMPTY")
    return list(found.values())


def shared_contents(content: Content, operations: Mapping[Key, Value | None]) -> list[Conflict]:
    """Returns the keys that get a content which another key holds afterwards."""
    after = applied(content, operations)
    found = []
    for key, value in operations.items():
        if not isinstance(value, Held) or _id_at(content, key) == value.content_id:
            continue
        if any(other != key and _id_at(after, other) == value.content_id for other in after):
            found.append(Conflict(key, "KEY_CONFLICT"))
    return found


def is_of_a_side(key: Key, resolved: Value, sides: Iterable[Value]) -> bool:
    """Returns whether a resolved content has the id of a content of some side under the key."""
    del key
    ids = {side.content_id for side in sides if isinstance(side, Held)}
    return isinstance(resolved, Held) and resolved.content_id in ids


def both_made_a_namespace(conflict: Conflict) -> bool:
    """Returns whether both sides created a namespace of the same name; the target's is kept."""
    made = conflict.base is None
    return made and is_namespace(conflict.source) and is_namespace(conflict.target)


CATALOG: Final = MergeRules(
    (shared_contents, broken_rules),
    both_made_a_namespace,
    is_of_a_side,
    frozenset({"KEY_CONFLICT"}),
)
"""The rules of merges: one key for one content, every key in its namespaces."""


def is_whole(content: Content) -> bool:
    """Returns whether all parents of every key are namespaces."""
    return all(is_namespace(content.get(up)) for key in content for up in parents_of(_name(key)))


class Committed(msgspec.Struct, frozen=True):
    """The required result of a user's commit; `added` are the keys whose contents get new ids."""

    outcome: Outcome
    added: tuple[Name, ...] = ()


def commit(
    history: History,
    head: str,
    expected: str,
    operations: Sequence[Operation],
    new_ids: Mapping[Name, str],
    *,
    message: str = "",
) -> Committed:
    """Returns what a user's commit on a head must give.

    `new_ids` are the ids that new contents get. The caller has seen to it that the expected commit
    is on the head's first-parent line, and that no key is named twice, but for a delete of a key
    that is put again.
    """
    before, current = history.content(expected), history.content(head)
    puts = {one.key: one for one in operations if isinstance(one, Put)}
    deletes = [one.key for one in operations if isinstance(one, Delete)]
    relied = [one.key for one in operations if isinstance(one, Unchanged)]
    invalid = _invalid(puts, deletes, before)
    if invalid:
        return Committed(Outcome(invalid=invalid))
    done: dict[Key, Value | None] = dict.fromkeys(deletes)
    for key, put in puts.items():
        done[key] = Held(put.content_id or new_ids.get(key, ""), put.type, put.value)
    expected_keys = [key for key in (*deletes, *relied) if key not in puts]
    found = [
        *_not_as_expected(puts, deletes, expected_keys, done, before, current),
        *_broken_by_commit(puts, deletes, done, current),
    ]
    if found:
        return Committed(Outcome(conflicts=tuple(found)))
    plan = Planned(done, applied(current, done), message)
    added = tuple(
        key
        for key, put in puts.items()
        if put.content_id is None and (before.get(key) is None or key in deletes)
    )
    return Committed(Outcome((plan,)), added)


def _not_as_expected(
    puts: Mapping[Name, Put],
    deletes: Sequence[Name],
    relied: Iterable[Name],
    done: Mapping[Key, Value | None],
    before: Content,
    current: Content,
) -> Iterator[Conflict]:
    """Yields the keys that do not hold what the commit expects; `relied` are those not put."""
    for key, put in puts.items():
        expected = before.get(key) if put.expected is None else put.expected
        old, there = _type_changes_of(put, deletes, before), current.get(key)
        if old is not None:
            target = there if before.get(key) == old else old
            yield Conflict(key, "TYPE", old, done[key], target, old)
        elif there != expected:
            yield Conflict(key, "CHANGED", expected, done[key], there, expected)
    for key in relied:
        expected, there = before.get(key), current.get(key)
        # That a key holds nothing may be relied on; only what is there can be deleted.
        if expected != there or (expected is None and key in deletes):
            yield Conflict(key, "CHANGED", expected, None, there, expected)


def _broken_by_commit(
    puts: Mapping[Name, Put],
    deletes: Sequence[Name],
    done: Mapping[Key, Value | None],
    current: Content,
) -> list[Conflict]:
    """Returns the rules of namespaces that a commit would break.

    An update of a key that is gone is in conflict for that already: it makes no key. A put that
    replaces a namespace changes its type, and is in conflict for that.
    """
    updates = [] if deletes else [key for key, put in puts.items() if put.content_id is not None]
    new = {key: value for key, value in done.items() if key not in updates}
    return [
        one
        for one in broken_rules(current, new, applied(current, done))
        if one.rule != "NAMESPACE_NOT_EMPTY" or one.key in deletes
    ]


def _invalid(puts: Mapping[Name, Put], deletes: Iterable[Name], before: Content) -> str:
    """Returns why the commit is refused on any head, "" if it is not."""
    gone = set(deletes)
    given = [put.content_id for put in puts.values() if put.content_id is not None]
    if len(set(given)) != len(given):
        return "one content is put under one key only"
    for key, put in puts.items():
        found = before.get(key)
        if put.expected is not None and put.expected.content_id != put.content_id:
            return "the put and what it expects have the same id"
        if found is None:
            if put.expected is None and put.content_id is not None:
                if _comes_from(put, gone, before) is None:
                    return "new content brings no id"
        elif put.content_id is None:
            if key not in gone:
                return "a put without an id needs a free key"
        elif isinstance(found, Held) and found.content_id != put.content_id:
            if key not in gone or _comes_from(put, gone, before) is None:
                return "the key belongs to another content"
    return ""


def _comes_from(put: Put, gone: Iterable[Name], before: Content) -> Held | None:
    """Returns the content that a put takes from a key that the same commit deletes."""
    for key in gone:
        held = before.get(key)
        if isinstance(held, Held) and held.content_id == put.content_id:
            return held
    return None


def _type_changes_of(put: Put, deletes: Sequence[Name], before: Content) -> Held | None:
    """Returns the content that a put updates or renames, if it would change its type."""
    if put.content_id is None:
        return None
    found = before.get(put.key)
    if not isinstance(found, Held) or found.content_id != put.content_id:
        found = _comes_from(put, deletes, before)
    return found if isinstance(found, Held) and found.type != put.type else None


def _id_at(content: Content, key: Key) -> str | None:
    value = content.get(key)
    return value.content_id if isinstance(value, Held) else None


def _name(key: Key) -> Name:
    return key if isinstance(key, tuple) else (str(key),)
