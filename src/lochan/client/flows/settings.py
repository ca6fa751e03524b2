"""The flows of what a repository states about itself, and of the settings that it keeps."""

from __future__ import annotations

from typing import Any, Final

from lochan.client.failures import exchange
from lochan.client.flows.queries import new_idempotency_key
from lochan.client.messages import Flow, HttpRequest
from lochan.client.replies import ConfigReply, PreviousReply, SettingsReply
from lochan.model.requests import (
    GetSettingsRequest,
    RepositoryInfoRequest,
    UpdateSettingsRequest,
)
from lochan.model.results import RepositoryInfo
from lochan.wire.codec import encode, micros
from lochan.wire.config import RepositoryConfigUpdate

_CONFIG: Final = "/api/v2/config"


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
    reply = yield from exchange(HttpRequest("GET", f"{_CONFIG}/repository", query), SettingsReply)
    return reply.configs


def update(request: UpdateSettingsRequest) -> Flow[dict[str, Any] | None]:
    """Replaces settings."""
    body = encode(RepositoryConfigUpdate(dict(request.config)))
    http = HttpRequest("POST", f"{_CONFIG}/repository", (), body, new_idempotency_key())
    return (yield from exchange(http, PreviousReply)).previous
