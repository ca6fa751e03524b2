"""A table's metadata while updates are applied to it, and what the request did so far.

The draft owns its top-level lists and objects and may change those; whatever is inside them is
shared with the metadata that came in, and is only ever replaced.
"""

from __future__ import annotations

from typing import Final

from lochan.base.errors import Invalid
from lochan.catalog.iceberg.columns import Column, columns_of
from lochan.catalog.iceberg.values import INT_MAX, Json, get_int, get_long

FORMATS: Final = (1, 2, 3)
LAST_ADDED: Final = -1
MAIN: Final = "main"
PARTITION_ID_FIRST: Final = 1_000


class Draft:
    """One table under change, with a memory of what this request has added."""

    def __init__(self, metadata: Json, now_ms: int, *, is_new: bool) -> None:
        self.metadata = metadata
        self.is_new = is_new
        self.now_ms = now_ms
        # What -1 stands for in updates that choose a schema, a partition spec or a sort order.
        self.last_schema_id: int | None = None
        self.last_spec_id: int | None = None
        self.last_order_id: int | None = None
        self.added_snapshots: set[int] = set()
        self._snapshots: dict[int, Json] | None = None
        self.removed_snapshots = False
        # Whether anything changed at all, and whether the columns must fit their uses again.
        self.changed = is_new
        self.relaid = is_new

    @property
    def format_version(self) -> int:
        """The version of the table's format now, upgrades of this request included."""
        version: int = self.metadata["format-version"]
        return version

    def snapshots(self) -> dict[int, Json]:
        """Returns the snapshots by their ids; whoever adds one adds it here, too."""
        if self._snapshots is None:
            among = self.metadata["snapshots"]
            self._snapshots = {
                get_long(each, "snapshot-id", "table metadata"): each for each in among
            }
        return self._snapshots

    def forget_snapshots(self) -> None:
        """Makes the snapshots be looked through again: some were removed."""
        self._snapshots = None

    def current_columns(self, what: str) -> dict[int, Column]:
        """Returns the columns of the current schema by their ids."""
        current = self.metadata["current-schema-id"]
        schema = find_by_id(self.metadata["schemas"], "schema-id", current)
        if schema is None:
            raise Invalid(f"{what}: the table has no current schema")
        return {each.id: each for each in columns_of(schema, f"schema {current}")}


def find_by_id(among: list[Json], name: str, number: int) -> Json | None:
    """Returns the element with an id, None where there is none."""
    return next((each for each in among if each.get(name) == number), None)


def next_id(among: list[Json], name: str, first: int, what: str) -> int:
    """Returns the id after the highest one, or the first."""
    highest = max((get_int(each, name, what) for each in among), default=first - 1)
    if highest >= INT_MAX:
        raise Invalid(f"{what}: there is no id left after {highest}")
    return max(first, highest + 1)


def chosen_id(given: int, last_added: int | None, what: str) -> int:
    """Returns the id that an update means: the one added last for -1, else the one it says."""
    if given != LAST_ADDED:
        return given
    if last_added is None:
        raise Invalid(f"{what}: -1 is the one added last in this request, and none was added")
    return last_added
