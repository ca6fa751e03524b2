"""The publisher: moves a target to a commit that passed every check, and to nothing else.

1. `candidate`: the branch must be where we left it. If the target has moved on since, the audit's
   own commits are made again on its new head (fast-forward), or one commit of all of them is made
   there, on a branch beside it (merge). A target that was moved back or elsewhere is a conflict.
2. Every commit that the target's history would get, from the target's head along first parents up
   to the candidate, is judged as it is against that state of the target. A merge is one commit.
3. `move_target`: the target moves to exactly the candidate, if each of these commits has a verdict
   and the target is still where it was in step 1. If the target is not, everything begins again
   with step 1, a bounded number of times.

A crash before step 3 leaves branches that end with their time. A reply that is lost in step 3 is
looked up in the target's log; what cannot be found out is raised as Unknown. Nothing here knows
Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from secrets import token_hex
from typing import Final, Literal

import msgspec

from lochan.base.errors import (
    AuditFailed,
    Conflict,
    HeadConflict,
    KeysConflict,
    LochanError,
    Unknown,
)
from lochan.base.ids import EMPTY_ID
from lochan.base.limits.audits import AUDIT_ATTEMPTS_MAX, AUDIT_COMMITS_MAX
from lochan.client import Client
from lochan.model.commits import CommitMeta
from lochan.spark.audit.verdicts import Ledger, Verdict

PublishMode = Literal["merge", "fast-forward"]
PUBLISH_MODES: Final = ("merge", "fast-forward")


class PublishPlan(msgspec.Struct, frozen=True):
    """The branch and the target of one audit, and the metadata of the commit of a merge."""

    branch: str
    target: str
    mode: PublishMode
    expires_us: int
    merge_meta: CommitMeta


class Candidate(msgspec.Struct, frozen=True):
    """A commit that may become the target's head if the target is still at `target`."""

    commit: str
    target: str
    branch: str
    """The reference that holds the commit."""
    head: str
    """What of the audit's own branch it was made of."""
    number: int = 1
    """Its place among the commits that would be published together, the oldest first."""
    count: int = 1
    """How many they are."""


class Published(msgspec.Struct, frozen=True):
    """The result of publishing; `is_new` is False if the target had everything already."""

    commit: str
    is_new: bool


Judge = Callable[[Candidate], Verdict]

_MERGE_INSTEAD: Final = 'use publish="merge", which publishes their result as one commit'


