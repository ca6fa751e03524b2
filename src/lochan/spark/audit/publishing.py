"""Publishing: how a commit that was judged becomes the head of its target, and nothing else can.

1. `candidate`: the branch must be where we left it. If the target has moved on since, the audit's
   own commits are made again on its new head (fast-forward), or one commit of all of them is made
   there, on a branch beside it (merge). A target that was moved back or elsewhere is a conflict.
2. Every commit that the target's history would get, from the target's head along first parents up
   to the candidate, is judged as it is against that state of the target. A merge is one commit.
3. `swing`: the target moves to exactly the candidate, if every one of these commits has a verdict
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
from lochan.base.pipeline_limits import (
    AUDIT_ATTEMPTS_MAX,
    AUDIT_COMMITS_MAX,
)
from lochan.client import Client
from lochan.model.commits import CommitMeta
from lochan.spark.audit.verdicts import Ledger, Verdict

Mode = Literal["merge", "fast-forward"]
MODES: Final = ("merge", "fast-forward")


class Place(msgspec.Struct, frozen=True):
    """From where to where one audit publishes, and what a merge says."""

    branch: str
    target: str
    mode: Mode
    expires_us: int
    said: CommitMeta


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
    """What became of the target; `is_new` is False where it had everything already."""

    commit: str
    is_new: bool


Judge = Callable[[Candidate], Verdict]

_MERGE_INSTEAD: Final = 'use publish="merge", which publishes their result as one commit'


class Publisher:
    """Brings what stands on the branch of one audit to its target."""

    def __init__(self, client: Client, ledger: Ledger, place: Place) -> None:
        self._client = client
        self._ledger = ledger
        self._place = place
        self._beside: dict[str, str] = {}
        self._last: Candidate | None = None
        self.is_swinging = False
        """Whether the target was told to move and has not said that it did not."""

    def publish(self, judge: Judge, *, is_repeated: bool = False) -> Published:
        """Publishes, judging again whenever the target has moved; Conflict if it moves too often.

        `is_repeated` says that all writes were found done: then there may be nothing to judge.
        """
        for _ in range(AUDIT_ATTEMPTS_MAX):
            candidate = self.candidate()
            is_new = candidate.commit != candidate.target
            if is_new or not is_repeated:
                for step in self._line(candidate) or [candidate]:
                    self._ledger.judged(judge(step), step.head)
            if not is_new or self.swing(candidate):
                return Published(candidate.commit, is_new)
        raise Conflict(
            f"{self._place.target!r} has moved {AUDIT_ATTEMPTS_MAX} times while this was checked; "
            "nothing is published"
        )

    def candidate(self) -> Candidate:
        """Step 1: returns the commit to be judged."""
        place, ledger = self._place, self._ledger
        ledger.check_open()
        head = self._client.references.get(place.branch).hash
        ledger.check_head(head)
        target = self._client.references.get(place.target).hash
        if head == ledger.base:
            return Candidate(target, target, place.target, head)
        if place.mode == "merge":
            return self._merged(head, target)
        if target != ledger.base:
            head = self._rebase(head, target)
        return Candidate(head, target, place.branch, head)

    def swing(self, candidate: Candidate) -> bool:
        """Step 3: moves the target to what was judged; False if the target has moved meanwhile."""
        place = self._place
        for step in self._line(candidate) or [candidate]:
            self._ledger.permit(step.commit, step.target)
        self._ledger.check_head(self._client.references.get(place.branch).hash)
        source = f"{candidate.branch}@{candidate.commit}"
        self.is_swinging = True
        try:
            done = self._client.merges.fast_forward(place.target, source, expected=candidate.target)
        except Unknown as lost:
            if not self._is_in_target(candidate, lost):
                raise
            return True
        except HeadConflict:
            self.is_swinging = False
            return False
        except LochanError:
            self.is_swinging = False
            raise
        if done.hash != candidate.commit:
            raise Unknown(f"{place.target!r} is at {done.hash}, not at what was checked")
        return True

    def tidy(self) -> str:
        """Takes away the branches of an audit that was published; returns what kept one, or ''.

        Only as they were left: what somebody has put there since may be nowhere else.
        """
        told = ""
        for name, head in {self._place.branch: self._ledger.head, **self._beside}.items():
            try:
                self._client.references.delete(name, expected=head)
            except LochanError as error:
                # The target has everything; what is left of the branch ends with its time.
                told = f"{name} is left until its time: {error.message}"
        return told

    def _line(self, candidate: Candidate) -> list[Candidate]:
        """Returns every commit that the target's history would get, the oldest first.

        They are looked up from the candidate down, whoever has made them: the way must be one of
        first parents that leads to the target's head, because logs and change feeds go that way.
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
                    f"be checked to become part of {self._place.target!r}: {_MERGE_INSTEAD}"
                )
        else:
            raise AuditFailed(
                f"the commits of this run do not begin at the head of {self._place.target!r}, "
                f"so others than those that were checked would become part of it: {_MERGE_INSTEAD}"
            )
        return [
            msgspec.structs.replace(candidate, commit=commit, number=number, count=len(found))
            for number, commit in enumerate(reversed(found), 1)
        ]

    def _rebase(self, head: str, target: str) -> str:
        """Makes our own commits again on the target's new head; returns the last of them."""
        place, ledger = self._place, self._ledger
        onto = f"{place.target}@{target}"
        tried = self._client.merges.merge(
            place.branch, onto, expected=head, dry_run=True, conflicts_as_result=True
        )
        self._check_ancestor(tried.common_ancestor)
        try:
            done = self._client.merges.rebase(place.branch, onto, expected=head)
        except KeysConflict as refusal:
            raise self._in_the_way(refusal) from refusal
        except HeadConflict as refusal:
            raise AuditFailed(
                f"the branch of this audit was changed from outside: {refusal.message}"
            ) from refusal
        made = done.hash or head
        ledger.moved(target, made)
        return made

    def _merged(self, head: str, target: str) -> Candidate:
        """Makes one commit of all our own, on a branch that stands on the target's head."""
        place, last = self._place, self._last
        if last is not None and (last.head, last.target) == (head, target):
            return last
        # By chance, because those of an earlier run of the same branch stay until their time.
        beside = f"{place.branch}-publish-{token_hex(4)}"
        self._client.references.create(
            beside, f"{place.target}@{target}", expires_us=place.expires_us
        )
        self._beside[beside] = target
        source = f"{place.branch}@{head}"
        try:
            done = self._client.merges.merge(beside, source, place.said, expected=target)
        except KeysConflict as refusal:
            raise self._in_the_way(refusal) from refusal
        self._check_ancestor(done.common_ancestor)
        self._beside[beside] = done.hash or target
        self._last = Candidate(self._beside[beside], target, beside, head)
        return self._last

    def _check_ancestor(self, found: str | None) -> None:
        """Refuses a target that no longer has what the audit began with."""
        if (found or EMPTY_ID.hex()) != self._ledger.base:
            raise Conflict(
                f"{self._place.target!r} no longer has the commit that this audit began with; "
                "nothing is published; run the job again"
            )

    def _in_the_way(self, refusal: KeysConflict) -> KeysConflict:
        return KeysConflict(
            f"{self._place.target!r} has changed the same tables meanwhile; nothing is published; "
            f"run the job again: {refusal.message}",
            refusal.details,
        )

    def _is_in_target(self, candidate: Candidate, lost: Unknown) -> bool:
        """Looks whether a swing whose reply was lost took place; that stays the error if not."""
        try:
            log = self._client.history.iterate(self._place.target, limit_hash=candidate.target)
            return any(one.meta.hash == candidate.commit for one in log)
        except LochanError as failure:
            raise lost from failure
