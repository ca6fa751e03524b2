"""The witness: a branch's chain of commits testifies against what clients were told.

Whether a history is linear is hard to decide in general. Ours carries its own witness: the chain
says in which order commits took effect, so one walk decides. `find_violations` checks, each in
linear time:

(a) no attempt is in the chain twice, and nothing is there that nobody attempted;
(b) what was acknowledged is in it under the hash that was told; what was refused is not; what is
    unknown may be;
(c) whoever began after another was settled has a later position (a read: not an earlier one);
(d) replayed in the order of the chain, nobody overwrote what it had not seen: since the commit that
    it expected, no other one had touched its keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum


class Fate(Enum):
    """What a client was told."""

    ACKNOWLEDGED = "acknowledged"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass
class Attempt:
    """One request: a commit called `name`, or a read of the head when `name` is empty.

    `settled` is when nothing could become of it any more: the reply, or the death of the server.
    `told` is the hash in the reply; `expected` is the hash it was based on, "" for the beginning.
    """

    name: str
    began: float
    settled: float = float("inf")
    fate: Fate = Fate.UNKNOWN
    told: str = ""
    expected: str = ""
    touches: tuple[str, ...] = ()


@dataclass(frozen=True)
class Link:
    """One commit of the chain: its hash and the name of the attempt that it carries."""

    commit: str
    name: str


def find_violations(chain: Sequence[Link], attempts: Sequence[Attempt]) -> list[str]:
    """Returns sentences about everything that should not be, oldest commit first in `chain`."""
    commits = {one.name: one for one in attempts if one.name}
    found = list(_strangers(chain, commits))
    positions: dict[str, int] = {}
    for position, link in enumerate(chain, 1):
        positions.setdefault(link.name, position)
    hashes = {link.commit: position for position, link in enumerate(chain, 1)}
    hashes[""] = 0
    for one in commits.values():
        found += _broken_word(one, positions, chain)
    found += _disorder(attempts, positions, hashes)
    found += _overwritten(chain, commits, hashes)
    return found


def _strangers(chain: Sequence[Link], commits: dict[str, Attempt]) -> Iterator[str]:
    seen = set()
    for link in chain:
        if link.name not in commits:
            yield f"{link.name!r} is in the chain and nobody attempted it"
        if link.name in seen:
            yield f"{link.name!r} was applied twice"
        seen.add(link.name)


def _broken_word(one: Attempt, positions: dict[str, int], chain: Sequence[Link]) -> Iterator[str]:
    position = positions.get(one.name)
    if one.fate is Fate.REFUSED and position is not None:
        yield f"{one.name!r} was refused and is in the chain"
    elif one.fate is Fate.ACKNOWLEDGED and position is None:
        yield f"{one.name!r} was acknowledged and is lost"
    elif one.fate is Fate.ACKNOWLEDGED and position is not None:
        commit = chain[position - 1].commit
        if commit != one.told:
            yield f"{one.name!r} was told {one.told[:12]} and is {commit[:12]}"


def _disorder(
    attempts: Sequence[Attempt], positions: dict[str, int], hashes: dict[str, int]
) -> Iterator[str]:
    """Sweeps over beginnings and ends; of two at the same moment the beginning is first."""
    placed: list[tuple[Attempt, int]] = []
    for one in attempts:
        if one.name:
            position = positions.get(one.name)
        elif one.fate is Fate.ACKNOWLEDGED:
            position = hashes.get(one.told)
            if position is None:
                yield f"a read was told {one.told[:12]}, which is not in the chain"
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
                yield f"{one.name or 'a read'!r} began after {by!r} and stands before it"
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
                yield f"{one.name!r} overwrote {key!r}, which it had not seen"
            touched[key] = position
