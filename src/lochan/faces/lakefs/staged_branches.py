"""Whether a commit that finds nothing was overtaken by another one (`service/staged_heads.py`).

lakeFS refuses a commit whose objects another one has taken, and a client does not know whether its
object is committed. Here such a commit has no changes and its own message. A client that has staged
nothing new gets the refusal, as in lakeFS.
"""

from __future__ import annotations

from typing import Final

from lochan.faces.calls import read_call
from lochan.service.staged_heads import StagedHeads
from lochan.transport.exchange import Exchange

_CONNECTION: Final = "staged_branches"


def note_staged(exchange: Exchange, branch: str) -> None:
    """Notes where a branch is, before a client stages something on it."""
    _notes(exchange).note(read_call(exchange), branch, _connection(exchange))


def take_staged_at(exchange: Exchange, branch: str) -> str:
    """Returns where a branch was before the client staged something, and forgets it."""
    return _notes(exchange).take(read_call(exchange), branch, _connection(exchange))


def forget_staged(exchange: Exchange, branch: str) -> None:
    """Forgets what a caller has staged, because it was dropped."""
    _notes(exchange).forget(read_call(exchange), branch)


def _connection(exchange: Exchange) -> object:
    return exchange.request.kept.setdefault(_CONNECTION, object())


def _notes(exchange: Exchange) -> StagedHeads:
    return exchange.repository.staged_heads
