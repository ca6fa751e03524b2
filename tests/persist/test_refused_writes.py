"""A store may refuse a write for now, after another attempt of it whose reply was lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lochan.base.errors import Exhausted, LochanError, Unavailable, Unknown
from lochan.kv.defaults import apply_in_turn
from lochan.kv.store import ABSENT, Adds, Lost, Outcome, SetIf, Stamp, Won
from lochan.persist.rows import Done, Doubt, send_until_known
from lochan.stores.memory.store import MemoryStore
from lochan.testing.contracts.sample_rows import REFERENCES

DOUBT = Doubt("it was written", "look first")
REFUSED = (Exhausted("throttled"), Unavailable("not sent"))


class FewAttempts:
    """Stands in for `Retry`: three attempts, no sleep."""

    def __init__(self) -> None:
        self._left = 3

    def again(self) -> None:
        self._left -= 1
        if not self._left:
            raise Exhausted("gave up")


def sender(*answers: Outcome | LochanError) -> Callable[[], Outcome]:
    left = list(answers)

    def send() -> Outcome:
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, LochanError):
            raise answer
        return answer

    return send


def settle(*answers: Outcome | LochanError) -> Any:
    retry: Any = FewAttempts()
    return send_until_known(sender(*answers), lambda: Done("found"), retry, DOUBT)


@pytest.mark.parametrize("refused", REFUSED, ids=lambda error: error.kind)
def test_a_refusal_after_a_lost_reply_is_not_taken_for_no_effect(refused: LochanError) -> None:
    with pytest.raises(Unknown):
        settle(Unknown("lost"), refused)
    assert settle(Unknown("lost"), refused, Lost(ABSENT)) == Done("found")
    assert isinstance(settle(Unknown("lost"), refused, Won(Stamp(b"s"))), Won)


@pytest.mark.parametrize("refused", REFUSED, ids=lambda error: error.kind)
def test_a_first_refusal_is_what_it_is(refused: LochanError) -> None:
    with pytest.raises(type(refused)):
        settle(refused)


@pytest.mark.parametrize("refused", REFUSED, ids=lambda error: error.kind)
def test_changes_of_which_one_was_made_before_a_refusal_are_unknown(
    refused: LochanError,
) -> None:
    class Refusing(MemoryStore):
        def apply(self, adds: Adds, condition: SetIf) -> Outcome:
            if condition.key == b"second":
                raise refused
            return super().apply(adds, condition)

    def change(key: bytes) -> tuple[Adds, SetIf]:
        return Adds((), 0), SetIf(REFERENCES, key, b"", ABSENT)

    store = Refusing()
    with pytest.raises(Unknown):
        apply_in_turn(store, [change(b"first"), change(b"second")])
    with pytest.raises(type(refused)):
        apply_in_turn(store, [change(b"second"), change(b"third")])
