"""Tokens of a condition in SQL, as far as they are needed to choose files by it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from lochan.base.pipeline_limits import FILTER_CHARACTERS_MAX

_TOKEN: Final = re.compile(
    r"""\s*(?:
    (?P<bad>--|/\*|;|\$\$)
    |(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?:[lLsSyYdDfF]|[bB][dD])?(?![\w.]))
    |(?P<word>\w+)
    |`(?P<name>(?:[^`]|``)*)`
    |'(?P<text>[^'\\]*)'(?!')
    |"(?P<double>[^"\\]*)"(?!")
    |(?P<sign><=>|<>|<=|>=|!=|==|[=<>!()\[\]{},.+*/%&|^~:?@-])
    )""",
    re.VERBOSE,
)
_OPENING: Final = {"(": ")", "[": "]", "{": "}"}


class Token(msgspec.Struct, frozen=True):
    """A word, a quoted name, a number, a text or a sign."""

    kind: str
    text: str

    def is_word(self, *words: str) -> bool:
        """Returns whether it is one of some words, which are given in capitals."""
        return self.kind == "word" and self.text.upper() in words

    def is_sign(self, *signs: str) -> bool:
        """Returns whether it is one of some signs."""
        return self.kind == "sign" and self.text in signs


def tokens_of(text: str) -> list[Token] | None:
    """Returns the tokens of a text, None if it has some that are not known here."""
    if len(text) > FILTER_CHARACTERS_MAX:
        return None
    found: list[Token] = []
    place, text = 0, text.rstrip()
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None or match.lastgroup is None or match.lastgroup == "bad":
            return None
        found.append(Token(match.lastgroup, match[match.lastgroup]))
        place = match.end()
    return found


def cut_at(
    tokens: Sequence[Token], is_edge: Callable[[Token], bool]
) -> list[Sequence[Token]] | None:
    """Returns what stands between some tokens outside of brackets; None if brackets do not close.

    An AND that belongs to a BETWEEN is none to cut at.
    """
    parts: list[Sequence[Token]] = []
    begin, owed = 0, 0
    for place, token, depth in _levels(tokens):
        if depth < 0:
            return None
        if depth == 0 and token.is_word("BETWEEN"):
            owed += 1
        elif depth == 0 and owed and token.is_word("AND"):
            owed -= 1
        elif depth == 0 and is_edge(token):
            parts.append(tokens[begin:place])
            begin = place + 1
    parts.append(tokens[begin:])
    return parts if all(parts) and not owed else None


def _levels(tokens: Sequence[Token]) -> Iterator[tuple[int, Token, int]]:
    """Yields places and tokens with the number of brackets around them; -1 where they are wrong."""
    closing: list[str] = []
    for place, token in enumerate(tokens):
        if token.kind == "sign" and token.text in _OPENING:
            yield place, token, len(closing) + 1
            closing.append(_OPENING[token.text])
        elif token.is_word("CASE"):
            yield place, token, len(closing) + 1
            closing.append("END")
        elif closing and (token.is_sign(closing[-1]) or token.is_word(closing[-1])):
            closing.pop()
            yield place, token, len(closing) + 1
        elif token.is_sign(*_OPENING.values()):
            yield place, token, -1
        else:
            yield place, token, len(closing)
    if closing:
        yield len(tokens), Token("sign", ""), -1


def inside_of(tokens: Sequence[Token]) -> Sequence[Token] | None:
    """Returns what one pair of round brackets holds, None if there is none around everything."""
    if len(tokens) < 3 or not tokens[0].is_sign("("):
        return None
    levels = [depth for _, _, depth in _levels(tokens)]
    if any(depth < 1 for depth in levels) or len(levels) != len(tokens):
        return None
    # A pair that closes before the end leaves its last token beside it.
    closes = [
        place
        for place, (_, token, depth) in enumerate(_levels(tokens))
        if depth == 1 and token.is_sign(")")
    ]
    return tokens[1:-1] if closes == [len(tokens) - 1] else None
