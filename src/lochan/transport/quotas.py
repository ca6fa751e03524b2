"""How much one caller, and one repository, may have under way at once, and how often it may call.

1. A request over the rate of its caller is refused.
2. A request over the number that its caller may have under way waits in a queue of that caller,
   first come, first served; no other caller waits for it. If the queue is full, it is refused.
3. While several callers are active, each has fewer under way, where the event loop does the work:
   what is under way is done before the request of another has its turn.
4. A request over the number that its repository may have under way waits in a queue of that
   repository, in which callers take turns; it counts as under way for its caller.

Streams have a number of their own. Bodies that do not come with their headers have a share of the
memory for bodies. Callers without a name, which are all before access is set up, have no quota.

Everything here runs on the loop. What is kept about a caller goes when it has been idle.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

import msgspec

from lochan.base.errors import TooManyRequests
from lochan.base.limits.quotas import (
    PRINCIPAL_BODIES_BYTES_MAX,
    PRINCIPAL_REQUESTS_MAX,
    PRINCIPAL_STREAMS_MAX,
    PRINCIPAL_WAITING_MAX,
    QUOTA_IDLE_S,
    REPOSITORY_REQUESTS_MAX,
    TURN_FREE_REQUESTS_MAX,
)
from lochan.transport.fair_queue import FairQueue

Start = Callable[[], None]


class QuotaLimits(msgspec.Struct, frozen=True):
    """The limits; an operator may choose the first three of them, and a rate of 0 is none."""

    principal_requests_max: int = PRINCIPAL_REQUESTS_MAX
    principal_requests_per_s: float = 0.0
    repository_requests_max: int = REPOSITORY_REQUESTS_MAX
    shared_requests_max: int = PRINCIPAL_REQUESTS_MAX
    """The number of one caller while others are active."""


class _Account:
    """What one caller has under way."""

    __slots__ = (
        "allowance",
        "bodies",
        "body_bytes",
        "counted_at",
        "running",
        "streams",
        "used",
        "waiting",
        "waiting_bytes",
    )

    def __init__(self, allowance: float, now: float) -> None:
        self.running = 0
        self.streams = 0
        self.waiting: deque[Ticket] = deque()
        self.waiting_bytes = 0
        self.body_bytes = 0
        self.bodies: deque[BodyShare] = deque()
        self.allowance = allowance
        self.counted_at = now
        self.used = True

    @property
    def is_idle(self) -> bool:
        nothing = not self.running and not self.streams and not self.waiting
        return nothing and not self.body_bytes and not self.bodies


class _RepositoryAccount:
    """What one repository has under way, and who waits for it."""

    __slots__ = ("running", "waiting")

    def __init__(self) -> None:
        self.running = 0
        # Made when it is needed: a repository with one request at a time has an account for each.
        self.waiting: FairQueue[Ticket] | None = None


class Ticket:
    """One request: it runs, it waits for its caller, or it waits for its repository."""

    __slots__ = (
        "account",
        "body_bytes",
        "holds_caller",
        "is_running",
        "name",
        "repository",
        "start",
    )

    def __init__(
        self, account: _Account, name: str, repository: str | None, body_bytes: int, start: Start
    ) -> None:
        self.account = account
        self.name = name
        self.repository = repository
        self.body_bytes = body_bytes
        self.start = start
        self.holds_caller = False
        self.is_running = False


class BodyShare:
    """A part of the memory for bodies that one caller has, or waits for."""

    __slots__ = ("account", "byte_count", "granted", "is_held")

    def __init__(self, account: _Account, byte_count: int, granted: Start) -> None:
        self.account = account
        self.byte_count = byte_count
        self.granted = granted
        self.is_held = False


class Quotas:
    """The accounts of all callers and repositories of a server."""

    def __init__(self, limits: QuotaLimits, read_clock: Callable[[], float]) -> None:
        self._limits = limits
        self._read_clock = read_clock
        self._accounts: dict[str, _Account] = {}
        self._repositories: dict[str, _RepositoryAccount] = {}
        self._burst = max(1.0, limits.principal_requests_per_s)
        self._forget_at = 0.0

    @property
    def is_shared(self) -> bool:
        """Whether more than one caller was active a short time ago."""
        return len(self._accounts) > 1

    @property
    def _running_max(self) -> int:
        limits = self._limits
        if len(self._accounts) > 1:
            return min(limits.principal_requests_max, limits.shared_requests_max)
        return limits.principal_requests_max

    def takes_turns(self, ticket: Ticket) -> bool:
        """Returns whether a request that runs has to leave the loop to other callers first."""
        return ticket.account.running > TURN_FREE_REQUESTS_MAX and self.is_shared

    def enter(self, name: str, repository: str | None, body_bytes: int, start: Start) -> Ticket:
        """Counts a request; one that has to wait is not running, and `start` is called later.

        TooManyRequests if it may not even wait.
        """
        account = self._account_of(name)
        if self._limits.principal_requests_per_s:
            self._check_rate(account)
        ticket = Ticket(account, name, repository, body_bytes, start)
        if account.running < self._running_max and not account.waiting:
            account.running += 1
            ticket.holds_caller = True
            self._enter_repository(ticket)
            return ticket
        waiting_bytes = account.waiting_bytes + body_bytes
        if (
            len(account.waiting) >= PRINCIPAL_WAITING_MAX
            or waiting_bytes > PRINCIPAL_BODIES_BYTES_MAX
        ):
            raise _refusal(f"{len(account.waiting)} requests of this caller wait already", 1)
        account.waiting.append(ticket)
        account.waiting_bytes = waiting_bytes
        return ticket

    def leave(self, ticket: Ticket) -> None:
        """Ends a request, whether it runs or waits; starts those that waited for it."""
        account = ticket.account
        if not ticket.holds_caller:
            account.waiting.remove(ticket)
            account.waiting_bytes -= ticket.body_bytes
            return
        self._leave_repository(ticket)
        account.running -= 1
        while account.waiting and account.running < self._running_max:
            following = account.waiting.popleft()
            account.waiting_bytes -= following.body_bytes
            account.running += 1
            following.holds_caller = True
            self._enter_repository(following)
            if following.is_running:
                following.start()

    def enter_stream(self, name: str) -> None:
        """Counts a request with a stream; TooManyRequests if the caller has too many."""
        account = self._account_of(name)
        if self._limits.principal_requests_per_s:
            self._check_rate(account)
        if account.streams >= PRINCIPAL_STREAMS_MAX:
            raise _refusal(f"{account.streams} streams of this caller are under way", 1)
        account.streams += 1

    def leave_stream(self, name: str) -> None:
        """Ends a request with a stream."""
        self._accounts[name].streams -= 1

    def reserve_body(self, name: str, byte_count: int, granted: Start) -> BodyShare:
        """Takes memory for a body, of the caller's share; `granted` is called now or later."""
        account = self._account_of(name)
        share = BodyShare(account, byte_count, granted)
        account.bodies.append(share)
        self._grant_bodies(account)
        return share

    def release_body(self, share: BodyShare) -> None:
        """Gives memory back, or stops waiting for it."""
        account = share.account
        if share.is_held:
            share.is_held = False
            account.body_bytes -= share.byte_count
        else:
            account.bodies.remove(share)
        self._grant_bodies(account)

    def forget_idle(self, now: float) -> None:
        """Forgets callers that have been idle; is called by the server's clock."""
        if now < self._forget_at:
            return
        self._forget_at = now + QUOTA_IDLE_S
        for name, account in list(self._accounts.items()):
            if account.used:
                account.used = False
            elif account.is_idle:
                del self._accounts[name]

    def _account_of(self, name: str) -> _Account:
        account = self._accounts.get(name)
        if account is None:
            account = self._accounts[name] = _Account(self._burst, self._read_clock())
        account.used = True
        return account

    def _check_rate(self, account: _Account) -> None:
        """Takes one of the caller's allowance, which grows with time up to that of a second."""
        rate = self._limits.principal_requests_per_s
        now = self._read_clock()
        grown = account.allowance + (now - account.counted_at) * rate
        account.allowance = min(self._burst, grown)
        account.counted_at = now
        if account.allowance < 1:
            wait_s = math.ceil((1 - account.allowance) / rate)
            raise _refusal(f"this caller may send {rate:g} requests a second", wait_s)
        account.allowance -= 1

    def _enter_repository(self, ticket: Ticket) -> None:
        """Lets a request run, or wait for its repository."""
        if ticket.repository is None:
            ticket.is_running = True
            return
        found = self._repositories.get(ticket.repository)
        if found is None:
            found = self._repositories[ticket.repository] = _RepositoryAccount()
        if found.running < self._limits.repository_requests_max:
            found.running += 1
            ticket.is_running = True
        else:
            if found.waiting is None:
                found.waiting = FairQueue()
            found.waiting.add(ticket.name, ticket)

    def _leave_repository(self, ticket: Ticket) -> None:
        if ticket.repository is None:
            return
        found = self._repositories[ticket.repository]
        waiting = found.waiting
        if not ticket.is_running:
            if waiting is not None:
                waiting.remove(ticket.name, ticket)
        elif waiting:
            following = waiting.pop()
            following.is_running = True
            following.start()
        elif found.running > 1:
            found.running -= 1
        else:
            del self._repositories[ticket.repository]

    def _grant_bodies(self, account: _Account) -> None:
        """Grants what fits, in order; a body larger than the whole share is granted alone."""
        while account.bodies:
            share = account.bodies[0]
            wanted = account.body_bytes + share.byte_count
            if account.body_bytes and wanted > PRINCIPAL_BODIES_BYTES_MAX:
                return
            account.bodies.popleft()
            account.body_bytes = wanted
            share.is_held = True
            share.granted()


def _refusal(text: str, wait_s: int) -> TooManyRequests:
    message = f"{text}; try again later"
    return TooManyRequests(message, public=message, retry_after_s=wait_s)
