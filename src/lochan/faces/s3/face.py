"""The routes of the gateway, and which requests of its port are its own."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Final

from lochan.access.signatures import has_signature
from lochan.base.checks import check
from lochan.base.errors import LochanError
from lochan.base.limits.blocks import PART_BYTES_MAX
from lochan.base.limits.s3 import CHUNKED_OVERHEAD, COMPLETE_XML_BYTES_MAX, DELETE_XML_BYTES_MAX
from lochan.faces.s3 import bucket_handlers, listings, multipart_handlers, object_handlers
from lochan.faces.s3.answers import problem, refusal, tagged
from lochan.faces.s3.bucket_handlers import Buckets
from lochan.faces.s3.multipart_handlers import PartCopies
from lochan.faces.s3.object_handlers import Copies
from lochan.faces.s3.operations import OPERATIONS_S3, choose_operation
from lochan.faces.s3.targets import Addressing
from lochan.service.repositories import Repositories
from lochan.transport.exchange import Exchange, LongWork, Request, Response, ResponseHeaders
from lochan.transport.routes import Authentication, Match, Route, StreamHandler
from lochan.wire.s3_problems import code_of_status

# Unsigned requests below it belong to other faces of the same port.
_OTHERS: Final = b"/api"

_BODY_BYTES_MAX: Final = PART_BYTES_MAX * CHUNKED_OVERHEAD

_OF_ALL_REPOSITORIES: Final = ("ListBuckets", "CreateBucket")

PlainHandler = Callable[[Exchange], Response | LongWork]


class S3Face:
    """The gateway; below one of the domains the name of a host is a bucket."""

    def __init__(
        self,
        repositories: Repositories,
        authentication: Authentication | None = None,
        domains: tuple[str, ...] = (),
    ) -> None:
        self.authentication = authentication
        self._addressing = Addressing(domains)
        routes = _routes(repositories)
        self._routes = {each.name: each for each in routes}
        known = {each.id for each in OPERATIONS_S3}
        check(known == self._routes.keys(), "every operation has a handler")

    def owns(self, request: Request) -> bool:
        """Returns whether a request belongs to the gateway.

        What is signed as AWS does it does, and what is addressed by the name of a host; of the rest
        everything that is not below `/api`.
        """
        if has_signature(request.query.raw, request.headers.get("authorization")):
            return True
        path = request.path
        if path != _OTHERS and not path.startswith(_OTHERS + b"/"):
            return True
        return bool(self._addressing.find_bucket(request))

    def match(self, request: Request) -> Match | Response:
        """Finds the operation of a request, or refuses it."""
        target = self._addressing.locate(request)
        route = self._routes[choose_operation(request, target)]
        params = {"bucket": target.bucket, "key": target.key}
        if route.name in _OF_ALL_REPOSITORIES:
            return Match(route, params)
        return Match(route, params, target.bucket)

    def problem(self, request: Request, error: LochanError) -> Response:
        """Returns the answer to an error."""
        return problem(request, error)

    def refuse(
        self, request: Request, status: int, message: str, headers: ResponseHeaders = ()
    ) -> Response:
        """Returns the refusal of a request that breaks a rule of HTTP."""
        return refusal(request, status, code_of_status(status), message, headers)


def _routes(repositories: Repositories) -> list[Route]:
    buckets, copies = Buckets(repositories), Copies(repositories)
    parts = PartCopies(copies)
    objects, uploads = object_handlers, multipart_handlers
    return [
        _plain("ListBuckets", buckets.list_buckets, brief=False),
        _plain("CreateBucket", buckets.create_bucket, brief=False),
        _plain("HeadBucket", bucket_handlers.head_bucket),
        _plain("GetBucketLocation", bucket_handlers.get_location),
        _plain("GetBucketVersioning", bucket_handlers.get_versioning),
        _plain("ListObjects", listings.list_objects, brief=listings.passes_few_files),
        _plain("ListObjectsV2", listings.list_objects_v2, brief=listings.passes_few_files),
        _plain("ListMultipartUploads", uploads.list_uploads),
        _stream("GetObject", objects.get_object),
        _plain("HeadObject", objects.head_object),
        _plain("GetObjectTagging", objects.get_tagging),
        _stream("PutObject", objects.put_object, _BODY_BYTES_MAX),
        _stream("CopyObject", copies.copy_object),
        _plain("DeleteObject", objects.delete_object),
        _plain("DeleteObjects", objects.delete_objects, brief=False),
        _plain("CreateMultipartUpload", uploads.create_upload, brief=False),
        _stream("UploadPart", uploads.upload_part, _BODY_BYTES_MAX),
        _stream("UploadPartCopy", parts.upload_part_copy),
        _plain("ListParts", uploads.list_parts, brief=False),
        _stream("CompleteMultipartUpload", uploads.complete_upload, COMPLETE_XML_BYTES_MAX),
        _plain("AbortMultipartUpload", uploads.abort_upload, brief=False),
    ]


def _plain(
    name: str, handler: PlainHandler, *, brief: bool | Callable[[Exchange], bool] = True
) -> Route:
    @wraps(handler)
    def handle(exchange: Exchange) -> Response | LongWork:
        found = handler(exchange)
        if isinstance(found, LongWork):
            work = found.work
            return LongWork(lambda: tagged(exchange.request, work()))
        return tagged(exchange.request, found)

    return Route(name, handle, brief, body_bytes_max=DELETE_XML_BYTES_MAX)


def _stream(name: str, handler: StreamHandler, body_bytes_max: int = 0) -> Route:
    @wraps(handler)
    async def handle(exchange: Exchange) -> Response:
        return tagged(exchange.request, await handler(exchange))

    return Route(name, handle, streams=True, body_bytes_max=body_bytes_max)
