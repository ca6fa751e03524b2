"""A random walk through all operations of a repository, each answer compared with the model.

A step is one number: everything about it is chosen by a generator with that seed, from what the
model holds then. So a walk is a list of numbers, any part of which can be left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from lochan.base.errors import LochanError
from lochan.model.references import Annotation
from lochan.testing.models import catalog, merges
from lochan.testing.models.catalog import CATALOG
from lochan.testing.models.history import Commit
from lochan.testing.models.merges import Choices, Outcome, Planned
from lochan.testing.models.repository import Refused, RepositoryModel
from tests.stateful.history_answers import (
    Difference,
    check_details,
    check_entry,
    first_agreeing,
    reason_of,
    require,
)
from tests.stateful.history_choices import Chooser, Target
from tests.stateful.history_namespaces import namespace
from tests.stateful.history_reads import check_everything, check_some
from tests.stateful.history_values import to_system, wish_of

BRANCHES = ["main", "b1", "b2", "b3"]
TAGS = ["t1", "t2"]


class Walk:
    """A repository, reached through one or several servers, and the model of it."""

    def __init__(self, catalogs: Sequence[Any]) -> None:
        self.catalogs = catalogs
        config = catalogs[0].config()
        self.model = RepositoryModel(config.empty_hash, config.default_branch)
        self.trace: list[str] = []
        self.counts: dict[str, int] = {}
        self.pick = Random(0)
        self.choose = Chooser(self.model, self.pick)

    @property
    def history(self) -> Any:
        return self.model.history

    @property
    def system(self) -> Any:
        """One of the servers, chosen anew for each request."""
        return self.pick.choice(self.catalogs)

    def step(self, number: int) -> None:
        """Does one thing and compares; raises Difference."""
        self.pick.seed(number)
        operation = self.pick.choices(OPERATIONS, WEIGHTS)[0]
        name = operation.__name__.strip("_")
        self.counts[name] = self.counts.get(name, 0) + 1
        operation(self)
        if self.pick.random() < 0.1:
            check_some(self.system, self.model, self.pick)

    def finish(self) -> None:
        """Compares everything that can be read."""
        for one in self.catalogs:
            check_everything(one, self.model)

    def attempt(self, text: str, call: Callable[[], Any]) -> Any:
        """Returns the answer, or the error that was raised instead."""
        try:
            answer = call()
        except LochanError as error:
            answer = error
        shown = f"{type(answer).__name__} {answer}" if isinstance(answer, LochanError) else "done"
        self.trace.append(f"{text} -> {shown[:150]}")
        return answer

    def refused(self, answer: Any, reasons: set[str]) -> bool:
        """Tells whether a request was refused as it must be; raises if only one side refuses."""
        if not reasons:
            return False
        if not isinstance(answer, LochanError):
            raise Difference(f"must be refused: {sorted(reasons)}, but was answered {answer}")
        require(reason_of(answer) in reasons, "refused otherwise", answer, reasons)
        return True

    def settle(
        self,
        kind: str,
        target: Target,
        answer: Any,
        outcomes: Mapping[str, Outcome],
        choices: Choices,
        *,
        dry_run: bool,
    ) -> None:
        """Compares an answer of the merge family, and takes over what was committed."""
        head = self.model.head(target.name)
        if isinstance(answer, LochanError):
            first_agreeing(outcomes, answer)
            self.check_head(target.name)
            return
        base = answer.common_ancestor or ""
        require(base in outcomes, "common ancestor", base, sorted(outcomes))
        outcome = outcomes[base]
        require(not outcome.invalid, "must be invalid", outcome.invalid)
        require(answer.effective_target == head, "effective target", answer, head)
        check_details(answer, outcome, choices)
        require(answer.successful == (not outcome.refused), "successful", answer, outcome)
        applied = bool(outcome.commits) and not dry_run
        require(answer.applied == applied, "applied", answer, outcome)
        if applied:
            self.publish(target.name, kind, outcome.commits, answer.hash)
            if answer.commits:
                made = [one.id for one in self.line(target.name)[: len(outcome.commits)]]
                require(list(answer.commits) == made[::-1], "commits", answer, made)
        else:
            unmoved = (None,) if outcome.refused else (None, head) if dry_run else (head,)
            require(answer.hash in unmoved, "hash", answer.hash, unmoved)
        self.check_head(target.name)

    def line(self, name: str) -> list[Commit]:
        return list(self.history.line(self.model.head(name)))

    def publish(self, name: str, kind: str, planned: Sequence[Planned], new: str) -> None:
        """Reads the commits that were made, compares each, and puts them into the model."""
        entries = self.read_new(new, len(planned))
        ids = [entry.meta.hash for entry in entries]
        require(len(set(ids) - set(self.history.commits)) == len(planned), "new commits", ids)
        for entry, plan in zip(entries, planned, strict=True):
            parents = (self.model.head(name), *plan.merged)
            check_entry(entry, parents, plan)
            self.model.publish(name, kind, [plan], [entry.meta.hash])

    def read_new(self, new: str, count: int) -> list[Any]:
        page = self.system.history.log(f"@{new}", count, fetch_all=True)
        require(len(page.items) == count, "as many commits", count, page.items)
        return list(page.items)[::-1]

    def check_head(self, name: str) -> None:
        """The branch is where the model has it."""
        found = self.system.references.get(name).hash
        require(found == self.model.head(name), "head", name, found, self.model.head(name))


def _commit(walk: Walk) -> None:
    target = walk.choose.target()
    operations = walk.choose.operations(target)
    message = f"c{walk.pick.randrange(1000)}"
    sent = [to_system(one) for one in operations]
    answer = walk.attempt(
        f"commit {target} {operations}",
        lambda: walk.system.commits.commit(target.name, message, sent, expected=target.expected),
    )
    if walk.refused(answer, target.reasons(walk.model)):
        return
    head = walk.model.head(target.name)
    made = () if isinstance(answer, LochanError) else answer.added
    ids = {one.key: one.content_id for one in made}
    done = catalog.commit(
        walk.history, head, target.expected or head, operations, ids, message=message
    )
    if isinstance(answer, LochanError):
        new = {one.key for one in operations if getattr(one, "content_id", "") is None}
        first_agreeing({"": done.outcome}, answer, new)
        walk.check_head(target.name)
        return
    require(not done.outcome.refused, "must be refused", done.outcome)
    require(tuple(one.key for one in answer.added) == done.added, "added", answer, done.added)
    walk.publish(target.name, "commit", done.outcome.commits, answer.hash)
    walk.check_head(target.name)


def _merge(walk: Walk) -> None:
    target, source = walk.choose.target(), walk.choose.source()
    reasons = target.reasons(walk.model) | source.reasons
    replay, dry = walk.pick.random() < 0.35, walk.pick.random() < 0.15
    choices = walk.choose.choices(target, source)
    message = walk.choose.message(source.plain)
    as_result = walk.pick.random() < 0.6
    answer = walk.attempt(
        f"merge {source} into {target} {choices} replay={replay} dry={dry}",
        lambda: walk.system.merges.merge(
            target.name,
            source.spec,
            message or None,
            expected=target.expected,
            default=choices.default,
            keys={key: wish_of(one) for key, one in choices.keys.items()},
            dry_run=dry,
            conflicts_as_result=as_result,
            squash=not replay,
        ),
    )
    if walk.refused(answer, reasons):
        return
    head = walk.model.head(target.name)
    said = message or f"Merged {source.spec} at {source.commit} into {target.name}"
    outcomes = merges.merge(
        walk.history, head, source.commit, choices, message=said, replay=replay, merge_rules=CATALOG
    )
    walk.settle("merge", target, answer, outcomes, choices, dry_run=dry)


def _transplant(walk: Walk) -> None:
    _pick(walk, "transplant", contiguous=True)


def _cherry_pick(walk: Walk) -> None:
    _pick(walk, "cherry-pick", contiguous=False)


def _pick(walk: Walk, kind: str, *, contiguous: bool) -> None:
    target = walk.choose.target()
    picked = walk.choose.commits(contiguous=contiguous)
    reasons = target.reasons(walk.model) | picked.reasons
    squash, dry = walk.pick.random() < 0.4, walk.pick.random() < 0.15
    choices = walk.choose.choices_of_commits(target, picked.commits)
    message = walk.choose.message(may_be_empty=True)
    as_result = walk.pick.random() < 0.6
    more = {
        "expected": target.expected,
        "default": choices.default,
        "keys": {key: wish_of(one) for key, one in choices.keys.items()},
        "dry_run": dry,
        "conflicts_as_result": as_result,
        "squash": squash,
    }
    system = walk.system.merges
    text = f"{kind} {picked} onto {target} {choices} squash={squash} dry={dry}"
    if contiguous:
        answer = walk.attempt(
            text,
            lambda: system.transplant(
                target.name, picked.source, picked.specs, message or None, **more
            ),
        )
    else:
        answer = walk.attempt(
            text, lambda: system.cherry_pick(target.name, picked.specs, message or None, **more)
        )
    if walk.refused(answer, reasons):
        return
    head = walk.model.head(target.name)
    outcome = merges.pick(
        walk.history,
        head,
        picked.commits,
        choices,
        message=message,
        squash=squash,
        merge_rules=CATALOG,
    )
    walk.settle(kind, target, answer, {"": outcome}, choices, dry_run=dry)


def _revert(walk: Walk) -> None:
    target = walk.choose.target()
    picked = walk.choose.commits_to_revert(target)
    reasons = target.reasons(walk.model) | picked.reasons
    dry, message = walk.pick.random() < 0.15, walk.choose.message(may_be_empty=True)
    as_result = walk.pick.random() < 0.6
    answer = walk.attempt(
        f"revert {picked} on {target} dry={dry}",
        lambda: walk.system.merges.revert(
            target.name,
            picked.specs,
            message or None,
            expected=target.expected,
            dry_run=dry,
            conflicts_as_result=as_result,
        ),
    )
    if walk.refused(answer, reasons):
        return
    head = walk.model.head(target.name)
    outcome = merges.revert(
        walk.history, head, picked.commits, message=message, merge_rules=CATALOG
    )
    walk.settle("revert", target, answer, {"": outcome}, Choices(), dry_run=dry)


def _rebase(walk: Walk) -> None:
    target, onto = walk.choose.target(strict=True), walk.choose.source()
    reasons = target.reasons(walk.model, moved=True) | onto.reasons
    dry, default = walk.pick.random() < 0.15, walk.choose.behaviour()
    answer = walk.attempt(
        f"rebase {target} onto {onto} {default} dry={dry}",
        lambda: walk.system.merges.rebase(
            target.name, onto.spec, expected=target.expected, default=default, dry_run=dry
        ),
    )
    if walk.refused(answer, reasons):
        return
    head = walk.model.head(target.name)
    wanted = merges.rebase(walk.history, head, onto.commit, Choices(default), CATALOG)
    if isinstance(answer, LochanError):
        first_agreeing({"": wanted.outcome}, answer)
    else:
        require(not wanted.outcome.refused, "must be refused", wanted.outcome)
        _check_moved(answer, head, moved=wanted.moved, dry_run=dry)
        if wanted.moved and not dry:
            top = _take_over_rebased(walk, onto.commit, wanted.outcome.commits, answer)
            walk.model.move(target.name, "rebase", top)
    walk.check_head(target.name)


def _take_over_rebased(walk: Walk, onto: str, planned: Sequence[Planned], answer: Any) -> str:
    """Reads the commits that a rebase made, compares each, and adds them; returns the last."""
    top = onto
    entries = walk.read_new(answer.hash, len(planned)) if planned else []
    require([one.meta.hash for one in entries] == list(answer.commits), "commits", answer)
    for entry, plan in zip(entries, planned, strict=True):
        check_entry(entry, (top,), plan)
        walk.history.add(entry.meta.hash, (top,), plan.operations, plan.message)
        top = entry.meta.hash
    require(answer.hash == top, "hash", answer, top)
    return top


def _check_moved(answer: Any, head: str, *, moved: bool, dry_run: bool) -> None:
    require(answer.successful, "successful", answer)
    require(answer.applied == (moved and not dry_run), "applied", answer, moved)
    require(answer.effective_target == head, "effective target", answer, head)
    if not moved:
        require(answer.hash in ((None, head) if dry_run else (head,)), "hash", answer, head)


def _fast_forward(walk: Walk) -> None:
    target, source = walk.choose.target(strict=True), walk.choose.source()
    reasons = target.reasons(walk.model, moved=True) | source.reasons
    dry = walk.pick.random() < 0.15
    answer = walk.attempt(
        f"fast-forward {target} to {source} dry={dry}",
        lambda: walk.system.merges.fast_forward(
            target.name, source.spec, expected=target.expected, dry_run=dry
        ),
    )
    if walk.refused(answer, reasons):
        return
    head = walk.model.head(target.name)
    moves = merges.fast_forward(walk.history, head, source.commit)
    if moves is None:
        walk.refused(answer, {"HEAD"})
    else:
        require(not isinstance(answer, LochanError), "must not be refused", answer)
        _check_moved(answer, head, moved=moves, dry_run=dry)
        if moves and not dry:
            require(answer.hash == source.commit, "hash", answer, source)
            walk.model.move(target.name, "fast-forward", source.commit)
    walk.check_head(target.name)


def _force(walk: Walk) -> None:
    target, source = walk.choose.target(strict=True), walk.choose.source()
    reasons = target.reasons(walk.model, moved=True) | source.reasons
    dry = walk.pick.random() < 0.15
    answer = walk.attempt(
        f"force {target} to {source} dry={dry}",
        lambda: walk.system.merges.force(
            target.name, source.spec, expected=target.expected, dry_run=dry
        ),
    )
    if walk.refused(answer, reasons):
        return
    head = walk.model.head(target.name)
    require(not isinstance(answer, LochanError), "must not be refused", answer)
    _check_moved(answer, head, moved=head != source.commit, dry_run=dry)
    if head != source.commit and not dry:
        require(answer.hash == source.commit, "hash", answer, source)
        walk.model.move(target.name, "force", source.commit)
    walk.check_head(target.name)


def _assign(walk: Walk) -> None:
    target = walk.choose.target(strict=True, tags=0.3)
    source = walk.choose.source(empty_is_invalid=False, own_hash=False)
    answer = walk.attempt(
        f"assign {target} to {source}",
        lambda: walk.system.references.assign(target.name, source.spec, expected=target.expected),
    )
    reasons = target.reasons(walk.model, moved=True, tags=True) | source.reasons
    if walk.refused(answer, reasons):
        return
    require(not isinstance(answer, LochanError), "must not be refused", answer)
    require(answer.hash == source.commit, "hash", answer, source)
    walk.model.assign(target.name, source.commit)
    walk.check_head(target.name)


def _create(walk: Walk) -> None:
    is_tag = walk.pick.random() < 0.4
    name = walk.pick.choice(TAGS if is_tag else BRANCHES)
    source = walk.choose.source(empty_is_invalid=False, own_hash=False)
    bare = not is_tag and walk.pick.random() < 0.1
    annotation = None
    if is_tag and walk.pick.random() < 0.5:
        annotation = Annotation(message=f"tag {walk.pick.randrange(9)}")
    answer = walk.attempt(
        f"create {name} at {'nothing' if bare else source}",
        lambda: walk.system.references.create(
            name,
            None if bare else source.spec,
            kind="TAG" if is_tag else "BRANCH",
            annotation=annotation,
        ),
    )
    reasons = set() if bare else set(source.reasons)
    if name in walk.model.references:
        reasons.add("EXISTS")
    if walk.refused(answer, reasons):
        return
    require(not isinstance(answer, LochanError), "must not be refused", answer)
    commit = walk.history.empty if bare else source.commit
    require((answer.hash, answer.annotation) == (commit, annotation), "created", answer, commit)
    walk.model.create(name, "TAG" if is_tag else "BRANCH", commit)
    walk.check_head(name)


def _delete(walk: Walk) -> None:
    target = walk.choose.target(strict=True, tags=0.4)
    answer = walk.attempt(
        f"delete {target}",
        lambda: walk.system.references.delete(target.name, expected=target.expected),
    )
    reasons = target.reasons(walk.model, moved=True, tags=True)
    if target.name == walk.model.default:
        reasons.add("INVALID")
    if walk.refused(answer, reasons):
        return
    require(not isinstance(answer, LochanError), "must not be refused", answer)
    require(answer.hash == walk.model.head(target.name), "hash", answer)
    try:
        walk.model.delete(target.name)
    except Refused as error:
        raise Difference(f"must be refused: {error}") from error


OPERATIONS: list[Callable[[Walk], None]] = [
    _commit,
    _merge,
    _transplant,
    _cherry_pick,
    _revert,
    _rebase,
    _fast_forward,
    _force,
    _assign,
    _create,
    _delete,
    namespace,
]
WEIGHTS = [40, 24, 6, 6, 6, 4, 3, 1.5, 1.5, 5, 2, 2]
