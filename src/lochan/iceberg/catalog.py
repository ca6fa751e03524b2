"""The catalog: a repository, one of its references, and a warehouse for new tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec

from lochan.base.errors import Invalid
from lochan.client import Client
from lochan.embedded import open_repository
from lochan.iceberg.files import MetadataFiles, warehouse_location
from lochan.iceberg.names import key_of
from lochan.iceberg.namespaces import Namespaces
from lochan.iceberg.session import BlockSession, DirectSession, Session
from lochan.iceberg.state import Repository
from lochan.iceberg.tables import Tables
from lochan.iceberg.views import Views
from lochan.kv.url import parse_store_url
from lochan.model.commits import CommitMeta, Committed, RecordJob

if TYPE_CHECKING:
    from types import TracebackType

_HEADER: Final = "header."
_CREDENTIALS: Final = ("token", "credential", "profile", "insecure")
# Properties that are stored in commits; Iceberg's client for Nessie uses the same names.
_COMMIT_PROPERTIES: Final = ("app-id", "application-type")
_NOT_FILE_PROPERTIES: Final = ("uri", "py-catalog-impl", *_COMMIT_PROPERTIES)
_SERVERS: Final = ("http://", "https://")


class _Connection(msgspec.Struct, frozen=True):
    """The values that catalogs on all references of one repository share."""

    name: str
    repository: Repository
    files: MetadataFiles
    warehouse: str | None
    properties: dict[str, Any]
    meta: CommitMeta
    """The author and the properties of every commit."""


class LochanCatalog(Tables, Views, Namespaces):
    """The Iceberg tables and views of a repository on one reference.

    `uri` is a server (`http://…`) or a store that this process opens (`rocksdb:PATH`, `memory:`,
    …). `ref` is a branch, a tag, the hash of a commit, or `main~2`; by default the default branch.
    Each change is a commit on a branch; `many` makes one commit of several changes. `warehouse` is
    the directory of tables without a location of their own. `author` is the author of commits; the
    properties `application-type` and `app-id` are stored in commits too.

    A server that needs credentials gets the property `token`, or `credential` with the id and the
    secret of an access key (`ID:SECRET`), or those of the property `profile`; without any of them,
    those of the environment or of the server's profile, as `Client` does. `insecure` is `true` if
    they may go to another machine over plain http. Properties that begin with `header.` are sent to
    the server as headers. All others are for pyiceberg's FileIO, such as `s3.endpoint`.
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
        # These hold secrets: neither the catalog's properties nor the access to files has them.
        kept = [key for key in properties if key.startswith(_HEADER) or key in _CREDENTIALS]
        opened = _open(uri, repository, {key: properties.pop(key) for key in kept})
        try:
            shown = {"uri": _without_password(uri), **properties}
            self._start(_connection(name, opened, warehouse, shown, author), ref)
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
        """Returns the catalog of an open repository; closing the catalog does not close it."""
        return _catalog(_connection(name, repository, warehouse, properties, author), ref)

    def _start(self, connection: _Connection, ref: str | None) -> None:
        if ref is None:
            ref = connection.repository.config().default_branch
        session = DirectSession(connection.repository, connection.files, ref, connection.meta)
        self._attach(connection, session)

    def _attach(self, connection: _Connection, session: Session) -> None:
        super().__init__(connection.name, **connection.properties, ref=session.ref)
        self._connection = connection
        self._files = connection.files
        self.warehouse = connection.warehouse
        self._session = session
        self._owned = None

    @property
    def ref(self) -> str:
        """The branch, tag or commit that the catalog reads."""
        return self._session.ref

    @property
    def repository(self) -> Repository:
        """The repository, for branches, history and merges."""
        return self._connection.repository

    def at(self, ref: str) -> LochanCatalog:
        """Returns the catalog of the same repository on another reference."""
        return _catalog(self._connection, ref)

    def many(
        self,
        message: str | None = None,
        *,
        properties: Mapping[str, str | Iterable[str]] | None = None,
        expected: str | None = None,
    ) -> Many:
        """Opens a block whose changes, to any number of tables, become one commit at its end.

        All reads in the block see one commit, `expected`, by default the branch's head. If another
        commit changed any of the tables that the block changes, the block commits nothing:
        CommitFailedException.
        """
        if isinstance(self._session, BlockSession):
            raise Invalid("a block is one commit already; open another one on the catalog")
        shared = self._connection.meta
        meta = msgspec.structs.replace(
            shared,
            message=message or "",
            properties=_sorted({**dict(shared.properties), **(properties or {})}),
        )
        return Many(self._connection, self.ref, meta, expected)

    def close(self) -> None:
        """Closes the repository, if this catalog opened it."""
        if self._owned is not None:
            self._owned.close()

    def __enter__(self) -> Self:
        return self


