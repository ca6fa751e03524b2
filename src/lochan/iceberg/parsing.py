"""Between plain metadata and pyiceberg's objects.

pyiceberg's objects are for reading and for its writers only; what is stored never passes through
them, as they lose what they do not know.
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

_GC: Final = "gc.enabled"
_CODE: Final = TableProperties.WRITE_PY_LOCATION_PROVIDER_IMPL
_FORMATS: Final = ("1", "2", "3")


def protected(metadata: Metadata) -> Metadata:
    """Returns metadata that forbids engines to delete files: other references share them."""
    properties = metadata.get("properties") or {}
    if properties.get(_GC) == "false":
        return metadata
    return {**metadata, "properties": {**properties, _GC: "false"}}


def names_of_code(metadata: Metadata) -> Properties:
    """Returns the properties that name a class, which pyiceberg would import and call."""
    properties = metadata.get("properties") or {}
    return {key: value for key, value in properties.items() if key == _CODE and value}


def table_metadata(metadata: Metadata, name: str) -> TableMetadata:
    """Returns metadata as pyiceberg knows it; Invalid if it cannot read it.

    Properties that name code are blank in it: whoever may write a table's properties must not
    choose what its readers run. What is stored keeps them.
    """
    blank = dict.fromkeys(names_of_code(metadata), "")
    if blank:
        metadata = {**metadata, "properties": {**metadata["properties"], **blank}}
    try:
        # As text, because pyiceberg changes the dictionaries that it is given.
        return TableMetadataUtil.parse_raw(msgspec.json.encode(metadata).decode())
    except (ValidationError, ValueError, TypeError) as error:
        raise Invalid(f"pyiceberg cannot read the metadata of {name}: {error}") from error


def view_metadata(metadata: Metadata, name: str) -> ViewMetadata:
    """Returns a view's metadata as pyiceberg knows it; Invalid if it cannot read it."""
    try:
        return ViewMetadata.model_validate_json(msgspec.json.encode(metadata))
    except (ValidationError, ValueError, TypeError) as error:
        raise Invalid(f"pyiceberg cannot read the metadata of {name}: {error}") from error


def json_of(model: BaseModel) -> Metadata:
    """Returns an object of pyiceberg as it is sent to catalogs."""
    return msgspec.json.decode(model.model_dump_json(), type=Metadata)


def format_of(properties: Mapping[str, Any]) -> TableVersion:
    """Returns the format that a new table shall have."""
    wanted = str(
        properties.get(TableProperties.FORMAT_VERSION, TableProperties.DEFAULT_FORMAT_VERSION)
    )
    if wanted not in _FORMATS:
        raise Invalid(f"there is no format {wanted!r}; tables have 1, 2 or 3")
    return cast("TableVersion", int(wanted))
