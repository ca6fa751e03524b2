"""Random tables and random requests for them, drawn with Hypothesis.

A move is what one writer would do: a few updates that belong together. Moves know the table that
they are made for, so most of them succeed; some are wrong on purpose.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from tests.catalog.iceberg.builders import (
    NOW,
    SCHEMA,
    Json,
    adding,
    column,
    partition,
    pointing,
    schema,
    sorting,
    table,
)

Draw = Callable[[st.SearchStrategy[Any]], Any]

PRIMITIVES = ["boolean", "int", "long", "float", "double", "date", "time", "timestamp", "string"]
PRIMITIVES += ["timestamptz", "uuid", "binary", "fixed[8]", "decimal(9, 2)"]
TRANSFORMS = {
    "int": ["identity", "bucket[8]", "truncate[10]", "void"],
    "long": ["identity", "bucket[8]", "truncate[10]", "void"],
    "string": ["identity", "bucket[8]", "truncate[3]", "void"],
    "date": ["identity", "bucket[8]", "year", "month", "day"],
    "timestamptz": ["identity", "bucket[8]", "year", "month", "day", "hour"],
}
NUMBERS = st.integers(0, 4)
ODD = st.sampled_from([None, True, 0, "text", [], [1, {"a": None}], {"deep": {"er": [1.5]}}])


@st.composite
def types(draw, depth: int = 3) -> Any:
    kinds = ["simple"] * 4 + (["struct", "list", "map"] if depth else [])
    kind = draw(st.sampled_from(kinds))
    if kind == "struct":
        inside = draw(st.lists(types(depth - 1), min_size=1, max_size=3))
        names = [f"c{number}" for number in range(len(inside))]
        fields = [column(0, name, one) for name, one in zip(names, inside, strict=True)]
        return {"type": "struct", "fields": fields}
    if kind == "list":
        element = draw(types(depth - 1))
        return {"type": "list", "element-id": 0, "element-required": True, "element": element}
    if kind == "map":
        return {
            "type": "map",
            "key-id": 0,
            "key": draw(st.sampled_from(PRIMITIVES)),
            "value-id": 0,
            "value-required": draw(st.booleans()),
            "value": draw(types(depth - 1)),
        }
    return draw(st.sampled_from(PRIMITIVES))


@st.composite
def schemas(draw) -> Json:
    """A schema with nested columns, whose ids are unique and in no order."""
    kinds = draw(st.lists(types(), min_size=1, max_size=5))
    made = schema(*(column(0, f"t{number}", kind) for number, kind in enumerate(kinds)))
    places = id_places(made)
    numbers = draw(st.permutations(range(1, len(places) + 1)))
    for (owner, name), number in zip(places, numbers, strict=True):
        owner[name] = number
    return made


def id_places(made: Json) -> list[tuple[Json, str]]:
    """Where the ids of a schema's columns are written."""
    found = []
    waiting: list[Any] = [made]
    while waiting:
        kind = waiting.pop()
        if not isinstance(kind, dict):
            continue
        for each in kind.get("fields", []):
            found.append((each, "id"))
            waiting.append(each["type"])
        for name in ("element", "key", "value"):
            if name in kind:
                found.append((kind, f"{name}-id"))
                waiting.append(kind[name])
    return found


def plain_columns(made: Json) -> list[Json]:
    """Columns that are in nothing but structs and have a type with transforms."""
    found = []
    waiting = list(made["fields"])
    while waiting:
        each = waiting.pop()
        kind = each["type"]
        if isinstance(kind, str) and kind in TRANSFORMS:
            found.append(each)
        elif isinstance(kind, dict) and kind["type"] == "struct":
            waiting += kind["fields"]
    return sorted(found, key=lambda each: each["id"])


@st.composite
def specs(draw, made: Json) -> Json:
    columns = plain_columns(made)
    chosen = draw(st.lists(st.sampled_from(columns), max_size=3)) if columns else []
    fields = [
        partition(each["id"], f"p{number}", draw(st.sampled_from(TRANSFORMS[each["type"]])))
        for number, each in enumerate(chosen)
    ]
    return {
        "spec-id": 0,
        "fields": [{**each, "field-id": 1000 + n} for n, each in enumerate(fields)],
    }


