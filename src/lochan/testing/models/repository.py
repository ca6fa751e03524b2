"""Branches and tags over a modelled history: where each points, and every move it made."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from lochan.testing.models.history import Commit, History
from lochan.testing.models.merges import Planned


class Refused(Exception):
    """The model refuses; `reason` is one of NOT_FOUND, EXISTS, INVALID, HEAD."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Move(msgspec.Struct, frozen=True):
    """One entry of a ref-log: a commit or another move; `old` is None at a creation.

    `kind` is the operation that made it: commit, merge, revert, assign, force and so on.
    """

    kind: str
    old: str | None
    new: str


class Reference(msgspec.Struct):
    """A branch or a tag in its present incarnation."""

    kind: str
    head: str


class RepositoryModel:
    """References by name. Every method raises Refused and changes nothing, or does it all."""

    def __init__(self, empty: str = "empty", default: str = "main") -> None:
        self.history = History(empty)
        self.default = default
        self.references: dict[str, Reference] = {default: Reference("BRANCH", empty)}
        self.moves: dict[str, list[Move]] = {default: []}

    def head(self, name: str) -> str:
        """Returns the commit that a reference points at."""
        return self._get(name).head

    def names(self, kind: str) -> list[str]:
        """Returns the names of all branches (BRANCH) or tags (TAG), in order."""
        return sorted(name for name, one in self.references.items() if one.kind == kind)

    def branch(self, name: str, expected: str | None = None) -> str:
        """Returns the head of a branch on which something is to be committed.

        An expected commit must be on its first-parent line.
        """
        found = self._get(name)
        if found.kind != "BRANCH":
            raise Refused("INVALID")
        if expected is not None:
            known = expected in self.history
            if not known or not self.history.is_on_line(found.head, expected):
                raise Refused("NOT_FOUND")
        return found.head

    def publish(
        self, name: str, kind: str, planned: Sequence[Planned], ids: Sequence[str]
    ) -> list[Commit]:
        """Puts commits on a branch, under the ids that the system has given them."""
        made = []
        for plan, commit_id in zip(planned, ids, strict=True):
            head = self.head(name)
            parents = (head, *plan.merged)
            made.append(self.history.add(commit_id, parents, plan.operations, plan.message))
            self._to(name, kind, commit_id)
        return made

    def create(self, name: str, kind: str, target: str) -> None:
        """Makes a branch or tag."""
        if name in self.references:
            raise Refused("EXISTS")
        self.references[name] = Reference(kind, target)
        self.moves.setdefault(name, []).append(Move("create", None, target))

    def assign(self, name: str, target: str, expected: str | None = None) -> None:
        """Points a branch or tag elsewhere; it must be where the caller expects it."""
        self._check_head(name, expected)
        self._to(name, "assign", target)

    def delete(self, name: str, expected: str | None = None) -> None:
        """Takes a branch or tag away; it must be where the caller expects it."""
        if name == self.default:
            raise Refused("INVALID")
        self._check_head(name, expected)
        gone = self.references.pop(name)
        self.moves[name].append(Move("delete", gone.head, gone.head))

    def move(self, name: str, kind: str, target: str, expected: str | None = None) -> None:
        """Moves a branch: fast-forward, force or rebase; it must be where it is expected."""
        if self._get(name).kind != "BRANCH":
            raise Refused("INVALID")
        self._check_head(name, expected)
        self._to(name, kind, target)

    def _get(self, name: str) -> Reference:
        found = self.references.get(name)
        if found is None:
            raise Refused("NOT_FOUND")
        return found

    def _check_head(self, name: str, expected: str | None) -> None:
        if expected is not None and self._get(name).head != expected:
            raise Refused("HEAD")

    def _to(self, name: str, kind: str, target: str) -> None:
        found = self._get(name)
        self.moves[name].append(Move(kind, found.head, target))
        found.head = target
