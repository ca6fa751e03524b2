"""The catalog: a repository, one of its references, and a warehouse for what is made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec

from lochan.base.errors import Invalid
from lochan.client import Client
from lochan.embedded import open_repository
from lochan.iceberg.commit_attempt import Collected, Direct, Work
from lochan.iceberg.files import MetadataFiles, warehouse_location
from lochan.iceberg.names import key_of
from lochan.iceberg.namespaces import Namespaces
from lochan.iceberg.state import Repository
from lochan.iceberg.tables import Tables
from lochan.iceberg.views import Views
from lochan.model.commits import CommitMeta, Committed, RecordJob

if TYPE_CHECKING:
    from types import TracebackType

_HEADER: Final = "header."
# Properties that commits carry, by the names that Iceberg's client for Nessie gives them.
_FOR_COMMITS: Final = ("app-id", "application-type")
_NOT_FOR_FILES: Final = ("uri", "py-catalog-impl", *_FOR_COMMITS)
_SERVERS: Final = ("http://", "https://")


class _Connection(msgspec.Struct, frozen=True):
    """What catalogs on the references of one repository share."""

    name: str
    repository: Repository
    files: MetadataFiles
    warehouse: str | None
    properties: dict[str, Any]
    said: CommitMeta
    """What every commit says besides its message."""


class LochanCatalog(Tables, Views, Namespaces):
    """The Iceberg tables and views of a repository, as they are on one reference.

    `uri` is a server (`http://…`) or a store that is opened here (`rocksdb:PATH`, `memory:`, …).
    `ref` is what is read: a branch, a tag, a commit's hash, `main~2`; by default the default
    branch. Changes go to branches, each as a commit of its own, or several in one by `many`.
    `warehouse` is where tables are made that are not given a location. `author` is who is named in
    commits; the properties `application-type` and `app-id` are put into them too. Further
    properties are for pyiceberg's FileIO, such as `s3.endpoint`; those that begin with `header.`
    are sent to the server.
    """

    def __init__(
        self,
        name: str = "lochan",
        *,
        uri: str,
        repository: str = "default",
        ref: str | None = None,
        warehouse: str | None = None,
        author: str | None = None,
        **properties: str,
    ) -> None:
        headers, files = _headers(properties), _without_headers(properties)
        opened = _open(uri, repository, headers)
        try:
            self._begin(_connection(name, opened, warehouse, {"uri": uri, **files}, author), ref)
        except BaseException:
            opened.close()
            raise
        self._owned: Repository | None = opened

    @staticmethod
    def on(
        repository: Repository,
        *,
        name: str = "lochan",
        ref: str | None = None,
        warehouse: str | None = None,
        author: str | None = None,
        **properties: str,
    ) -> LochanCatalog:
        """Returns the catalog of a repository that is open already, and stays so."""
        return _beginning(_connection(name, repository, warehouse, properties, author), ref)

    def _begin(self, connection: _Connection, ref: str | None) -> None:
        if ref is None:
            ref = connection.repository.config().default_branch
        work = Direct(connection.repository, connection.files, ref, connection.said)
        self._take_place(connection, work)

    def _take_place(self, connection: _Connection, work: Work) -> None:
        super().__init__(connection.name, **connection.properties, ref=work.ref)
        self._connection = connection
        self._files = connection.files
        self.warehouse = connection.warehouse
        self._work = work
        self._owned = None

    @property
    def ref(self) -> str:
        """What is read: a branch, a tag, a commit."""
        return self._work.ref

    @property
    def repository(self) -> Repository:
        """The repository, for branches, history and merges."""
        return self._connection.repository

    def at(self, ref: str) -> LochanCatalog:
        """Returns the catalog of the same repository on another reference."""
        return _beginning(self._connection, ref)

    def many(
        self,
        message: str | None = None,
        *,
        properties: Mapping[str, str | Iterable[str]] | None = None,
        expected: str | None = None,
    ) -> Many:
        """Opens a block whose changes, to any number of tables, become one commit at its end.

        Everything in the block is read at one commit, `expected`, by default the branch's head. If
        any of the tables that it changes is changed by others since then, none is:
        CommitFailedException.
        """
        if isinstance(self._work, Collected):
            raise Invalid("a block is one commit already; open another one on the catalog")
        always = self._connection.said
        said = msgspec.structs.replace(
            always,
            message=message or "",
            properties=_sorted({**dict(always.properties), **(properties or {})}),
        )
        return Many(self._connection, self.ref, said, expected)

    def close(self) -> None:
        """Closes the repository, if it was opened here."""
        if self._owned is not None:
            self._owned.close()

    def __enter__(self) -> Self:
        return self


class Many(LochanCatalog):
    """Changes to several tables that become one commit; a catalog of its own while it lasts.

        with catalog.many("the orders of today") as many:
            many.load_table("shop.orders").append(rows)
            many.drop_table("shop.drafts")

    Tables that are loaded from it are pyiceberg's ordinary ones, and see what was changed in the
    block before. An error that leaves the block leaves the branch untouched.
    """

    def __init__(
        self, connection: _Connection, ref: str, said: CommitMeta, expected: str | None
    ) -> None:
        self._collected = Collected(connection.repository, connection.files, ref, expected)
        self._said = said
        self.committed: Committed | None = None
        self._take_place(connection, self._collected)

    @property
    def expected(self) -> str:
        """The commit that everything in the block is read at."""
        return self._collected.expected

    def record_job(self, table: str | tuple[str, ...], job: str, facts: Mapping[str, str]) -> None:
        """Records in the block's commit that a job has written a table, and what it says of it."""
        said = tuple(sorted(facts.items()))
        self._collected.record_job(RecordJob(key=key_of(table), job=job, facts=said))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self._collected.discard()
            return
        said = self._said
        if not said.message:
            words = "; ".join(dict.fromkeys(filter(None, self._collected.messages)))
            said = msgspec.structs.replace(said, message=words or "Nothing")
        self.committed = self._collected.commit(said)


