"""Reads the text of a filter before any evaluator sees it, and refuses what could be costly.

The evaluator has no budget of its own: three nested loops over a hundred items take ten seconds in
it, a regular expression is compiled anew for every element, and adding lists is quadratic. So the
text is cut into tokens here, and what it can cost is known before it runs:

* every name is a variable of its kind or the variable of a loop, every field one that exists;
* loops (`exists`, `all`, `exists_one`, `map`, `filter`) run over `operations`, over the elements of
  a key, over `roles` or over a list that is written out, and never inside each other;
* `operations` is only looped over, indexed and counted, never compared as a whole;
* a regular expression is written out, and weighed;
* additions, brackets, tokens and loops are counted.

Anything that is not surely understood is refused, and the evaluator gets the tokens that were read
here: no comment, quote or white space can mean one thing to this reader and another to that one.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from lochan.base.errors import Invalid
from lochan.base.limits.contents import KEY_ELEMENTS_MAX
from lochan.base.limits.filters import (
    FILTER_ADDITIONS_MAX,
    FILTER_DEPTH_MAX,
    FILTER_LIST_ITEMS_MAX,
    FILTER_LOOPS_MAX,
    FILTER_TOKENS_MAX,
)
from lochan.rules.patterns import weigh_pattern
from lochan.rules.values import LISTS, NOT_HERE, VARIABLES, FilterKind

_TOKEN: Final = re.compile(
    r"""(?P<space>[ \t\r\n\f]+)
    |(?P<text>[rR](?:'[^'\r\n]*'|"[^"\r\n]*")
             |'(?:[^'\\\r\n]|\\.)*'|"(?:[^"\\\r\n]|\\.)*")
    |(?P<number>0[xX][0-9a-fA-F]+[uU]?|(?:[0-9]+\.[0-9]+|\.?[0-9]+)(?:[eE][+-]?[0-9]+)?[uU]?)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<mark>&&|\|\||[=!<>]=|[<>!?:.,+\-*/%()\[\]])
    """,
    re.VERBOSE,
)

_LOOPS: Final = frozenset({"exists", "all", "exists_one", "map", "filter"})
_BUILDING: Final = frozenset({"map", "filter"})
_TIMES: Final = frozenset(
    {"getFullYear", "getMonth", "getDayOfMonth", "getDate", "getDayOfWeek", "getDayOfYear"}
    | {"getHours", "getMinutes", "getSeconds", "getMilliseconds"}
)
_FUNCTIONS: Final = _TIMES | {
    *("size", "has", "contains", "startsWith", "endsWith", "matches", "timestamp", "duration"),
    *("int", "uint", "double", "string", "type", "dyn"),
}
_CONSTANTS: Final = frozenset({"true", "false", "null", "int", "uint", "double", "string", "bool"})
_LISTS_OF_A_KEY: Final = frozenset({"keyElements", "namespaceElements"})
_OPERATIONS: Final = "operations"


class Work(msgspec.Struct, gc=False):
    """What a text, or one round of a loop in it, does: counted, and patterns weighed."""

    tokens: int = 0
    additions: int = 0
    searches: int = 0
    patterns: int = 0
    patterns_us: int = 0


class Loop(msgspec.Struct, frozen=True, gc=False):
    """One loop of a filter: over what, and what each round does.

    `items` is None for a loop over the operations of a commit.
    """

    items: int | None
    builds: bool
    round: Work


class ParsedFilter(msgspec.Struct, frozen=True):
    """What a text names and what it will do."""

    text: str
    """The tokens as they were understood: what the evaluator gets, so that it sees no others."""

    fields: dict[str, frozenset[str]]
    """The variables that are named, each with the fields that must be made."""

    names: frozenset[str]
    """Every name of a value: variables, those of loops, constants and types."""

    work: Work
    loops: tuple[Loop, ...]


class Token(msgspec.Struct, frozen=True, gc=False):
    """A word, a literal or a sign, and its place."""

    kind: str
    text: str
    at: int

    def is_mark(self, mark: str) -> bool:
        """Returns whether it is a sign, not a literal of the same text."""
        return self.kind == "mark" and self.text == mark


class _Bracket(msgspec.Struct):
    """An open bracket: what it is, and what has been seen inside."""

    mark: str
    at: int
    role: str
    commas: int = 0
    variable: str = ""
    items: int | None = 0
    loop: str = ""
    work: Work = msgspec.field(default_factory=Work)


def read_filter(text: str, kind: FilterKind) -> ParsedFilter:
    """Returns what a filter names and does; Invalid if it may not."""
    return _Reader(read_tokens(text), kind).read()


def refuse(what: str, at: int) -> Invalid:
    """Makes the error for a text that is refused, with the place counted from 1."""
    return Invalid(f"The filter is refused at character {at + 1}: {what}")


def read_tokens(text: str) -> list[Token]:
    """Returns the tokens of a text; Invalid if it has others."""
    found: list[Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        # A comment would be code here and nothing there.
        if match is None or text.startswith("//", at):
            raise refuse(f"{text[at : at + 10]!r} is not understood here", at)
        kind = str(match.lastgroup)
        if kind != "space":
            _check_apart(found, kind, text, at)
            found.append(Token(kind, match[0], at))
            if len(found) > FILTER_TOKENS_MAX:
                raise refuse(f"it has more than {FILTER_TOKENS_MAX} words and signs", at)
        at = match.end()
    return found


def _check_apart(found: list[Token], kind: str, text: str, at: int) -> None:
    """Refuses what another reader could cut differently: `''''`, `b'…'`, `1x`."""
    if kind == "mark" or not found:
        return
    last = found[-1]
    if last.kind != "mark" and last.at + len(last.text) == at:
        raise refuse(f"{text[last.at : at + 10]!r} is not understood here", last.at)


class _Reader:
    """Goes once over the tokens with a stack of open brackets."""

    def __init__(self, tokens: list[Token], kind: FilterKind) -> None:
        self._tokens = tokens
        self._variables = VARIABLES[kind]
        self._lists = LISTS.get(kind, {})
        self._not_here = NOT_HERE.get(kind, {})
        self._fields: dict[str, set[str]] = {}
        self._open: list[_Bracket] = []
        self._closed: dict[int, _Bracket] = {}
        self._loops: list[Loop] = []
        self._locals: set[str] = set()
        self._work = Work(len(tokens))

    def read(self) -> ParsedFilter:
        """Returns what was found."""
        for at, token in enumerate(self._tokens):
            if token.kind == "name":
                self._name(at)
            elif token.kind == "mark":
                self._mark(at)
        if self._open:
            raise refuse("this bracket is never closed", self._tokens[self._open[-1].at].at)
        return ParsedFilter(
            " ".join(token.text for token in self._tokens),
            {name: frozenset(fields) for name, fields in self._fields.items()},
            frozenset(self._fields) | self._locals | _CONSTANTS,
            self._work,
            tuple(self._loops),
        )

    def _text(self, at: int) -> str:
        """Returns the token at a place, '' beyond the ends; literals are never mistaken."""
        if 0 <= at < len(self._tokens) and self._tokens[at].kind != "text":
            return self._tokens[at].text
        return ""

    def _refuse(self, what: str, at: int) -> Invalid:
        return refuse(what, self._tokens[at].at)

    def _name(self, at: int) -> None:
        name = self._text(at)
        if name == "in":
            return
        if self._text(at + 1) == "(":
            if name not in _FUNCTIONS and name not in _LOOPS:
                raise self._refuse(f"undeclared reference to '{name}': no such function", at)
        elif self._text(at - 1) == "." or name in _CONSTANTS:
            return
        elif loop := self._loop_of(name):
            if loop.items is None and at > loop.at + 1:
                self._use(_OPERATIONS, at, whole=self._text(at + 1) != ".")
        elif name in self._variables and name == _OPERATIONS:
            self._use_operations(at)
        elif name in self._variables:
            self._use(name, at, whole=self._text(at + 1) != ".")
        elif name in self._not_here:
            raise self._refuse(f"'{name}' is not known here: {self._not_here[name]}", at)
        else:
            known = ", ".join(sorted(self._variables))
            raise self._refuse(f"undeclared reference to '{name}'; known here: {known}", at)

    def _loop_of(self, name: str) -> _Bracket | None:
        loops = (bracket for bracket in self._open if bracket.loop and bracket.variable == name)
        return next(loops, None)

    def _use(self, name: str, at: int, *, whole: bool) -> None:
        """Notes that a variable is used: one field of it, or all."""
        known = self._variables[name]
        used = self._fields.setdefault(name, set())
        if whole or self._text(at + 3) == "(":
            used |= known
            return
        field = self._text(at + 2)
        if field not in known:
            fields = ", ".join(sorted(known)) or "none"
            raise self._refuse(f"undefined field '{field}'; known here: {fields}", at)
        used.add(field)

    def _use_operations(self, at: int) -> None:
        """Lets `operations` be looped over, indexed by a number and counted, nothing else."""
        after = [self._text(at + step) for step in range(1, 5)]
        around = [self._text(at + step) for step in (-2, -1, 1)]
        self._fields.setdefault(_OPERATIONS, set())
        if after[0] == "[" and after[1].isdigit() and after[2] == "]":
            self._use(_OPERATIONS, at + 3, whole=after[3] != ".")
        elif after[0] == "." and after[1] in _LOOPS and after[2] == "(":
            return
        elif after != [".", "size", "(", ")"] and around != ["size", "(", ")"]:
            raise self._refuse("operations are looped over, indexed or counted by size()", at)

    def _mark(self, at: int) -> None:
        mark = self._text(at)
        if mark in ("(", "["):
            self._open_bracket(at, mark)
        elif mark in (")", "]"):
            self._close_bracket(at, mark)
        elif mark == ".":
            if not self._ends_operand(at - 1):
                raise self._refuse("a dot follows what it looks into", at)
        elif mark == "," and self._open:
            self._open[-1].commas += 1
        elif mark == "+":
            if self._work.additions == FILTER_ADDITIONS_MAX:
                raise self._refuse(f"it has more than {FILTER_ADDITIONS_MAX} additions", at)
            for work in self._works():
                work.additions += 1

    def _open_bracket(self, at: int, mark: str) -> None:
        if len(self._open) == FILTER_DEPTH_MAX:
            raise self._refuse(f"it has more than {FILTER_DEPTH_MAX} brackets in each other", at)
        follows = self._ends_operand(at - 1)
        bracket = _Bracket(mark, at, "group")
        if mark == "[":
            bracket.role = "index" if follows else "list"
        elif follows:
            bracket.role = self._text(at - 1)
            self._call(at, bracket)
        self._open.append(bracket)

    def _ends_operand(self, at: int) -> bool:
        """Returns whether a value ends here, so that the next token belongs to it."""
        if at < 0:
            return False
        token = self._tokens[at]
        return token.text in (")", "]") or (token.kind != "mark" and token.text != "in")

    def _call(self, at: int, bracket: _Bracket) -> None:
        if bracket.role in _LOOPS:
            self._begin_loop(at, bracket)
        elif bracket.role == "contains":
            for work in self._works():
                work.searches += 1
        elif bracket.role == "matches":
            pattern_us = self._weigh(at)
            for work in self._works():
                work.patterns += 1
                work.patterns_us += pattern_us

    def _works(self) -> list[Work]:
        """Returns where something that is done here counts: in the whole and in the loop."""
        return [self._work, *(bracket.work for bracket in self._open if bracket.loop)]

    def _weigh(self, at: int) -> int:
        literal = self._tokens[at + 1] if at + 1 < len(self._tokens) else None
        alone = self._text(at + 2) == ")" and self._text(at - 2) == "."
        if literal is None or literal.kind != "text" or not alone:
            raise self._refuse("matches() takes one pattern that is written out", at)
        return weigh_pattern(literal.text, literal.at)

    def _begin_loop(self, at: int, bracket: _Bracket) -> None:
        variable = self._tokens[at + 1] if at + 1 < len(self._tokens) else None
        if any(outer.loop for outer in self._open):
            raise self._refuse(f"{bracket.role}() may not stand inside another loop", at)
        if len(self._loops) == FILTER_LOOPS_MAX:
            raise self._refuse(f"it has more than {FILTER_LOOPS_MAX} loops", at)
        if variable is None or variable.kind != "name" or self._text(at + 2) != ",":
            raise self._refuse(f"{bracket.role}() begins with the name of its variable", at)
        if variable.text in self._variables or variable.text in _CONSTANTS:
            raise self._refuse(f"the name {variable.text!r} is taken", at)
        bracket.items = self._range(at)
        bracket.variable = variable.text
        bracket.loop = bracket.role
        self._locals.add(variable.text)

    def _range(self, at: int) -> int | None:
        """Returns how many items a loop runs over at most, None if they are operations."""
        last = at - 3
        if self._text(at - 2) == ".":
            if self._text(last) == _OPERATIONS and self._text(last - 1) != ".":
                return None
            if self._text(last) in self._lists and self._text(last - 1) != ".":
                return self._lists[self._text(last)]
            closed = self._closed.get(last)
            if closed is not None and closed.role == "list":
                if closed.commas >= FILTER_LIST_ITEMS_MAX:
                    raise self._refuse(
                        f"a list that is looped over has at most {FILTER_LIST_ITEMS_MAX} items", at
                    )
                return closed.commas + 1
            if self._text(last) in _LISTS_OF_A_KEY and self._is_a_key(last - 2):
                return KEY_ELEMENTS_MAX
        raise self._refuse(
            f"{self._text(at - 1)}() runs over operations, over keyElements or namespaceElements, "
            "over roles, or over a list that is written out",
            at,
        )

    def _is_a_key(self, at: int) -> bool:
        """Returns whether the text that ends here is a variable with a key, or one operation."""
        if self._text(at + 1) != ".":
            return False
        if self._text(at) == "]":
            begin = at - 3
            return self._text(begin) == _OPERATIONS and self._text(begin - 1) != "."
        fields = self._variables.get(self._text(at), frozenset())
        return fields >= _LISTS_OF_A_KEY and self._text(at - 1) != "."

    def _close_bracket(self, at: int, mark: str) -> None:
        if not self._open or self._open[-1].mark + mark not in ("()", "[]"):
            raise self._refuse("this bracket closes nothing", at)
        bracket = self._open.pop()
        self._closed[at] = bracket
        if bracket.loop:
            bracket.work.tokens = at - bracket.at
            self._loops.append(Loop(bracket.items, bracket.loop in _BUILDING, bracket.work))
