"""The server and its repositories on the wire: configuration, settings, stored objects."""

from __future__ import annotations

from typing import Any

import msgspec

from lochan.wire.codec import Instant, PageJson


class ConfigV2(msgspec.Struct, frozen=True, rename="camel"):
    """What a client must know about the server."""

    default_branch: str
    min_supported_api_version: int
    max_supported_api_version: int
    actual_api_version: int
    spec_version: str
    no_ancestor_hash: str
    repository_creation_timestamp: Instant
    oldest_possible_commit_timestamp: Instant


class ConfigV1(msgspec.Struct, frozen=True, rename="camel"):
    """What a client must know about the server, version 1."""

    default_branch: str
    max_supported_api_version: int


class RepositoryConfigs(msgspec.Struct, frozen=True):
    """Settings kept in the repository, each with its `type`."""

    configs: list[dict[str, Any]]


class RepositoryConfigUpdate(msgspec.Struct, frozen=True):
    """A setting to keep in the repository."""

    config: dict[str, Any]


class RepositoryConfigPrevious(msgspec.Struct, frozen=True):
    """The previous value of the setting."""

    previous: dict[str, Any] | None


class RepositoryJson(msgspec.Struct, frozen=True, rename="camel"):
    """A repository."""

    name: str
    default_branch: str
    created: Instant


class NewRepository(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A repository to create."""

    name: str
    default_branch: str = "main"


class RepositoryList(PageJson, frozen=True, rename="camel"):
    """A page of repositories' names."""

    repositories: list[str]


class ObjectIds(msgspec.Struct, frozen=True):
    """The ids of objects to be read, in hex."""

    ids: tuple[str, ...]


class ObjectJson(msgspec.Struct, frozen=True, gc=False):
    """An object: its id in hex, and its stored form in Base64."""

    id: str
    data: bytes


class ObjectsJson(msgspec.Struct, frozen=True):
    """Objects that were found, or that are to be stored."""

    objects: tuple[ObjectJson, ...]


class ObjectsStored(msgspec.Struct, frozen=True):
    """How many objects were stored."""

    stored: int
