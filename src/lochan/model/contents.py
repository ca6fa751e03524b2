"""Contents: the values of keys in the universe of tables, by type.

Names of fields on the wire and in stored values are those of the public API (camel case). A content
of a type that is not registered is stored unchanged. Two contents are the same content if their ids
are equal, whatever their keys are.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, get_args, get_origin, get_type_hints

import msgspec

from lochan.base.errors import Invalid

Int32 = Annotated[
    int, msgspec.Meta(ge=-(2**31), le=2**31 - 1, extra_json_schema={"format": "int32"})
]
"""A number of 32 bits for clients."""

Int64 = Annotated[
    int, msgspec.Meta(ge=-(2**63), le=2**63 - 1, extra_json_schema={"format": "int64"})
]
"""A number of 64 bits for clients."""


class IcebergTable(
    msgspec.Struct,
    frozen=True,
    rename="camel",
    tag="ICEBERG_TABLE",
    tag_field="type",
    kw_only=True,
    # A commit may have ten thousand, which are in no cycle: the collector need not look at them.
    gc=False,
):
    """An Iceberg table: where its metadata is, and what is current in it.

    `metadata` is opaque and optional: stored and returned unchanged.
    """

    id: str | None = None
    metadata_location: str
    snapshot_id: Int64
    schema_id: Int32
    spec_id: Int32
    sort_order_id: Int32
    metadata: dict[str, Any] | msgspec.UnsetType | None = msgspec.UNSET


class IcebergView(
    msgspec.Struct, frozen=True, rename="camel", tag="ICEBERG_VIEW", tag_field="type", kw_only=True
):
    """An Iceberg view."""

    id: str | None = None
    metadata_location: str
    version_id: Int64
    schema_id: Int32
    sql_text: str | msgspec.UnsetType | None = msgspec.UNSET
    dialect: str | msgspec.UnsetType | None = msgspec.UNSET
    metadata: dict[str, Any] | msgspec.UnsetType | None = msgspec.UNSET


class DeltaLakeTable(
    msgspec.Struct,
    frozen=True,
    rename="camel",
    tag="DELTA_LAKE_TABLE",
    tag_field="type",
    kw_only=True,
):
    """A Delta Lake table: its log files and check-points."""

    id: str | None = None
    metadata_location_history: tuple[str, ...]
    checkpoint_location_history: tuple[str, ...]
    last_checkpoint: str | None = None
    metadata: dict[str, Any] | msgspec.UnsetType | None = msgspec.UNSET


class Namespace(
    msgspec.Struct,
    frozen=True,
    rename="camel",
    tag="NAMESPACE",
    tag_field="type",
    kw_only=True,
    # Older clients, which do not know properties, refuse a namespace with empty ones.
    omit_defaults=True,
):
    """A namespace, which must exist for keys below it."""

    id: str | None = None
    elements: tuple[str, ...]
    properties: dict[str, str] = msgspec.field(default_factory=dict)


class UserFunction(
    msgspec.Struct, frozen=True, rename="camel", tag="UDF", tag_field="type", kw_only=True
):
    """A user-defined function."""

    id: str | None = None
    metadata_location: str | msgspec.UnsetType | None = msgspec.UNSET
    version_id: str | msgspec.UnsetType | None = msgspec.UNSET
    signature_id: str | msgspec.UnsetType | None = msgspec.UNSET
    sql_text: str | msgspec.UnsetType | None = msgspec.UNSET
    dialect: str | msgspec.UnsetType | None = msgspec.UNSET


class OtherContent(msgspec.Struct, frozen=True):
    """A content of a type that is not registered: its fields, unchanged."""

    type: str
    id: str | None
    fields: dict[str, Any]


KnownContent = IcebergTable | IcebergView | DeltaLakeTable | Namespace | UserFunction
Content = KnownContent | OtherContent

KNOWN_TYPES: Final[dict[str, type[Any]]] = {
    "ICEBERG_TABLE": IcebergTable,
    "ICEBERG_VIEW": IcebergView,
    "DELTA_LAKE_TABLE": DeltaLakeTable,
    "NAMESPACE": Namespace,
    "UDF": UserFunction,
}
"""Types with a struct of their own, by their names on the wire."""


class NumberField(msgspec.Struct, frozen=True):
    """A field that holds a number: its name here and on the wire, and its bounds."""

    name: str
    wire_name: str
    low: int
    high: int


def _number_fields(kind: type[Any]) -> tuple[NumberField, ...]:
    hints = get_type_hints(kind, include_extras=True)
    names = dict(zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True))
    numbers = {
        name: get_args(hint)[1]
        for name, hint in hints.items()
        if get_origin(hint) is Annotated and get_args(hint)[0] is int
    }
    return tuple(NumberField(name, names[name], at.ge, at.le) for name, at in numbers.items())


NUMBER_FIELDS: Final = {kind: _number_fields(kind) for kind in KNOWN_TYPES.values()}
"""The number fields of each type that has a struct of its own."""


def check_numbers(content: KnownContent) -> None:
    """Refuses numbers that clients could not read; Invalid names the field."""
    for field in NUMBER_FIELDS[type(content)]:
        value = getattr(content, field.name)
        if type(value) is not int or not field.low <= value <= field.high:
            raise Invalid(
                f"{field.wire_name} is a whole number from {field.low} to {field.high}, "
                f"not {str(value)[:40]}"
            )


def type_of(content: Content) -> str:
    """Returns the name of a content's type."""
    if isinstance(content, OtherContent):
        return content.type
    return str(content.__struct_config__.tag)


def with_id(content: Content, content_id: str) -> Content:
    """Returns the same content under an id."""
    if content.id == content_id:
        return content
    changed: Content = msgspec.structs.replace(content, id=content_id)
    return changed
