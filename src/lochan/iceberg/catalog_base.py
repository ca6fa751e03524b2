"""What all methods of the catalog share: where changes go, where files are, where tables begin."""

from __future__ import annotations

import time
import uuid
from abc import ABC

from pyiceberg.catalog import Catalog

from lochan.base.errors import Invalid
from lochan.iceberg.commit_attempt import Work
from lochan.iceberg.files import MetadataFiles
from lochan.iceberg.names import directory_of, text_of
from lochan.iceberg.state import State
from lochan.model.commits import ContentKey
from lochan.model.contents import Namespace

_LOCATION = "location"


class CatalogBase(Catalog, ABC):
    """A catalog's context that its groups of methods work with."""

    _work: Work
    _files: MetadataFiles
    warehouse: str | None

    def default_location(self, state: State, key: ContentKey, own: uuid.UUID) -> str:
        """Returns a directory for a new table or view, alone for it.

        The same name may be another table on another branch, or later again on this one; so each
        has something of its own in its directory's name.
        """
        parents = key[:-1]
        name = f"{directory_of(key[-1])}_{own}"
        namespace = state.find([parents]).get(parents) if parents else None
        if isinstance(namespace, Namespace) and namespace.properties.get(_LOCATION):
            return f"{namespace.properties[_LOCATION].rstrip('/')}/{name}"
        if self.warehouse is None:
            raise Invalid(
                f"{text_of(key)} needs a location: neither it nor its namespace was given one, "
                "and the catalog has no warehouse"
            )
        return "/".join((self.warehouse, *map(directory_of, parents), name))

    def supports_server_side_planning(self) -> bool:
        """Tells that scans are planned here."""
        return False


def now_ms() -> int:
    """Returns the time as Iceberg writes it."""
    return time.time_ns() // 1_000_000
