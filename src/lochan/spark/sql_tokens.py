"""Texts of SQL, cut into tokens as Spark's parser cuts them.

Comments may be nested, texts may be raw, escaped or between dollars; each of these is one token, so
that what is inside is never taken for code. `condition_tokens` has less: a text with anything in it
that Spark may read in two ways, by its version or by its settings, has no tokens there.

A check that is a query must be one query and nothing else, and must name its tables where Spark
reads them. `check_one_query` refuses everything that is visible in the text: commands, several
statements, parentheses that close what the text has not opened. What is left is put in parentheses
by the code that runs it, where Spark's own grammar takes a query only. Pure; nothing here is run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from lochan.base.errors import Invalid
from lochan.base.limits.spark_reads import FILTER_CHARACTERS_MAX

# A letter before r'…' belongs to a name that ends there, if it is one that names may have.
_RAW: Final = r"(?<![A-Za-z0-9_])[rR]['\"]"
_TOKEN: Final = re.compile(
    rf"""(?P<blank>\s+)
    |(?P<comment>--(?:\\\n|[^\r\n])*|/\*)
    |(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?:[lLsSyYdDfF]|[bB][dD])?(?![\w.]))
    |(?P<word>(?:(?!{_RAW})\w)+)
    |`(?P<name>(?:[^`]|``)*)`
    |'(?P<text>[^'\\]*)'(?!')
    |"(?P<double>[^"\\]*)"(?!")
    |(?P<escaped>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
    |(?P<raw>[rR]'[^']*'|[rR]"[^"]*"|(?P<tag>\$[A-Za-z_]*\$).*?(?P=tag))
    |(?P<unclosed>[rR]?['"]|`|\$[A-Za-z_]*\$)
    |(?P<sign><=>|<>|<=|>=|!=|==|[=<>!()\[\]{{}},.+*/%&|^~:?@-])
    |(?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_NESTED: Final = re.compile(r"/\*|\*/")
_OPENING: Final = {"(": ")", "[": "]", "{": "}"}
_HIDDEN: Final = "\0"
_TEXTS: Final = ("name", "text", "double", "escaped", "raw")
_FIRST_WORD: Final = re.compile(r"[\s(]*([A-Za-z_]*)")
_QUERIES: Final = ("SELECT", "WITH", "FROM", "VALUES", "TABLE")
_IN_CONDITIONS: Final = ("number", "word", "name", "text", "double", "sign")


class Token(msgspec.Struct, frozen=True):
    """A part of a text, without the quotes around it, and where it begins and ends."""

    kind: str
    text: str
    start: int = 0
    end: int = 0

    def is_word(self, *words: str) -> bool:
        """Returns whether it is one of some words, which are given in capitals."""
        return self.kind == "word" and self.text.upper() in words

    def is_sign(self, *signs: str) -> bool:
        """Returns whether it is one of some signs."""
        return self.kind == "sign" and self.text in signs


def tokens_of(sql: str) -> Iterator[Token]:
    """Yields all tokens of a text; Invalid if a comment or a text in it does not end."""
    start = 0
    while start < len(sql) and (match := _TOKEN.match(sql, start)):
        kind, end = str(match.lastgroup), match.end()
        if match[0] == "/*":
            end = _end_of_comment(sql, start)
        if kind == "unclosed" or end < 0:
            raise Invalid(f"the query has a {match[0]} at character {start + 1} that is not closed")
        yield Token(kind, match[kind], start, end)
        start = end


def _end_of_comment(sql: str, start: int) -> int:
    """Returns the place after a comment, which may have others inside; -1 if it does not end."""
    depth = 0
    for mark in _NESTED.finditer(sql, start):
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return mark.end()
    return -1


def condition_tokens(text: str) -> list[Token] | None:
    """Returns the tokens of a condition, None if it has some that files are not chosen by."""
    if len(text) > FILTER_CHARACTERS_MAX:
        return None
    try:
        found = [each for each in tokens_of(text) if each.kind != "blank"]
    except Invalid:
        return None
    return found if all(each.kind in _IN_CONDITIONS for each in found) else None


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


def code_of(sql: str) -> str:
    """Returns the text with blanks for comments and NULs for texts and quoted names."""
    parts = []
    for token in tokens_of(sql):
        blank = " " if token.kind == "comment" else _HIDDEN
        is_code = token.kind != "comment" and token.kind not in _TEXTS
        length = token.end - token.start
        parts.append(sql[token.start : token.end] if is_code else blank * length)
    return "".join(parts)


def check_one_query(sql: str) -> str:
    """Returns the text of a query without a semicolon at its end; Invalid if it is anything else.

    Hints are taken as comments here: they name no table that is read.
    """
    code = code_of(sql).rstrip()
    while code.endswith(";"):
        code = code[:-1].rstrip()
    match = _FIRST_WORD.match(code)
    word = match[1].upper() if match else ""
    if word not in _QUERIES:
        beginning = f"begins with {word}" if word else "does not begin with a word"
        raise Invalid(
            f"a check is a query and {beginning}; it begins with {', '.join(_QUERIES[:-1])} or "
            f"{_QUERIES[-1]}, and runs no command"
        )
    if ";" in code:
        raise Invalid("a check is one query; there is a second statement after a semicolon")
    depth = 0
    for letter in code:
        depth += (letter == "(") - (letter == ")")
        if depth < 0:
            break
    if depth:
        raise Invalid("the parentheses of the query do not match")
    return sql[: len(code)]
