"""The handlers of repositories: create, list, describe, delete, and their settings."""

from __future__ import annotations

import re
from typing import Final

from lochan.base.errors import Denied, Invalid, NotFound
from lochan.codec.rows import Description
from lochan.faces.calls import read_call, server_call
from lochan.faces.lakefs.answers import NO_CONTENT, answer, refusal
from lochan.faces.lakefs.params import page_of, text_of
from lochan.faces.lakefs.samples import write_samples
from lochan.faces.params import Handlers
from lochan.kv.url import parse_store_url
from lochan.service.protection import tag_of
from lochan.service.repositories import Repositories
from lochan.service.settings import RETENTION
from lochan.transport.exchange import Exchange, Response
from lochan.wire.codec import Reader
from lochan.wire.lakefs import (
    LakefsRepositoryJson,
    MetadataIn,
    MetadataKeysIn,
    ProtectionRule,
    RepositoryIn,
    RetentionRule,
    RetentionRules,
    page_out,
    seconds,
)

_read_repository: Final = Reader(RepositoryIn)
_read_metadata: Final = Reader(MetadataIn)
_read_keys: Final = Reader(MetadataKeysIn)
_read_rules: Final = Reader(list[ProtectionRule])
_read_retention: Final = Reader(RetentionRules)

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{2,62}", re.ASCII)

# Below `/api` is this face itself, and the gateway has repositories at the same place.
_RESERVED: Final = frozenset(("api",))

_SCHEMES: Final = ("local", "s3")


def namespace_of(info: Description) -> str:
    """Returns the storage namespace of a repository; one without has its server's disk."""
    return info.storage or f"local://{info.name}"


def repository_out(info: Description) -> LakefsRepositoryJson:
    """Returns a repository."""
    created = seconds(info.created_us)
    return LakefsRepositoryJson(info.name, created, info.default_branch, namespace_of(info))


class LakefsRepositoryHandlers:
    """The handlers that need all repositories of the server."""

    def __init__(self, repositories: Repositories, default_repository: str) -> None:
        self._repositories = repositories
        self._default = default_repository

    def bound(self) -> Handlers:
        """Returns the handler of each operation."""
        return {
            "lakefs.listRepositories": (self.list_all, False),
            "lakefs.createRepository": (self.create, False),
            "lakefs.deleteRepository": (self.delete, False),
        }

    def list_all(self, exchange: Exchange) -> Response:
        """Lists repositories."""
        page, call = page_of(exchange), server_call(exchange)
        search = text_of(exchange, "search")
        found: list[LakefsRepositoryJson] = []
        after, has_more = page.after, True
        while has_more and len(found) < page.amount:
            names = self._repositories.names(
                call, page.amount - len(found), prefix=page.prefix, after=after
            )
            has_more = names.token is not None
            after = names.items[-1] if names.items else after
            wanted = [name for name in names.items if search in name]
            found += [repository_out(self._repositories.look_into(name).info) for name in wanted]
        return answer(page_out(found, after, has_more=has_more))

    def create(self, exchange: Exchange) -> Response:
        """Creates a repository."""
        body: RepositoryIn = _read_repository(exchange.request.body)
        if not _NAME.fullmatch(body.name) or body.name in _RESERVED:
            raise Invalid(f"invalid repository name: {body.name[:80]!r}: invalid value")
        if body.storage_id:
            raise Invalid(f"storage id {body.storage_id[:80]!r}: invalid value")
        if body.read_only:
            return refusal(501, "read-only repositories are not implemented")
        _check_namespace(body.storage_namespace)
        call = server_call(exchange)
        made = self._repositories.create(
            call, body.name, body.default_branch or "main", body.storage_namespace
        )
        if body.sample_data:
            write_samples(made, call)
        return answer(repository_out(made.info), 201)

    def delete(self, exchange: Exchange) -> Response:
        """Deletes a repository."""
        name = exchange.params["repository"]
        if name == self._default:
            raise Denied("the default repository of this server cannot be deleted")
        self._repositories.delete(read_call(exchange), name)
        return NO_CONTENT


def _check_namespace(namespace: str) -> None:
    if parse_store_url(namespace).scheme not in _SCHEMES or "://" not in namespace:
        raise Invalid(
            f"storage namespace {namespace[:80]!r}: invalid value; it begins with local:// or s3://"
        )


def describe(exchange: Exchange) -> Response:
    """Returns a repository."""
    return answer(repository_out(exchange.repository.describe(read_call(exchange))))


def get_metadata(exchange: Exchange) -> Response:
    """Returns the names and values of a repository."""
    return answer(exchange.repository.metadata.get(read_call(exchange)))


def set_metadata(exchange: Exchange) -> Response:
    """Adds names and values."""
    body: MetadataIn = _read_metadata(exchange.request.body)
    exchange.repository.metadata.update(read_call(exchange), body.metadata)
    return answer({}, 201)


def delete_metadata(exchange: Exchange) -> Response:
    """Removes names."""
    body: MetadataKeysIn = _read_keys(exchange.request.body)
    exchange.repository.metadata.update(read_call(exchange), {}, body.keys)
    return NO_CONTENT


def get_protection(exchange: Exchange) -> Response:
    """Returns the patterns of protected branches."""
    patterns = exchange.repository.protection.get(read_call(exchange))
    tag = ((b"etag", tag_of(patterns).encode("ascii")),)
    return answer([ProtectionRule(pattern) for pattern in patterns], 200, tag)


def set_protection(exchange: Exchange) -> Response:
    """Replaces the patterns of protected branches."""
    body: list[ProtectionRule] = _read_rules(exchange.request.body)
    expected = exchange.request.headers.get("if-match")
    patterns = list(dict.fromkeys(rule.pattern for rule in body))
    tag = None if expected is None else expected.strip('"')
    exchange.repository.protection.replace(read_call(exchange), patterns, tag)
    return NO_CONTENT


def get_retention(exchange: Exchange) -> Response:
    """Returns how long what was removed is kept."""
    found = exchange.repository.settings.get(read_call(exchange), [RETENTION])
    if not found:
        raise NotFound("garbage collection rules: not found")
    branches = [RetentionRule(one["branch"], one["days"]) for one in found[0].get("branches", ())]
    return answer(RetentionRules(found[0]["defaultDays"], branches))


def set_retention(exchange: Exchange) -> Response:
    """Replaces how long what was removed is kept."""
    body: RetentionRules = _read_retention(exchange.request.body)
    branches = [{"branch": one.branch_id, "days": one.retention_days} for one in body.branches]
    rules = {
        "type": RETENTION,
        "defaultDays": body.default_retention_days,
        "branches": branches,
    }
    exchange.repository.settings.change(read_call(exchange), RETENTION, lambda _: rules)
    return NO_CONTENT


def delete_retention(exchange: Exchange) -> Response:
    """Removes these rules."""
    exchange.repository.settings.remove(read_call(exchange), RETENTION)
    return NO_CONTENT


HANDLERS: Final[Handlers] = {
    "lakefs.getRepository": (describe, True),
    "lakefs.getRepositoryMetadata": (get_metadata, True),
    "lakefs.setRepositoryMetadata": (set_metadata, True),
    "lakefs.deleteRepositoryMetadata": (delete_metadata, True),
    "lakefs.getGCRules": (get_retention, True),
    "lakefs.setGCRules": (set_retention, True),
    "lakefs.deleteGCRules": (delete_retention, True),
    "lakefs.getBranchProtectionRules": (get_protection, True),
    "lakefs.setBranchProtectionRules": (set_protection, True),
}
"""The operations of this module: their handlers, and whether they are brief."""
