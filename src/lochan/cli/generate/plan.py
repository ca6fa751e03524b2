"""What a run will do: which keys there are, and what each commit touches.

Everything follows from the wish and its seed, so a run can be repeated, by any number of workers.
"""

from __future__ import annotations

from random import Random
from typing import Final

import msgspec

from lochan.base.errors import Invalid
from lochan.cli.generate.patterns import KeyPattern
from lochan.model.commits import ContentKey
from lochan.model.contents import Content, DeltaLakeTable, IcebergTable, IcebergView, with_id

TYPES: Final = ("ICEBERG_TABLE", "ICEBERG_VIEW", "DELTA_LAKE_TABLE")
DEFAULT_PATTERN: Final = "generated.table_${seq,0}"

# Keys are kept as one text each: a tuple of elements would take several times the memory.
_JOINED: Final = "\x01"


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be generated."""

    commits: int = 100
    branches: int = 1
    tables: int = 1
    puts: int = 1
    kind: str = "ICEBERG_TABLE"
    pattern: str = DEFAULT_PATTERN
    tag_probability: float = 0.0
    seed: int = 1
    author: str = "lochan generate"
    message: str = "Commit {number}"


class Step(msgspec.Struct, frozen=True):
    """One commit: on the how-manieth branch, which keys, and whether it gets a tag."""

    number: int
    branch: int
    keys: tuple[ContentKey, ...]
    tagged: bool


class Plan:
    """All commits of a run."""

    def __init__(self, wish: Wish) -> None:
        if wish.kind not in TYPES:
            raise Invalid(f"not a type that is generated: {wish.kind!r}; use {', '.join(TYPES)}")
        self.wish = wish
        # Drawn from one stream in one order; workers draw nothing from it.
        random = Random(f"keys of {wish.seed}")  # noqa: S311 - to be repeated, not to be secret
        keys = KeyPattern(wish.pattern, random).distinct_keys(wish.tables)
        self._keys = [_JOINED.join(key) for key in keys]

    def step(self, number: int) -> Step:
        """Returns what commit `number` does."""
        wish = self.wish
        random = Random(f"{wish.seed}/{number}")  # noqa: S311 - to be repeated, not to be secret
        count = min(wish.puts, len(self._keys))
        keys = [tuple(self._keys[at].split(_JOINED)) for at in random.sample(self._range, count)]
        tagged = random.random() < wish.tag_probability
        return Step(number, number % wish.branches, tuple(keys), tagged)

    @property
    def _range(self) -> range:
        return range(len(self._keys))


def make_content(kind: str, key: ContentKey, number: int, before: Content | None) -> Content:
    """Returns what a key holds after commit `number`; the same content if there was one."""
    place = f"s3://generated/{'/'.join(key)}/metadata/{number:08}"
    made: Content
    if kind == "ICEBERG_VIEW":
        made = IcebergView(metadata_location=f"{place}.json", version_id=number + 1, schema_id=0)
    elif kind == "DELTA_LAKE_TABLE":
        made = DeltaLakeTable(
            metadata_location_history=(f"{place}.json",), checkpoint_location_history=()
        )
    else:
        made = IcebergTable(
            metadata_location=f"{place}.json",
            snapshot_id=number + 1,
            schema_id=0,
            spec_id=0,
            sort_order_id=0,
        )
    return made if before is None or before.id is None else with_id(made, before.id)
