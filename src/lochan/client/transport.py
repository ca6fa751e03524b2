"""What both clients do over HTTP, without a socket: addresses, headers, attempts, replies.

`HttpCore.steps` runs the flow of a request as a series of steps. A step is an `httpx.Request` to be
sent or a pause in seconds; the blocking and the asynchronous client only do the steps.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from functools import partial
from typing import Any, Final, Generic, TypeVar
from urllib.parse import quote, urlencode

import httpx

from lochan.base.errors import Invalid, Unauthenticated
from lochan.base.limits.client import CLIENT_CONNECTIONS_MAX
from lochan.client.addresses import base_url, is_encrypted, is_loopback, server_of
from lochan.client.connections import Connections, Http
from lochan.client.credentials import ServerCredentials, explain_refusal
from lochan.client.flows import (
    access,
    changes,
    contents,
    files,
    namespaces,
    references,
    settings,
    stores,
)
from lochan.client.messages import Flow, HttpReply, HttpRequest
from lochan.client.retry import Attempts
from lochan.client.upload_sources import AsyncSource, UploadSource
from lochan.model import requests
from lochan.model.requests import RepositoryRequest
from lochan.wire.problems import ERROR_CODES

_Result = TypeVar("_Result")

Step = httpx.Request | float
"""An HTTP request to be sent, or a pause in seconds."""

Steps = Generator[Step, Any, _Result]
"""Yields steps, is sent the response or the error of each request, returns the result."""

# By these a server knows that the client reads error details and the newer form of keys and, by the
# last one, also the fields of references that Nessie does not have.
_HEADERS: Final = {
    "accept": "application/json",
    "nessie-client-spec": "2.2.0",
    "lochan-client": "1",
}

# A client that many threads or tasks share opens a connection for each of them, and keeps it.
_CONNECTIONS: Final = httpx.Limits(
    max_connections=CLIENT_CONNECTIONS_MAX, max_keepalive_connections=CLIENT_CONNECTIONS_MAX
)

_AUTHORIZATION: Final = "authorization"
_REFUSED: Final = ERROR_CODES[Unauthenticated][1].encode("ascii")
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
_HEADER_VALUE: Final = re.compile(r"[\x20-\x7e\t]*\Z")

# Marks a request whose response is left open, for its caller to read.
_STREAMS: Final = "lochan.streams"

# Nothing was sent yet when these are raised.
_NOT_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


FLOWS: Final[Mapping[type[RepositoryRequest[Any]], Callable[[Any], Flow[Any]]]] = {
    requests.RepositoryInfoRequest: settings.info,
    requests.GetReferenceRequest: references.get,
    requests.ListReferencesRequest: references.list_page,
    requests.NewReference: references.create,
    requests.NewReferencesRequest: references.create_many,
    requests.AssignReferenceRequest: references.assign,
    requests.DeleteReferenceRequest: references.delete,
    requests.ReferenceLogRequest: references.log,
    requests.RecentChangesRequest: references.recent_changes,
    requests.ListEntriesRequest: contents.entries,
    requests.GetContentRequest: contents.get,
    requests.GetContentsRequest: contents.get_many,
    requests.FindJobsRequest: contents.find_jobs,
    requests.ListJobsRequest: contents.list_jobs,
    requests.LogRequest: contents.log,
    requests.DiffRequest: contents.diff,
    requests.CommitRequest: changes.commit,
    requests.MergeRequest: changes.merge,
    requests.TransplantRequest: changes.transplant,
    requests.CherryPickRequest: changes.cherry_pick,
    requests.RevertRequest: changes.revert,
    requests.RebaseRequest: changes.rebase,
    requests.FastForwardRequest: changes.fast_forward,
    requests.ForceRequest: changes.force,
    requests.GetNamespaceRequest: namespaces.get,
    requests.ListNamespacesRequest: namespaces.list_all,
    requests.CreateNamespaceRequest: namespaces.create,
    requests.DeleteNamespaceRequest: namespaces.delete,
    requests.UpdateNamespaceRequest: namespaces.update,
    requests.GetSettingsRequest: settings.get,
    requests.UpdateSettingsRequest: settings.update,
    **files.FLOWS,
    **access.FLOWS,
    **stores.FLOWS,
}
"""Which flow carries which request; a test holds the table to the results' types."""


