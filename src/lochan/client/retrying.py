"""Whether to send a request again, and when to give up: decided here, done by the transports.

| what happened | what it means | what is done |
|---|---|---|
| no connection was made | no effect | sent again |
| the connection broke, or the time ran out | unknown | sent again with the same key |
| 503 | no effect | sent again, after what `Retry-After` says |
| 504, or 502 from a proxy | unknown | sent again with the same key |
| 401, 403, 404 or 429, after what is unknown | still unknown: of that it tells nothing | Unknown |
| anything else | an answer | returned |

A branch that is gone is such a case: others may have taken what was committed before they deleted
it. Attempts and pauses are bounded. When they are used up, a write that may have taken effect is
Unknown; everything else is Unavailable.
"""

from __future__ import annotations

from typing import Final

from lochan.base.errors import LochanError, Unavailable, Unknown
from lochan.base.limits import (
    CLIENT_ATTEMPTS_MAX,
    CLIENT_PAUSE_FIRST_MS,
    CLIENT_PAUSE_MAX_MS,
    CLIENT_RETRY_AFTER_MAX_S,
)
from lochan.client.asking import Ask, Reply

# Answers that are given without a look at what the same request has done before.
_BLIND: Final = frozenset({401, 403, 404, 429})


class Attempts:
    """The attempts of one request; returns pauses in seconds, None where an answer stands."""

    def __init__(self, ask: Ask, attempts_max: int = CLIENT_ATTEMPTS_MAX) -> None:
        self._ask = ask
        self._left = attempts_max
        self._pause_ms = CLIENT_PAUSE_FIRST_MS
        self._may_have_happened = False

    def after_reply(self, reply: Reply) -> float | None:
        """Returns how long to wait before the next attempt; None if this reply is the answer."""
        if reply.status in _BLIND and self._is_unknown():
            raise self._used_up(f"its reply was lost, and then the server answered {reply.status}")
        if reply.status not in (502, 503, 504):
            return None
        self._may_have_happened |= reply.status != 503
        if self._left == 1 and not self._is_unknown():
            # The server's own words say it best.
            return None
        what = f"the server answered {reply.status}"
        return self._pause(what, reply.headers.get("retry-after"))

    def after_failure(self, what: str, *, reached: bool) -> float:
        """Returns how long to wait after no reply came; `reached` if the server may have heard."""
        self._may_have_happened |= reached
        return self._pause(what)

    def _pause(self, what: str, retry_after: str | None = None) -> float:
        self._left -= 1
        if self._left <= 0:
            raise self._used_up(what)
        pause_ms = self._pause_ms
        self._pause_ms = min(2 * pause_ms, CLIENT_PAUSE_MAX_MS)
        if retry_after is not None and retry_after.isascii() and retry_after.isdigit():
            return float(min(int(retry_after[:9]), CLIENT_RETRY_AFTER_MAX_S))
        return pause_ms / 1_000

    def _is_unknown(self) -> bool:
        return self._ask.key is not None and self._may_have_happened

    def _used_up(self, what: str) -> LochanError:
        if self._is_unknown():
            return Unknown(f"it is unknown whether the change took effect: {what}")
        return Unavailable(what)
