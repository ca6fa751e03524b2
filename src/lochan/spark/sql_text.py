"""Texts of SQL as Spark's parser cuts them up: what is code, and what is a text or a comment.

A check that is a query must be one query and nothing else, and must name its tables where Spark
reads them. `check_one_query` refuses everything that is visible in the text: commands, several
statements, parentheses that close what the text has not opened. What is left is put in parentheses
by whoever runs it, where Spark's own grammar takes a query only. Pure; nothing here is run.
"""

from __future__ import annotations

import re
from typing import Final

from lochan.base.errors import Invalid

_HIDDEN: Final = "\0"

# Where something begins that is not code; a letter before r'…' belongs to a name that ends there.
_OPENING: Final = re.compile(r"--|/\*|(?<![A-Za-z0-9_])[rR]['\"]|['\"`]|\$[A-Za-z_]*\$")
_NESTED: Final = re.compile(r"/\*|\*/")

_TEXTS: Final = {
    "'": re.compile(r"'(?:[^'\\]|\\.|'')*'", re.DOTALL),
    '"': re.compile(r'"(?:[^"\\]|\\.|"")*"', re.DOTALL),
    "`": re.compile(r"`(?:[^`]|``)*`", re.DOTALL),
    # A backslash before the end of the line goes on with the comment.
    "--": re.compile(r"--(?:\\\n|[^\r\n])*"),
}

_FIRST_WORD: Final = re.compile(r"[\s(]*([A-Za-z_]*)")
_QUERIES: Final = ("SELECT", "WITH", "FROM", "VALUES", "TABLE")


def code_of(sql: str) -> str:
    """Returns the text with blanks for comments and NULs for texts and quoted names."""
    parts: list[str] = []
    at = 0
    while found := _OPENING.search(sql, at):
        start = found.start()
        end = _end_of(sql, found)
        blank = " " if found[0] in ("--", "/*") else _HIDDEN
        parts += [sql[at:start], blank * (end - start)]
        at = end
    return "".join([*parts, sql[at:]])


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
        told = f"begins with {word}" if word else "does not begin with a word"
        raise Invalid(
            f"a check is a query and {told}; it begins with {', '.join(_QUERIES[:-1])} or "
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


def _end_of(sql: str, found: re.Match[str]) -> int:
    """Returns the place after what begins there; Invalid if it does not end."""
    start, opening = found.start(), found[0]
    end = -1
    if opening == "/*":
        end = _end_of_comment(sql, start)
    elif opening[0] in "rR$":
        # Raw texts have no escapes; those between dollars end with the same word.
        closing = opening[1:] if opening[0] in "rR" else opening
        at = sql.find(closing, found.end())
        end = -1 if at < 0 else at + len(closing)
    elif match := _TEXTS[opening].match(sql, start):
        end = match.end()
    if end < 0:
        raise Invalid(f"the query has a {opening} at character {start + 1} that is not closed")
    return end


def _end_of_comment(sql: str, start: int) -> int:
    """Returns the place after a comment, which may have others inside; -1 if it does not end."""
    depth = 0
    for mark in _NESTED.finditer(sql, start):
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return mark.end()
    return -1
