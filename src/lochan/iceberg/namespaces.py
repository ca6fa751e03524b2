"""The catalog's methods on namespaces.

A namespace is there if it was made, or if something lies below it.
"""

from __future__ import annotations

from collections.abc import Mapping

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
from lochan.iceberg.commit_attempt import Change
from lochan.iceberg.names import key_of, namespace_key, parents_of, text_of
from lochan.iceberg.state import Staged, State
from lochan.model.commits import ContentKey
from lochan.model.contents import Namespace

_TABLE = "ICEBERG_TABLE"
_VIEW = "ICEBERG_VIEW"
_NAMESPACE = "NAMESPACE"


class Namespaces(CatalogBase):
    """Namespaces of one reference, and what lies in them."""

    def create_namespace(
        self, namespace: str | Identifier, properties: Properties = EMPTY_DICT
    ) -> None:
        """Makes a namespace, and those that it lies in where they are missing."""
        key = key_of(namespace)
        new = Namespace(elements=key, properties=transform_dict_value_to_str(dict(properties)))

        def plan(state: State) -> Change[None]:
            there = state.find([key, *parents_of(key)]).get(key)
            if there is not None or _has_keys(state, key):
                raise NamespaceAlreadyExistsError(f"Namespace already exists: {text_of(key)}")
            return Change(f"Create namespace {text_of(key)}", {key: Staged(content=new)}, None)

        self._work.change(plan)

    def drop_namespace(self, namespace: str | Identifier) -> None:
        """Takes an empty namespace away."""
        key = key_of(namespace)

        def plan(state: State) -> Change[None]:
            get_namespace(state, key)
            if _has_keys(state, key):
                raise NamespaceNotEmptyError(f"Namespace {text_of(key)} is not empty")
            return Change(f"Drop namespace {text_of(key)}", {key: None}, None)

        self._work.change(plan)

    def namespace_exists(self, namespace: str | Identifier) -> bool:
        """Tells whether there is such a namespace."""
        return find_namespace(self._work.state(), key_of(namespace)) is not None

    def load_namespace_properties(self, namespace: str | Identifier) -> Properties:
        """Returns the properties of a namespace."""
        return dict(get_namespace(self._work.state(), key_of(namespace)).properties)

    def update_namespace_properties(
        self,
        namespace: str | Identifier,
        removals: set[str] | None = None,
        updates: Properties = EMPTY_DICT,
    ) -> PropertiesUpdateSummary:
        """Changes the properties of a namespace; tells which were changed and which were not."""
        key = key_of(namespace)
        gone, new = set(removals or ()), transform_dict_value_to_str(dict(updates))
        if both := sorted(gone & new.keys()):
            raise ValueError(f"properties to be removed and to be set at once: {both}")

        def plan(state: State) -> Change[PropertiesUpdateSummary]:
            there = get_namespace(state, key)
            changed = msgspec.structs.replace(there, properties=_changed(there, gone, new))
            summary = PropertiesUpdateSummary(
                removed=sorted(gone & there.properties.keys()),
                updated=sorted(new),
                missing=sorted(gone - there.properties.keys()),
            )
            message = f"Update namespace {text_of(key)}"
            return Change(message, {key: Staged(content=changed)}, summary)

        return self._work.change(plan)

    def list_namespaces(self, namespace: str | Identifier = ()) -> list[Identifier]:
        """Returns the namespaces directly in a namespace; by default those that lie in none."""
        key = namespace_key(namespace)
        state = self._work.state()
        if key:
            get_namespace(state, key)
        size = len(key) + 1
        return sorted(
            {
                found[:size]
                for found, kind in state.below(key)
                if kind == _NAMESPACE or len(found) > size
            }
        )

    def list_tables(self, namespace: str | Identifier) -> list[Identifier]:
        """Returns the Iceberg tables directly in a namespace."""
        return self._listed(namespace, _TABLE)

    def list_views(self, namespace: str | Identifier) -> list[Identifier]:
        """Returns the Iceberg views directly in a namespace."""
        return self._listed(namespace, _VIEW)

    def _listed(self, namespace: str | Identifier, wanted: str) -> list[Identifier]:
        key = namespace_key(namespace)
        state = self._work.state()
        if key:
            get_namespace(state, key)
        size = len(key) + 1
        below = state.below(key)
        return sorted(found for found, kind in below if kind == wanted and len(found) == size)


def find_namespace(state: State, key: ContentKey) -> Namespace | None:
    """Returns a namespace, or None; one that was never made has no properties."""
    found = state.find([key]).get(key)
    if isinstance(found, Namespace):
        return found
    if found is None and _has_keys(state, key):
        return Namespace(elements=key)
    return None


def get_namespace(state: State, key: ContentKey) -> Namespace:
    """Returns a namespace; NoSuchNamespaceError if there is none."""
    found = find_namespace(state, key)
    if found is None:
        raise NoSuchNamespaceError(f"Namespace does not exist: {text_of(key)}")
    return found


def _has_keys(state: State, key: ContentKey) -> bool:
    return any(True for _ in state.below(key))


def _changed(there: Namespace, removals: set[str], updates: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in there.properties.items() if name not in removals}
    return kept | dict(updates)
