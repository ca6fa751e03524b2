"""For which references a condition may hold, whatever references there are.

A repository looks absent to a caller that may view none of its references, and what exists must not
matter for that. So it is computed for which names a condition may hold. The result is exact for
conditions that compare `ref` with texts (`==`, `!=`, `in`, `startsWith`), connected by `&&`, `||`
and `!`. Any other comparison of `ref` is taken to be able to hold and not to hold for every name.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import msgspec

from lochan.access.spans import EVERYTHING, NOTHING, Spans, one_name, prefixed, union
from lochan.base.errors import Invalid
from lochan.base.limits.policies import CONDITION_RESULTS_MAX
from lochan.rules.conditions import Bound, Condition, compile_condition
from lochan.rules.propositions import Proposition, split
from lochan.rules.syntax import Token

REFERENCE: Final = "ref"


class NameSets(msgspec.Struct, frozen=True):
    """The names for which a condition may hold, and those for which it may not hold.

    A name in neither is one for which it fails.
    """

    holds: Spans
    not_holds: Spans


_NOT_KNOWN: Final = NameSets(EVERYTHING, EVERYTHING)
_FAILS: Final = NameSets(NOTHING, NOTHING)
_RESULTS: Final = {
    True: NameSets(EVERYTHING, NOTHING),
    False: NameSets(NOTHING, EVERYTHING),
    None: _FAILS,
}


@lru_cache(CONDITION_RESULTS_MAX)
def names_for(condition: Condition, bound: Bound) -> NameSets:
    """Returns for which names of references a condition may hold; `path` is empty."""
    found: list[NameSets] = []
    for part in split(condition.text):
        if isinstance(part, Proposition):
            found.append(_names_of(part, bound))
        elif part == "!":
            one = found.pop()
            found.append(NameSets(one.not_holds, one.holds))
        else:
            other, one = found.pop(), found.pop()
            if part == "&&":
                both = NameSets(one.holds & other.holds, one.not_holds | other.not_holds)
            else:
                both = NameSets(one.holds | other.holds, one.not_holds & other.not_holds)
            found.append(both)
    return found[0]


def _names_of(part: Proposition, bound: Bound) -> NameSets:
    if not any(token.kind == "name" and token.text == REFERENCE for token in part.tokens):
        try:
            condition = compile_condition(part.text)
        except Invalid:
            return _NOT_KNOWN
        known = dict(bound)
        return _RESULTS[condition.evaluate(condition.bind(known))]
    names = _compared(part.tokens)
    return _NOT_KNOWN if names is None else NameSets(names, EVERYTHING - names)


def _compared(tokens: tuple[Token, ...]) -> Spans | None:
    """Returns the names for which a comparison of `ref` holds; None if it is of another form."""
    texts = [token.text if token.kind != "text" else "" for token in tokens]
    literals = [_literal(token) for token in tokens if token.kind == "text"]
    raw = [text.encode() for text in literals if text is not None]
    if len(raw) < len(literals) or not raw:
        return None
    equal = union([one_name(one) for one in raw])
    if texts in ([REFERENCE, "==", ""], ["", "==", REFERENCE]):
        return equal
    if texts in ([REFERENCE, "!=", ""], ["", "!=", REFERENCE]):
        return EVERYTHING - equal
    if texts == [REFERENCE, ".", "startsWith", "(", "", ")"]:
        return union([prefixed(raw[0])]) if raw[0] else EVERYTHING
    listed = ",".join([""] * len(raw))
    if texts[:3] == [REFERENCE, "in", "["] and "".join(texts[3:]) == f"{listed}]":
        return equal
    return None


def _literal(token: Token) -> str | None:
    """Returns the text of a literal; None for one with escapes or of other characters."""
    text = token.text
    if text[0] in "rR":
        inner = text[2:-1]
    else:
        inner = text[1:-1]
        if "\\" in inner:
            return None
    return inner if inner.isascii() else None
