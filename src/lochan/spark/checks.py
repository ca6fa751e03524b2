"""Checks: what must be true of tables before they are published.

A check is a value; it states what must be true, and not how that is found out. Checks of rows
(`ROW_CHECKS`) are about every row that a run writes and are watched during the write; the others
are about a table as it will be published. `check_files` reads the same values from TOML.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

import msgspec

from lochan.base.errors import Invalid
from lochan.base.limits.audits import AUDIT_CHECKS_MAX
from lochan.spark.sql_tokens import check_one_query, code_of

_PLACE: Final = re.compile(r"\{(target:)?([A-Za-z_][^{}\s]*)\}")


class Check(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", forbid_unknown_fields=True
):
    """The base of all checks: a name for the report, built from the fields if none is given."""

    name: str = ""

    @property
    def kind(self) -> str:
        """The word for this kind of check, as in a file of checks."""
        return str(self.__struct_config__.tag)

    def tables(self) -> tuple[str, ...]:
        """Returns the tables that this check is about."""
        return ()

    def label(self) -> str:
        """Returns the name under which the result is kept."""
        return self.name or f"{self.kind} {self.subject()}"

    def subject(self) -> str:
        """Returns the tables that are looked at, and the columns of them if these are listed."""
        columns = getattr(self, "columns", (getattr(self, "column", ""),))
        listed = "" if isinstance(columns, dict) else ", ".join(columns)
        return ", ".join(self.tables()) + (f"({listed})" if listed else "")


class _TableCheck(Check, frozen=True):
    """The base of checks of one table: all but queries."""

    table: str

    def tables(self) -> tuple[str, ...]:
        """Returns the table."""
        return (self.table,)


class _ColumnsCheck(_TableCheck, frozen=True):
    """The base of checks of some columns."""

    columns: Sequence[str]

    def __post_init__(self) -> None:
        _some(self, "columns")


class NotNull(_ColumnsCheck, frozen=True, tag="not_null"):
    """Every written row has a value in each of the columns."""


class InRange(_TableCheck, frozen=True, tag="in_range"):
    """Every value of the column is in the range, both ends included; NULL passes, NaN does not.

    A value that cannot be compared with an end does not pass.
    """

    column: str
    min: Any = None
    max: Any = None

    def __post_init__(self) -> None:
        _one_of(self, "min", "max")


class Matches(_TableCheck, frozen=True, tag="matches"):
    """Every value of the column matches the (Java) pattern as a whole; NULL passes.

    The pattern must be one by itself: what Java does not take alone is refused.
    """

    column: str
    pattern: str


class InSet(_TableCheck, frozen=True, tag="in_set"):
    """Every value of the column is one of these; NULL passes."""

    column: str
    values: Sequence[Any]

    def __post_init__(self) -> None:
        _some(self, "values")
        if any(value is None for value in self.values):
            raise Invalid(f"{self.kind}: NULL is no value; it passes, unless not_null forbids it")


class Expression(_TableCheck, frozen=True, tag="expression"):
    """The SQL expression is true for every written row; NULL counts as false."""

    sql: str

    def subject(self) -> str:
        """Returns the table and the expression."""
        return f"{self.table}: {self.sql}"


class RowCount(_TableCheck, frozen=True, tag="row_count"):
    """This run writes so many rows into the table, all its writes together."""

    min: int | None = None
    max: int | None = None

    def __post_init__(self) -> None:
        _one_of(self, "min", "max")


class TableRows(_TableCheck, frozen=True, tag="table_rows"):
    """The table has so many rows, or at least this much of what it has on the target."""

    min: int | None = None
    max: int | None = None
    percent_of_target: float | None = None

    def __post_init__(self) -> None:
        _one_of(self, "min", "max", "percent_of_target")


class Schema(_TableCheck, frozen=True, tag="schema"):
    """The table has these columns with these types, and no other unless `exact` is false."""

    columns: dict[str, str]
    exact: bool = True

    def __post_init__(self) -> None:
        _some(self, "columns")


class Unique(_ColumnsCheck, frozen=True, tag="unique"):
    """No two rows have the same values in the columns; two NULLs are the same."""


class Fresh(_TableCheck, frozen=True, tag="fresh"):
    """The latest time in the column is not older than so many seconds, and not in the future.

    The column has dates or timestamps; what has no zone is taken as UTC.
    """

    column: str
    age_s_max: float

    def __post_init__(self) -> None:
        _one_of(self, "age_s_max")


class RefersTo(_ColumnsCheck, frozen=True, tag="refers_to"):
    """Every row finds its columns in another table; rows with a NULL among them pass."""

    other: str
    other_columns: Sequence[str] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.other_columns:
            _some(self, "other_columns")
        if len(self.other_columns or self.columns) != len(self.columns):
            raise Invalid(f"{self.kind}: other_columns must be as many as columns")

    def subject(self) -> str:
        """Returns both tables."""
        return f"{super().subject()} in {self.other}"


class Query(Check, frozen=True, tag="query"):
    """A query returns no row; or, with a bound, one value that keeps it.

    `{shop.orders}` in the text is the table as it will be published, `{target:shop.orders}` as the
    target has it now. It must be named where it is read: in a comment or in quotes it is only text.
    The text is one query, no command, and what it finds counts only as far as it looks.
    """

    sql: str
    equals: Any = None
    at_least: Any = None
    at_most: Any = None

    def __post_init__(self) -> None:
        if not self.name:
            raise Invalid("query: a query needs a name, because its text is no name")
        try:
            check_one_query(self.sql)
        except Invalid as refusal:
            raise Invalid(f"query {self.name!r}: {refusal.message}") from refusal
        if not self.tables():
            raise Invalid(
                f"query {self.name!r}: name the tables as {{shop.orders}} where they are read, "
                "outside of comments and quotes"
            )
        _no_nan(self, *self.bounds())

    def tables(self) -> tuple[str, ...]:
        """Returns the tables that will be published and are named in the text."""
        return tuple(dict.fromkeys(table for is_target, table in self.places() if not is_target))

    def places(self) -> tuple[tuple[bool, str], ...]:
        """Returns the tables named in the text, each with whether it is the target's."""
        return tuple((bool(place[1]), place[2]) for place in _PLACE.finditer(code_of(self.sql)))

    def filled(self, views: Mapping[tuple[bool, str], str]) -> str:
        """Returns a query of the text alone, with the name of a view for each table.

        In parentheses Spark takes a query and no command; a comment may reach to the end.
        """
        sql = check_one_query(self.sql)
        parts: list[str] = []
        at = 0
        for place in _PLACE.finditer(code_of(sql)):
            parts += [sql[at : place.start()], views[bool(place[1]), place[2]]]
            at = place.end()
        return f"SELECT * FROM (\n{''.join(parts)}{sql[at:]}\n)"  # noqa: S608 - a query is wanted

    def bounds(self) -> dict[str, Any]:
        """Returns the bounds that are set; none means that no row may come."""
        bounds = {"equals": self.equals, "at_least": self.at_least, "at_most": self.at_most}
        return {name: value for name, value in bounds.items() if value is not None}


