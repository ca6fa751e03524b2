"""What many clients did on several servers, compared with a plain model when all have ended.

The chain of a branch's commits contains the order in which they took effect, so that each check
takes one pass:

(a) an acknowledged commit, merge or transplant is in the chain of its branch exactly once, under
    the hash of the reply; a refused one is not, 503 included; an unknown one is at most once;
(b) one that began after another was settled has a later position; a read of the head sees no older
    commit than any request that was over before;
(c) a commit put what was asked for, on what its client had read; a merge and a transplant changed
    exactly what the model computes from the commits that they name;
(d) the creations and deletions of each reference are a chain of their own, under the same rules;
(e) a file has the value of its last acknowledged write, or of an unknown one; never of a refused
    one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from lochan.base.errors import NotFound
from lochan.model.commits import LogEntry
from lochan.testing.models import merges
from lochan.testing.models.history import History
from tests.fleet.operations import BRANCHES, TURNS, Operation, Recorded, location
from tests.linearity.chain import Attempt, Link, Outcome, find_violations

SHOWN = 10


class FleetCheck:
    """Reads all that is there after a run; `wrong` lists what contradicts the record."""

    def __init__(self, system: Any, recorded: Recorded) -> None:
        self.system = system
        self.recorded = recorded
        self.wrong = list(recorded.wrong)
        self.history = History(system.config().empty_hash)
        self.lines: dict[str, list[LogEntry]] = {}
        self.by_name = {one.name: one for one in recorded.operations if one.name}

    def run(self) -> None:
        """Compares everything."""
        self._read()
        for branch in BRANCHES:
            self.wrong += [f"{branch}: {one}" for one in self._chain(branch)]
            self.wrong += [f"{branch}: {one}" for one in self._contents(branch)]
        for name in TURNS:
            self.wrong += [f"{name}: {one}" for one in self._turns(name)]
        self.wrong += self._own_references()
        self.wrong += self._files()

    def summary(self) -> str:
        """Returns what was done, in numbers."""
        counts = Counter(one.outcome.value for one in self.recorded.operations if one.writes)
        outages = sum(self.recorded.outages.values())
        commits = sum(map(len, self.lines.values()))
        named = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
        return f"writes: {named}; {outages} met an outage; {commits} commits"

    # Reading.

    def _read(self) -> None:
        entries: dict[str, LogEntry] = {}
        for branch in BRANCHES:
            found: list[LogEntry] = []
            for entry in self.system.history.iterate(branch, fetch_all=True):
                found.append(entry)
                entries[entry.meta.hash or ""] = entry
            self.lines[branch] = found[::-1]
        for commit in entries:
            self._add(commit, entries)

    def _add(self, commit: str, entries: dict[str, LogEntry]) -> None:
        """Adds a commit to the model, those that it stands on first."""
        path = [commit]
        while path:
            entry = entries.get(path[-1])
            if path[-1] in self.history:
                path.pop()
            elif entry is None:
                self.wrong.append(f"the parent {path.pop()[:12]} is in the chain of no branch")
                return
            elif missing := [one for one in entry.meta.parents if one not in self.history]:
                path += missing
            else:
                puts = {one.key[0]: location(one) for one in entry.operations or ()}
                self.history.add(path.pop(), entry.meta.parents, puts, entry.meta.message)

    # Branches.

    def _chain(self, branch: str) -> Iterator[str]:
        """Checks (a) and (b), and that no shared table was overwritten unread."""
        line = self.lines[branch]
        hashes = [entry.meta.hash or "" for entry in line]
        if self.recorded.base not in hashes:
            yield "its first commit is lost"
            return
        start = hashes.index(self.recorded.base) + 1
        yield from _gaps(line)
        chain = [Link(one.meta.hash or "", one.meta.message) for one in line[start:]]
        attempts = [
            self._attempt(one)
            for one in self.recorded.operations
            if one.branch == branch
            and one.kind in ("commit", "merge", "transplant", "files", "head")
        ]
        yield from find_violations(chain, attempts)

    def _attempt(self, one: Operation) -> Attempt:
        def known(commit: str) -> str:
            return "" if commit == self.recorded.base else commit

        touches = tuple(one.puts) if one.expected else ()
        return Attempt(
            one.name,
            one.began,
            one.settled,
            one.outcome,
            known(one.reply),
            known(one.expected),
            touches,
        )

    def _contents(self, branch: str) -> Iterator[str]:
        """Checks (c)."""
        for entry in self.lines[branch]:
            one = self.by_name.get(entry.meta.message)
            commit = entry.meta.hash or ""
            if one is None or one.branch != branch or commit not in self.history:
                continue
            made = self.history.commits[commit]
            wanted = self._wanted(one, made.parents)
            if dict(made.operations) not in wanted:
                yield f"{one.kind} {one.name!r} changed {dict(made.operations)}, not {wanted}"
            if one.kind == "merge" and made.parents[1:] != (one.source,):
                yield f"merge {one.name!r} has the parents {made.parents}, not {one.source}"

    def _wanted(self, one: Operation, parents: Sequence[str]) -> list[dict[str, Any]]:
        """Returns what a commit may have done to tables."""
        if one.kind == "merge":
            outcomes = merges.merge(self.history, parents[0], one.source, message=one.name)
            return [_operations(outcome) for outcome in outcomes.values()]
        if one.kind == "transplant":
            outcome = merges.pick(self.history, parents[0], [one.source], message=one.name)
            return [_operations(outcome)]
        return [dict(one.puts)]

    # References.

    def _turns(self, name: str) -> Iterator[str]:
        """Checks (d) for a reference that all clients want."""
        attempts = [one for one in self.recorded.operations if one.branch == name]
        found, moves = self._head_and_log(name)
        chain = []
        at = ""
        for move in moves:
            if move.kind == "delete":
                chain.append(self._link("delete", at, attempts))
                at = ""
            else:
                if at:
                    yield f"created at {move.new[:12]} while it was at {at[:12]}"
                at = move.new
                chain.append(self._link("create", at, attempts))
        yield from find_violations(chain, [_as_move(one) for one in attempts])
        if found != at:
            yield f"is at {found[:12]!r}, its log ends at {at[:12]!r}"

    def _link(self, kind: str, source: str, attempts: Sequence[Operation]) -> Link:
        """Returns a move under the name of the request that made it: an acknowledged one first."""
        asked = [one for one in attempts if (one.kind, one.source) == (kind, source)]
        order = [Outcome.ACKNOWLEDGED, Outcome.UNKNOWN, Outcome.REFUSED]
        asked.sort(key=lambda one: order.index(one.outcome))
        name = asked[0].name if asked else f"{kind} at {source[:12]} by nobody"
        return Link(f"{kind} {source}", name)

    def _head_and_log(self, name: str) -> tuple[str, list[Any]]:
        """Returns both as of one moment: a write of unknown outcome may come between two reads."""
        found = self._head(name)
        while True:
            try:
                moves = list(self.system.references.iterate_log(name))[::-1]
            except NotFound:
                moves = []
            before, found = found, self._head(name)
            if found == before:
                return found, moves

    def _head(self, name: str) -> str:
        try:
            return str(self.system.references.get(name).hash)
        except NotFound:
            return ""

    def _own_references(self) -> Iterator[str]:
        """Checks (d) for references of one client: each is created once and deleted once."""
        listed = {one.name: one.hash for one in self.system.references.iterate(prefix="own-")}
        asked: dict[str, list[Operation]] = {}
        for one in self.recorded.operations:
            if one.branch.startswith("own-"):
                asked.setdefault(one.branch, []).append(one)
        for name in listed.keys() - asked.keys():
            yield f"{name}: exists and was not asked for"
        for name, operations in asked.items():
            may_be = {""}
            for one in operations:
                after = one.source if one.kind == "create" else ""
                if one.outcome is Outcome.ACKNOWLEDGED:
                    may_be = {after}
                elif one.outcome is Outcome.UNKNOWN:
                    may_be.add(after)
            if listed.get(name, "") not in may_be:
                yield f"{name}: is at {listed.get(name, '')[:12]!r}, may be at {sorted(may_be)}"

    # Files.

    def _files(self) -> Iterator[str]:
        """Checks (e), on the branch of each file and on those that merges brought it to."""
        for branch in BRANCHES:
            shown = {one.path for one in self.system.files.iterate(branch) if one.path}
            for (home, path), record in self.recorded.files.items():
                if home == branch:
                    value = self._value(branch, path)
                    if (wrong := record.wrong(value)) != "":
                        yield f"{path} on {branch}: {wrong}"
                    if (path in shown) != (value is not None):
                        yield f"{path} on {branch}: the listing and a read differ"
                elif path in shown:
                    value = self._value(branch, path)
                    if value in record.refused or value not in record.sent:
                        yield f"{path} on {branch}: was brought the value {value!r}"

    def _value(self, branch: str, path: str) -> str | None:
        try:
            return str(self.system.files.read(branch, path).decode())
        except NotFound:
            return None


def _gaps(line: Sequence[LogEntry]) -> Iterator[str]:
    for before, after in pairwise(line):
        if after.parent != before.meta.hash:
            yield f"the commit {(after.meta.hash or '')[:12]} does not follow on the one before"


def _operations(outcome: merges.Outcome) -> dict[str, Any]:
    if outcome.refused:
        return {"must be refused": str(outcome.conflicts)}
    return dict(outcome.commits[0].operations) if outcome.commits else {}


def _as_move(one: Operation) -> Attempt:
    reply = f"{one.kind} {one.source}" if one.outcome is Outcome.ACKNOWLEDGED else ""
    return Attempt(one.name, one.began, one.settled, one.outcome, reply)
