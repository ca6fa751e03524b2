"""The plan of a run: which keys there are, and which keys each commit puts.

Everything follows from the options and their seed, so a run can be repeated with any number of
workers.
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

# A key is kept as one text: a tuple of elements would take several times the memory.
_SEPARATOR: Final = "\x01"


class GenerateOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a run that decide what is generated."""

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
    """One commit: the number of its branch, its keys, and whether it gets a tag."""

    number: int
    branch: int
    keys: tuple[ContentKey, ...]
    tagged: bool


class Plan:
    """All commits of a run."""

    def __init__(self, options: GenerateOptions) -> None:
        if options.kind not in TYPES:
            raise Invalid(f"type {options.kind!r} is not generated; use {', '.join(TYPES)}")
        self.options = options
        # All keys are drawn here, in one order; workers draw from a source of each step's own.
        random = Random(f"keys of {options.seed}")  # noqa: S311 - repeatable, not secret
        keys = KeyPattern(options.pattern, random).distinct_keys(options.tables)
        self._keys = [_SEPARATOR.join(key) for key in keys]

    def step(self, number: int) -> Step:
        """Returns the commit with this number."""
        options = self.options
        random = Random(f"{options.seed}/{number}")  # noqa: S311 - repeatable, not secret
        indexes = random.sample(range(len(self._keys)), min(options.puts, len(self._keys)))
        keys = tuple(tuple(self._keys[index].split(_SEPARATOR)) for index in indexes)
        tagged = random.random() < options.tag_probability
        return Step(number, number % options.branches, keys, tagged)


def make_content(kind: str, key: ContentKey, number: int, before: Content | None) -> Content:
    """Returns the content of a key after commit `number`; it keeps the id of the one before."""
    location = f"s3://generated/{'/'.join(key)}/metadata/{number:08}.json"
    content: Content
    if kind == "ICEBERG_VIEW":
        content = IcebergView(metadata_location=location, version_id=number + 1, schema_id=0)
    elif kind == "DELTA_LAKE_TABLE":
        content = DeltaLakeTable(
            metadata_location_history=(location,), checkpoint_location_history=()
        )
    else:
        content = IcebergTable(
            metadata_location=location,
            snapshot_id=number + 1,
            schema_id=0,
            spec_id=0,
            sort_order_id=0,
        )
    return content if before is None or before.id is None else with_id(content, before.id)
