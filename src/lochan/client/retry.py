"""Decides whether an HTTP request is sent again, after which pause, and when to give up.

| what happened | what it means | what is done |
|---|---|---|
| no connection was made | no effect | sent again |
| the connection broke, or the time ran out | unknown | sent again with the same key |
| 503, or 429 for a quota | no effect | sent again, after the pause of `Retry-After` |
| 504, or 502 from a proxy | unknown | sent again with the same key |
| 401, 403 or 404, after an unknown result | the result is still unknown | Unknown is raised |
| anything else | a reply | returned |

A write that may be sent only once (`HttpRequest.once`) is not sent again after an unknown result:
Unknown is raised at once.

The fifth row is needed because a branch may be deleted after the lost commit, and another branch
may contain that commit: a 404 does not prove that the commit had no effect. Attempts and pauses are
bounded. When they are used up, a write that may have taken effect is Unknown; everything else is
Unavailable.
"""

from __future__ import annotations

from typing import Final

from lochan.base.errors import LochanError, Unavailable, Unknown
from lochan.base.limits.client import (
    CLIENT_ATTEMPTS_MAX,
    CLIENT_PAUSE_FIRST_MS,
    CLIENT_PAUSE_MAX_MS,
    CLIENT_RETRY_AFTER_MAX_S,
)
from lochan.client.messages import HttpReply, HttpRequest

# Statuses that a server may reply with before it looks for an earlier effect of the same request.
_UNRELATED_TO_EFFECT: Final = frozenset({401, 403, 404})

_WITHOUT_EFFECT: Final = frozenset({429, 503})
_SENT_AGAIN: Final = _WITHOUT_EFFECT | {502, 504}


class Attempts:
    """The attempts of one HTTP request; returns pauses in seconds, None if a reply is final."""

    def __init__(self, request: HttpRequest, attempts_max: int = CLIENT_ATTEMPTS_MAX) -> None:
        self._request = request
        self._left = attempts_max
        self._pause_ms = CLIENT_PAUSE_FIRST_MS
        self._may_have_happened = False

    def after_reply(self, reply: HttpReply) -> float | None:
        """Returns the pause before the next attempt; None if this reply is final."""
        if reply.status in _UNRELATED_TO_EFFECT and self._is_unknown():
            raise self._used_up(f"its reply was lost, and then the server answered {reply.status}")
        if reply.status not in _SENT_AGAIN:
            return None
        self._may_have_happened |= reply.status not in _WITHOUT_EFFECT
        if self._left == 1 and not self._is_unknown():
            # The server's own message explains it best.
            return None
        return self._pause(f"the server answered {reply.status}", reply.headers.get("retry-after"))

    def after_failure(self, reason: str, *, reached: bool) -> float:
        """Returns the pause after a failure; `reached` if the server may have read the request."""
        self._may_have_happened |= reached
        return self._pause(reason)

    def end(self) -> None:
        """Notes that the request cannot be sent again: its body was read and is gone."""
        self._left = 1

    def _pause(self, reason: str, retry_after: str | None = None) -> float:
        self._left -= 1
        if self._left <= 0 or (self._request.once and self._may_have_happened):
            raise self._used_up(reason)
        pause_ms = self._pause_ms
        self._pause_ms = min(2 * pause_ms, CLIENT_PAUSE_MAX_MS)
        if retry_after is not None and retry_after.isascii() and retry_after.isdigit():
            return float(min(int(retry_after[:9]), CLIENT_RETRY_AFTER_MAX_S))
        return pause_ms / 1_000

    def _is_unknown(self) -> bool:
        return self._request.is_write and self._may_have_happened

    def _used_up(self, reason: str) -> LochanError:
        if self._is_unknown():
            return Unknown(f"it is unknown whether the change took effect: {reason}")
        return Unavailable(reason)
