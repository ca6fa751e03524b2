"""Contents of the system as values of the model and back, and the keys that walks use."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec

from lochan.client import KeyResolution
from lochan.model.commits import Delete as SystemDelete
from lochan.model.commits import Operation as SystemOperation
from lochan.model.commits import Put as SystemPut
from lochan.model.commits import Unchanged as SystemUnchanged
from lochan.model.contents import (
    Content,
    IcebergTable,
    IcebergView,
    Namespace,
    type_of,
    with_id,
)
from lochan.model.results import ContentConflict
from lochan.testing.models.catalog import NAMESPACE, Delete, Held, Name, Operation, Put
from lochan.testing.models.merges import Choice

SPACES: list[Name] = [("n",), ("n", "m"), ("o",)]
TABLES: list[Name] = [
    *[(name,) for name in "ab"],
    *[("n", name) for name in "abcde"],
    *[("n", "m", name) for name in "abc"],
    *[("o", name) for name in "abc"],
]
TYPES = {"NAMESPACE": Namespace, "ICEBERG_TABLE": IcebergTable, "ICEBERG_VIEW": IcebergView}


def held(content: Content) -> Held:
    """Returns what the model knows of a content."""
    text = msgspec.json.encode(msgspec.structs.replace(content, id=None), order="sorted").decode()
    return Held(content.id or "", type_of(content), text)


def held_or_none(content: Content | None) -> Held | None:
    return None if content is None else held(content)


def content_of(type_name: str, value: str, content_id: str | None) -> Content:
    """Returns the content that a value of the model stands for."""
    made = msgspec.json.decode(value, type=TYPES[type_name])
    return made if content_id is None else with_id(made, content_id)


def content_held(value: Held) -> Content:
    return content_of(value.type, value.value, value.content_id)


def new_content(pick: Random, key: Name) -> Content:
    """Makes one of few contents, so that equal ones come again and again."""
    number = pick.randrange(4)
    if key in SPACES and pick.random() < 0.95:
        return Namespace(elements=key, properties={"p": str(number % 2)} if number else {})
    if pick.random() < 0.05:
        return IcebergView(metadata_location=f"file:/v{number}", version_id=number, schema_id=1)
    return IcebergTable(
        metadata_location=f"file:/t{number}",
        snapshot_id=number,
        schema_id=1,
        spec_id=2,
        sort_order_id=3,
    )


def put_of(content: Content, key: Name, content_id: str | None, expected: Held | None) -> Put:
    plain = held(msgspec.structs.replace(content, id=None))
    return Put(key, plain.type, plain.value, content_id, expected)


def to_system(operation: Operation) -> SystemOperation:
    """Returns an operation as the system takes it."""
    if isinstance(operation, Put):
        expected = None if operation.expected is None else content_held(operation.expected)
        content = content_of(operation.type, operation.value, operation.content_id)
        return SystemPut(key=operation.key, content=content, expected=expected)
    if isinstance(operation, Delete):
        return SystemDelete(key=operation.key)
    return SystemUnchanged(key=operation.key)


def wish_of(choice: Choice) -> KeyResolution:
    """Returns a choice as the system takes it."""

    def side(value: Any) -> Any:
        return content_held(value) if isinstance(value, Held) else value

    return KeyResolution(
        behaviour=choice.behaviour,
        expected_target=side(choice.expected),
        resolved=side(choice.resolved),
    )


def kind_of_conflict(expected: Any, target: Any) -> str:
    """Returns in which way what is there is not what was expected."""
    if expected is None:
        return "KEY_EXISTS"
    if target is None:
        return "KEY_DOES_NOT_EXIST"
    if expected.type != target.type:
        return "PAYLOAD_DIFFERS"
    return "CONTENT_ID_DIFFERS" if expected.content_id != target.content_id else "VALUE_DIFFERS"


Sides = tuple[Held | None, Held | None, Held | None]


def sides_of(conflict: ContentConflict) -> Sides:
    return (
        held_or_none(conflict.base),
        held_or_none(conflict.source),
        held_or_none(conflict.target),
    )


def is_space(value: object) -> bool:
    return isinstance(value, Held) and value.type == NAMESPACE
