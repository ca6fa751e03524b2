"""The handlers of buckets: repositories are listed and looked at here, and not made or deleted."""

from __future__ import annotations

from typing import Final

import msgspec

from lochan.access.policy import Call
from lochan.base.errors import Invalid, NotFound, Refusal
from lochan.base.limits.requests import PAGE_ENTRIES_MAX, SCAN_ENTRIES_MAX
from lochan.faces.calls import read_call
from lochan.faces.s3.answers import answer, xml_time
from lochan.faces.s3.listings import read_limit
from lochan.service.repositories import Repositories
from lochan.transport.exchange import Exchange, Response
from lochan.wire.s3_problems import not_implemented
from lochan.wire.s3_xml import Field, Xml, fields, nested

REGION: Final = "us-east-1"
"""What clients get to see; a signature for any region counts."""

_OWNER: Final[list[Field]] = [("ID", "lochan"), ("DisplayName", "lochan")]


class Buckets:
    """The repositories of a server as buckets."""

    def __init__(self, repositories: Repositories) -> None:
        self._repositories = repositories

    def list_buckets(self, exchange: Exchange) -> Response:
        """Lists the repositories that the caller sees."""
        query, call = exchange.request.query, _call(exchange)
        token = query.get("continuation-token") or None
        paged = query.get("max-buckets") is not None
        limit = read_limit(exchange.request, "max-buckets") if paged else PAGE_ENTRIES_MAX
        names: list[str] = []
        while True:
            page = self._repositories.names(call, max(limit, 1), token)
            names += page.items
            token = page.token
            if paged or token is None or len(names) >= SCAN_ENTRIES_MAX:
                break
        prefix = query.get("prefix") or ""
        shown = [self._bucket(name) for name in names if name.startswith(prefix)]
        values: list[Field] = [
            ("Owner", nested(_OWNER)),
            ("Buckets", Xml("".join(shown))),
            ("ContinuationToken", token),
            ("Prefix", prefix or None),
        ]
        return answer("ListAllMyBucketsResult", values)

    def _bucket(self, name: str) -> str:
        made_us = self._repositories.look_into(name).info.created_us
        values: list[Field] = [("Name", name), ("CreationDate", xml_time(made_us))]
        return fields([("Bucket", nested(values))])

    def create_bucket(self, exchange: Exchange) -> Response:
        """Refuses: a repository is made by other faces; one that exists is known to exist."""
        name, call = exchange.params["bucket"], _call(exchange)
        try:
            call = msgspec.structs.replace(call, repository=name)
            self._repositories.open(name).describe(call)
        except (NotFound, Invalid):
            raise not_implemented("Creating a bucket (make a repository instead)") from None
        raise Refusal(
            "The bucket that you tried to create already exists.", 409, "BucketAlreadyOwnedByYou"
        )


def _call(exchange: Exchange) -> Call:
    """Returns the caller of a request that names no repository."""
    caller, request = exchange.caller, exchange.request
    return Call(
        caller.name,
        roles=caller.roles,
        trace=request.id,
        rights=caller.rights,
        credential=caller.credential,
        origin=request.origin,
    )


def head_bucket(exchange: Exchange) -> Response:
    """Returns whether there is a repository."""
    exchange.repository.describe(read_call(exchange))
    return Response(200, b"", ((b"x-amz-bucket-region", REGION.encode()),), b"application/xml")


def get_location(exchange: Exchange) -> Response:
    """Returns where a bucket is: empty is the first region of AWS."""
    exchange.repository.describe(read_call(exchange))
    return answer("LocationConstraint", [])


def get_versioning(exchange: Exchange) -> Response:
    """Returns that a bucket has no versions of S3's kind; commits are its versions."""
    exchange.repository.describe(read_call(exchange))
    return answer("VersioningConfiguration", [])
