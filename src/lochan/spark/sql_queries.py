"""Queries of checks: each is one query of SQL and nothing else.

A check that is a query must be one query and nothing else, and must name its tables where Spark
reads them. `check_one_query` refuses everything that is visible in the text: commands, several
statements, parentheses that close what the text has not opened. What is left is put in parentheses
by the code that runs it, where Spark's own grammar takes a query only. Pure; nothing here is run.
"""

from __future__ import annotations

import re
from typing import Final

from lochan.base.errors import Invalid
from lochan.spark.sql_tokens import tokens_of

_HIDDEN: Final = "\0"
_TEXTS: Final = ("name", "text", "double", "escaped", "raw")
_FIRST_WORD: Final = re.compile(r"[\s(]*([A-Za-z_]*)")
_QUERIES: Final = ("SELECT", "WITH", "FROM", "VALUES", "TABLE")


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
