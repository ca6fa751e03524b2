"""One HTTP request of a flow and its reply: decoded, or raised as the error that it states."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from lochan.base.errors import Corrupt
from lochan.client.failures import error_of
from lochan.client.messages import Flow, HttpReply, HttpRequest

_Shape = TypeVar("_Shape")


def exchange(request: HttpRequest, shape: type[_Shape]) -> Flow[_Shape]:
    """Returns the decoded body of the reply; raises the error that the server replied with."""
    reply = yield from exchange_undecoded(request)
    try:
        return msgspec.json.decode(reply.body, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Corrupt(f"the server's answer cannot be read: {error}") from None


def exchange_undecoded(request: HttpRequest) -> Flow[HttpReply]:
    """Returns a reply whose body does not matter; raises the error that the server replied with."""
    reply = yield request
    if not 200 <= reply.status < 300:
        raise error_of(request, reply)
    return reply
