"""Publishing: how a commit that was judged becomes the head of its target, and nothing else can.

1. `candidate`: the branch must be where we left it. If the target has moved on since, the audit's
   own commits are made again on its new head (fast-forward), or one commit of all of them is made
   there, on a branch beside it (merge). A target that was moved back or elsewhere is a conflict.
2. The candidate is judged, as it is, against that state of the target.
3. `swing`: the target moves to exactly that commit, if it is still where it was in step 1. If not,
   everything begins again with step 1, a bounded number of times.

A crash before step 3 leaves branches that end with their time. A reply that is lost in step 3 is
looked up in the target's log; what cannot be found out is raised as Unknown. Nothing here knows
Spark.
"""

from __future__ import annotations

from collections.abc import Callable
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
)
from lochan.client import Client
from lochan.model.commits import CommitMeta
from lochan.spark.audit.verdicts import Ledger, Verdict

Mode = Literal["fast-forward", "merge"]
MODES: Final = ("fast-forward", "merge")


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


class Published(msgspec.Struct, frozen=True):
    """What became of the target; `is_new` is False where it had everything already."""

    commit: str
    target_before: str
    attempts: int
    is_new: bool


Judge = Callable[[Candidate], Verdict]


class Publisher:
    """Brings what stands on the branch of one audit to its target."""

    def __init__(self, client: Client, ledger: Ledger, place: Place) -> None:
        self._client = client
        self._ledger = ledger
        self._place = place
        self._beside: list[str] = []
        self._last: tuple[str, Candidate] | None = None
        self.is_swinging = False
        """Whether the target was told to move and has not answered."""

    def publish(self, judge: Judge, *, is_repeated: bool = False) -> Published:
        """Publishes, judging again whenever the target has moved; Conflict if it moves too often.

        `is_repeated` says that all writes were found done: then there may be nothing to judge.
        """
        for attempt in range(1, AUDIT_ATTEMPTS_MAX + 1):
            candidate = self.candidate()
            is_new = candidate.commit != candidate.target
            if (is_new or not is_repeated) and not self._is_judged(candidate):
                self._ledger.judged(judge(candidate))
            if not is_new:
                return Published(candidate.commit, candidate.target, attempt, False)
            if self.swing(candidate):
                return Published(candidate.commit, candidate.target, attempt, True)
        raise Conflict(
            f"{self._place.target!r} has moved {AUDIT_ATTEMPTS_MAX} times while this was checked; "
            "nothing is published"
        )

    def candidate(self) -> Candidate:
        """Step 1: returns the commit to be judged."""
        place, ledger = self._place, self._ledger
        ledger.check_open()
        ledger.check_head(self._client.references.get(place.branch).hash)
        target = self._client.references.get(place.target).hash
        if ledger.head == ledger.base:
            return Candidate(target, target, place.target)
        if place.mode == "merge":
            return self._merged(target)
        if target != ledger.base:
            self._rebase(target)
        return Candidate(ledger.head, target, place.branch)

    def swing(self, candidate: Candidate) -> bool:
        """Step 3: moves the target to what was judged; False if the target has moved meanwhile."""
        place = self._place
        self._ledger.permit(candidate.commit, candidate.target)
        self._ledger.check_head(self._client.references.get(place.branch).hash)
        source = f"{candidate.branch}@{candidate.commit}"
        self.is_swinging = True
        try:
            done = self._client.merges.fast_forward(place.target, source, expected=candidate.target)
        except Unknown:
            if not self._is_in_target(candidate):
                raise
            self.is_swinging = False
            return True
        except HeadConflict:
            self.is_swinging = False
            return False
        except LochanError:
            self.is_swinging = False
            raise
        self.is_swinging = False
        if done.hash != candidate.commit:
            raise Unknown(f"{place.target!r} is at {done.hash}, not at what was checked")
        return True

    def tidy(self) -> str:
        """Takes away the branches of an audit that was published; returns what kept one, or ''."""
        told = ""
        for name in [self._place.branch, *self._beside]:
            try:
                self._client.references.delete(name)
            except LochanError as error:
                # The target has everything; what is left of the branch ends with its time.
                told = f"{name} is left until its time: {error.message}"
        return told

    def _is_judged(self, candidate: Candidate) -> bool:
        """Tells whether there is a verdict on this very candidate already."""
        verdict = self._ledger.verdict
        return (
            verdict is not None
            and verdict.commit == candidate.commit
            and verdict.target == candidate.target
        )

    def _rebase(self, target: str) -> None:
        """Makes our own commits again on the target's new head."""
        place, ledger = self._place, self._ledger
        onto = f"{place.target}@{target}"
        tried = self._client.merges.merge(
            place.branch, onto, expected=ledger.head, dry_run=True, conflicts_as_result=True
        )
        self._check_ancestor(tried.common_ancestor)
        try:
            done = self._client.merges.rebase(place.branch, onto, expected=ledger.head)
        except KeysConflict as refusal:
            raise self._in_the_way(refusal) from refusal
        except HeadConflict as refusal:
            raise AuditFailed(
                f"the branch of this audit was changed from outside: {refusal.message}"
            ) from refusal
        ledger.moved(target, done.hash or ledger.head)

    def _merged(self, target: str) -> Candidate:
        """Makes one commit of all our own, on a branch that stands on the target's head."""
        place, ledger = self._place, self._ledger
        if self._last is not None and self._last[0] == ledger.head:
            if self._last[1].target == target:
                return self._last[1]
        beside = f"{place.branch}-publish-{len(self._beside) + 1}"
        self._client.references.create(
            beside, f"{place.target}@{target}", expires_us=place.expires_us
        )
        self._beside.append(beside)
        source = f"{place.branch}@{ledger.head}"
        try:
            done = self._client.merges.merge(beside, source, place.said, expected=target)
        except KeysConflict as refusal:
            raise self._in_the_way(refusal) from refusal
        self._check_ancestor(done.common_ancestor)
        made = Candidate(done.hash or target, target, beside)
        self._last = (ledger.head, made)
        return made

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

    def _is_in_target(self, candidate: Candidate) -> bool:
        """Looks whether a swing whose outcome nobody knows took place."""
        log = self._client.history.iterate(self._place.target, limit_hash=candidate.target)
        return any(one.meta.hash == candidate.commit for one in log)
