"""The parts of a condition that `&&`, `||` and `!` connect.

By them a condition can be judged before all of its variables are known: a part that reads only
known ones has its result, whatever the others are. What is not surely one of the three operators
stays inside one part.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import msgspec

from lochan.base.limits.policies import CONDITIONS_COMPILED_MAX
from lochan.rules.syntax import Token, read_tokens

_PRECEDENCE: Final = {"||": 1, "&&": 2, "!": 3}
_COMPARING: Final = frozenset(("==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "in"))


class Proposition(msgspec.Struct, frozen=True):
    """A part of a condition that none of the operators takes apart."""

    tokens: tuple[Token, ...]

    @property
    def text(self) -> str:
        """The part as a condition of its own."""
        return " ".join([token.text for token in self.tokens])


Formula = tuple[Proposition | str, ...]
"""Propositions, each operator after what it is applied to."""


@lru_cache(CONDITIONS_COMPILED_MAX)
def split(text: str) -> Formula:
    """Returns the parts of a text that is known to be a condition."""
    tokens = read_tokens(text)
    if any(token.is_mark("?") for token in tokens):
        return (Proposition(tuple(tokens)),)
    return _Splitter(tokens).run()


class _Splitter:
    """Goes over the tokens once, with a stack of operators and open brackets."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._closing = _closing_brackets(tokens)
        self._found: list[Proposition | str] = []
        self._open: list[str] = []

    def run(self) -> Formula:
        """Returns what was found."""
        at = 0
        while at < len(self._tokens):
            token = self._tokens[at]
            if token.is_mark("!") and self._is_negation(at):
                self._open.append("!")
            elif self._is_group(at):
                self._open.append("(")
            elif token.is_mark(")"):
                self._apply(0)
                self._open.pop()
            elif token.is_mark("&&") or token.is_mark("||"):
                self._apply(_PRECEDENCE[token.text])
                self._open.append(token.text)
            else:
                end = self._end_of(at)
                self._found.append(Proposition(tuple(self._tokens[at:end])))
                at = end
                continue
            at += 1
        self._apply(0)
        return tuple(self._found)

    def _apply(self, least: int) -> None:
        """Applies the last operators, down to a bracket or to one that binds less."""
        while self._open and self._open[-1] != "(" and _PRECEDENCE[self._open[-1]] >= least:
            self._found.append(self._open.pop())

    def _is_group(self, at: int) -> bool:
        """Returns whether a bracket holds an operand of one of the operators."""
        if not self._tokens[at].is_mark("("):
            return False
        return self._ends(self._closing[at] + 1)

    def _is_negation(self, at: int) -> bool:
        """Returns whether an exclamation mark is applied to all of an operand."""
        while at < len(self._tokens) and self._tokens[at].is_mark("!"):
            at += 1
        if at == len(self._tokens) or self._is_group(at):
            return at < len(self._tokens)
        place, end = at, self._end_of(at)
        while place < end:
            token = self._tokens[place]
            if token.kind != "text" and token.text in _COMPARING:
                return False
            place = self._closing.get(place, place) + 1
        return True

    def _end_of(self, at: int) -> int:
        """Returns where a proposition ends."""
        while not self._ends(at):
            at = self._closing.get(at, at) + 1
        return at

    def _ends(self, at: int) -> bool:
        if at >= len(self._tokens):
            return True
        return any(self._tokens[at].is_mark(mark) for mark in ("&&", "||", ")"))


def _closing_brackets(tokens: list[Token]) -> dict[int, int]:
    """Returns the place of the bracket that closes each one."""
    found: dict[int, int] = {}
    open_at: list[int] = []
    for at, token in enumerate(tokens):
        if token.is_mark("(") or token.is_mark("["):
            open_at.append(at)
        elif token.is_mark(")") or token.is_mark("]"):
            found[open_at.pop()] = at
    return found
