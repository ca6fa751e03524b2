"""Which files a filter can find rows in: what a condition can be for the rows of one file.

A condition is TRUE, FALSE or NULL for a row, as in SQL. For a file it is a set of these: what it
can be for some row that the file may hold, according to its partition and bounds. A file is
kept if TRUE is in the set. The set may be larger than needed, never smaller, so NOT, AND and OR of
sets are sound, and what is not understood (`Unread`) is simply everything. Rows are decided by
Spark with the condition itself; nothing here decides a row.

Comparisons mean what they mean in Spark: NaN is larger than every number and equal to itself, and
negative zero is zero.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import msgspec

from lochan.spark.trees import fold

TRUE: Final = 1
FALSE: Final = 2
NULL: Final = 4
ANYTHING: Final = TRUE | FALSE | NULL

_NEGATED: Final = {
    mask: (TRUE if mask & FALSE else 0) | (FALSE if mask & TRUE else 0) | mask & NULL
    for mask in range(ANYTHING + 1)
}


class Domain(msgspec.Struct, frozen=True):
    """The values that a column may have in a file: those between two ends, NaN, NULL.

    An end that is None is not known. Ends of texts and bytes are compared as Spark compares them.
    """

    low: Any = None
    high: Any = None
    is_empty: bool = False
    """Whether there is nothing but NULL and NaN."""
    may_be_null: bool = True
    may_be_nan: bool = True
    buckets: tuple[tuple[Callable[[Any], int | None], int], ...] = ()
    """Functions of a value, each with what it is for every value of the file."""

    def within(self, other: Domain) -> Domain:
        """Returns the values that are in both domains."""
        low = max((each for each in (self.low, other.low) if each is not None), default=None)
        high = min((each for each in (self.high, other.high) if each is not None), default=None)
        is_crossed = low is not None and high is not None and low > high
        return Domain(
            low,
            high,
            self.is_empty or other.is_empty or is_crossed,
            self.may_be_null and other.may_be_null,
            self.may_be_nan and other.may_be_nan,
            self.buckets + other.buckets,
        )


class Comparand(msgspec.Struct, frozen=True):
    """What a column is compared with: a value that is known to lie between two ends."""

    low: Any
    high: Any
    convert: Callable[[Any, int], Any] | None = None
    """What Spark makes of the column's values before it compares; given an end, and which one."""
    exact: Any = None
    """The value as the column holds it, if that is known."""


class Unread(msgspec.Struct, frozen=True):
    """A condition that is not understood: it can be anything."""


class Constant(msgspec.Struct, frozen=True):
    """A condition that is the same for all rows."""

    mask: int


class Negation(msgspec.Struct, frozen=True):
    """NOT."""

    item: Node


class Junction(msgspec.Struct, frozen=True):
    """AND, or OR, of several conditions."""

    items: tuple[Node, ...]
    is_and: bool


class Leaf(msgspec.Struct, frozen=True):
    """A condition on one column.

    Operators are `=`, `<=>`, `<`, `<=`, `>`, `>=`, `in`, `prefix`, `null` and `nan`.
    """

    field_id: int
    operator: str
    comparands: tuple[Comparand, ...] = ()
    has_null: bool = False
    """Whether NULL is among the values of `in`."""
    is_loose: bool = False
    """Whether it can be FALSE for rows that have the value; so Spark compares some texts."""
    is_any_for_null: bool = False
    """Whether it can be TRUE or FALSE for NULL; so Spark compares with what no number can be."""


Node = Unread | Constant | Negation | Junction | Leaf

Domains = Callable[[int], Domain]
"""Returns the domain of a field in a file."""


def can_match(node: Node, domains: Domains) -> bool:
    """Returns whether a row of a file can fulfil a condition."""
    return bool(fold(node, parts_of, partial(_evaluate, domains)) & TRUE)


def parts_of(node: Node) -> tuple[Node, ...]:
    """Returns the conditions that a condition is made of."""
    if isinstance(node, Junction):
        return node.items
    return (node.item,) if isinstance(node, Negation) else ()


