"""What many clients did to files at once, compared with what is promised when all have ended.

* what is read, listed, compared or demanded by a condition is the value of a write that neither
  began later nor was over before another one began which was over before the read;
* a commit of files holds, at every path, what a reader of the same time may have seen; so does the
  head if there was nothing to commit;
* every commit is its first parent and its changes, it was made by one acknowledged request, and
  every acknowledged request has made one; the ref-log has no gap;
* tables, merges, picks and reverts are what the plain model computes, files included; a merge that
  is refused beyond that is refused for a file that was staged, and none hides a staged file;
* of two conditional writes that demand the same state one is refused;
* when all have ended, all ways to read a branch agree, and a commit takes all that is staged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import pairwise
from typing import Any

from lochan.base.errors import (
    AlreadyExists,
    ConditionFailed,
    Exhausted,
    KeysConflict,
    LochanError,
    NotFound,
    NothingToCommit,
    PathNotFound,
    StagedWork,
    Unknown,
)
from lochan.testing.models import merges
from lochan.testing.models.merges import Choices, Outcome
from tests.stateful.file_crowd import (
    GONE,
    MOVED,
    PATHS,
    Done,
    Shared,
    infos_of,
    list_of,
    origin_of,
    sha_of,
)
from tests.stateful.file_crowd_history import CARRYING, CrowdHistory, value_of
from tests.stateful.file_timeline import (
    NEVER,
    Effect,
    StagedPath,
    StagedSpan,
    Timeline,
    Value,
)
from tests.stateful.history_answers import Difference, require

NO_VALUES: frozenset[Value] = frozenset()


class FileCrowdCheck(CrowdHistory):
    """Compares one run; `wrong` lists what differs."""

    def __init__(self, system: Any, shared: Shared) -> None:
        super().__init__(system, shared)
        self.lines: dict[tuple[str, str], Timeline] = {}
        self.staged: dict[tuple[str, str], StagedPath] = {}
        self.etags: dict[str, set[Value]] = {}
        self.origins: dict[str, set[Value]] = {}
        self.counts: Counter[str] = Counter()

    def run(self) -> None:
        """Reads everything and compares everything."""
        self.read_history()
        for name in self.moves:
            for path in PATHS:
                self.lines[name, path], self.staged[name, path] = Timeline(), StagedPath()
                self.lines[name, path].add(Effect(-2, -1, frozenset([None])))
        self.note_values()
        for done in self.done:
            self.note_effects(done)
        for line in self.lines.values():
            line.settle()
        for done in self.done:
            self.look(str(done), partial(self.check, done))
        self.check_exclusive()
        for name in self.moves:
            self.look(f"the end of {name}", partial(self.check_end, name))

    def note_values(self) -> None:
        """Collects which values have the same bytes, and the same ETag.

        The write of a value that was seen may have ended without an answer. A copy without an
        answer may have the bytes of any put.
        """
        by_sha: dict[str, set[Value]] = {}
        unanswered: set[Value] = set()
        for done in self.done:
            for info in infos_of(done.answer):
                by_sha.setdefault(info.sha256, set()).add(value_of(info))
                self.etags.setdefault(info.etag, set()).add(value_of(info))
            if done.kind in ("put", "put_if"):
                by_sha.setdefault(sha_of(done.value), set()).add(done.value)
            elif done.kind in ("copy", "update") and isinstance(done.answer, Unknown):
                unanswered.add(done.value)
        for done in self.done:
            if done.kind in ("put", "put_if"):
                self.origins[done.value] = by_sha[sha_of(done.value)] | unanswered

    # Effects.

    def note_effects(self, done: Done) -> None:
        if done.refused and not isinstance(done.answer, Unknown):
            if isinstance(done.answer, NothingToCommit):
                self.take_away(done, certain=True)
            return
        certain = not done.refused
        end = done.end if certain else NEVER
        if done.kind in ("put", "put_if", "copy", "update"):
            self.stage(done, done.path, done.value, end, certain=certain)
        elif done.kind in ("delete", "delete_if") and done.answer is not False:
            self.stage(done, done.path, None, end, certain=certain)
        elif done.kind == "delete_many":
            # A path without a file is left aside, and the answer does not name it.
            for path in done.paths:
                self.stage(done, path, None, end, certain=False)
        elif done.kind in ("commit", "commit_both"):
            self.take_away(done, certain=certain)
        elif done.kind in CARRYING:
            if certain and done.answer.applied:
                changed = self.history.commits[done.answer.hash].operations
                for key, value in changed.items():
                    if key[0] == "f":
                        self.effect(done, key[1], frozenset([value]), end, certain=True)
        elif done.kind in ("reset", "reset_some"):
            self.note_reset(done, end, certain=certain)
        elif done.kind in ("hard_reset", "create", "drop"):
            content = {} if done.kind == "drop" else self.history.content(done.source)
            for path in PATHS:
                left = frozenset([content.get(("f", path))])
                left = NO_VALUES if done.kind == "drop" else left
                self.effect(done, path, left, end, certain=certain)
            self.take_away(done, certain=certain)

    def note_reset(self, done: Done, end: int, *, certain: bool) -> None:
        """A reset shows what the head has at some moment of it."""
        heads = self.heads[done.branch].met(done.start, end)
        contents = [self.history.content(head) for head in heads if head is not None]
        for path in done.paths:
            values = frozenset(content.get(("f", path)) for content in contents)
            self.effect(done, path, values, end, certain=certain)
            if done.kind == "reset_some":
                span = StagedSpan(done.start, end, None, certain)
                self.staged[done.branch, path].restored.append(span)
        if done.kind == "reset":
            self.take_away(done, certain=certain)

    def stage(self, done: Done, path: str, value: Value, end: int, *, certain: bool) -> None:
        self.effect(done, path, frozenset([value]), end, certain=certain)
        span = StagedSpan(done.start, end, value, certain)
        self.staged[done.branch, path].staged.append(span)

    def effect(
        self, done: Done, path: str, values: frozenset[Value], end: int, *, certain: bool
    ) -> None:
        self.lines[done.branch, path].add(Effect(done.start, end, values, certain))

    def take_away(self, done: Done, *, certain: bool) -> None:
        end = done.end if certain else NEVER
        for path in PATHS:
            span = StagedSpan(done.start, end, None, certain)
            self.staged[done.branch, path].taken.append(span)

    # Comparing.

    def check(self, done: Done) -> None:
        outcome = type(done.answer).__name__ if done.refused else "done"
        self.counts[f"{done.kind} {outcome}"] += 1
        if done.refused:
            self.check_refused(done, done.answer)
            return
        check: Callable[[Done], None] | None = getattr(self, f"check_{done.kind}", None)
        if check is not None:
            check(done)

    def shows(self, done: Done, path: str, value: Value, branch: str = "") -> None:
        line = self.lines[branch or done.branch, path]
        if not line.may_show(value, done.start, done.end):
            near = sorted(
                (one for one in line.effects if one.start < done.end and one.end > done.start),
                key=lambda one: one.start,
            )
            may = line.values(done.start, done.end)
            raise Difference(f"{value!r} seen at {path!r}, only {may} may be; beside it {near}")

    def shows_any(self, done: Done, path: str, values: set[Value], branch: str = "") -> None:
        may = self.lines[branch or done.branch, path].values(done.start, done.end)
        require(not may.isdisjoint(values), "none of these may be seen", path, values, may)

    def check_stat(self, done: Done) -> None:
        self.shows(done, done.path, value_of(done.answer))

    def check_read(self, done: Done) -> None:
        self.shows_any(done, done.path, self.origins[done.answer])

    def check_list(self, done: Done) -> None:
        shown = {one.path: value_of(one) for one in done.answer}
        for path in PATHS:
            self.shows(done, path, shown.get(path))

    def check_delete(self, done: Done) -> None:
        if done.answer is False:
            self.shows(done, done.path, None)
        else:
            self.saw_a_file(done)

    def saw_a_file(self, done: Done, branch: str = "") -> None:
        may = self.lines[branch or done.branch, done.path].values(done.start, done.end)
        require(bool(may - {None}), "there was no file", may)

    def check_put_if(self, done: Done) -> None:
        self.shows_any(done, done.path, self.etags[done.expected] if done.expected else {None})

    def check_delete_if(self, done: Done) -> None:
        self.shows_any(done, done.path, self.etags[done.expected or ""])

    def check_copy(self, done: Done) -> None:
        """A copy and an update read what they write."""
        origin = [one for one in self.origins if sha_of(one) == done.answer.sha256]
        require(len(origin) == 1, "bytes of no put", done.answer)
        self.shows_any(done, done.paths[0], self.origins[origin[0]], done.source)

    check_update = check_copy

    def check_uncommitted(self, done: Done) -> None:
        for change in done.answer:
            after = None if change.after is None else value_of(change.after)
            self.shows(done, change.path, after)
        before = {one.path: one.before and value_of(one.before) for one in done.answer}
        for content in self.contents_met(done):
            if all(content.get(("f", path)) == value for path, value in before.items()):
                lines = [(path, self.lines[done.branch, path]) for path in PATHS]
                if all(
                    path in before or line.may_show(content.get(("f", path)), done.start, done.end)
                    for path, line in lines
                ):
                    return
        raise Difference("no head explains what is uncommitted")

    def contents_met(self, done: Done) -> Iterator[Mapping[Any, Any]]:
        for head in self.heads[done.branch].met(done.start, done.end):
            if head is not None:
                yield self.history.content(head)

    def check_log(self, done: Done) -> None:
        """The newest commits that changed a path, of a head that the branch had."""
        key = ("f", done.path)
        for head in self.heads[done.branch].met(done.start, done.end):
            if head is None:
                continue
            found: list[str] = []
            for commit in self.history.line(head):
                if len(found) == 3:
                    break
                if key in commit.operations:
                    found.append(commit.id)
            if found == done.answer:
                return
        raise Difference("no head has this log")

    def check_table(self, done: Done) -> None:
        found = [content.get(("t", done.path)) for content in self.contents_met(done)]
        require(done.answer in found, "no head has this table", found)

    def check_commit(self, done: Done) -> None:
        made = self.history.commits[done.answer.hash]
        head = made.parents[0]
        require(made.message == done.message, "message", made.message)
        tables = {key[1]: value for key, value in made.operations.items() if key[0] == "t"}
        require(tables == done.tables, "operations on tables", tables)
        if done.expected is not None:
            require(self.history.is_on_line(head, done.expected), "expected commit", head)
            self.require_unchanged(done, head)
        if done.kind == "commit_tables":
            require(len(tables) == len(made.operations), "files of a commit of tables", made)
            return
        for path in PATHS:
            self.shows(done, path, made.content.get(("f", path)))
        if not made.operations:
            others = [
                one
                for one in self.makers.values()
                if one is not done
                and one.branch == done.branch
                and one.kind in ("commit", "commit_both")
                and one.start < done.end
                and one.end > done.start
            ]
            require(bool(others), "an empty commit beside no other")

    check_commit_both = check_commit
    check_commit_tables = check_commit

    def require_unchanged(self, done: Done, head: str) -> None:
        for key in done.tables:
            before = self.history.content(done.expected or "").get(("t", key))
            present = self.history.content(head).get(("t", key))
            require(before == present, "a table that was changed meanwhile", key, before, present)

    def check_merge(self, done: Done) -> None:
        answer = done.answer
        head = answer.effective_target
        outcomes = self.outcomes(done, head)
        base = (answer.common_ancestor or "") if done.kind == "merge" else ""
        require(base in outcomes, "reported common ancestor is no best one", base, list(outcomes))
        outcome = outcomes[base]
        require(not outcome.invalid, "must be invalid", outcome.invalid)
        if not answer.successful:
            self.check_conflicts(done, outcome)
            return
        require(not outcome.conflicts, "must be in conflict", outcome.conflicts)
        require(answer.applied == bool(outcome.commits), "applied", outcome)
        if not answer.applied:
            return
        made, (plan,) = self.history.commits[answer.hash], outcome.commits
        require(made.operations == plan.operations, "operations", made.operations, plan)
        require(made.parents == (head, *plan.merged), "parents", made.parents, plan.merged)
        require(made.message == plan.message, "message", made.message, plan.message)
        for key, value in made.operations.items():
            if key[0] == "f":
                self.hides_nothing(done, key[1], value)

    check_cherry_pick = check_merge
    check_revert = check_merge

    def outcomes(self, done: Done, head: str) -> Mapping[str, Outcome]:
        choices, message = Choices(done.behaviour), done.message
        if done.kind == "merge":
            return merges.merge(self.history, head, done.source, choices, message=message)
        if done.kind == "revert":
            return {"": merges.revert(self.history, head, [done.source], message=message)}
        return {"": merges.pick(self.history, head, [done.source], choices, message=message)}

    def check_conflicts(self, done: Done, outcome: Outcome) -> None:
        answer = done.answer
        found = {("t", one.key[0]) for one in answer.keys if one.conflict is not None}
        found |= {("f", one.path) for one in answer.paths if one.conflict is not None}
        if outcome.conflicts:
            require(found == {one.key for one in outcome.conflicts}, "conflicts", found, outcome)
            return
        planned = {key for plan in outcome.commits for key in plan.operations if key[0] == "f"}
        require(bool(found) and found <= planned, "must not be in conflict", found, planned)
        for _, path in found:
            staged = self.staged[done.branch, path]
            require(staged.may_be_staged(done.start, done.end), "nothing is staged", path)

    def hides_nothing(self, done: Done, path: str, value: Value) -> None:
        """No file was staged at a path that a merge has changed below it."""
        staged = self.staged[done.branch, path]
        found = staged.surely_staged(done.start, done.end)
        if found is not None and value not in staged.values_since(found, done.end):
            raise Difference(f"changed below the staged file {found} at {path!r}")

    def check_hard_reset(self, done: Done) -> None:
        require(done.answer.hash == done.source, "hash", done.answer)
        if done.discard:
            return
        contents = list(self.contents_met(done))
        for path in PATHS:
            found = self.staged[done.branch, path].surely_staged(done.start, done.end)
            if found is not None:
                known = {content.get(("f", path)) for content in contents}
                known |= self.staged[done.branch, path].values_since(found, done.end) - {
                    found.value
                }
                require(found.value in known, "a staged file was dropped", path, found)

    # Refusals.

    def check_refused(self, done: Done, error: LochanError) -> None:
        if isinstance(error, Exhausted | Unknown):
            return
        if isinstance(error, PathNotFound):
            branch = done.source if done.kind in ("copy", "update") else done.branch
            path = done.paths[0] if done.kind in ("copy", "update") else done.path
            self.shows(done, path, None, branch)
        elif isinstance(error, ConditionFailed):
            may = self.lines[done.branch, done.path].values(done.start, done.end)
            if done.kind == "update":
                require(len(may) > 1, "the file was not changed meanwhile", may)
                return
            demanded = self.etags[done.expected] if done.expected else {None}
            require(bool(may - demanded), "the condition held", may)
        elif isinstance(error, NothingToCommit):
            contents = list(self.contents_met(done))
            lines = [(path, self.lines[done.branch, path]) for path in PATHS]
            fits = [
                all(
                    line.may_show(content.get(("f", path)), done.start, done.end)
                    for path, line in lines
                )
                for content in contents
            ]
            require(any(fits), "there was something to commit", len(contents))
        elif isinstance(error, StagedWork):
            staged = [self.staged[done.branch, path] for path in PATHS]
            found_any = any(one.may_be_staged(done.start, done.end) for one in staged)
            require(found_any and not done.discard, "nothing was staged")
        elif isinstance(error, KeysConflict):
            heads = [head for head in self.heads_of(done) if head is not None]
            changed = [head for head in heads if self.is_changed(done, head)]
            require(bool(done.tables) and bool(changed), "no head explains the conflict", error)
        elif isinstance(error, NotFound) and done.kind == "table":
            found = [content.get(("t", done.path)) for content in self.contents_met(done)]
            require(None in found or done.branch == GONE, "the table was there", found)
        elif isinstance(error, AlreadyExists):
            require(done.kind == "create", "refused otherwise", error)
        else:
            # The branch was away, or a commit is no longer of its line.
            require(done.branch in MOVED or done.source in MOVED, "refused otherwise", error)

    def heads_of(self, done: Done) -> list[str | None]:
        return list(self.heads[done.branch].met(done.start, done.end))

    def is_changed(self, done: Done, head: str) -> bool:
        before, present = self.history.content(done.expected or ""), self.history.content(head)
        return any(before.get(("t", key)) != present.get(("t", key)) for key in done.tables)

    # What is there.

    def check_exclusive(self) -> None:
        """Of two conditional writes that demand the same state one is refused."""
        demanding: dict[tuple[str, str, str], list[Done]] = {}
        for done in self.done:
            if done.kind in ("put_if", "delete_if") and not done.refused:
                key = (done.branch, done.path, done.expected or "")
                demanding.setdefault(key, []).append(done)
        for (branch, path, etag), both in demanding.items():
            values = self.etags[etag] if etag else {None}
            both.sort(key=lambda one: one.start)
            for one, other in pairwise(both):
                start, end = one.start, max(one.end, other.end)
                if not any(self.lines[branch, path].giving(values, start, end)):
                    self.wrong.append(f"both demanded the same state:\n    {one}\n    {other}")

    def check_end(self, name: str) -> None:
        """All ways to read a branch agree, and a commit takes all that is staged."""
        try:
            head = self.system.references.get(name).hash
        except NotFound:
            return
        content = self.history.content(head)
        listed = {one.path: value_of(one) for one in list_of(self.system, name)}
        now = Done(kind="end", branch=name, start=NEVER - 2, end=NEVER - 1)
        for path in PATHS:
            self.shows(now, path, listed.get(path))
            if path in listed:
                require(value_of(self.system.files.stat(name, path)) == listed[path], "stat", path)
                origin = origin_of(self.system.files.read(name, path))
                require(listed[path] in self.origins[origin], "bytes", path, origin)
        differing = [path for path in PATHS if listed.get(path) != content.get(("f", path))]
        changes = [one.path for one in self.system.files.uncommitted(name).items]
        require(changes == differing, "uncommitted at the end", changes, differing)
        if differing:
            self.system.files.commit(name, "the end")
        else:
            try:
                self.system.files.commit(name, "the end")
            except NothingToCommit:
                pass
            else:
                raise Difference("a commit of nothing")
        kept = {one.path: value_of(one) for one in list_of(self.system, name)}
        require(kept == listed, "a commit changes nothing that is shown", kept, listed)
        require(not self.system.files.uncommitted(name).items, "uncommitted after a commit")
