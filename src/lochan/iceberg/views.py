"""The catalog's methods on views, as far as pyiceberg has them: it replaces and renames none."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from pyiceberg.exceptions import (
    NoSuchViewError,
    TableAlreadyExistsError,
    ViewAlreadyExistsError,
)
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.typedef import EMPTY_DICT, Identifier, Properties
from pyiceberg.types import transform_dict_value_to_str
from pyiceberg.view import View

from lochan.catalog.iceberg import build_view, view_content
from lochan.iceberg.catalog_base import CatalogBase, now_ms
from lochan.iceberg.commit_attempt import Change
from lochan.iceberg.files import Metadata, new_location
from lochan.iceberg.names import key_of, parents_of, text_of
from lochan.iceberg.parsing import json_of, view_metadata
from lochan.iceberg.state import Staged, State
from lochan.model.commits import ContentKey
from lochan.model.contents import IcebergTable, IcebergView

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.view.metadata import ViewVersion


class Views(CatalogBase):
    """Views of one reference."""

    def create_view(
        self,
        identifier: str | Identifier,
        schema: Schema | pa.Schema,
        view_version: ViewVersion,
        location: str | None = None,
        properties: Properties = EMPTY_DICT,
    ) -> View:
        """Makes a view, and the namespaces that it lies in where they are missing."""
        key = key_of(identifier)
        columns = json_of(assign_fresh_schema_ids(self._convert_schema_if_needed(schema)))
        own = uuid.uuid4()
        said = transform_dict_value_to_str(dict(properties))

        def plan(state: State) -> Change[Metadata]:
            check_free(state, key)
            metadata = build_view(
                uuid=str(own),
                location=(location or self.default_location(state, key, own)).rstrip("/"),
                schema=columns,
                version=json_of(view_version),
                properties=said,
                now_ms=now_ms(),
            )
            place = new_location(metadata, None)
            staged = Staged(content=view_content(metadata, place, None), metadata=metadata)
            return Change(f"Create view {text_of(key)}", {key: staged}, metadata)

        return _view(key, self._work.change(plan))

    def load_view(self, identifier: str | Identifier) -> View:
        """Returns a view as it is on the reference."""
        key = key_of(identifier)
        state = self._work.state()
        return _view(key, state.metadata(get_view(state, key)))

    def view_exists(self, identifier: str | Identifier) -> bool:
        """Tells whether a name is that of a view."""
        key = key_of(identifier)
        return isinstance(self._work.state().find([key]).get(key), IcebergView)

    def register_view(self, identifier: str | Identifier, metadata_location: str) -> View:
        """Makes a view of metadata that is there already."""
        key = key_of(identifier)
        metadata = self._files.read(metadata_location)
        # What cannot be read afterwards is refused before anything is changed.
        registered = _view(key, metadata)

        def plan(state: State) -> Change[View]:
            check_free(state, key)
            staged = Staged(content=view_content(metadata, metadata_location, None))
            return Change(f"Register view {text_of(key)}", {key: staged}, registered)

        return self._work.change(plan)

    def drop_view(self, identifier: str | Identifier) -> None:
        """Takes a view away."""
        key = key_of(identifier)

        def plan(state: State) -> Change[None]:
            get_view(state, key)
            return Change(f"Drop view {text_of(key)}", {key: None}, None)

        self._work.change(plan)


def get_view(state: State, key: ContentKey) -> IcebergView:
    """Returns a view; NoSuchViewError if the name is free, or that of something else."""
    found = state.find([key]).get(key)
    if isinstance(found, IcebergView):
        return found
    raise NoSuchViewError(f"View does not exist: {text_of(key)}")


def check_free(state: State, key: ContentKey) -> None:
    """Raises what pyiceberg expects if a name is taken: by a table, or by anything else."""
    found = state.find([key, *parents_of(key)]).get(key)
    if isinstance(found, IcebergTable):
        raise TableAlreadyExistsError(f"Table with same name already exists: {text_of(key)}")
    if isinstance(found, IcebergView):
        raise ViewAlreadyExistsError(f"View already exists: {text_of(key)}")
    if found is not None:
        raise ViewAlreadyExistsError(f"The name is taken already: {text_of(key)}")


def _view(key: ContentKey, metadata: Metadata) -> View:
    return View(key, view_metadata(metadata, text_of(key)))