def _evaluate(domains: Domains, node: Node, masks: list[int]) -> int:
    match node:
        case Leaf(field_id):
            return _leaf(node, domains(field_id))
        case Constant(mask):
            return mask
        case Negation():
            return _NEGATED[masks[0]]
        case Junction(is_and=True):
            return _NEGATED[_any_of([_NEGATED[each] for each in masks])]
        case Junction():
            return _any_of(masks)
        case _:
            return ANYTHING


def _any_of(masks: list[int]) -> int:
    """Returns what OR of conditions can be: TRUE wins, then NULL."""
    result = 0
    if any(each & TRUE for each in masks):
        result |= TRUE
    if all(each & FALSE for each in masks):
        result |= FALSE
    if any(each & NULL for each in masks) and all(each & (FALSE | NULL) for each in masks):
        result |= NULL
    return result


def _leaf(leaf: Leaf, domain: Domain) -> int:
    if leaf.operator in ("null", "nan"):
        return _kind_of_value(leaf, domain)
    result = 0
    if domain.may_be_null:
        result |= FALSE if leaf.operator == "<=>" else NULL
        result |= ANYTHING if leaf.is_any_for_null else 0
    if domain.may_be_nan:
        # Compared with a number: it is larger, and another.
        result |= TRUE if leaf.operator in (">", ">=") else FALSE
    if not domain.is_empty:
        result |= _number(leaf, domain)
    if leaf.has_null and result & FALSE:
        result = result & ~FALSE | NULL
    return result


def _kind_of_value(leaf: Leaf, domain: Domain) -> int:
    is_asked = domain.may_be_null if leaf.operator == "null" else domain.may_be_nan
    others = domain.may_be_nan if leaf.operator == "null" else domain.may_be_null
    return (TRUE if is_asked else 0) | (FALSE if others or not domain.is_empty else 0)


def _number(leaf: Leaf, domain: Domain) -> int:
    if leaf.operator == "in":
        masks = [_compare("=", domain, each) for each in leaf.comparands]
        return _any_of(masks) | (FALSE if leaf.is_loose or not masks else 0)
    if leaf.operator == "<=>":
        return _compare("=", domain, leaf.comparands[0])
    # Where it is not known as what Spark compares, it may be any of several.
    result = 0
    for each in leaf.comparands:
        result |= _compare(leaf.operator, domain, each)
    return result | (FALSE if leaf.is_loose else 0)


def _compare(operator: str, domain: Domain, comparand: Comparand) -> int:
    """Returns what a comparison can be for values and a comparand of which the ends are known."""
    low, high = domain.low, domain.high
    if comparand.convert is not None:
        low = None if low is None else comparand.convert(low, -1)
        high = None if high is None else comparand.convert(high, 1)
    least, most = comparand.low, comparand.high
    match operator:
        case "<":
            return _mask(low is None or low < most, high is None or high >= least)
        case "<=":
            return _mask(low is None or low <= most, high is None or high > least)
        case ">":
            return _mask(high is None or high > least, low is None or low <= most)
        case ">=":
            return _mask(high is None or high >= least, low is None or low < most)
        case "prefix":
            return _mask(_meets(low, high, least, most), is_false=True)
        case _:
            return _equal(domain, comparand, low, high)


def _equal(domain: Domain, comparand: Comparand, low: Any, high: Any) -> int:
    least, most = comparand.low, comparand.high
    is_one = low is not None and high is not None and low == high == least == most
    is_true = _meets(low, high, least, most)
    if is_true and comparand.exact is not None:
        is_true = all(function(comparand.exact) == found for function, found in domain.buckets)
    return _mask(is_true, not is_one or not is_true)


def _meets(low: Any, high: Any, least: Any, most: Any) -> bool:
    return (low is None or most is None or low <= most) and (high is None or high >= least)


def _mask(is_true: bool, is_false: bool) -> int:
    return (TRUE if is_true else 0) | (FALSE if is_false else 0)
