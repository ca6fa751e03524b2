"""What many clients did at once, compared with the model when all have ended.

Every answer names commits. The parents in history and the ref-log give the order in which things
took effect, so each commit is computed again by the model: from the content of its first parent
and the request that made it.

* every commit on a branch was made by one acknowledged request, and every request's are there;
* a commit holds what its request gives on its first parent: operations, message, further parents;
* the reported common ancestor is a best one of the head and the source;
* a request that did nothing had nothing to do on the head that it names;
* a request that was refused is refused by the model on the head that it names, or on one that the
  branch had while it ran.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from lochan.base.errors import Exhausted, HeadConflict, LochanError, NotFound
from lochan.model.commits import LogEntry, Put
from lochan.testing.models import catalog, merges
from lochan.testing.models.catalog import CATALOG
from lochan.testing.models.history import History
from lochan.testing.models.merges import Outcome, Planned
from tests.stateful.crowd import BRANCHES, COMMITTING, Done, Shared
from tests.stateful.history_answers import (
    Difference,
    check_details,
    check_entry,
    first_agreeing,
    require,
)
from tests.stateful.history_values import held


class CrowdCheck:
    """Compares one run; raises Difference at the first thing that is wrong, or collects all."""

    def __init__(self, system: Any, shared: Shared) -> None:
        self.system = system
        self.shared = shared
        self.history = History(system.config().empty_hash)
        self.entries: dict[str, LogEntry] = {}
        self.moves: dict[str, list[Any]] = {}
        self.makers: dict[tuple[str, str], Done] = {}
        self.wrong: list[str] = []
        self.counts: dict[str, int] = {}

    def run(self) -> None:
        """Reads everything and compares everything; `wrong` lists what differs."""
        for name in sorted(set(BRANCHES)):
            self.moves[name] = list(self.system.references.iterate_log(name))[::-1]
        self.read_commits()
        for done in self.shared.done:
            self.look(f"{done}", lambda done=done: self.check(done))
        for name in self.moves:
            self.look(f"ref-log of {name}", lambda name=name: self.check_moves(name))
            self.look(f"content of {name}", lambda name=name: self.check_content(name))

    def look(self, what: str, check: Any) -> None:
        try:
            check()
        except Difference as error:
            self.wrong.append(f"{error}\n    of {what}")

    # Reading.

    def read_commits(self) -> None:
        """Reads every commit that any answer, any ref-log or any commit names."""
        waiting = [one for name in self.moves for move in self.moves[name] for one in ends(move)]
        waiting += [commit for done in self.shared.done for commit in named_by(done)]
        while waiting:
            start = waiting.pop()
            if start in self.entries or start == self.history.empty:
                continue
            for entry in self.system.history.iterate(f"@{start}", fetch_all=True):
                commit = entry.meta.hash or ""
                if commit in self.entries:
                    break
                self.entries[commit] = entry
                waiting += entry.meta.parents[1:]
        for commit in list(self.entries):
            self.add(commit)

    def add(self, commit: str) -> None:
        """Adds a commit to the model, those that it stands on first."""
        path = [commit]
        while path:
            entry = self.entries.get(path[-1])
            if entry is None or path[-1] in self.history:
                path.pop()
                continue
            missing = [one for one in entry.meta.parents if one not in self.history]
            if missing:
                path += missing
                continue
            operations = {
                one.key: held(one.content) if isinstance(one, Put) else None
                for one in entry.operations or ()
            }
            self.history.add(path.pop(), entry.meta.parents, operations, entry.meta.message)

    # Comparing.

    def check(self, done: Done) -> None:
        answer = done.answer
        outcome = type(answer).__name__ if isinstance(answer, LochanError) else "done"
        name = f"{done.kind} {outcome}"
        self.counts[name] = self.counts.get(name, 0) + 1
        if isinstance(answer, LochanError):
            self.check_refused(done, answer)
        elif done.kind == "commit":
            self.check_commit(done)
        elif done.kind in COMMITTING:
            self.check_carried(done)
        elif done.kind in ("rebase", "fast-forward", "force"):
            self.check_moved(done)

    def check_commit(self, done: Done) -> None:
        answer = done.answer
        self.made(done, answer.hash)
        head = self.history.commits[answer.hash].parents[0]
        require(self.history.is_on_line(head, done.expected), "expected commit", head)
        ids = {one.key: one.content_id for one in answer.added}
        wanted = catalog.commit(
            self.history, head, done.expected, done.operations, ids, message=done.message
        )
        require(not wanted.outcome.refused, "must be refused", wanted.outcome)
        require(tuple(ids) == wanted.added, "added", ids, wanted.added)
        self.check_entries(head, wanted.outcome.commits, [answer.hash])

    def check_carried(self, done: Done) -> None:
        answer = done.answer
        head = answer.effective_target
        require(self.history.is_on_line(head, done.expected), "expected commit", head)
        source = self.source_of(done)
        if done.kind == "merge" and source is None:
            return
        outcomes = self.outcomes(done, head, source)
        base = answer.common_ancestor or ""
        require(base in outcomes, "reported common ancestor is no best one", base, list(outcomes))
        outcome = outcomes[base]
        require(not outcome.invalid, "must be invalid", outcome.invalid)
        require(answer.successful == (not outcome.refused), "successful", _short(outcome))
        check_details(answer, outcome, done.choices)
        require(
            answer.applied == (bool(outcome.commits) and not done.dry_run),
            "applied",
            answer.applied,
            _short(outcome),
        )
        if not answer.applied:
            unmoved = (None,) if outcome.refused else (None, head) if done.dry_run else (head,)
            require(answer.hash in unmoved, "hash of what did nothing", answer.hash, unmoved)
            return
        line = self.line(answer.hash, len(outcome.commits))
        for commit in line:
            self.made(done, commit)
        if answer.commits:
            require(list(answer.commits) == line, "commits", answer.commits, line)
        self.check_entries(head, outcome.commits, line)

    def source_of(self, done: Done) -> str | None:
        """Returns the source of a merge; that of one by name is a parent of what it made."""
        if done.source is not None or done.kind != "merge" or not done.answer.applied:
            return done.source
        parents = self.history.commits[done.answer.hash].parents
        require(len(parents) == 2, "a merge has two parents", parents)
        return parents[1]

    def outcomes(self, done: Done, head: str, source: str | None) -> Mapping[str, Outcome]:
        """Returns what the model says of a request on a head."""
        if done.kind == "merge":
            assert source is not None
            return merges.merge(
                self.history,
                head,
                source,
                done.choices,
                message=done.message,
                replay=not done.squash,
                merge_rules=CATALOG,
            )
        if done.kind == "revert":
            return {
                "": merges.revert(
                    self.history, head, done.commits, message=done.message, merge_rules=CATALOG
                )
            }
        return {
            "": merges.pick(
                self.history,
                head,
                done.commits,
                done.choices,
                message=done.message,
                squash=done.squash,
                merge_rules=CATALOG,
            )
        }

    def check_moved(self, done: Done) -> None:
        answer = done.answer
        head = done.expected
        require(answer.effective_target == head, "effective target", answer, head)
        moved, planned = self.moves_by_model(done, head)
        require(moved is not None, "must be refused", done)
        require(answer.applied == (bool(moved) and not done.dry_run), "applied", moved)
        if not answer.applied:
            return
        if done.kind == "rebase":
            line = self.line(answer.hash, len(planned))
            require(list(answer.commits) == line, "commits", answer.commits, line)
            self.check_entries(done.source, planned, line)
        else:
            require(answer.hash == done.source, "hash", answer.hash)

    def moves_by_model(self, done: Done, head: str) -> tuple[bool | None, Sequence[Planned]]:
        """Returns whether a request moves the branch, None if it is refused; and its commits."""
        if done.kind == "force":
            return head != done.source, ()
        if done.kind == "fast-forward":
            return merges.fast_forward(self.history, head, done.source), ()
        wanted = merges.rebase(self.history, head, done.source, done.choices, CATALOG)
        if wanted.outcome.refused:
            return None, ()
        return wanted.moved, wanted.outcome.commits

    def check_entries(self, head: str, planned: Sequence[Planned], line: list[str]) -> None:
        """Compares commits that follow each other on a head with what they must be."""
        require(len(planned) == len(line), "as many commits", line, planned)
        top = head
        for commit, plan in zip(line, planned, strict=True):
            check_entry(self.entries[commit], (top, *plan.merged), plan)
            require(self.history.content(commit) == plan.content, "content", commit)
            top = commit

    def line(self, head: str, count: int) -> list[str]:
        """Returns the last commits of a head, the oldest first."""
        return [commit.id for commit in islice(self.history.line(head), count)][::-1]

    def made(self, done: Done, commit: str) -> None:
        key = (done.branch, commit)
        require(key not in self.makers, "made by two requests", commit, str(self.makers.get(key)))
        self.makers[key] = done

    # Refusals.

    def check_refused(self, done: Done, error: LochanError) -> None:
        if isinstance(error, Exhausted):
            return
        if done.kind == "create":
            require(error.kind == "already_exists", "refused otherwise", error)
            return
        heads = list(self.heads_met(done))
        if isinstance(error, NotFound):
            on_lines = [
                None not in (head, done.expected) and self.stands(done, head) for head in heads
            ]
            # The commits of a transplant may have left the branch that they were read from, and
            # the source of a merge by name may be gone.
            gone = done.kind == "transplant" or (done.kind == "merge" and done.source is None)
            require(gone or not all(on_lines), "every head had what was expected", error)
        elif isinstance(error, HeadConflict):
            others = [head for head in heads if head is None or self.is_behind(done, head)]
            require(bool(others), "the branch was where it was expected", error)
        else:
            wrong = [self.wrongly_refused(done, head, error) for head in heads if head is not None]
            require("" in wrong, "no head that was met explains the refusal", *wrong[:3])

    def stands(self, done: Done, head: str | None) -> bool:
        """Tells whether a head has all commits that the request names as its own."""
        assert head is not None
        named = [done.expected, *(done.commits if done.kind == "revert" else ())]
        return all(self.history.is_on_line(head, one) for one in named)

    def is_behind(self, done: Done, head: str) -> bool:
        """Tells whether a head refuses a move: it is another, or not to be moved so."""
        if head != done.expected or done.kind not in ("fast-forward", "rebase"):
            return head != done.expected
        return self.moves_by_model(done, head)[0] is None

    def wrongly_refused(self, done: Done, head: str, error: LochanError) -> str:
        """Returns why a head does not explain a refusal, "" if it does."""
        if done.kind == "merge" and done.source is None:
            return ""
        if done.kind == "commit":
            if not self.history.is_on_line(head, done.expected):
                return "not on the line"
            wanted = catalog.commit(self.history, head, done.expected, done.operations, {})
            outcomes: Mapping[str, Outcome] = {"": wanted.outcome}
        elif done.kind == "rebase":
            found = merges.rebase(self.history, head, done.source, done.choices, CATALOG)
            outcomes = {"": found.outcome}
        else:
            outcomes = self.outcomes(done, head, done.source)
        new = {one.key for one in done.operations if getattr(one, "content_id", "") is None}
        try:
            first_agreeing(outcomes, error, new)
        except Difference as difference:
            return str(difference)
        return ""

    def heads_met(self, done: Done) -> Iterator[str | None]:
        """Yields every head that the branch had from before the request until after it.

        None stands for a time without the branch.
        """
        heads: list[str | None] = []
        for move in self.moves[done.branch]:
            heads.append(None if move.kind == "delete" else move.new)
        first = heads.index(done.seen) if done.seen in heads else 0
        last = len(heads)
        if done.seen_after in heads:
            last = len(heads) - heads[::-1].index(done.seen_after)
        yield from heads[first:last]
        if done.seen is None or done.seen_after is None:
            yield None

    # What is there.

    def check_moves(self, name: str) -> None:
        """The ref-log has no gap, and each of its entries was made by one request."""
        made = {commit for branch, commit in self.makers if branch == name}
        moved = [
            (done.kind, done.expected, done.answer.hash)
            for done in self.shared.done
            if done.branch == name and is_acknowledged_move(done)
        ]
        head: str | None = None
        seen: set[str] = set()
        for at, move in enumerate(self.moves[name]):
            require(move.old == head, "gap in the ref-log", name, at, move, head)
            head = None if move.kind == "delete" else move.new
            if move.kind in COMMITTING:
                require(move.new not in seen, "a commit is there twice", move)
                seen.add(move.new)
            elif (move.kind, move.old, move.new) in moved:
                moved.remove((move.kind, move.old, move.new))
            else:
                require(at == 0 and move.kind == "create", "move of nobody", move)
        first = {"main": 1}.get(name, 0)
        require(made <= seen, "acknowledged commits are missing", made - seen)
        require(len(seen - made) == first, "commits of nobody", seen - made)
        require(not moved, "acknowledged moves are missing", moved)
        require(head == self.head(name), "head", head)

    def head(self, name: str) -> str | None:
        try:
            found: str = self.system.references.get(name).hash
        except NotFound:
            return None
        return found

    def check_content(self, name: str) -> None:
        head = self.head(name)
        if head is None:
            return
        entries = self.system.contents.iterate(name, with_content=True)
        found = {entry.key: held(entry.content) for entry in entries}
        require(found == self.history.content(head), "content", name, found)
        require(catalog.is_whole(self.history.content(head)), "a key without its namespace", name)


def is_acknowledged_move(done: Done) -> bool:
    if isinstance(done.answer, LochanError) or done.kind in COMMITTING or done.dry_run:
        return False
    return done.kind in ("assign", "delete", "create") or bool(done.answer.applied)


def ends(move: Any) -> Iterator[str]:
    if move.old is not None:
        yield move.old
    yield move.new


def named_by(done: Done) -> Iterator[str]:
    """Yields every commit that a request or its answer names."""
    for one in (done.seen, done.expected, done.source, done.seen_after, *done.commits):
        if one is not None:
            yield one
    if not isinstance(done.answer, LochanError):
        for name in ("hash", "effective_target", "common_ancestor"):
            found = getattr(done.answer, name, None)
            if found:
                yield found


def _short(outcome: Outcome) -> str:
    if outcome.conflicts:
        return f"conflicts {outcome.conflicts}"
    return f"commits {[plan.operations for plan in outcome.commits]}"
