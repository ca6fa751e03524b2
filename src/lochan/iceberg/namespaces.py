"""The catalog's methods on namespaces.

A namespace exists if it was created, or if a key below it exists.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from pyiceberg.catalog import PropertiesUpdateSummary
from pyiceberg.exceptions import (
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
)
from pyiceberg.typedef import EMPTY_DICT, Identifier, Properties
from pyiceberg.types import transform_dict_value_to_str

from lochan.iceberg.catalog_base import CatalogBase
from lochan.iceberg.names import key_of, parents_of, text_of
from lochan.iceberg.session import Change
from lochan.iceberg.state import StagedContent, State
from lochan.model.commits import ContentKey
from lochan.model.contents import Namespace

_TABLE = "ICEBERG_TABLE"
_VIEW = "ICEBERG_VIEW"
_NAMESPACE = "NAMESPACE"


class Namespaces(CatalogBase):
    """Namespaces of one reference, and the tables and views in them."""

    def create_namespace(
        self, namespace: str | Identifier, properties: Properties = EMPTY_DICT
    ) -> None:
        """Creates a namespace, and those that contain it if they are missing."""
        key = key_of(namespace)
        new = Namespace(elements=key, properties=transform_dict_value_to_str(dict(properties)))

        def plan(state: State) -> Change[None]:
            present = state.find([key, *parents_of(key)]).get(key)
            if present is not None or _has_keys(state, key):
                raise NamespaceAlreadyExistsError(f"Namespace already exists: {text_of(key)}")
            return Change(
                f"Create namespace {text_of(key)}", {key: StagedContent(content=new)}, None
            )

        self._session.change(plan)

    def drop_namespace(self, namespace: str | Identifier) -> None:
        """Drops an empty namespace."""

        def check(state: State, key: ContentKey) -> None:
            get_namespace(state, key)
            if _has_keys(state, key):
                raise NamespaceNotEmptyError(f"Namespace {text_of(key)} is not empty")

        self._drop(namespace, "namespace", check)

    def namespace_exists(self, namespace: str | Identifier) -> bool:
        """Returns whether a namespace exists."""
        return find_namespace(self._session.state(), key_of(namespace)) is not None

    def load_namespace_properties(self, namespace: str | Identifier) -> Properties:
        """Returns the properties of a namespace."""
        return dict(get_namespace(self._session.state(), key_of(namespace)).properties)

    def update_namespace_properties(
        self,
        namespace: str | Identifier,
        removals: set[str] | None = None,
        updates: Properties = EMPTY_DICT,
    ) -> PropertiesUpdateSummary:
        """Changes the properties of a namespace; returns the names by what happened to them."""
        key = key_of(namespace)
        removed, new = set(removals or ()), transform_dict_value_to_str(dict(updates))
        if both := sorted(removed & new.keys()):
            raise ValueError(f"properties to be removed and to be set at once: {both}")

        def plan(state: State) -> Change[PropertiesUpdateSummary]:
            present = get_namespace(state, key)
            before = present.properties
            kept = {name: value for name, value in before.items() if name not in removed}
            changed = msgspec.structs.replace(present, properties=kept | new)
            summary = PropertiesUpdateSummary(
                removed=sorted(removed & before.keys()),
                updated=sorted(new),
                missing=sorted(removed - before.keys()),
            )
            message = f"Update namespace {text_of(key)}"
            return Change(message, {key: StagedContent(content=changed)}, summary)

        return self._session.change(plan)

    def list_namespaces(self, namespace: str | Identifier = ()) -> list[Identifier]:
        """Returns the namespaces directly in a namespace; by default those at the root."""
        size, keys = self._below(namespace)
        return sorted({key[:size] for key, kind in keys if kind == _NAMESPACE or len(key) > size})

    def list_tables(self, namespace: str | Identifier) -> list[Identifier]:
        """Returns the Iceberg tables directly in a namespace."""
        size, keys = self._below(namespace)
        return sorted(key for key, kind in keys if kind == _TABLE and len(key) == size)

    def list_views(self, namespace: str | Identifier) -> list[Identifier]:
        """Returns the Iceberg views directly in a namespace."""
        size, keys = self._below(namespace)
        return sorted(key for key, kind in keys if kind == _VIEW and len(key) == size)

    def _below(self, namespace: str | Identifier) -> tuple[int, Iterable[tuple[ContentKey, str]]]:
        """Returns how long keys directly in a namespace are, and all keys below; () is the root."""
        key = () if namespace == () else key_of(namespace)
        state = self._session.state()
        if key:
            get_namespace(state, key)
        return len(key) + 1, state.below(key)


def find_namespace(state: State, key: ContentKey) -> Namespace | None:
    """Returns a namespace, or None; one that was never created has no properties."""
    found = state.find([key]).get(key)
    if isinstance(found, Namespace):
        return found
    if found is None and _has_keys(state, key):
        return Namespace(elements=key)
    return None


def get_namespace(state: State, key: ContentKey) -> Namespace:
    """Returns a namespace; NoSuchNamespaceError if it does not exist."""
    found = find_namespace(state, key)
    if found is None:
        raise NoSuchNamespaceError(f"Namespace does not exist: {text_of(key)}")
    return found


def _has_keys(state: State, key: ContentKey) -> bool:
    return any(True for _ in state.below(key))
