"""What an audit has written: the name of each write, and what is known of the rows of a table."""

from __future__ import annotations

from collections.abc import Iterable
from secrets import token_hex

import msgspec

from lochan.model.contents import Content
from lochan.spark.audit.row_checks import WriteFacts


class Evidence(msgspec.Struct, frozen=True):
    """The facts of all writes to a table so far, and the content of the table after them."""

    content: Content
    writes: tuple[WriteFacts, ...]


class Writes:
    """The writes of one audit, in the order in which they are made, one after the other."""

    def __init__(self, job: str | None) -> None:
        self._name = job or token_hex(16)
        self._numbers: dict[str, int] = {}
        self._evidence: dict[str, tuple[Evidence, ...] | None] = {}
        self._is_changed = False

    @property
    def is_repeated(self) -> bool:
        """Whether there were writes, and all of them were found done."""
        return bool(self._numbers) and not self._is_changed

    def known(self) -> dict[str, tuple[Evidence, ...]]:
        """Returns the evidence, after each write, on tables for which it is complete."""
        return {table: one for table, one in self._evidence.items() if one is not None}

    def next_name(self, table: str) -> str:
        """Returns the name of the next write to a table, the same one in every run of the job."""
        number = self._numbers.get(table, 0) + 1
        return self._name if number == 1 else f"{self._name}#{number}"

    def doubt(self, table: str) -> tuple[Evidence, ...] | None:
        """Drops the evidence on a table; returns what it was until now."""
        before = self._evidence.get(table, ())
        self._evidence[table] = None
        return before

    def add(self, table: str, evidence: tuple[Evidence, ...] | None, *, is_new: bool) -> None:
        """Counts a finished write.

        A write that failed is not counted: when it is tried again it must have the same name.
        """
        self._numbers[table] = self._numbers.get(table, 0) + 1
        self._evidence[table] = evidence
        self._is_changed |= is_new

    def adopt(self, tables: Iterable[str]) -> None:
        """Notes that tables were changed by others, so that their evidence stays incomplete."""
        self._evidence |= dict.fromkeys(tables)
        self._is_changed = True
