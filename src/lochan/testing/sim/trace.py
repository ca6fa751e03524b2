"""What happened in one run, step by step: printable, repeatable, comparable.

    sim1 17 A*3 B A!lost_reply ~A1 B*2 . =5d0c81aa

means: seed 17; actor A made three steps, B one; the next call of A was carried out but its reply
lost; then a late write of A took effect (its first); B made two steps; other late writes never took
effect. The digest at the end shows whether a repetition made the same calls. `listing` is the same
for people, with the calls. Ids are normalised: rows with short plain names keep them, others are
numbered as they appear.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from itertools import groupby
from typing import Final

from lochan.base.ids import INSTANCE_ID_BYTES
from lochan.kv.store import Kind, Name, Partition
from lochan.testing.faults import OK, Fault, FaultKind, PlannedCall

Step = tuple[str, PlannedCall, Fault]
"""The actor, its call, and the fault of the call."""

FORM: Final = "sim1"
STOP: Final = "."
LATE_MARK: Final = "~"
CLOCK_MARK: Final = "@"
_PLAIN = re.compile(rb"[A-Za-z0-9_./-]{1,24}")
_KINDS = {int(kind): chr(kind) for kind in Kind}


class Trace:
    """The steps of one run, with the seed of its random numbers."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.steps: list[Step] = []

    def text(self) -> str:
        """Returns the short form that can be run again."""
        tokens = [_token(actor, fault) for actor, _, fault in self.steps]
        runs = [(token, len(list(run))) for token, run in groupby(tokens)]
        words = [token if count == 1 else f"{token}*{count}" for token, count in runs]
        return " ".join([FORM, str(self.seed), *words, f"={self.digest()}"])

    def listing(self) -> str:
        """Returns one line for each step, for people."""
        labels = Labels()
        lines = []
        for number, (actor, call, fault) in enumerate(self.steps):
            happened = "" if fault is OK else f"  !! {_fault(fault)}"
            lines.append(f"{number:4} {actor:>4} {describe(call, labels)}{happened}")
        return "\n".join(lines)

    def digest(self) -> str:
        """Returns a short mark of the listing."""
        return blake2b(self.listing().encode(), digest_size=4).hexdigest()

    def store_calls(self) -> list[PlannedCall]:
        """Returns the calls for which a fault was possible."""
        return [
            call
            for actor, call, _ in self.steps
            if len(call.possible) > 1 and actor[0] != LATE_MARK
        ]

    def kinds(self) -> set[FaultKind]:
        """Returns which faults happened."""
        return {fault.kind for _, _, fault in self.steps}

    def difference(self, other: Trace) -> str:
        """Returns what the first difference is, empty if there is none, arguments included."""
        for number, (mine, theirs) in enumerate(zip(self.steps, other.steps, strict=False)):
            if not _same(mine, theirs):
                labels = Labels()
                one, two = (
                    f"{actor} {describe(call, labels)}" for actor, call, _ in (mine, theirs)
                )
                return f"step {number}: {one} against {two}, or their arguments"
        if len(self.steps) != len(other.steps):
            return f"{len(self.steps)} steps against {len(other.steps)}"
        return ""


class Labels:
    """Readable names of rows; rows without one are numbered as they appear."""

    def __init__(self) -> None:
        self._numbers: dict[Name, int] = {}

    def of(self, partition: Partition, key: bytes | None) -> str:
        """Returns kind of the partition, a slash, and the key or its number."""
        kind = kind_of(partition)
        if key is None:
            return f"{kind}/*"
        if not key or _PLAIN.fullmatch(key):
            return f"{kind}/{key.decode()}"
        number = self._numbers.setdefault((partition, key), len(self._numbers) + 1)
        return f"{kind}/#{number}"


def kind_of(partition: Partition) -> str:
    """Returns the letter of a partition's kind, or its plain name if it has no kind."""
    if len(partition) > INSTANCE_ID_BYTES and partition[INSTANCE_ID_BYTES] in _KINDS:
        return _KINDS[partition[INSTANCE_ID_BYTES]]
    return partition.decode() if _PLAIN.fullmatch(partition) else "?"


def describe(call: PlannedCall, labels: Labels) -> str:
    """Returns a call without its values."""
    if call.partition is None:
        return call.operation
    more = f" +{call.items - 1}" if call.items > 1 else ""
    return f"{call.operation} {labels.of(call.partition, call.key)}{more}"


def parse(text: str) -> tuple[int, list[tuple[str, Fault]], str]:
    """Reads the short form: the seed, actors and faults by step, the digest."""
    words = text.split()
    if len(words) < 2 or words[0] != FORM:
        raise ValueError(f"not a trace: {text[:60]!r}")
    digest = ""
    steps: list[tuple[str, Fault]] = []
    for word in words[2:]:
        if word.startswith("="):
            digest = word[1:]
            continue
        token, _, count = word.partition("*")
        actor, _, fault = token.partition("!")
        steps += [(actor, _parse_fault(fault))] * int(count or 1)
    return int(words[1]), steps, digest


def _parse_fault(text: str) -> Fault:
    if not text:
        return OK
    kind, _, count = text.partition("/")
    return Fault(FaultKind(kind), int(count or 0))


def _token(actor: str, fault: Fault) -> str:
    return actor if fault is OK else f"{actor}!{_fault(fault)}"


def _fault(fault: Fault) -> str:
    return f"{fault.kind.value}/{fault.count}" if fault.count else fault.kind.value


def _same(mine: Step, theirs: Step) -> bool:
    return (
        mine[0] == theirs[0]
        and mine[1].operation == theirs[1].operation
        and mine[1].arguments == theirs[1].arguments
        and mine[2] == theirs[2]
    )