class Publisher:
    """Publishes the branch of one audit on its target."""

    def __init__(self, client: Client, ledger: Ledger, place: PublishPlan) -> None:
        self._client = client
        self.ledger = ledger
        self._plan = place
        self._beside: dict[str, str] = {}
        self._last: Candidate | None = None
        self.is_moving_target = False
        """Whether the request to move the target was sent and not refused."""

    def publish(self, judge: Judge, *, is_repeated: bool = False) -> Published:
        """Publishes; checks again whenever the target has moved; Conflict if it moves too often.

        `is_repeated` is whether all writes were done before: then there may be nothing to check.
        """
        for _ in range(AUDIT_ATTEMPTS_MAX):
            candidate = self.candidate()
            is_new = candidate.commit != candidate.target
            if is_new or not is_repeated:
                for step in self._line(candidate) or [candidate]:
                    self.ledger.judged(judge(step), step.head)
            if not is_new or self.move_target(candidate):
                return Published(candidate.commit, is_new)
        raise Conflict(
            f"{self._plan.target!r} has moved {AUDIT_ATTEMPTS_MAX} times while this was checked; "
            "nothing is published"
        )

    def candidate(self) -> Candidate:
        """Step 1: returns the commit to be checked."""
        plan, ledger = self._plan, self.ledger
        ledger.check_open()
        head = self._client.references.get(plan.branch).hash
        ledger.check_head(head)
        target = self._client.references.get(plan.target).hash
        if head == ledger.base:
            return Candidate(target, target, plan.target, head)
        if plan.mode == "merge":
            return self._merged(head, target)
        if target != ledger.base:
            head = self._rebase(head, target)
        return Candidate(head, target, plan.branch, head)

    def move_target(self, candidate: Candidate) -> bool:
        """Step 3: moves the target to what was checked; False if the target has moved meanwhile."""
        plan = self._plan
        for step in self._line(candidate) or [candidate]:
            self.ledger.permit(step.commit, step.target)
        self.ledger.check_head(self._client.references.get(plan.branch).hash)
        source = f"{candidate.branch}@{candidate.commit}"
        self.is_moving_target = True
        try:
            done = self._client.merges.fast_forward(plan.target, source, expected=candidate.target)
        except Unknown as lost:
            if not self._is_in_target(candidate, lost):
                raise
            return True
        except HeadConflict:
            self.is_moving_target = False
            return False
        except LochanError:
            self.is_moving_target = False
            raise
        if done.hash != candidate.commit:
            raise Unknown(f"{plan.target!r} is at {done.hash}, not at what was checked")
        return True

    def tidy(self) -> str:
        """Deletes the branches of an audit that was published; returns why one is left, or ''.

        Only if they were not changed since: what others have put there may be nowhere else.
        """
        problem = ""
        for name, head in {self._plan.branch: self.ledger.head, **self._beside}.items():
            try:
                self._client.references.delete(name, expected=head)
            except LochanError as error:
                # The target has everything; what is left of the branch ends with its time.
                problem = f"{name} is left until its time: {error.message}"
        return problem

    def _line(self, candidate: Candidate) -> list[Candidate]:
        """Returns every commit that the target's history would get, the oldest first.

        They are looked up from the candidate down, whichever client made them: first parents must
        lead to the target's head, because logs and change feeds follow first parents.
        """
        if candidate.commit == candidate.target:
            return []
        found: list[str] = []
        for entry in self._client.history.iterate(candidate.commit):
            found.append(entry.meta.hash or "")
            if entry.parent == candidate.target:
                break
            if len(found) == AUDIT_COMMITS_MAX:
                raise AuditFailed(
                    f"this run has more than {AUDIT_COMMITS_MAX} commits, and each would have to "
                    f"be checked to become part of {self._plan.target!r}: {_MERGE_INSTEAD}"
                )
        else:
            raise AuditFailed(
                f"the commits of this run do not begin at the head of {self._plan.target!r}, "
                f"so others than those that were checked would become part of it: {_MERGE_INSTEAD}"
            )
        return [
            msgspec.structs.replace(candidate, commit=commit, number=number, count=len(found))
            for number, commit in enumerate(reversed(found), 1)
        ]

    def _rebase(self, head: str, target: str) -> str:
        """Rebases the commits of the audit on the target's new head; returns the last of them."""
        plan, ledger = self._plan, self.ledger
        onto = f"{plan.target}@{target}"
        tried = self._client.merges.merge(
            plan.branch, onto, expected=head, dry_run=True, conflicts_as_result=True
        )
        self._check_ancestor(tried.common_ancestor)
        try:
            done = self._client.merges.rebase(plan.branch, onto, expected=head)
        except KeysConflict as refusal:
            raise self._in_the_way(refusal) from refusal
        except HeadConflict as refusal:
            raise AuditFailed(
                f"the branch of this audit was changed from outside: {refusal.message}"
            ) from refusal
        rebased = done.hash or head
        ledger.moved(target, rebased)
        return rebased

    def _merged(self, head: str, target: str) -> Candidate:
        """Merges the commits of the audit into one, on a new branch from the target's head."""
        plan, last = self._plan, self._last
        if last is not None and (last.head, last.target) == (head, target):
            return last
        # A random name, because branches of an earlier run stay until they expire.
        beside = f"{plan.branch}-publish-{token_hex(4)}"
        self._client.references.create(
            beside, f"{plan.target}@{target}", expires_us=plan.expires_us
        )
        self._beside[beside] = target
        source = f"{plan.branch}@{head}"
        try:
            done = self._client.merges.merge(beside, source, plan.merge_meta, expected=target)
        except KeysConflict as refusal:
            raise self._in_the_way(refusal) from refusal
        self._check_ancestor(done.common_ancestor)
        self._beside[beside] = done.hash or target
        self._last = Candidate(self._beside[beside], target, beside, head)
        return self._last

    def _check_ancestor(self, found: str | None) -> None:
        """Refuses a target that no longer has the commit that the audit began with."""
        if (found or EMPTY_ID.hex()) != self.ledger.base:
            raise Conflict(
                f"{self._plan.target!r} no longer has the commit that this audit began with; "
                "nothing is published; run the job again"
            )

    def _in_the_way(self, refusal: KeysConflict) -> KeysConflict:
        return KeysConflict(
            f"{self._plan.target!r} has changed the same tables meanwhile; nothing is published; "
            f"run the job again: {refusal.message}",
            refusal.details,
        )

    def _is_in_target(self, candidate: Candidate, lost: Unknown) -> bool:
        """Returns whether the target moved after all; raises the lost reply if that is unknown."""
        try:
            log = self._client.history.iterate(self._plan.target, limit_hash=candidate.target)
            return any(entry.meta.hash == candidate.commit for entry in log)
        except LochanError as failure:
            raise lost from failure
