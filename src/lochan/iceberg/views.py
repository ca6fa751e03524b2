"""The catalog's methods on views; pyiceberg has none that replace or rename views."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from pyiceberg.exceptions import NoSuchViewError
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.typedef import EMPTY_DICT, Identifier, Properties
from pyiceberg.types import transform_dict_value_to_str
from pyiceberg.view import View

from lochan.catalog.iceberg import build_view, view_content
from lochan.iceberg.catalog_base import CatalogBase, check_free, now_ms
from lochan.iceberg.files import Metadata, new_location
from lochan.iceberg.names import key_of, text_of
from lochan.iceberg.pyiceberg_objects import json_of, view_metadata
from lochan.iceberg.session import Change
from lochan.iceberg.state import StagedContent, State
from lochan.model.commits import ContentKey
from lochan.model.contents import IcebergView

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
        """Creates a view, and the namespaces that contain it if they are missing."""
        key = key_of(identifier)
        columns = json_of(assign_fresh_schema_ids(self._convert_schema_if_needed(schema)))
        own = uuid.uuid4()
        texts = transform_dict_value_to_str(dict(properties))

        def plan(state: State) -> Change[Metadata]:
            check_free(state, key, "View")
            metadata = build_view(
                uuid=str(own),
                location=(location or self.default_location(state, key, own)).rstrip("/"),
                schema=columns,
                version=json_of(view_version),
                properties=texts,
                now_ms=now_ms(),
            )
            content = view_content(metadata, new_location(metadata, None), None)
            staged = StagedContent(content=content, metadata=metadata)
            return Change(f"Create view {text_of(key)}", {key: staged}, metadata)

        return _view(key, self._session.change(plan))

    def load_view(self, identifier: str | Identifier) -> View:
        """Returns a view as it is on the reference."""
        key = key_of(identifier)
        state = self._session.state()
        return _view(key, state.metadata(get_view(state, key)))

    def view_exists(self, identifier: str | Identifier) -> bool:
        """Returns whether a name is that of a view."""
        return isinstance(self._find(identifier), IcebergView)

    def register_view(self, identifier: str | Identifier, metadata_location: str) -> View:
        """Creates a view from an existing metadata file."""
        key = key_of(identifier)
        metadata = self._files.read(metadata_location)
        # Metadata that pyiceberg cannot read is refused before anything is changed.
        registered = _view(key, metadata)

        def plan(state: State) -> Change[View]:
            check_free(state, key, "View")
            staged = StagedContent(content=view_content(metadata, metadata_location, None))
            return Change(f"Register view {text_of(key)}", {key: staged}, registered)

        return self._session.change(plan)

    def drop_view(self, identifier: str | Identifier) -> None:
        """Drops a view."""
        self._drop(identifier, "view", get_view)


def get_view(state: State, key: ContentKey) -> IcebergView:
    """Returns a view; NoSuchViewError if the key has no view."""
    found = state.find([key]).get(key)
    if isinstance(found, IcebergView):
        return found
    raise NoSuchViewError(f"View does not exist: {text_of(key)}")


def _view(key: ContentKey, metadata: Metadata) -> View:
    return View(key, view_metadata(metadata, text_of(key)))