class HttpCore(Generic[Http]):
    """One repository on one server: its address, its headers and the connections to it."""

    def __init__(
        self,
        build: Callable[..., Http],
        url: str,
        repository: str,
        timeout_s: float,
        attempts_max: int,
        headers: Mapping[str, str] | None,
        find: Callable[..., ServerCredentials | None],
        transport: httpx.BaseTransport | httpx.AsyncBaseTransport | None,
    ) -> None:
        self.url = base_url(url, repository)
        self._server_url = server_of(url).removesuffix("/")
        self._attempts_max = attempts_max
        # Sent with every request; httpx adds its own only to requests that it has built itself.
        self.headers = checked_headers(headers or {})
        # None if there are none; `find` is `find_credentials` with the arguments of the caller.
        self.credentials = find(url, header=self.headers.pop(_AUTHORIZATION, None))
        open_pool = partial(
            build,
            timeout=timeout_s,
            transport=transport,
            limits=_CONNECTIONS,
            # A redirect could lead to another server, which must not get the credentials.
            follow_redirects=False,
            verify=trusted_certificates(self.url),
            trust_env=not is_loopback(self.url),
        )
        self.connections: Connections[Http] = Connections(open_pool, again=transport is None)

    def steps(self, flow: Flow[_Result]) -> Steps[_Result]:
        """Yields the steps of the flow of a request and returns its result."""
        try:
            http_request = next(flow)
            while True:
                reply = yield from self._attempts(http_request)
                http_request = self._continue(flow, reply)
        except StopIteration as end:
            result: _Result = end.value
            return result
        except UnicodeEncodeError as error:
            raise Invalid(f"a text of the request is not valid Unicode: {error.reason}") from None
        except httpx.InvalidURL as error:
            raise Invalid(f"the request does not fit into an address: {error}") from None

    def _continue(self, flow: Flow[Any], reply: HttpReply) -> HttpRequest:
        """Returns the next HTTP request of a flow; StopIteration has its result."""
        try:
            return flow.send(reply)
        except Unauthenticated as error:
            explained = explain_refusal(self.url, self.credentials)
            # The text of our own server is the same for every refusal; that of a proxy may help.
            text = "" if _REFUSED in reply.body else f" ({error.message})"
            raise Unauthenticated(explained + text) from None

    def _attempts(self, request: HttpRequest) -> Steps[HttpReply]:
        """Sends an HTTP request until its reply is final."""
        attempts = Attempts(request, self._attempts_max)
        # Read before the first attempt: a failure to read them later would hide that the request
        # may have taken effect.
        authorization = None if self.credentials is None else self.credentials.authorization()
        while True:
            to_send = self._to_send(request, authorization)
            response: httpx.Response | httpx.RequestError = yield to_send
            if isinstance(response, httpx.RequestError):
                reason, reached = failure(response)
                if not may_repeat(request):
                    attempts.end()
                yield attempts.after_failure(reason, reached=reached)
                continue
            self.connections.note(response)
            reply = _reply_of(response)
            if not may_repeat(request):
                attempts.end()
            pause_s = attempts.after_reply(reply)
            if pause_s is None:
                return reply
            yield pause_s

    def _to_send(self, request: HttpRequest, authorization: str | None) -> httpx.Request:
        url = (self._server_url if request.of_server else self.url) + request.path
        if request.query:
            url += "?" + urlencode(request.query, quote_via=quote)
        headers = {**self.headers, **_HEADERS}
        if request.body is not None:
            headers["content-type"] = "application/json"
        if request.key is not None:
            headers["idempotency-key"] = request.key
        if authorization is not None:
            headers[_AUTHORIZATION] = authorization
        headers.update(request.headers)
        if request.streams:
            # Bytes of a file are sent as they are: packing them would hide their length.
            headers["accept-encoding"] = "identity"
        extensions: dict[str, Any] = {_STREAMS: True} if request.streams else {}
        if request.silence_s is not None:
            extensions["timeout"] = httpx.Timeout(request.silence_s).as_dict()
        if request.upload is None:
            return httpx.Request(
                request.method, url, headers=headers, content=request.body, extensions=extensions
            )
        size = request.upload.size
        headers |= (
            {"transfer-encoding": "chunked"} if size is None else {"content-length": f"{size}"}
        )
        # With a stream of its own, httpx adds no header to a request.
        headers["host"] = httpx.URL(url).netloc.decode("ascii")
        body = UploadBody(request.upload)
        return httpx.Request(
            request.method, url, headers=headers, stream=body, extensions=extensions
        )


