"""Conditions of access policies: CEL texts over the names in a request.

The variables are texts that are bound when a condition is evaluated, never part of it: `op` (the
name of a check in Nessie), `role` (the name of the caller), `roles` (its groups), `repository`,
`ref` and `path`, the name of a file or the elements of a key, joined by dots. A dot inside an
element is U+001D there, so that different keys have different paths. A variable that does not apply
is empty.

An evaluation may fail, for example because an index is out of range. What that means is decided by
the caller, which has to distinguish three results.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from lochan.base.errors import Invalid
from lochan.base.keys import SEPARATOR, Universe
from lochan.base.limits.policies import (
    CONDITION_RESULTS_MAX,
    CONDITION_ROLES_MAX,
    CONDITION_US_MAX,
    CONDITIONS_COMPILED_MAX,
)
from lochan.rules.filters import compile_program
from lochan.rules.values import DOT_INSIDE, FilterKind

if TYPE_CHECKING:
    from cel import Program

PATH: Final = "path"
_ROLES: Final = "roles"

Value = str | tuple[str, ...]
"""What a variable is bound to: a text, or several."""

Bound = tuple[tuple[str, Value], ...]
"""Variables with their values, in the order of their names."""


class Condition:
    """One compiled condition; has no state, so that all callers share it."""

    def __init__(self, text: str, reads: frozenset[str], program: Program) -> None:
        self.text = text
        self.reads = reads
        self.execute = program.execute

    def __repr__(self) -> str:
        return f"Condition({self.text!r})"

    def bind(self, values: Mapping[str, Value]) -> Bound:
        """Returns those values that the condition reads; `path` is bound later."""
        return tuple((name, values[name]) for name in sorted(self.reads) if name != PATH)

    def evaluate(self, bound: Bound, key: bytes | None = None) -> bool | None:
        """Returns whether the condition holds for a key as the index stores it; None if it fails.

        Without a key, `path` is empty.
        """
        if PATH not in self.reads:
            key = None
        return _evaluate(self, bound, key)


class Evaluations(NamedTuple):
    """How many results of conditions were found in memory, and how many were evaluated."""

    found: int
    evaluated: int


def compile_condition(text: str) -> Condition:
    """Compiles a condition; Invalid with the place for one that may not be."""
    if not text or text.isspace():
        raise Invalid("a condition is empty")
    return _compile(text)


def count_evaluations() -> Evaluations:
    """Returns the numbers since all was forgotten, for measurements."""
    info = _evaluate.cache_info()
    return Evaluations(info.hits, info.misses)


def forget_evaluations() -> None:
    """Forgets all results, for measurements and tests."""
    _evaluate.cache_clear()


@lru_cache(CONDITIONS_COMPILED_MAX)
def _compile(text: str) -> Condition:
    try:
        reading, program = compile_program(text, FilterKind.ACCESS, CONDITION_US_MAX)
    except Invalid as error:
        raise Invalid(error.message.replace(" filter", " condition", 1)) from None
    return Condition(text, frozenset(reading.fields), program)


@lru_cache(CONDITION_RESULTS_MAX)
def _evaluate(condition: Condition, bound: Bound, key: bytes | None) -> bool | None:
    variables: dict[str, object] = {
        name: value if isinstance(value, str) else list(value) for name, value in bound
    }
    roles = variables.get(_ROLES)
    if isinstance(roles, list) and len(roles) > CONDITION_ROLES_MAX:
        return None
    try:
        if PATH in condition.reads:
            variables[PATH] = "" if key is None else _path_of(key)
        verdict = condition.execute(variables)
    except (LookupError, ValueError, TypeError, RuntimeError, ArithmeticError):
        return None
    return verdict if isinstance(verdict, bool) else None


def _path_of(key: bytes) -> str:
    """Returns a stored key as one text; ValueError if it is no UTF-8."""
    text = key[1:].decode("utf-8")
    if key[0] == Universe.FILES:
        return text
    return text.replace(".", DOT_INSIDE).replace(SEPARATOR, ".")
