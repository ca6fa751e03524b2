"""The shapes of requests about a whole store, as JSON; keys and values are base64."""

from __future__ import annotations

import msgspec

from lochan.model.stores import (
    Accuracy,
    CountPage,
    EraseStep,
    KindCount,
    StoredPage,
    StoredRow,
    StoredState,
)


class KindCountJson(msgspec.Struct, frozen=True, rename="camel"):
    """Rows of one kind of a repository, and the bytes of their values."""

    repository: str
    state: StoredState
    kind: str
    rows: int
    bytes: int
    accuracy: Accuracy


class CountsJson(msgspec.Struct, frozen=True, rename="camel"):
    """What one step has counted; the counts of all steps add up."""

    counts: tuple[KindCountJson, ...]
    token: str | None


class StoredRowJson(msgspec.Struct, frozen=True):
    """One row."""

    partition: bytes
    key: bytes
    value: bytes


class StoredRowsJson(msgspec.Struct, frozen=True):
    """A page of rows; `further` is where the next one begins, null at the end."""

    rows: tuple[StoredRowJson, ...]
    further: bytes | None


class EraseIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which repository is erased; without a token none is. `position` is that of the last step."""

    repository: str
    token: str | None = None
    position: str = ""


class ErasedJson(msgspec.Struct, frozen=True, rename="camel"):
    """What a step of an erasure has done, and what the next one needs."""

    repository: str
    token: str
    partitions: int
    done: bool
    wait_ms: int
    position: str


def counts_out(page: CountPage) -> CountsJson:
    """Returns counts as JSON."""
    shown = [KindCountJson(**msgspec.structs.asdict(one)) for one in page.counts]
    return CountsJson(tuple(shown), page.token)


def counts_in(page: CountsJson) -> CountPage:
    """Returns the counts that JSON describes."""
    counted = [KindCount(**msgspec.structs.asdict(one)) for one in page.counts]
    return CountPage(tuple(counted), page.token)


def rows_out(page: StoredPage) -> StoredRowsJson:
    """Returns rows as JSON."""
    shown = [StoredRowJson(one.partition, one.key, one.value) for one in page.rows]
    return StoredRowsJson(tuple(shown), page.further)


def rows_in(page: StoredRowsJson) -> StoredPage:
    """Returns the rows that JSON describes."""
    rows = [StoredRow(one.partition, one.key, one.value) for one in page.rows]
    return StoredPage(tuple(rows), page.further)


def erased_out(step: EraseStep) -> ErasedJson:
    """Returns a step of an erasure as JSON."""
    return ErasedJson(**msgspec.structs.asdict(step))


def erased_in(step: ErasedJson) -> EraseStep:
    """Returns the step that JSON describes."""
    return EraseStep(**msgspec.structs.asdict(step))