@st.composite
def orders(draw, made: Json) -> Json:
    columns = plain_columns(made)
    chosen = draw(st.lists(st.sampled_from(columns), max_size=2)) if columns else []
    fields = [
        sorting(
            each["id"],
            direction=draw(st.sampled_from(["asc", "desc"])),
            **{"null-order": draw(st.sampled_from(["nulls-first", "nulls-last"]))},
        )
        for each in chosen
    ]
    return {"order-id": 1 if fields else 0, "fields": fields}


@st.composite
def tables(draw, versions=(1, 2, 3), odd: bool = False) -> Json:
    made = table(
        draw(st.sampled_from(versions)),
        spec=draw(specs(SCHEMA)),
        order=draw(orders(SCHEMA)),
        properties=draw(st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz"))),
    )
    if odd:
        made |= {"x-odd": draw(ODD), "x-other": draw(ODD)}
        for name in ("schemas", "partition-specs", "sort-orders"):
            made[name] = [{**each, "x-odd": draw(ODD)} for each in made[name]]
        if made["format-version"] == 1:
            made["schema"] = made["schemas"][0]
    return made


def _snapshot_ids(metadata: Json) -> list[int]:
    return [each["snapshot-id"] for each in metadata["snapshots"]]


def _next(metadata: Json, among: str, name: str) -> int:
    return max((each[name] for each in metadata[among]), default=0) + 1


def _new_snapshot(draw: Draw, metadata: Json, number: int) -> Json:
    """Returns a snapshot of a writer that has read the table; sometimes of one that has not."""
    late = draw(st.sampled_from([0, 0, 0, 0, 1]))
    more = {"first-row-id": metadata.get("next-row-id", 0), "added-rows": draw(NUMBERS)}
    if metadata["format-version"] < 3:
        more = {}
    elif late:
        more["first-row-id"] = 0
    parents = [None, *_snapshot_ids(metadata)]
    parent = draw(st.sampled_from(parents))
    if parent is not None:
        more["parent-snapshot-id"] = parent
    sequence = metadata.get("last-sequence-number", 0) + 1 - late
    return adding(
        number, sequence_number=0 if metadata["format-version"] == 1 else sequence, **more
    )


def move_append(draw: Draw, metadata: Json, number: int) -> list[Json]:
    return [_new_snapshot(draw, metadata, number), pointing(number)]


def move_stage(draw: Draw, metadata: Json, number: int) -> list[Json]:
    name = draw(st.sampled_from(["b1", "b2"]))
    tail = [pointing(number, name)] if draw(st.booleans()) else []
    return [_new_snapshot(draw, metadata, number), *tail]


def move_point(draw: Draw, metadata: Json, number: int) -> list[Json]:
    target = draw(st.sampled_from([*_snapshot_ids(metadata), 999]))
    name = draw(st.sampled_from(["main", "b1", "t1"]))
    kind = "tag" if name == "t1" else "branch"
    more = {"max-ref-age-ms": 5} if draw(st.booleans()) else {}
    return [pointing(target, name, kind, **more)]


def move_unpoint(draw: Draw, metadata: Json, number: int) -> list[Json]:
    name = draw(st.sampled_from(["main", "b1", "t1", "nobody"]))
    return [{"action": "remove-snapshot-ref", "ref-name": name}]


def move_expire(draw: Draw, metadata: Json, number: int) -> list[Json]:
    gone = draw(st.lists(st.sampled_from([*_snapshot_ids(metadata), 999]), max_size=2, unique=True))
    return [{"action": "remove-snapshots", "snapshot-ids": gone}]


def move_evolve(draw: Draw, metadata: Json, number: int) -> list[Json]:
    """A schema with one column more or fewer, or the same again."""
    base = draw(st.sampled_from(metadata["schemas"]))
    fields = list(base["fields"])
    what = draw(st.sampled_from(["more", "more", "fewer", "same"]))
    if what == "more":
        kind = draw(st.sampled_from(PRIMITIVES))
        last = metadata["last-column-id"]
        fields.append(column(last + 1, f"n{last + 1}", kind))
    elif what == "fewer" and len(fields) > 1:
        fields.pop(draw(st.integers(0, len(fields) - 1)))
    offered = draw(st.sampled_from([_next(metadata, "schemas", "schema-id")] * 3 + [0]))
    added = {"action": "add-schema", "schema": schema(*fields, **{"schema-id": offered})}
    chosen = draw(st.sampled_from([-1, -1, base["schema-id"], None]))
    tail = [] if chosen is None else [{"action": "set-current-schema", "schema-id": chosen}]
    return [added, *tail]


def current_schema(metadata: Json) -> Json:
    current = metadata["current-schema-id"]
    return next(each for each in metadata["schemas"] if each["schema-id"] == current)


def move_partition(draw: Draw, metadata: Json, number: int) -> list[Json]:
    spec = draw(specs(current_schema(metadata)))
    spec["spec-id"] = _next(metadata, "partition-specs", "spec-id")
    if metadata["format-version"] > 1:
        for each in spec["fields"]:
            each["field-id"] += metadata["last-partition-id"] - 999
    chosen = draw(st.sampled_from([-1, -1, 0, 7]))
    return [{"action": "add-spec", "spec": spec}, {"action": "set-default-spec", "spec-id": chosen}]


def move_sort(draw: Draw, metadata: Json, number: int) -> list[Json]:
    order = draw(orders(current_schema(metadata)))
    if order["fields"]:
        order["order-id"] = draw(st.sampled_from([_next(metadata, "sort-orders", "order-id"), 1]))
    chosen = draw(st.sampled_from([-1, -1, 7]))
    return [
        {"action": "add-sort-order", "sort-order": order},
        {"action": "set-default-sort-order", "sort-order-id": chosen},
    ]


def move_forget(draw: Draw, metadata: Json, number: int) -> list[Json]:
    gone = draw(st.lists(NUMBERS, max_size=2, unique=True))
    if draw(st.booleans()):
        return [{"action": "remove-schemas", "schema-ids": gone}]
    return [{"action": "remove-partition-specs", "spec-ids": gone}]


def move_describe(draw: Draw, metadata: Json, number: int) -> list[Json]:
    values = draw(st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz"), max_size=2))
    gone = draw(st.lists(st.sampled_from("abcd"), max_size=2, unique=True))
    place = draw(st.sampled_from([metadata["location"], "s3://lake/u"]))
    return draw(
        st.sampled_from(
            [
                [{"action": "set-properties", "updates": values}],
                [{"action": "remove-properties", "removals": gone}],
                [{"action": "set-location", "location": place}],
                [{"action": "assign-uuid", "uuid": metadata["table-uuid"]}],
            ]
        )
    )


def move_measure(draw: Draw, metadata: Json, number: int) -> list[Json]:
    name = draw(st.sampled_from(["statistics", "partition-statistics"]))
    target = draw(st.sampled_from([*_snapshot_ids(metadata), 999]))
    if draw(st.booleans()):
        return [{"action": f"remove-{name}", "snapshot-id": target}]
    file = {"snapshot-id": target, "statistics-path": f"s{number}", "file-size-in-bytes": number}
    if name == "statistics":
        file |= {"file-footer-size-in-bytes": 1, "blob-metadata": []}
    return [{"action": f"set-{name}", name: file}]


def move_upgrade(draw: Draw, metadata: Json, number: int) -> list[Json]:
    version = draw(st.sampled_from([1, 2, 2]))
    return [{"action": "upgrade-format-version", "format-version": version}]


def move_encrypt(draw: Draw, metadata: Json, number: int) -> list[Json]:
    key = {"key-id": draw(st.sampled_from("kl")), "encrypted-key-metadata": "c2VjcmV0"}
    if draw(st.booleans()):
        return [{"action": "remove-encryption-key", "key-id": key["key-id"]}]
    return [{"action": "add-encryption-key", "encryption-key": key}]


MOVES = [
    move_append,
    move_append,
    move_stage,
    move_point,
    move_unpoint,
    move_expire,
    move_evolve,
    move_partition,
    move_sort,
    move_forget,
    move_describe,
    move_measure,
    move_upgrade,
]


def draw_request(draw: Draw, metadata: Json, number: int, moves=MOVES) -> list[Json]:
    """The updates of one request: one move, sometimes two that know nothing of each other."""
    updates = []
    for part in range(draw(st.sampled_from([1, 1, 2]))):
        move = draw(st.sampled_from(moves))
        updates += move(draw, metadata, 10 * number + part)
    return updates


def time_of(number: int) -> int:
    return NOW + 100 * number