class Custom(_TableCheck, frozen=True, tag="custom"):
    """A function of your own: it is given the table's frame and returns True or False.

    It may return a pair, whether it passed and what it saw. A truth value of numpy is one too.
    Anything else, and any error, fails.
    """

    function: Callable[[Any], object]

    def __post_init__(self) -> None:
        if not self.name:
            raise Invalid("custom: a check of your own needs a name")
        if not callable(self.function):
            raise Invalid(f"custom {self.name!r}: the function cannot be called")


class Unchecked(_TableCheck, frozen=True, tag="unchecked"):
    """No check is wanted for a table that may be written, and why."""

    why: str

    def __post_init__(self) -> None:
        if not self.why.strip():
            raise Invalid(f"unchecked {self.table}: state why no check is wanted")


ROW_CHECKS: Final = (NotNull, InRange, Matches, InSet, Expression, RowCount)

FROM_FILES: Final[dict[str, type[Check]]] = {
    str(kind.__struct_config__.tag): kind
    for kind in (
        *ROW_CHECKS,
        TableRows,
        Schema,
        Unique,
        Fresh,
        RefersTo,
        Query,
        Unchecked,
    )
}
"""The kinds that a file may name; a function has no text."""


class Declared(msgspec.Struct, frozen=True):
    """The checks of one audit, each under a name of its own, and the tables without any."""

    checks: tuple[Check, ...]
    waivers: tuple[Unchecked, ...] = ()

    def labels(self) -> tuple[str, ...]:
        """Returns the names of all checks."""
        return tuple(check.label() for check in self.checks)

    def covered(self) -> frozenset[str]:
        """Returns the tables that may be written."""
        named = {table for check in self.checks for table in check.tables()}
        return frozenset(named | {waiver.table for waiver in self.waivers})

    def of_rows(self, table: str) -> tuple[Check, ...]:
        """Returns the checks that are watched while the table is written."""
        return tuple(
            check
            for check in self.checks
            if isinstance(check, ROW_CHECKS) and table in check.tables()
        )


def declare(checks: Iterable[Check]) -> Declared:
    """Returns the checks of an audit; Invalid if one is not valid or two have the same name."""
    given = tuple(_checked(check) for check in checks)
    if len(given) > AUDIT_CHECKS_MAX:
        raise Invalid(f"{len(given)} checks; an audit has at most {AUDIT_CHECKS_MAX}")
    waivers = tuple(check for check in given if isinstance(check, Unchecked))
    found = Declared(tuple(check for check in given if not isinstance(check, Unchecked)), waivers)
    labels = found.labels()
    twice = sorted({label for label in labels if labels.count(label) > 1})
    if twice:
        raise Invalid(f"two checks have the name {twice[0]!r}; give one of them another")
    both = {waiver.table for waiver in waivers} & {
        table for check in found.checks for table in check.tables()
    }
    if both:
        raise Invalid(f"{min(both)} is declared unchecked and has checks; remove one of the two")
    return found


def _checked(check: object) -> Check:
    if not isinstance(check, Check) or type(check) is Check:
        raise Invalid(f"{check!r} is no check; see lochan.spark.checks")
    try:
        # A constructor takes any type, a conversion does not; columns may come as a list.
        return msgspec.convert(msgspec.structs.asdict(check), type(check))
    except msgspec.ValidationError as error:
        raise Invalid(f"{check.kind} {check.name!r}: {error}") from error


def _some(check: Check, field: str) -> None:
    """Refuses a list that is empty or a single text; stores a list as a tuple."""
    value = getattr(check, field)
    if isinstance(value, str) or not value:
        raise Invalid(f"{check.kind}: {field} must name at least one, as a list")
    if isinstance(value, list):
        msgspec.structs.force_setattr(check, field, tuple(value))


def _one_of(check: Check, *fields: str) -> None:
    if all(getattr(check, field) is None for field in fields):
        raise Invalid(f"{check.kind}: give at least one of {', '.join(fields)}")
    _no_nan(check, *fields)


def _no_nan(check: Check, *fields: str) -> None:
    """Refuses NaN as a bound."""
    for field in fields:
        value = getattr(check, field)
        if isinstance(value, (float, Decimal)) and Decimal(value).is_nan():
            raise Invalid(f"{check.kind}: {field} must be a number, not NaN")