class UploadBody(httpx.SyncByteStream, httpx.AsyncByteStream):
    """The body of an upload, for both clients; the asynchronous one reads files in a thread."""

    def __init__(self, source: UploadSource) -> None:
        self._source = source

    def __iter__(self) -> Iterator[bytes]:
        return self._source.open()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if isinstance(self._source, AsyncSource):
            async for piece in self._source.open_async():
                yield piece
            return
        pieces = self._source.open()
        while piece := await asyncio.to_thread(next, pieces, b""):
            yield piece


def is_left_open(request: httpx.Request, response: httpx.Response) -> bool:
    """Returns whether the body of a response is for the caller to read."""
    return _STREAMS in request.extensions and response.is_success


def streams(request: httpx.Request) -> bool:
    """Returns whether the body of the response is read in pieces."""
    return _STREAMS in request.extensions


def may_repeat(request: HttpRequest) -> bool:
    """Returns whether the body of a request can be sent again."""
    return request.upload is None or request.upload.may_be_sent_again()


def _reply_of(response: httpx.Response) -> HttpReply:
    if is_left_open(response.request, response):
        return HttpReply(response.status_code, b"", response.headers, response)
    return HttpReply(response.status_code, response.content, response.headers)


def checked_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Returns headers with names in lower case; Invalid, without the value, if one has no form."""
    for name, value in headers.items():
        if not (_HEADER_NAME.match(name) and _HEADER_VALUE.match(value)):
            raise Invalid(
                f"the header {name!r} cannot be sent: its name is one word of ASCII, and its value "
                "has printable characters of ASCII only"
            )
    return {name.lower(): value for name, value in headers.items()}


def trusted_certificates(url: str) -> ssl.SSLContext | bool:
    """Returns whose certificates are trusted: SSL_CERT_FILE and SSL_CERT_DIR, on this machine too.

    They do not depend on `trust_env`, which is off where proxies are not used.
    """
    if not is_encrypted(url):
        return True
    try:
        return httpx.create_ssl_context()
    except OSError as error:
        reason = error.reason if isinstance(error, ssl.SSLError) else error.strerror
        raise Invalid(
            "the certificates that SSL_CERT_FILE or SSL_CERT_DIR names cannot be read: "
            f"{reason or 'they are not PEM'}"
        ) from None


def failure(error: httpx.RequestError) -> tuple[str, bool]:
    """Returns why there is no reply, and whether the server may have read the request."""
    reached = not isinstance(error, _NOT_SENT)
    place = f"{error.request.url.scheme}://{error.request.url.netloc.decode('ascii')}"
    if isinstance(error, httpx.TimeoutException):
        return f"{place} did not answer in time", reached
    if not reached:
        return f"no connection to {place}: {error}", reached
    return f"the connection to {place} broke: {str(error) or type(error).__name__}", reached
