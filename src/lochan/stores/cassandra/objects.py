"""Adding objects: each is one insert if absent, and many of them are sent at the same time.

An object that exists is renewed by a swap of its stamp. A plain write would be cheaper, and wrong:
it could be undone by a collector's conditional deletion that has read the row before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from lochan.base.errors import Exhausted, LochanError, Unavailable, Unknown
from lochan.kv.store import Item, Name, Partition
from lochan.stores.cassandra.client import CassandraClient, Request, Row
from lochan.stores.cassandra.rows import is_applied, new_stamp
from lochan.stores.cassandra.statements import TableStatement

# Each of them means that another caller changed the object meanwhile.
_ROUNDS_MAX: Final = 8


def add_objects(client: CassandraClient, items: Sequence[Item], half_day: int) -> None:
    """Adds objects that are absent and renews older ones; Unknown if only a part was done."""
    begun = False
    for wave in _waves(items):
        try:
            _add(client, wave, half_day)
        except (Exhausted, Unavailable) as error:
            raise partly(error, begun) from None
        begun = True


def partly(error: LochanError, begun: bool) -> LochanError:
    """Returns the error of a call that may have done a part before."""
    return Unknown(f"a part was written; {error.message}") if begun else error


def _add(client: CassandraClient, items: Sequence[Item], half_day: int) -> None:
    """Adds objects of different partitions."""
    left = list(items)
    stamp = new_stamp()
    for turn in range(_ROUNDS_MAX):
        adds: list[Request] = [(TableStatement.ADD, (*item, stamp, half_day)) for item in left]
        answers = _sent(client, adds, begun=turn > 0)
        older = [
            (item, answer[0]["s"])
            for item, answer in zip(left, answers, strict=True)
            if not is_applied(answer) and answer[0]["h"] < half_day
        ]
        renewals: list[Request] = [
            (TableStatement.RENEW, (stamp, half_day, *item[:2], seen)) for item, seen in older
        ]
        answers = _sent(client, renewals, begun=True)
        left = [
            item for (item, _), answer in zip(older, answers, strict=True) if not is_applied(answer)
        ]
        if not left:
            return
    raise Unknown("objects are changed by others all the time; some are not added")


def _sent(client: CassandraClient, requests: list[Request], *, begun: bool) -> list[list[Row]]:
    """Returns the answers, or raises what is known of all that was sent."""
    answers = client.write_all(requests)
    errors = [one for one in answers if isinstance(one, LochanError)]
    if not errors:
        return [one for one in answers if not isinstance(one, LochanError)]
    for error in errors:
        if not isinstance(error, (Exhausted, Unavailable)):
            raise error
    raise partly(errors[0], begun or len(errors) < len(answers))


def _waves(items: Sequence[Item]) -> list[list[Item]]:
    """Divides items so that no two of a wave are in one partition, and leaves out repeated ones.

    Objects are spread over 65,536 partitions, so there is one wave nearly always; rounds of Paxos
    on one partition at the same time would stop each other.
    """
    waves: list[list[Item]] = []
    names: set[Name] = set()
    counts: Counter[Partition] = Counter()
    for item in items:
        if item[:2] in names:
            continue
        names.add(item[:2])
        at = counts[item[0]]
        counts[item[0]] += 1
        if at == len(waves):
            waves.append([])
        waves[at].append(item)
    return waves
