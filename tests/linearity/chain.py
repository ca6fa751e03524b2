"""Compares the chain of a branch's commits with the replies that clients got.

Whether a history is linearizable is hard to decide in general. Here the chain contains the order in
which commits took effect, so one pass decides. `find_violations` checks, each in linear time:

(a) no attempt is in the chain twice, and every commit of the chain was attempted;
(b) an acknowledged commit is in the chain under the hash of the reply; a refused one is not; an
    unknown one may be;
(c) an attempt that began after another was settled has a later position (a read: not an earlier
    one);
(d) no commit overwrote a change that its client had not read: between the commit that it expected
    and itself no other commit of the chain changed its keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum


class Outcome(Enum):
    """The outcome of an attempt, as the client knows it."""

    ACKNOWLEDGED = "acknowledged"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass
class Attempt:
    """One request: a commit called `name`, or a read of the head when `name` is empty.

    `settled` is the time after which it cannot take effect: the reply, or the death of the server.
    `reply_hash` is the hash in the reply; `expected` is the hash it was based on, "" for none.
    """

    name: str
    began: float
    settled: float = float("inf")
    outcome: Outcome = Outcome.UNKNOWN
    reply_hash: str = ""
    expected: str = ""
    touches: tuple[str, ...] = ()


@dataclass(frozen=True)
class Link:
    """One commit of the chain: its hash and the name of its attempt."""

    commit: str
    name: str


def find_violations(chain: Sequence[Link], attempts: Sequence[Attempt]) -> list[str]:
    """Returns a sentence for each violation; the oldest commit is first in `chain`."""
    commits = {one.name: one for one in attempts if one.name}
    found = list(_unattempted_or_twice(chain, commits))
    positions: dict[str, int] = {}
    for position, link in enumerate(chain, 1):
        positions.setdefault(link.name, position)
    hashes = {link.commit: position for position, link in enumerate(chain, 1)}
    hashes[""] = 0
    for one in commits.values():
        found += _against_the_reply(one, positions, chain)
    found += _out_of_order(attempts, positions, hashes)
    found += _overwritten(chain, commits, hashes)
    return found


def _unattempted_or_twice(chain: Sequence[Link], commits: dict[str, Attempt]) -> Iterator[str]:
    seen = set()
    for link in chain:
        if link.name not in commits:
            yield f"{link.name!r} is in the chain and was not attempted"
        if link.name in seen:
            yield f"{link.name!r} was applied twice"
        seen.add(link.name)


def _against_the_reply(
    one: Attempt, positions: dict[str, int], chain: Sequence[Link]
) -> Iterator[str]:
    position = positions.get(one.name)
    if one.outcome is Outcome.REFUSED and position is not None:
        yield f"{one.name!r} was refused and is in the chain"
    elif one.outcome is Outcome.ACKNOWLEDGED and position is None:
        yield f"{one.name!r} was acknowledged and is lost"
    elif one.outcome is Outcome.ACKNOWLEDGED and position is not None:
        commit = chain[position - 1].commit
        if commit != one.reply_hash:
            yield f"{one.name!r} has the hash {commit[:12]}, the reply had {one.reply_hash[:12]}"


def _out_of_order(
    attempts: Sequence[Attempt], positions: dict[str, int], hashes: dict[str, int]
) -> Iterator[str]:
    """Sweeps over beginnings and ends; of two at the same moment the beginning is first."""
    placed: list[tuple[Attempt, int]] = []
    for one in attempts:
        if one.name:
            position = positions.get(one.name)
        elif one.outcome is Outcome.ACKNOWLEDGED:
            position = hashes.get(one.reply_hash)
            if position is None:
                yield f"a read returned {one.reply_hash[:12]}, which is not in the chain"
        else:
            position = None
        if position is not None:
            placed.append((one, position))
    events = [(one.began, 0, index) for index, (one, _) in enumerate(placed)]
    events += [(one.settled, 1, index) for index, (one, _) in enumerate(placed)]
    highest, by = 0, ""
    for _, ended, index in sorted(events):
        one, position = placed[index]
        if not ended:
            # A read may see the same commit again, a commit cannot share its position.
            if position < highest or (one.name and position == highest):
                yield f"{one.name or 'a read'!r} began after {by!r} and is before it in the chain"
        elif position > highest:
            highest, by = position, one.name or "a read"


def _overwritten(
    chain: Sequence[Link], commits: dict[str, Attempt], hashes: dict[str, int]
) -> Iterator[str]:
    touched: dict[str, int] = {}
    for position, link in enumerate(chain, 1):
        one = commits.get(link.name)
        if one is None:
            continue
        base = hashes.get(one.expected)
        if base is None:
            yield f"{one.name!r} was based on {one.expected[:12]}, which is not in the chain"
            continue
        for key in one.touches:
            if touched.get(key, 0) > base:
                yield f"{one.name!r} overwrote {key!r}, which it had not read"
            touched[key] = position
