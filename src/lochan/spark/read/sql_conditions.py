"""Conditions as SQL writes them, read as far as files can be chosen by them.

This is no parser of SQL: Spark is, and it decides rows. Here a text is cut at AND, OR and NOT, and
what is between is read if it is a comparison of a column with literals. Everything else is
`Unread`, which chooses no files. Nothing is read as something that Spark may read otherwise: texts
with backslashes, doubled quotes or comments are left alone.

Columns of Spark are read, too, as Spark shows them: `and(=(x, 1), in(y, 2, 3))`. There names of
functions are not read, because a function of the user may have the same name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final

from pyiceberg import types as iceberg
from pyiceberg.schema import Schema

from lochan.base.limits.spark_reads import FILTER_DEPTH_MAX
from lochan.spark.read.comparands import (
    SqlLiteral,
    Zone,
    alternatives,
    comparands,
    is_beyond,
    prefix_comparand,
    to_float,
)
from lochan.spark.read.filters import (
    NULL,
    Constant,
    Junction,
    Leaf,
    Negation,
    Node,
    Unread,
)
from lochan.spark.sql_tokens import Token, condition_tokens, cut_at, inside_of

_COMPARED: Final = {
    "=": "=",
    "==": "=",
    "<=>": "<=>",
    "<": "<",
    "<=": "<=",
    ">": ">",
    ">=": ">=",
}
_TURNED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_UNEQUAL: Final = ("!=", "<>")
_TYPED: Final = {"DATE": "date", "TIMESTAMP": "timestamp", "TIMESTAMP_NTZ": "local"}
_TEMPORAL: Final = (iceberg.DateType, iceberg.TimestampType, iceberg.TimestamptzType)
_CONSTANTS: Final = ("TRUE", "FALSE", "NULL")
_SHOWN_MOMENT: Final = re.compile(
    r"(\d{4}) - (\d{2}) - (\d{2})(?: (\d{2}) : (\d{2}) : (\d{2}\.\d{1,6}))?"
)
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Words that a column must not be called where its name is shown without quotes.
_RESERVED: Final = {
    *_CONSTANTS, "AND", "OR", "NOT", "IN", "IS", "LIKE", "BETWEEN", "CASE", "END", "NAN",
    "INFINITY",
}  # fmt: skip


class Columns:
    """The columns that a condition may name, and their fields."""

    def __init__(
        self, fields: Mapping[str, iceberg.NestedField], *, case_sensitive: bool, zone: Zone
    ) -> None:
        self._fields = fields
        self._case_sensitive = case_sensitive
        self.zone = zone

    def find(self, path: Sequence[str]) -> iceberg.NestedField | None:
        """Returns the field at the end of a path; None if there is none, or more than one."""
        inside: Mapping[str, iceberg.NestedField] = self._fields
        found: iceberg.NestedField | None = None
        for name in path:
            fitting = [field for known, field in inside.items() if self._is_same(known, name)]
            if len(fitting) != 1:
                return None
            found = fitting[0]
            kind = found.field_type
            inside = (
                {each.name: each for each in kind.fields}
                if isinstance(kind, iceberg.StructType)
                else {}
            )
        return found

    def _is_same(self, one: str, two: str) -> bool:
        return one == two if self._case_sensitive else one.lower() == two.lower()

    def are_plain(self) -> bool:
        """Returns whether no name could be taken for something else where it is not quoted."""
        names = [
            *self._fields,
            *(name for each in self._fields.values() for name in Schema(each).column_names),
        ]
        return all(
            _NAME.fullmatch(part) and part.upper() not in _RESERVED
            for name in names
            for part in name.split(".")
        )


def whole_fields(schema: Schema) -> Mapping[str, iceberg.NestedField]:
    """Returns the columns of a schema by their names."""
    return {field.name: field for field in schema.fields}


def mentioned(text: str, schema: Schema) -> set[str]:
    """Returns the columns whose names occur anywhere in a text."""
    words = {word.lower() for word in re.findall(r"\w+", text)}
    quoted = {
        name.replace("``", "`").lower()
        for name in re.findall(r"`((?:[^`]|``)*)`", text) + re.findall(r'"([^"]*)"', text)
    }
    return {
        field.name
        for field in schema.fields
        if field.name.lower() in words or field.name.lower() in quoted
    }


def read_condition(text: str, columns: Columns) -> Node:
    """Returns what is understood of a condition in SQL."""
    tokens = condition_tokens(text)
    return (
        Unread() if tokens is None else _ConditionReader(columns, is_shown=False).any_of(tokens, 0)
    )


def read_column_text(text: str, columns: Columns, *, is_quoted: bool) -> Node:
    """Returns what is understood of a column of Spark, as Spark shows it.

    Where names are not quoted, none of the table may look like something else.
    """
    tokens = condition_tokens(text) if is_quoted or columns.are_plain() else None
    return (
        Unread() if tokens is None else _ConditionReader(columns, is_shown=True).any_of(tokens, 0)
    )


class _ConditionReader:
    """Reads the tokens of one condition."""

    def __init__(self, columns: Columns, *, is_shown: bool) -> None:
        self._columns = columns
        self._is_shown = is_shown

    def any_of(self, tokens: Sequence[Token], depth: int) -> Node:
        """Reads the operands of OR."""
        if depth > FILTER_DEPTH_MAX:
            return Unread()
        called = self._function(tokens, depth)
        if called is not None:
            return called
        parts = cut_at(tokens, lambda each: each.is_word("OR"))
        if parts is None:
            return Unread()
        return _joined([self._all_of(each, depth + 1) for each in parts], is_and=False)

    def _all_of(self, tokens: Sequence[Token], depth: int) -> Node:
        parts = cut_at(tokens, lambda each: each.is_word("AND"))
        if parts is None:
            return Unread()
        return _joined([self._opposite(each, depth + 1) for each in parts], is_and=True)

    def _opposite(self, tokens: Sequence[Token], depth: int) -> Node:
        first = 0
        while first < len(tokens) and (tokens[first].is_word("NOT") or tokens[first].is_sign("!")):
            first += 1
        tokens, is_not = tokens[first:], first % 2 == 1
        inside = inside_of(tokens)
        node = self._simple(tokens, depth) if inside is None else self.any_of(inside, depth + 1)
        return Negation(node) if is_not else node

    def _simple(self, tokens: Sequence[Token], depth: int) -> Node:
        called = self._function(tokens, depth)
        if called is not None:
            return called
        place, field = self._field(tokens)
        if field is None:
            return self._turned(tokens)
        rest = tokens[place:]
        if not rest:
            return self._leaf(field, "=", SqlLiteral("boolean", True))
        if rest[0].is_word("IS"):
            return _is_null(field, rest[1:])
        is_not = rest[0].is_word("NOT")
        rest = rest[1:] if is_not else rest
        node = self._after(field, rest)
        return Negation(node) if is_not else node

    def _function(self, tokens: Sequence[Token], depth: int) -> Node | None:
        """Reads a function as Spark shows it: its name and its arguments."""
        if not self._is_shown or len(tokens) < 3:
            return None
        inside = inside_of(tokens[1:])
        arguments = None if inside is None else cut_at(inside, lambda each: each.is_sign(","))
        if arguments is None:
            return None
        head = tokens[0]
        if head.is_word("AND", "OR"):
            items = [self.any_of(each, depth + 1) for each in arguments]
            return _joined(items, is_and=head.is_word("AND"))
        if head.is_word("IN"):
            return self._in(self._field_alone(arguments[0]), arguments[1:])
        if head.kind != "sign" or len(arguments) != 2:
            return None
        return self._compare(arguments[0], head.text, arguments[1])

    def _after(self, field: iceberg.NestedField, rest: Sequence[Token]) -> Node:
        """Reads the operator and the operands behind a column."""
        if not rest:
            return Unread()
        head, rest = rest[0], rest[1:]
        if head.is_word("IN"):
            inside = inside_of(rest)
            values = None if inside is None else cut_at(inside, lambda each: each.is_sign(","))
            return Unread() if values is None else self._in(field, values)
        if head.is_word("LIKE"):
            return self._like(field, rest)
        if head.is_word("BETWEEN"):
            ends = [place for place, each in enumerate(rest) if each.is_word("AND")]
            if len(ends) != 1:
                return Unread()
            low = self._value(field, ">=", rest[: ends[0]])
            return _joined([low, self._value(field, "<=", rest[ends[0] + 1 :])], is_and=True)
        if head.kind == "sign" and head.text in _UNEQUAL:
            return Negation(self._value(field, "=", rest))
        if head.kind == "sign" and head.text in _COMPARED:
            return self._value(field, _COMPARED[head.text], rest)
        return Unread()

    def _turned(self, tokens: Sequence[Token]) -> Node:
        """Reads a constant, or a comparison that begins with its literal."""
        if len(tokens) == 1 and tokens[0].is_word(*_CONSTANTS):
            return Constant({"TRUE": 1, "FALSE": 2, "NULL": 4}[tokens[0].text.upper()])
        for place, each in enumerate(tokens):
            if each.kind == "sign" and (each.text in _COMPARED or each.text in _UNEQUAL):
                return self._compare(tokens[place + 1 :], each.text, tokens[:place], is_turned=True)
        return Unread()

    def _compare(
        self,
        one: Sequence[Token],
        sign: str,
        two: Sequence[Token],
        *,
        is_turned: bool = False,
    ) -> Node:
        field, literal = self._field_alone(one), two
        if field is None:
            field, literal, is_turned = self._field_alone(two), one, not is_turned
        if field is None:
            return Unread()
        if sign in _UNEQUAL:
            return Negation(self._value(field, "=", literal))
        if sign not in _COMPARED:
            return Unread()
        operator = _COMPARED[sign]
        return self._value(
            field, _TURNED.get(operator, operator) if is_turned else operator, literal
        )

    def _field_alone(self, tokens: Sequence[Token]) -> iceberg.NestedField | None:
        place, field = self._field(tokens)
        return field if place == len(tokens) else None

    def _field(self, tokens: Sequence[Token]) -> tuple[int, iceberg.NestedField | None]:
        """Returns how many tokens name a column, and its field."""
        path: list[str] = []
        place = 0
        while place < len(tokens):
            each = tokens[place]
            if each.kind == "name":
                path.append(each.text.replace("``", "`"))
            elif each.kind == "word" and not each.is_word(*_CONSTANTS):
                path.append(each.text)
            else:
                break
            place += 1
            if place >= len(tokens) or not tokens[place].is_sign("."):
                break
            place += 1
        return place, self._columns.find(path) if path else None

    def _value(self, field: iceberg.NestedField, operator: str, tokens: Sequence[Token]) -> Node:
        if len(tokens) == 1 and tokens[0].is_word("NULL"):
            return null_leaf(field) if operator == "<=>" else Constant(NULL)
        literal = self._literal(tokens)
        return Unread() if literal is None else self._leaf(field, operator, literal)

    def _leaf(self, field: iceberg.NestedField, operator: str, literal: SqlLiteral) -> Node:
        found = alternatives(field.field_type, literal, self._columns.zone)
        if found is None or (len(found) > 1 and operator == "<=>"):
            return Unread()
        return Leaf(
            field.field_id, operator, found, is_any_for_null=is_beyond(field.field_type, [literal])
        )

    def _in(self, field: iceberg.NestedField | None, values: Sequence[Sequence[Token]]) -> Node:
        if field is None or not values:
            return Unread()
        given = [each for each in values if not (len(each) == 1 and each[0].is_word("NULL"))]
        literals: list[SqlLiteral] = []
        for each in given:
            literal = self._literal(each)
            if literal is None or literal.kind == "number":
                return Unread()
            literals.append(literal)
        has_null = len(given) < len(values)
        if not literals:
            return Constant(NULL)
        found = comparands(field.field_type, literals, self._columns.zone)
        if found is None:
            return Unread()
        # Without ANSI, days and times are compared as texts here.
        is_loose = isinstance(field.field_type, _TEMPORAL) and literals[0].kind == "text"
        return Leaf(
            field.field_id, "in", found, has_null, is_loose, is_beyond(field.field_type, literals)
        )

    def _like(self, field: iceberg.NestedField, tokens: Sequence[Token]) -> Node:
        is_text = isinstance(field.field_type, iceberg.StringType)
        literal = self._literal(tokens)
        if not is_text or literal is None or literal.kind != "text":
            return Unread()
        prefix = re.split("[%_]", literal.value, maxsplit=1)[0]
        if prefix == literal.value:
            return self._leaf(field, "=", literal)
        return Leaf(field.field_id, "prefix", (prefix_comparand(prefix),))

    def _literal(self, tokens: Sequence[Token]) -> SqlLiteral | None:
        if len(tokens) == 2 and tokens[0].is_sign("-", "+") and tokens[1].kind == "number":
            return self._number(tokens[1].text, "-" if tokens[0].is_sign("-") else "")
        if len(tokens) == 2 and tokens[0].kind == "word" and tokens[1].kind == "text":
            return _typed(tokens[0].text.upper(), tokens[1].text)
        if len(tokens) != 1:
            return self._shown_moment(tokens)
        (token,) = tokens
        if token.kind == "number":
            return self._number(token.text, "")
        if token.kind == "text":
            return SqlLiteral("text", token.text)
        if token.is_word("TRUE", "FALSE"):
            return SqlLiteral("boolean", token.is_word("TRUE"))
        return None

    def _shown_moment(self, tokens: Sequence[Token]) -> SqlLiteral | None:
        """Reads a day or a time as Java shows it, in a zone that is not known."""
        found = _SHOWN_MOMENT.fullmatch(" ".join(each.text for each in tokens))
        if not self._is_shown or found is None:
            return None
        year, month, day, *time = found.groups()
        if time[0] is None:
            return SqlLiteral("date", f"{year}-{month}-{day}")
        return SqlLiteral("somewhere", f"{year}-{month}-{day} {time[0]}:{time[1]}:{time[2]}")

    def _number(self, text: str, sign: str) -> SqlLiteral:
        digits = sign + text.rstrip("lLsSyYdDfFbB")
        suffix = text[len(digits) - len(sign) :].upper()
        if suffix in ("", "L", "S", "Y") and digits.lstrip("-").isdigit():
            return SqlLiteral("integer", int(digits))
        if suffix == "BD":
            return SqlLiteral("decimal", Decimal(digits))
        if suffix == "F":
            return SqlLiteral("float", to_float(digits))
        if suffix == "D" or "e" in digits.lower():
            return SqlLiteral("double", float(digits))
        if self._is_shown:
            return SqlLiteral("number", digits)
        return SqlLiteral("decimal", Decimal(digits))


def _typed(kind: str, text: str) -> SqlLiteral | None:
    if kind == "X":
        try:
            return SqlLiteral("bytes", bytes.fromhex(text)) if text.isalnum() or not text else None
        except ValueError:
            return None
    return SqlLiteral(_TYPED[kind], text) if kind in _TYPED else None


def _is_null(field: iceberg.NestedField, rest: Sequence[Token]) -> Node:
    is_not = bool(rest) and rest[0].is_word("NOT")
    rest = rest[1:] if is_not else rest
    if len(rest) != 1 or not rest[0].is_word("NULL"):
        return Unread()
    return Negation(null_leaf(field)) if is_not else null_leaf(field)


def null_leaf(field: iceberg.NestedField) -> Node:
    """Returns the condition that a column is NULL; writers count NULL in values only."""
    is_counted = isinstance(field.field_type, iceberg.PrimitiveType)
    return Leaf(field.field_id, "null") if is_counted else Unread()


def _joined(items: Sequence[Node], *, is_and: bool) -> Node:
    return items[0] if len(items) == 1 else Junction(tuple(items), is_and)
