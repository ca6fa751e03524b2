"""From asks to HTTP requests and from HTTP responses to replies, for both clients."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, urlencode

import httpx

from lochan.base.errors import InvalidUrl
from lochan.base.limits import CLIENT_CONNECTIONS_MAX
from lochan.client.asking import Ask, Reply

_API: Final = re.compile(r"/api/v[12]/?\Z")
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")

# What tells a server that error details and the newer form of keys are understood, and, by the
# last one, also what references have beyond Nessie's.
_HEADERS: Final = {
    "accept": "application/json",
    "nessie-client-spec": "2.2.0",
    "lochan-client": "1",
}

# Who shares a client among many threads or tasks has a connection for each, and keeps them.
CONNECTIONS: Final = httpx.Limits(
    max_connections=CLIENT_CONNECTIONS_MAX, max_keepalive_connections=CLIENT_CONNECTIONS_MAX
)

# What is wrong with an address is said without it, because it may hold a password.
_NO_ADDRESS: Final = "not the address of a server; write http://host:port"

# Nothing was sent yet when these are raised.
_NOT_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


def base_url(url: str, repository: str) -> str:
    """Returns where a repository lives on a server, without a slash at its end."""
    try:
        parts = httpx.URL(url)
    except httpx.InvalidURL:
        raise InvalidUrl(_NO_ADDRESS) from None
    if parts.scheme not in ("http", "https") or not parts.host:
        raise InvalidUrl(_NO_ADDRESS)
    if parts.query or parts.fragment:
        raise InvalidUrl("the address of a server has no query and no fragment")
    root = _API.sub("", url).rstrip("/")
    return root if repository == "default" else f"{root}/r/{quote(repository, safe='')}"


def is_loopback(url: str) -> bool:
    """Tells whether an address is on this machine, where no proxy may stand between."""
    return httpx.URL(url).host in _LOOPBACK


def http_request(base: str, ask: Ask, more: Mapping[str, str]) -> httpx.Request:
    """Returns the request that carries an ask; `more` are the caller's own headers."""
    url = base + ask.path
    if ask.query:
        url += "?" + urlencode(ask.query, quote_via=quote)
    headers = {**more, **_HEADERS}
    if ask.body is not None:
        headers["content-type"] = "application/json"
    if ask.key is not None:
        headers["idempotency-key"] = ask.key
    return httpx.Request(ask.method, url, headers=headers, content=ask.body)


def read_reply(response: httpx.Response) -> Reply:
    """Returns what came back."""
    return Reply(response.status_code, response.content, response.headers)


def failure(error: httpx.RequestError) -> tuple[str, bool]:
    """Returns what happened in words, and whether the server may have heard the request."""
    reached = not isinstance(error, _NOT_SENT)
    place = f"{error.request.url.scheme}://{error.request.url.netloc.decode('ascii')}"
    if isinstance(error, httpx.TimeoutException):
        return f"{place} did not answer in time", reached
    if not reached:
        return f"no connection to {place}: {error}", reached
    return f"the connection to {place} broke: {str(error) or type(error).__name__}", reached
