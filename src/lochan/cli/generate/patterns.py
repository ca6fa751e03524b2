"""Patterns of keys: text with functions in `${…}`.

    uuid           a random UUID
    int,n          a whole number from 0 to n-1
    string,len     that many letters and digits
    seq,offset     counts up by one from the offset
    prob,p,f       with probability p a new value of f, else the last one
    every,n,f      a new value of f for every n keys, between them the last one

A dot in the text, or in the value of a function, separates the elements of the key.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterator
from itertools import count
from random import Random
from typing import Final
from uuid import UUID

from lochan.base.errors import Invalid
from lochan.base.keys import table_key
from lochan.base.limits.client import PATTERN_FUNCTIONS_MAX
from lochan.base.limits.contents import KEY_CHARACTERS_MAX

Draw = Callable[[], str]
"""Returns the next value of one function."""

_FUNCTION: Final = re.compile(r"\$\{([^{}]*)\}")
_LETTERS: Final = string.ascii_letters + string.digits
_KNOWN: Final = "uuid; int,n; string,len; seq,offset; prob,p,f; every,n,f"


class KeyPattern:
    """A parsed pattern; returns one key after the other."""

    def __init__(self, text: str, random: Random) -> None:
        parts = _FUNCTION.split(text)
        if any(mark in part for part in parts[::2] for mark in ("${", "}")):
            raise Invalid(f"the key pattern {text!r} has a '${{' without '}}', or the reverse")
        if len(parts) // 2 > PATTERN_FUNCTIONS_MAX:
            raise Invalid(f"a key pattern has at most {PATTERN_FUNCTIONS_MAX} functions")
        self._draws: list[Draw] = [
            _function(part, random) if position % 2 else _always(part)
            for position, part in enumerate(parts)
        ]

    def next_key(self) -> tuple[str, ...]:
        """Returns the next key; InvalidKey if it cannot be stored."""
        elements = tuple("".join(draw() for draw in self._draws).split("."))
        table_key(elements)
        return elements

    def distinct_keys(self, number: int) -> list[tuple[str, ...]]:
        """Returns that many different keys; Invalid if the pattern seems to have fewer."""
        found: dict[tuple[str, ...], None] = {}
        drawn = 0
        while len(found) < number:
            found[self.next_key()] = None
            drawn += 1
            # A pattern such as ${int,n} repeats itself; one without enough keys must end.
            if drawn > 100 * number + 10_000:
                raise Invalid(
                    f"the pattern gave only {len(found):,} different keys in {drawn:,} tries; "
                    f"{number:,} are needed: add ${{uuid}} or ${{seq,0}}, or lower --num-tables"
                )
        return list(found)


def _function(text: str, random: Random) -> Draw:
    """Parses `name,argument,…`; functions that wrap another are built from the inside out."""
    words = [word.strip() for word in text.split(",")]
    wraps: list[tuple[str, str]] = []
    while words[0] in ("prob", "every"):
        if len(words) < 3 or len(wraps) == PATTERN_FUNCTIONS_MAX:
            raise _unknown_function(text)
        wraps.append((words[0], words[1]))
        words = words[2:]
    draw = _innermost(text, words, random)
    for name, argument in reversed(wraps):
        draw = _prob(text, argument, draw, random) if name == "prob" else _every(argument, draw)
    return draw


def _innermost(text: str, words: list[str], random: Random) -> Draw:
    if words == ["uuid"]:
        return lambda: str(UUID(int=random.getrandbits(128), version=4))
    if len(words) != 2:
        raise _unknown_function(text)
    name, number = words[0], _whole(words[1])
    if name == "int" and number > 0:
        return lambda: str(random.randrange(number))
    if name == "string" and 0 < number <= KEY_CHARACTERS_MAX:
        return lambda: "".join(random.choices(_LETTERS, k=number))
    if name == "seq":
        numbers: Iterator[int] = count(number)
        return lambda: str(next(numbers))
    raise _unknown_function(text)


def _prob(text: str, argument: str, draw: Draw, random: Random) -> Draw:
    try:
        probability = float(argument)
    except ValueError:
        raise _unknown_function(text) from None
    if not 0 <= probability <= 1:
        raise Invalid(f"prob,{argument}: a probability is between 0 and 1")
    return _kept(draw, lambda: random.random() < probability)


def _every(argument: str, draw: Draw) -> Draw:
    period = _whole(argument)
    if period < 1:
        raise Invalid(f"every,{argument}: the number must be at least 1")
    numbers = count()
    return _kept(draw, lambda: next(numbers) % period == 0)


def _kept(draw: Draw, renew: Callable[[], bool]) -> Draw:
    """Returns a draw that repeats its value until `renew` is true; the first is always new."""
    last: list[str] = []

    def kept() -> str:
        if renew() or not last:
            last[:] = [draw()]
        return last[0]

    return kept


def _always(text: str) -> Draw:
    return lambda: text


def _whole(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise Invalid(f"not a whole number in a key pattern: {text!r}")
    return int(text)


def _unknown_function(text: str) -> Invalid:
    return Invalid(f"unknown function {text!r} in a key pattern; use one of {_KNOWN}")
