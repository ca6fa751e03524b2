"""A log shows what a commit did whatever its size, identical puts too.

A commit lists its own keys up to a limit. Above it the log showed the difference to the parent, in
which a put of what was there already does not occur.
"""

from __future__ import annotations

from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lochan.access.policy import Call
from lochan.base.limits.commits import COMMIT_OWN_KEYS_MAX
from lochan.kernel import build as build_module
from lochan.kernel.check import check_repository
from lochan.model.commits import ContentKey, Delete, Put
from lochan.model.contents import Content
from lochan.model.specs import parse_spec
from tests.kernel.check.small import TYPES
from tests.service.workbench import Service, table


def key(number: int) -> ContentKey:
    return (f"t{number:05}",)


def filled(count: int) -> tuple[Service, dict[ContentKey, Content]]:
    service = Service()
    service.commit(
        *(Put(key=key(number), content=table(f"s3://{number}")) for number in range(count))
    )
    found, _ = service.repository.contents.get_many(
        Call(), parse_spec("main"), [key(n) for n in range(count)]
    )
    return service, dict(found)


def head(service: Service) -> str:
    return service.repository.references.get(Call(), "main").hash


def shown(service: Service) -> set[tuple[ContentKey, Content | None]]:
    """What the log says the last commit did."""
    entry = service.repository.history.log(Call(), parse_spec("main"), 1, fetch_all=True).items[0]
    assert entry.operations is not None
    keys = [one.key for one in entry.operations]
    assert keys == sorted(set(keys))
    return {(one.key, one.content if isinstance(one, Put) else None) for one in entry.operations}


@pytest.mark.parametrize("count", [COMMIT_OWN_KEYS_MAX, COMMIT_OWN_KEYS_MAX + 1])
def test_identical_puts_are_shown_below_and_above_the_limit_of_listed_keys(count):
    service, held = filled(count)
    puts = [Put(key=one, content=content) for one, content in held.items()]
    service.commit(*puts, expected=head(service))
    assert shown(service) == set(held.items())


KINDS = st.sampled_from(["same", "changed", "removed", "new"])


@given(st.lists(KINDS, min_size=1, max_size=25), st.integers(0, 9))
def test_a_log_shows_the_same_whether_keys_are_listed_or_not(kinds, seed):
    logs = []
    for limit in (1_000, 0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(build_module, "COMMIT_OWN_KEYS_MAX", limit)
            service, held = filled(30)
            operations = operations_of(kinds, held, Random(seed))
            service.commit(*operations, expected=head(service))
            logs.append(
                {
                    (one, content and msgspec.structs.replace(content, id=None))
                    for one, content in shown(service)
                }
            )
            assert check_repository(service.repository.context, decode=TYPES.decode).findings == ()
    assert logs[0] == logs[1]
    assert len(logs[0]) == len(kinds)


def operations_of(
    kinds: list[str], held: dict[ContentKey, Content], random: Random
) -> list[Put | Delete]:
    keys = random.sample(sorted(held), len(kinds))
    operations: list[Put | Delete] = []
    for number, (kind, one) in enumerate(zip(kinds, keys, strict=True)):
        if kind == "removed":
            operations.append(Delete(key=one))
        elif kind == "new":
            operations.append(Put(key=key(1_000 + number), content=table("s3://new")))
        elif kind == "same":
            operations.append(Put(key=one, content=held[one]))
        else:
            changed = msgspec.structs.replace(held[one], schema_id=99)
            operations.append(Put(key=one, content=changed))
    return operations
