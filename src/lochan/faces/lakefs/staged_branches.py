"""What one connection has staged: whether a commit that finds nothing was overtaken by another.

Several clients that upload and commit on one branch take each other's objects: the commit of one
has those of the others. lakeFS then refuses the later ones, and a client does not know whether its
object is committed. Here the later one is a commit without changes, with its own message, if its
connection has staged something and the branch has moved since. A client that has staged nothing new
gets the refusal, as in lakeFS.

A commit that takes an object moves the branch after the object was staged, so the head that was
read before is another one by then.
"""

from __future__ import annotations

from lochan.base.limits.files import BRANCHES_STAGED_MAX
from lochan.faces.calls import read_call
from lochan.transport.exchange import Exchange

_Key = tuple[str, str, str]


def note_staged(exchange: Exchange, branch: str) -> None:
    """Notes where a branch is, before a connection stages something on it."""
    kept, key = exchange.request.kept, _key(exchange, branch)
    if key not in kept:
        if len(kept) >= BRANCHES_STAGED_MAX:
            kept.clear()
        kept[key] = _head(exchange, branch)


def take_staged_at(exchange: Exchange, branch: str) -> str:
    """Returns where a branch was before the connection staged something, and forgets it."""
    noted: str = exchange.request.kept.pop(_key(exchange, branch), "")
    return noted


def forget_staged(exchange: Exchange, branch: str) -> None:
    """Forgets what a connection has staged, because it was dropped."""
    exchange.request.kept.pop(_key(exchange, branch), None)


def _key(exchange: Exchange, branch: str) -> _Key:
    return exchange.repository.name, branch, exchange.caller.name


def _head(exchange: Exchange, branch: str) -> str:
    return exchange.repository.references.get(read_call(exchange), branch).hash
