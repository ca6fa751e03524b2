"""Weighs a regular expression of a filter: how long compiling it takes, in microseconds.

The evaluator compiles a pattern for every element that it judges. Matching is linear, so the size
of the compiled pattern is what counts: classes of Unicode letters are large, and counted repetition
multiplies. The numbers were measured and are rounded up.
"""

from __future__ import annotations

import re
from typing import Final

from lochan.base.errors import Invalid
from lochan.base.limits.filters import FILTER_PATTERN_US_MAX

_BASE_US: Final = 10
_SIGN_US: Final = 1
# Letters have more than one partner where case is ignored.
_FOLDED_SIGN_US: Final = 5
_SET_US: Final = 25
_ESCAPES_US: Final = {
    **dict.fromkeys("wWpP", 250),
    **dict.fromkeys("dDsS", 40),
    **dict.fromkeys("bBAz", 5),
}

_FLAGS: Final = re.compile(r"\(\?(?:[ims]+\)|[ims]*:|P?<[A-Za-z_]\w*>)", re.ASCII)
_LONG_ESCAPE: Final = re.compile(r"\\(?:[pPxuU]\{[^{}]*\}|[pP].)")
_SET_BEGIN: Final = re.compile(r"\[\^?\]?")
_COUNTED: Final = re.compile(r"\{([0-9]{1,4})(?:(,)([0-9]{0,4}))?\}")
_PLAIN_ESCAPE: Final = re.compile(r"\\(.)")
_PLAIN: Final = {"\\": "\\", "'": "'", '"': '"', "n": "\n", "r": "\r", "t": "\t"}


def weigh_pattern(literal: str, at: int) -> int:
    """Returns how long the pattern in a literal takes to compile; Invalid if that is too long."""
    pattern = _pattern_of(literal, at)
    weight_us = _Scale(pattern, at).weigh()
    if weight_us > FILTER_PATTERN_US_MAX:
        raise _refuse("is too costly; use fewer classes and repetitions", at)
    return weight_us


def _refuse(what: str, at: int) -> Invalid:
    return Invalid(f"The filter is refused at character {at + 1}: the pattern {what}")


def _pattern_of(literal: str, at: int) -> str:
    """Returns what the evaluator will compile."""
    if literal[0] in "rR":
        return literal[2:-1]

    def unescape(match: re.Match[str]) -> str:
        if match[1] not in _PLAIN:
            raise _refuse(rf"has the escape \{match[1]}; write it as r'…'", at)
        return _PLAIN[match[1]]

    return _PLAIN_ESCAPE.sub(unescape, literal[1:-1])


class _Scale:
    """Goes once over a pattern; each open group has its own sum."""

    def __init__(self, pattern: str, at: int) -> None:
        self._pattern = pattern
        self._at = at
        self._sums = [_BASE_US]
        self._last_us = 0
        self._sign_us = _SIGN_US
        if any("i" in flags for flags in re.findall(r"\(\?([a-z]+)", pattern)):
            self._sign_us = _FOLDED_SIGN_US

    def weigh(self) -> int:
        """Returns the whole weight."""
        place = 0
        while place < len(self._pattern):
            place = self._step(place)
        return sum(self._sums)

    def _step(self, place: int) -> int:
        """Weighs what begins at a place and returns where it ends."""
        sign = self._pattern[place]
        if sign == "(":
            return self._begin_group(place)
        if sign == ")":
            # What has no beginning is refused by the evaluator.
            self._add(self._sums.pop() + _SIGN_US if len(self._sums) > 1 else _SIGN_US)
        elif sign == "[":
            return self._set(place)
        elif sign == "{":
            return self._repeat(place)
        elif sign == "\\":
            self._add(self._escape_us(place))
            long = _LONG_ESCAPE.match(self._pattern, place)
            return long.end() if long else place + 2
        elif sign in "*+?":
            # What is repeated stays the last: it may be repeated once more, by a number.
            self._sums[-1] += _SIGN_US
        else:
            self._add(_SET_US if sign == "." else self._sign_us)
        return place + 1

    def _add(self, weight_us: int) -> None:
        self._sums[-1] += weight_us
        self._last_us = weight_us

    def _escape_us(self, place: int) -> int:
        return _ESCAPES_US.get(self._pattern[place + 1 : place + 2], self._sign_us)

    def _begin_group(self, place: int) -> int:
        self._sums.append(0)
        if not self._pattern.startswith("(?", place):
            return place + 1
        flags = _FLAGS.match(self._pattern, place)
        if flags is None:
            raise _refuse("begins a group in a way that filters do not know", self._at)
        if flags[0].endswith(")"):
            self._sums.pop()
        return flags.end()

    def _set(self, place: int) -> int:
        """Weighs a set in square brackets as one sign; sets may hold sets."""
        depth, weight_us = 0, _SET_US
        while place < len(self._pattern):
            sign = self._pattern[place]
            if sign == "\\":
                weight_us += self._escape_us(place)
                place += 1
            elif begin := _SET_BEGIN.match(self._pattern, place):
                # A closing bracket that comes first is a literal.
                depth += 1
                place = begin.end() - 1
            elif sign == "]":
                depth -= 1
                if depth == 0:
                    break
            else:
                weight_us += self._sign_us
            place += 1
        self._add(weight_us)
        return place + 1

    def _repeat(self, place: int) -> int:
        """Multiplies what precedes it; braces without a number are literal, or refused later."""
        counted = _COUNTED.match(self._pattern, place)
        if counted is None:
            raise _refuse("has a brace that is no number of repetitions below 10000", self._at)
        times = max(int(counted[1]), int(counted[3] or 0)) + bool(counted[2])
        self._sums[-1] += self._last_us * max(times - 1, 0)
        self._last_us *= max(times, 1)
        return counted.end()
