"""The front's driver: hands each request to the server behind it, and the answer back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lochan.http.exchange import Request, Response
from lochan.http.frames import Answer, Ask, Cancel, GiveUp, Joint
from lochan.http.hygiene import Framing

Reply = Callable[[Response], None]

# What concerns the connection only; everything else is for the handlers to know.
_OUR_OWN: Final = frozenset(
    b"host content-length transfer-encoding connection keep-alive expect accept-encoding "
    b"content-encoding user-agent x-request-id traceparent".split()
)


class Forwarding:
    """The requests that were handed on and are not answered yet."""

    def __init__(self, joint: Joint) -> None:
        self._joint = joint
        self._replies: dict[int, Reply] = {}
        self._number = 0

    def run(self, request: Request, framing: Framing, reply: Reply) -> Forwarded:
        """Hands a request on; `reply` is called once, later, unless it is cancelled."""
        number = self._number = self._number + 1
        self._replies[number] = reply
        self._joint.put(
            Ask(
                number,
                request.method,
                request.path,
                request.query.raw,
                [each for each in request.headers.raw if each[0] not in _OUR_OWN],
                request.body,
                request.id,
                framing.content_encoding,
                framing.accept_encoding,
                framing.traceparent,
            )
        )
        return Forwarded(self, number)

    def answered(self, answer: Answer, body: bytes) -> None:
        """Passes an answer on, if anybody still waits for it."""
        reply = self._replies.pop(answer.number, None)
        if reply is not None:
            reply(Response(answer.status, body, answer.headers, answer.content_type))

    def cancel(self, number: int) -> None:
        """Says that nobody waits any more."""
        if self._replies.pop(number, None) is not None:
            self._joint.put(Cancel(number))

    def give_up(self, number: int) -> None:
        """Asks to take a request back; it is answered in any case."""
        self._joint.put(GiveUp(number))


class Forwarded:
    """One request that was handed on."""

    __slots__ = ("_forwarding", "_number")

    def __init__(self, forwarding: Forwarding, number: int) -> None:
        self._forwarding = forwarding
        self._number = number

    def cancel(self) -> None:
        """Says that nobody waits for the answer."""
        self._forwarding.cancel(self._number)

    def give_up(self) -> bool:
        """Asks to take it back; whether that worked is told by the answer."""
        self._forwarding.give_up(self._number)
        return False
