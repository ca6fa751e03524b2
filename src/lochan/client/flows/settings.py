"""The flows of what a repository states about itself, and of the settings that it keeps."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from lochan.client.failures import exchange
from lochan.client.messages import Flow, HttpRequest, new_idempotency_key
from lochan.model.requests import (
    GetSettingsRequest,
    RepositoryInfoRequest,
    UpdateSettingsRequest,
)
from lochan.model.results import RepositoryInfo
from lochan.wire.codec import Instant, encode, micros
from lochan.wire.config import (
    RepositoryConfigPrevious,
    RepositoryConfigs,
    RepositoryConfigUpdate,
)

_CONFIG: Final = "/api/v2/config"


class ConfigReply(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """What the server states about the repository; older ones state less."""

    default_branch: str
    spec_version: str = ""
    no_ancestor_hash: str = ""
    repository_creation_timestamp: Instant | None = None


def info(_: RepositoryInfoRequest) -> Flow[RepositoryInfo]:
    """Fetches what the repository states about itself."""
    reply = yield from exchange(HttpRequest("GET", _CONFIG), ConfigReply)
    created = reply.repository_creation_timestamp
    return RepositoryInfo(
        default_branch=reply.default_branch,
        created_us=None if created is None else micros(created),
        empty_hash=reply.no_ancestor_hash,
        spec_version=reply.spec_version,
    )


def get(request: GetSettingsRequest) -> Flow[list[dict[str, Any]]]:
    """Fetches settings."""
    query = tuple(("type", each) for each in request.types)
    reply = yield from exchange(
        HttpRequest("GET", f"{_CONFIG}/repository", query), RepositoryConfigs
    )
    return reply.configs


def update(request: UpdateSettingsRequest) -> Flow[dict[str, Any] | None]:
    """Replaces settings."""
    body = encode(RepositoryConfigUpdate(dict(request.config)))
    http = HttpRequest("POST", f"{_CONFIG}/repository", (), body, new_idempotency_key())
    return (yield from exchange(http, RepositoryConfigPrevious)).previous
