"""What a step of a walk asks for, chosen from what the model holds; mostly right, rarely wrong."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from random import Random
from uuid import UUID

import msgspec

from lochan.model.contents import Namespace
from lochan.testing.models.catalog import Delete, Held, Name, Operation, Unchanged
from lochan.testing.models.history import Content, Key
from lochan.testing.models.merges import Choice, Choices
from lochan.testing.models.repository import RepositoryModel
from tests.stateful.history_values import (
    SPACES,
    TABLES,
    content_of,
    held,
    is_space,
    new_content,
    put_of,
)

BEHAVIOURS = ("NORMAL",) * 6 + ("FORCE", "FORCE", "DROP", "TAKE_TARGET_ON_CONFLICT")


class Target(msgspec.Struct, frozen=True):
    """A branch, and the commit that the caller has read; None leaves it to the client."""

    name: str
    expected: str | None = None

    def reasons(
        self, model: RepositoryModel, *, moved: bool = False, tags: bool = False
    ) -> set[str]:
        """Returns why this alone is refused; `moved`: only the head itself may be expected."""
        found = model.references.get(self.name)
        if found is None:
            return {"NOT_FOUND"}
        reasons = set()
        if found.kind == "TAG" and not tags:
            reasons.add("INVALID")
        if self.expected is not None:
            if moved and found.head != self.expected:
                reasons.add("HEAD")
            if not moved and not model.history.is_on_line(found.head, self.expected):
                reasons.add("NOT_FOUND")
        return reasons


class Source(msgspec.Struct, frozen=True):
    """A commit as it is named; `plain` if by the name of a reference alone."""

    spec: str
    commit: str
    reasons: frozenset[str]
    plain: bool = False


class Picked(msgspec.Struct, frozen=True):
    """Commits as they are named, and the reference that they are said to be of."""

    commits: tuple[str, ...]
    specs: tuple[str, ...]
    source: str = ""
    reasons: frozenset[str] = frozenset()


class Chooser:
    """Chooses by a generator that is seeded anew for each step."""

    def __init__(self, model: RepositoryModel, pick: Random) -> None:
        self.model = model
        self.history = model.history
        self.pick = pick

    def likely(self, likelihood: float) -> bool:
        return self.pick.random() < likelihood

    def behaviour(self) -> str:
        return self.pick.choice(BEHAVIOURS)

    def message(self, may_be_empty: bool) -> str:
        if may_be_empty and self.likely(0.5):
            return ""
        return f"m{self.pick.randrange(1000)}"

    def name(self, kind: str) -> str:
        if self.likely(0.01):
            return "absent"
        return self.pick.choice(self.model.names(kind) or self.model.names("BRANCH"))

    def some_commit(self) -> str | None:
        """Returns any commit that was ever made, a late one rather."""
        known = list(self.history.commits)[1:]
        if not known:
            return None
        return self.pick.choice(known[-12:] if self.likely(0.7) else known)

    def target(self, *, strict: bool = False, tags: float = 0.01) -> Target:
        name = self.name("TAG" if self.likely(tags) else "BRANCH")
        found = self.model.references.get(name)
        if found is None or self.likely(0.55):
            return Target(name)
        line = [commit.id for commit in self.history.line(found.head)][:8]
        roll = self.pick.random()
        if roll < 0.4 or not line:
            return Target(name, found.head)
        if roll < (0.5 if strict else 0.92):
            return Target(name, self.pick.choice(line))
        return Target(name, found.head if strict else self.some_commit())

    def source(self, *, empty_is_invalid: bool = True, own_hash: bool = True) -> Source:
        """Chooses a commit to be brought somewhere, by a name, a hash or both.

        `own_hash`: a hash that is named with a reference must be one of its own.
        """
        name = self.name("TAG" if self.likely(0.1) else "BRANCH")
        found = self.model.references.get(name)
        if found is None:
            return Source(name, "", frozenset({"NOT_FOUND"}))
        line = [commit.id for commit in self.history.line(found.head)]
        roll = self.pick.random()
        commit, spec, plain = found.head, name, True
        other = self.some_commit()
        if roll < 0.15 and line:
            commit = self.pick.choice(line[:6])
            spec, plain = f"{name}@{commit}", False
        elif roll < 0.25 and other is not None:
            commit, spec, plain = other, f"@{other}", False
        elif roll < 0.29 and other is not None:
            commit, spec, plain = other, f"{name}@{other}", False
        elif roll < 0.33 and len(line) > 1:
            steps = self.pick.randrange(1, min(len(line), 5))
            commit, spec, plain = line[steps], f"{name}~{steps}", False
        reasons = set()
        if commit == self.history.empty and empty_is_invalid:
            reasons.add("INVALID")
        named = not spec.startswith("@") and "@" in spec
        if own_hash and named and not self.history.is_on_line(found.head, commit):
            reasons.add("NOT_FOUND")
        return Source(spec, commit, frozenset(reasons), plain)

    def commits(self, *, contiguous: bool) -> Picked:
        """Chooses commits to be made again elsewhere."""
        name = self.pick.choice(self.model.names("BRANCH"))
        line = [commit.id for commit in self.history.line(self.model.head(name))][:10][::-1]
        if contiguous or self.likely(0.3):
            return self._slice(name, line, contiguous=contiguous)
        count = self.pick.choice([1, 2, 2, 3, 4])
        chosen = [one for one in (self.some_commit() for _ in range(count)) if one is not None]
        reasons = frozenset() if chosen else frozenset({"INVALID"})
        return Picked(tuple(chosen), tuple(chosen), name, reasons)

    def _slice(self, name: str, line: list[str], *, contiguous: bool) -> Picked:
        if not line:
            return Picked((), (), name, frozenset({"INVALID"}))
        start = self.pick.randrange(len(line))
        chosen = line[start : start + self.pick.choice([1, 1, 2, 3, 4])]
        if not contiguous:
            after = self.history.commits[chosen[0]].parents[0]
            if after != self.history.empty:
                return Picked(tuple(chosen), (f"{after}..{chosen[-1]}",), name)
        if contiguous and self.likely(0.1):
            chosen = chosen[::-1]
        if contiguous and self.likely(0.05):
            name = self.pick.choice(self.model.names("BRANCH"))
        reasons = set()
        for earlier, later in pairwise(chosen):
            if contiguous and self.history.commits[later].parents[0] != earlier:
                reasons.add("INVALID")
        head = self.model.head(name)
        if contiguous and not all(self.history.is_on_line(head, one) for one in chosen):
            reasons.add("NOT_FOUND")
        return Picked(tuple(chosen), tuple(chosen), name, frozenset(reasons))

    def commits_to_revert(self, target: Target) -> Picked:
        found = self.model.references.get(target.name)
        line = [] if found is None else [one.id for one in self.history.line(found.head)][:8]
        other = self.some_commit()
        if not line or (self.likely(0.05) and other is not None):
            chosen: tuple[str, ...] = () if other is None else (other,)
        else:
            chosen = tuple(self.pick.sample(line, min(len(line), self.pick.choice([1, 1, 1, 2]))))
        reasons = set() if chosen else {"INVALID"}
        if found is not None:
            on_line = [self.history.is_on_line(found.head, one) for one in chosen]
            reasons |= set() if all(on_line) else {"NOT_FOUND"}
        return Picked(chosen, chosen, reasons=frozenset(reasons))

    def choices(self, target: Target, source: Source) -> Choices:
        """Chooses behaviours for a merge, with keys that the source has changed, mostly."""
        default = self.behaviour()
        if not source.commit or target.name not in self.model.references or self.likely(0.6):
            return Choices(default)
        head = self.model.head(target.name)
        base = self.history.best_common_ancestors(head, source.commit)[0]
        changed = [change.key for change in self.history.difference(base, source.commit)]
        return Choices(default, self._keys(head, source.commit, changed))

    def choices_of_commits(self, target: Target, commits: Sequence[str]) -> Choices:
        default = self.behaviour()
        if not commits or target.name not in self.model.references or self.likely(0.75):
            return Choices(default)
        changed = {key: None for one in commits for key in self.history.commits[one].operations}
        return Choices(default, self._keys(self.model.head(target.name), commits[-1], [*changed]))

    def _keys(self, head: str, source: str, changed: Sequence[Key]) -> dict[Key, Choice]:
        if not changed:
            return {}
        count = min(len(changed), self.pick.choice([1, 1, 2]))
        return {key: self._choice(head, source, key) for key in self.pick.sample(changed, count)}

    def _choice(self, head: str, source: str, key: Key) -> Choice:
        target = self.history.content(head).get(key)
        if self.likely(0.4):
            return Choice(self.behaviour())
        expected = target
        if self.likely(0.15):
            expected = self.history.content(source).get(key)
        if self.likely(0.3):
            return Choice("NORMAL", expected)
        if self.likely(0.2):
            return Choice("NORMAL", expected, None)
        content = new_content(self.pick, key)
        old = expected if isinstance(expected, Held) else None
        if old is not None and is_space(old) != isinstance(content, Namespace):
            return Choice("NORMAL", expected)
        theirs = self.history.content(source).get(key)
        if old is None and isinstance(theirs, Held) and self.likely(0.8):
            old = theirs
        content_id = old.content_id if old else str(UUID(int=self.pick.getrandbits(128)))
        made = held(content)
        return Choice("NORMAL", expected, Held(content_id, made.type, made.value))

    def operations(self, target: Target) -> list[Operation]:
        """Chooses what a commit does, from what its author has read."""
        head = self.model.references.get(target.name)
        at = target.expected or (self.history.empty if head is None else head.head)
        before = self.history.content(at)
        done: dict[Name, list[Operation]] = {}
        missing = [key for key in SPACES if key not in before]
        if missing and self.likely(0.7):
            done[missing[0]] = self._put(before, missing[0])
        for _ in range(self.pick.choice([1, 1, 2, 3])):
            key = self.pick.choice(SPACES if self.likely(0.1) else TABLES)
            if key not in done:
                self._add(before, key, done)
        return [one for some in done.values() for one in some]

    def _add(self, before: Content, key: Name, done: dict[Name, list[Operation]]) -> None:
        roll = self.pick.random()
        if key not in before and roll < 0.06:
            done[key] = [Unchanged(key)]
        elif key not in before or roll < 0.55:
            done[key] = self._put(before, key)
        elif roll < 0.72:
            done[key] = [Delete(key)]
        elif roll < 0.79:
            done[key] = [Unchanged(key)]
        elif roll < 0.84 or key in SPACES:
            done[key] = [Delete(key), put_of(new_content(self.pick, key), key, None, None)]
        else:
            other = self.pick.choice(TABLES)
            there = before[key]
            if other in done or other in before or other == key or not isinstance(there, Held):
                done[key] = [Delete(key)]
                return
            content = new_content(self.pick, other) if self.likely(0.3) else None
            made = there if content is None else held(content)
            moved = Held(there.content_id, made.type, made.value)
            done[key] = [Delete(key)]
            done[other] = [_put_held(other, moved)]

    def _put(self, before: Content, key: Name) -> list[Operation]:
        there = before.get(key)
        content = new_content(self.pick, key)
        if not isinstance(there, Held):
            if self.likely(0.01):
                return [put_of(content, key, str(UUID(int=1)), None)]
            return [put_of(content, key, None, None)]
        if self.likely(0.02):
            return [put_of(content, key, None, None)]
        expected = None
        if self.likely(0.2):
            made = held(new_content(self.pick, key))
            wrong = Held(there.content_id, made.type, made.value)
            expected = there if self.likely(0.7) else wrong
        return [put_of(content, key, there.content_id, expected)]


def _put_held(key: Name, value: Held) -> Operation:
    return put_of(content_of(value.type, value.value, None), key, value.content_id, None)
