"""What a store contains as a whole, and what erasing a repository in it has done."""

from __future__ import annotations

from typing import Literal

import msgspec

Accuracy = Literal["exact", "about", "at least"]

StoredState = Literal["", "deleted", "unlisted"]
"""Whether a repository is in use, was deleted and not erased, or is in no list."""


class KindCount(msgspec.Struct, frozen=True, rename="camel"):
    """Rows of one kind of a repository, and the bytes of their values.

    `repository` is empty for rows that belong to none. `accuracy` is `exact`, `about` for an
    estimate from a sample, or `at least` where counting has stopped at a limit.
    """

    repository: str
    state: StoredState
    kind: str
    rows: int
    bytes: int
    accuracy: Accuracy = "exact"


class CountPage(msgspec.Struct, frozen=True, rename="camel"):
    """What one step has counted; the counts of all steps add up."""

    counts: tuple[KindCount, ...]
    token: str | None


class EraseStep(msgspec.Struct, frozen=True, rename="camel"):
    """What a call has done: how many partitions it has dropped, and whether nothing is left.

    `token` names the one instance that is erased; `wait_ms` is how long to wait before the next
    call, because servers may still have the repository open. `position` is where it goes on.
    """

    repository: str
    token: str
    partitions: int = 0
    done: bool = False
    wait_ms: int = 0
    position: str = ""


class StoredRow(msgspec.Struct, frozen=True, gc=False):
    """One row of a store, as it is stored."""

    partition: bytes
    key: bytes
    value: bytes


class StoredPage(msgspec.Struct, frozen=True):
    """A page of rows; `further` is where the next one begins, None at the end."""

    rows: tuple[StoredRow, ...]
    further: bytes | None