class Many(LochanCatalog):
    """A block of changes to several tables that become one commit; it is a catalog itself.

        with catalog.many("the orders of today") as many:
            many.load_table("shop.orders").append(rows)
            many.drop_table("shop.drafts")

    Tables that are loaded from it are ordinary tables of pyiceberg, and include earlier changes of
    the block. If an exception ends the block, the branch does not change.
    """

    def __init__(
        self, connection: _Connection, ref: str, meta: CommitMeta, expected: str | None
    ) -> None:
        self._block = BlockSession(connection.repository, connection.files, ref, expected)
        self._meta = meta
        self.committed: Committed | None = None
        self._attach(connection, self._block)

    @property
    def expected(self) -> str:
        """The commit that all reads in the block see."""
        return self._block.expected

    def record_job(self, table: str | tuple[str, ...], job: str, facts: Mapping[str, str]) -> None:
        """Records in the block's commit that a job has written a table, with facts about it."""
        sorted_facts = tuple(sorted(facts.items()))
        self._block.record_job(RecordJob(key=key_of(table), job=job, facts=sorted_facts))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self._block.discard()
            return
        meta = self._meta
        if not meta.message:
            message = "; ".join(dict.fromkeys(filter(None, self._block.messages)))
            meta = msgspec.structs.replace(meta, message=message or "Nothing")
        self.committed = self._block.commit(meta)


def _open(uri: str, repository: str, given: Mapping[str, str]) -> Repository:
    """Opens a repository; `given` are headers and credentials, which only a server takes."""
    if not uri.startswith(_SERVERS):
        if given:
            names = ", ".join(sorted(given))
            raise Invalid(f"leave out {names}: that is for servers, and a store is opened here")
        return open_repository(uri, repository)
    return Client(
        uri,
        repository,
        token=given.get("token"),
        access_key=_access_key(given.get("credential")),
        profile=given.get("profile"),
        insecure=str(given.get("insecure", "")).lower() == "true",
        headers={
            key.removeprefix(_HEADER): value
            for key, value in given.items()
            if key.startswith(_HEADER)
        },
    )


def _without_password(uri: str) -> str:
    return uri if uri.startswith(_SERVERS) else str(parse_store_url(uri))


def _access_key(credential: str | None) -> tuple[str, str] | None:
    if credential is None:
        return None
    key_id, colon, secret = credential.partition(":")
    if not colon:
        raise Invalid("the property 'credential' is the id and the secret of a key: ID:SECRET")
    return key_id, secret


def _connection(
    name: str,
    repository: Repository,
    warehouse: str | None,
    properties: Mapping[str, Any],
    author: str | None,
) -> _Connection:
    location = warehouse_location(warehouse) if warehouse else None
    shown = {"repository": repository.repository, **properties}
    if location is not None:
        shown["warehouse"] = location
    # The access to files does not depend on the access to the repository.
    files = {key: value for key, value in properties.items() if key not in _NOT_FILE_PROPERTIES}
    meta = CommitMeta(
        message="",
        authors=(author,) if author else (),
        properties=_sorted(
            {key: properties[key] for key in _COMMIT_PROPERTIES if key in properties}
        ),
    )
    return _Connection(name, repository, MetadataFiles(files), location, shown, meta)


def _catalog(connection: _Connection, ref: str | None) -> LochanCatalog:
    catalog = LochanCatalog.__new__(LochanCatalog)
    catalog._start(connection, ref)  # noqa: SLF001 - the constructor opens a repository
    return catalog


def _sorted(
    properties: Mapping[str, str | Iterable[str]],
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return tuple(
        (name, (value,) if isinstance(value, str) else tuple(value))
        for name, value in sorted(properties.items())
    )
