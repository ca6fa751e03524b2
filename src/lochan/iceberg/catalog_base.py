"""The base of the catalog's groups of methods: session, files, locations of new tables."""

from __future__ import annotations

import time
import uuid
from abc import ABC
from collections.abc import Callable
from typing import Final

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import TableAlreadyExistsError, ViewAlreadyExistsError

from lochan.base.errors import Invalid
from lochan.iceberg.files import MetadataFiles
from lochan.iceberg.names import directory_of, key_of, parents_of, text_of
from lochan.iceberg.session import Change, Session
from lochan.iceberg.state import State
from lochan.model.commits import ContentKey
from lochan.model.contents import Content, IcebergTable, IcebergView, Namespace, type_of

_LOCATION = "location"
_KINDS: Final[dict[type, str]] = {
    IcebergTable: "Table",
    IcebergView: "View",
    Namespace: "Namespace",
}


class CatalogBase(Catalog, ABC):
    """The attributes and helpers that the groups of methods share."""

    _session: Session
    _files: MetadataFiles
    warehouse: str | None

    def _find(self, identifier: str | tuple[str, ...]) -> Content | None:
        """Returns the content of a key on the reference now, or None."""
        key = key_of(identifier)
        return self._session.state().find([key]).get(key)

    def _drop(
        self,
        identifier: str | tuple[str, ...],
        kind: str,
        check: Callable[[State, ContentKey], object],
    ) -> None:
        """Deletes a key if the check does not raise."""
        key = key_of(identifier)

        def plan(state: State) -> Change[None]:
            check(state, key)
            return Change(f"Drop {kind} {text_of(key)}", {key: None}, None)

        self._session.change(plan)

    def default_location(self, state: State, key: ContentKey, own: uuid.UUID) -> str:
        """Returns a directory that only this new table or view uses.

        Another branch, or the same branch later, may have another table with the same name; so the
        name of the directory contains the UUID.
        """
        parents = key[:-1]
        name = f"{directory_of(key[-1])}_{own}"
        namespace = state.find([parents]).get(parents) if parents else None
        if isinstance(namespace, Namespace) and namespace.properties.get(_LOCATION):
            return f"{namespace.properties[_LOCATION].rstrip('/')}/{name}"
        if self.warehouse is None:
            raise Invalid(
                f"{text_of(key)} needs a location: give one to the table or its namespace, or give "
                "the catalog a warehouse"
            )
        return "/".join((self.warehouse, *map(directory_of, parents), name))

    def supports_server_side_planning(self) -> bool:
        """Returns False: scans are planned by the client."""
        return False


def check_free(state: State, key: ContentKey, own: str) -> None:
    """Raises the exception that pyiceberg expects if a new `own`, Table or View, has no free key.

    The parents are read in the same request, because a new table or view needs them.
    """
    found = state.find([key, *parents_of(key)]).get(key)
    if found is not None:
        raise already_exists(key, found, own)


def already_exists(
    key: ContentKey, content: Content, own: str
) -> TableAlreadyExistsError | ViewAlreadyExistsError:
    """Returns the exception for a key with a content, in the wording of other catalogs."""
    kind = _KINDS.get(type(content), type_of(content))
    error = TableAlreadyExistsError if "Table" in (kind, own) else ViewAlreadyExistsError
    words = "already exists" if kind == own else "with same name already exists"
    return error(f"{kind} {words}: {text_of(key)}")


def now_ms() -> int:
    """Returns the current time in milliseconds, the unit of Iceberg metadata."""
    return time.time_ns() // 1_000_000