def open_catalog(
    uri: str,
    *,
    name: str = "lochan",
    repository: str = "default",
    ref: str | None = None,
    warehouse: str | None = None,
    author: str | None = None,
    **properties: str,
) -> LochanCatalog:
    """Opens a catalog; close it after use."""
    return LochanCatalog(
        name,
        uri=uri,
        repository=repository,
        ref=ref,
        warehouse=warehouse,
        author=author,
        **properties,
    )


def _open(uri: str, repository: str, headers: Mapping[str, str]) -> Repository:
    if uri.startswith(_SERVERS):
        return Client(uri, repository, headers=headers)
    if headers:
        raise Invalid("headers are for servers, and this repository is opened here")
    return open_repository(uri, repository)


def _connection(
    name: str,
    repository: Repository,
    warehouse: str | None,
    properties: Mapping[str, Any],
    author: str | None,
) -> _Connection:
    place = warehouse_location(warehouse) if warehouse else None
    shown = {"repository": repository.repository, **properties}
    if place is not None:
        shown["warehouse"] = place
    # How files are reached is nothing to do with how the repository is.
    files = {key: value for key, value in properties.items() if key not in _NOT_FOR_FILES}
    said = CommitMeta(
        message="",
        authors=(author,) if author else (),
        properties=_sorted({key: properties[key] for key in _FOR_COMMITS if key in properties}),
    )
    return _Connection(name, repository, MetadataFiles(files), place, shown, said)


def _beginning(connection: _Connection, ref: str | None) -> LochanCatalog:
    made = LochanCatalog.__new__(LochanCatalog)
    made._begin(connection, ref)  # noqa: SLF001 - it is the other way to make one
    return made


def _headers(properties: Mapping[str, str]) -> dict[str, str]:
    return {
        key.removeprefix(_HEADER): value
        for key, value in properties.items()
        if key.startswith(_HEADER)
    }


def _without_headers(properties: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in properties.items() if not key.startswith(_HEADER)}


def _sorted(
    properties: Mapping[str, str | Iterable[str]],
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return tuple(
        (name, (value,) if isinstance(value, str) else tuple(value))
        for name, value in sorted(properties.items())
    )
