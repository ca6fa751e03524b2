"""Filters that a request brings along: CEL texts that judge references, commits, entries, keys.

The text is read and bounded first (`syntax.py`), then handed to an evaluator that is an optional
part of the installation. A filter never changes anything and never fails with anything but Invalid:

* a text that is not understood, names what is not there or could cost too much is refused when it
  is compiled, with the place;
* an element that lacks what the filter reads (a property, the sixth element of a key) is not
  accepted, as if it had been compared with nothing;
* any other failure while judging is the text's fault: Invalid.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from lochan.base.checks import check
from lochan.base.errors import Bug, Invalid, TooLarge
from lochan.base.limits.filters import (
    FILTER_BYTES_MAX,
    FILTER_CACHE_ENTRIES_MAX,
    FILTER_COST_STEP_US,
    FILTER_ELEMENT_US_MAX,
    FILTER_TEXT_US_MAX,
)
from lochan.model.commits import LogEntry
from lochan.model.references import Reference
from lochan.model.results import DiffEntry, Entry
from lochan.rules.syntax import ParsedFilter, Work, read_filter
from lochan.rules.values import (
    LONG_FIELDS,
    FilterKind,
    commit_shape,
    entry_shape,
    key_shape,
    operation_shape,
    reference_shape,
)

if TYPE_CHECKING:
    from cel import Program

__all__ = ["Filter", "FilterKind", "compile_filter", "filters_installed"]

_MISSING: Final = (
    "Filters need a part that is not installed here; the server's operator adds it with "
    "`pip install 'lochan[filters]'`"
)
_PLACE: Final = re.compile(r"<input>:(\d+):(\d+): ([^\n]*)")
_MESSAGE_CHARACTERS_MAX: Final = 300

# Measured in the evaluator, in microseconds and rounded up: one judgement, one token of a text, one
# field of one operation handed over, one built item for each other.
_JUDGE_US: Final = 5
_TOKEN_US: Final = 0.2
_FIELD_US: Final = 4
_BUILT_US: Final = 0.03

# What it adds that a text is copied, searched, or searched for a pattern: short ones, long ones.
_ADDITION_US: Final = (1, 100)
_SEARCH_US: Final = (1, 50)
_PATTERN_US: Final = (5, 1_000)


class Filter:
    """One compiled filter; holds no state, so that requests may share it."""

    def __init__(
        self, kind: FilterKind, text: str, reading: ParsedFilter, program: Program
    ) -> None:
        self.kind = kind
        self.text = text
        self._reading = reading
        self._execute = program.execute
        fields = reading.fields
        self._named = frozenset(fields)
        self._entry = entry_shape(fields.get("entry", frozenset()))
        self._key = key_shape(fields.get("key", frozenset()))
        self._commit = commit_shape(fields.get("commit", frozenset()))
        self._operation = operation_shape(fields.get("operations", frozenset()))
        self._reference = reference_shape(fields)
        self._text_us = _costs_us(reading, 0)

    @property
    def reads_operations(self) -> bool:
        """Whether a commit is judged by its operations, which must be loaded then."""
        return "operations" in self._named

    @property
    def reads_metadata(self) -> bool:
        """Whether a reference is judged by its metadata or its last commit."""
        return not self._named.isdisjoint(("commit", "refMeta", "metadata")) or (
            "metadata" in self._reading.fields.get("ref", frozenset())
        )

    def cost(self, operations: int = 0) -> int:
        """Returns as how many scanned elements one judgement counts; 1 for a simple filter."""
        return 1 + int(self._element_us(operations)) // FILTER_COST_STEP_US

    def accepts_entry(self, entry: Entry) -> bool:
        """Judges a key and the type of what it holds."""
        return self._judge(FilterKind.ENTRIES, {"entry": self._entry(entry.key, entry.type)})

    def accepts_diff(self, entry: DiffEntry) -> bool:
        """Judges a key that differs."""
        return self._judge(FilterKind.DIFF, {"key": self._key(entry.key)})

    def accepts_reference(self, reference: Reference) -> bool:
        """Judges a reference, with its metadata if the filter reads it."""
        return self._judge(FilterKind.REFERENCES, self._reference(reference))

    def accepts_log(self, entry: LogEntry) -> bool:
        """Judges a commit, with its operations if the filter reads them."""
        variables: dict[str, object] = {"commit": self._commit(entry.meta)}
        if self.reads_operations:
            given = entry.operations
            if given is None:
                raise Bug("a filter that reads operations is given them")
            if self._element_us(len(given)) > FILTER_ELEMENT_US_MAX:
                raise Invalid(
                    f"The filter is too costly for a commit of {len(given)} operations; "
                    "use exists() with a simple condition, or none on operations"
                )
            make = self._operation
            variables["operations"] = [make(operation) for operation in given]
        return self._judge(FilterKind.LOG, variables)

    def _judge(self, kind: FilterKind, variables: dict[str, object]) -> bool:
        check(self.kind is kind, f"a filter of {self.kind.value} judges only those")
        try:
            verdict = self._execute(variables)
        except LookupError:
            return False
        except (ValueError, TypeError, RuntimeError, ArithmeticError) as error:
            raise Invalid(f"The filter failed: {_shortened(str(error))}") from None
        if not isinstance(verdict, bool):
            raise Invalid(f"A filter says true or false; this one says {_shortened(repr(verdict))}")
        return verdict

    def _element_us(self, operations: int) -> float:
        if not operations or not self.reads_operations:
            return self._text_us
        given_us = operations * (1 + _FIELD_US * len(self._reading.fields["operations"]))
        return given_us + _costs_us(self._reading, operations)


def compile_filter(text: str, kind: FilterKind) -> Filter | None:
    """Compiles a filter; None for an empty one, Invalid with the place for one that may not be."""
    if not text or text.isspace():
        return None
    return _compile(text, kind)


def filters_installed() -> bool:
    """Returns whether filters can be used; imports their library, which takes 0.2 seconds."""
    try:
        import cel  # noqa: F401 - loading it is the purpose
    except ImportError:
        return False
    return True


@lru_cache(FILTER_CACHE_ENTRIES_MAX)
def _compile(text: str, kind: FilterKind) -> Filter:
    return Filter(kind, text, *compile_program(text, kind, FILTER_TEXT_US_MAX))


def compile_program(text: str, kind: FilterKind, us_max: int) -> tuple[ParsedFilter, Program]:
    """Compiles a text that takes so many microseconds at most; Invalid for any other."""
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > FILTER_BYTES_MAX:
        raise TooLarge(f"A filter has at most {FILTER_BYTES_MAX} bytes, not {size}")
    reading = read_filter(text, kind)
    if _costs_us(reading, 0) > us_max:
        raise Invalid("The filter is too costly; use fewer loops and patterns")
    if not filters_installed():
        raise Invalid(_MISSING)
    import cel

    try:
        # The text itself is compiled only for its places in errors.
        cel.compile(text)
        program = cel.compile(reading.text)
    except ValueError as error:
        raise _unreadable(str(error)) from None
    if not reading.names.issuperset(program.variables()):
        raise Bug("two readers of one filter found different names")
    return reading, program


def _costs_us(reading: ParsedFilter, operations: int) -> float:
    """Returns what judging an element with so many operations takes at most."""
    long = any(not fields.isdisjoint(LONG_FIELDS) for fields in reading.fields.values())
    cost_us = _JUDGE_US + _work_us(reading.work, long=long)
    for loop in reading.loops:
        items = operations if loop.items is None else loop.items
        cost_us += items * _work_us(loop.round, long=long)
        if loop.builds:
            cost_us += _BUILT_US * items * items
    return cost_us


def _work_us(work: Work, *, long: bool) -> float:
    return (
        _TOKEN_US * work.tokens
        + _ADDITION_US[long] * work.additions
        + _SEARCH_US[long] * work.searches
        + _PATTERN_US[long] * work.patterns
        + work.patterns_us
    )


def _unreadable(message: str) -> Invalid:
    place = _PLACE.search(message)
    if place is None:
        return Invalid(f"The filter cannot be read: {_shortened(message)}")
    return Invalid(
        f"The filter cannot be read at line {place[1]}, column {place[2]}: {_shortened(place[3])}"
    )


def _shortened(message: str) -> str:
    first = " ".join(message.split())
    return first if len(first) <= _MESSAGE_CHARACTERS_MAX else first[:_MESSAGE_CHARACTERS_MAX] + "…"
