"""Conversion between plain metadata and pyiceberg's objects.

pyiceberg's objects are only for reading and for its writers; stored metadata is never built from
them, because they lose fields that they do not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

import msgspec
from pydantic import BaseModel
from pyiceberg.exceptions import ValidationError
from pyiceberg.table import TableProperties
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.typedef import Properties, TableVersion
from pyiceberg.view.metadata import ViewMetadata

from lochan.base.errors import Invalid
from lochan.iceberg.files import Metadata

_GC_ENABLED: Final = "gc.enabled"
_CODE_PROPERTY: Final = TableProperties.WRITE_PY_LOCATION_PROVIDER_IMPL
_FORMATS: Final = ("1", "2", "3")


def without_file_deletion(metadata: Metadata) -> Metadata:
    """Returns metadata that forbids engines to delete files, which other references share."""
    properties = metadata.get("properties") or {}
    if properties.get(_GC_ENABLED) == "false":
        return metadata
    return {**metadata, "properties": {**properties, _GC_ENABLED: "false"}}


def code_properties(metadata: Metadata) -> Properties:
    """Returns the properties that name a class, which pyiceberg would import and call."""
    properties = metadata.get("properties") or {}
    return {key: value for key, value in properties.items() if key == _CODE_PROPERTY and value}


def table_metadata(metadata: Metadata, name: str) -> TableMetadata:
    """Returns a table's metadata as pyiceberg's object; Invalid if pyiceberg cannot read it.

    Properties that name code are empty in it: a writer of a table's properties must not choose
    what its readers run. The stored metadata keeps them.
    """
    blank = dict.fromkeys(code_properties(metadata), "")
    if blank:
        metadata = {**metadata, "properties": {**metadata["properties"], **blank}}
    try:
        # As text, because pyiceberg changes the dictionaries that it gets.
        return TableMetadataUtil.parse_raw(msgspec.json.encode(metadata).decode())
    except (ValidationError, ValueError, TypeError) as error:
        raise Invalid(f"pyiceberg cannot read the metadata of {name}: {error}") from error


def view_metadata(metadata: Metadata, name: str) -> ViewMetadata:
    """Returns a view's metadata as pyiceberg's object; Invalid if pyiceberg cannot read it."""
    try:
        return ViewMetadata.model_validate_json(msgspec.json.encode(metadata))
    except (ValidationError, ValueError, TypeError) as error:
        raise Invalid(f"pyiceberg cannot read the metadata of {name}: {error}") from error


def json_of(model: BaseModel) -> Metadata:
    """Returns an object of pyiceberg in the form in which it is sent to catalogs."""
    return msgspec.json.decode(model.model_dump_json(), type=Metadata)


def format_of(properties: Mapping[str, Any]) -> TableVersion:
    """Returns the format version of a new table."""
    version = str(
        properties.get(TableProperties.FORMAT_VERSION, TableProperties.DEFAULT_FORMAT_VERSION)
    )
    if version not in _FORMATS:
        raise Invalid(f"there is no format {version!r}; use 1, 2 or 3")
    return cast("TableVersion", int(version))
