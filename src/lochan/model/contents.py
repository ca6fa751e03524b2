"""Contents: what a key of the tables' universe holds, by type.

Names of fields on the wire and in stored values are those of the public API (camel case); a type
that nobody registered is carried as it came. Two contents are the same content when their ids
agree, whatever their keys are called.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec


class IcebergTable(
    msgspec.Struct, frozen=True, rename="camel", tag="ICEBERG_TABLE", tag_field="type", kw_only=True
):
    """An Iceberg table: where its metadata is, and what is current in it.

    `metadata` is opaque and optional: stored and returned as it came.
    """

    id: str | None = None
    metadata_location: str
    snapshot_id: int
    schema_id: int
    spec_id: int
    sort_order_id: int
    metadata: dict[str, Any] | msgspec.UnsetType | None = msgspec.UNSET


class IcebergView(
    msgspec.Struct, frozen=True, rename="camel", tag="ICEBERG_VIEW", tag_field="type", kw_only=True
):
    """An Iceberg view."""

    id: str | None = None
    metadata_location: str
    version_id: int
    schema_id: int
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
    # Clients that know no properties refuse a namespace that shows them empty.
    omit_defaults=True,
):
    """A namespace: what keys below it need to exist."""

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
    """A content of a type that nobody registered here: its fields as they came."""

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
"""Types with a shape of their own, by the name that the wire gives them."""


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
