"""Addresses of servers as Spark may carry them, and the token that belongs to one of them.

Spark shows addresses in plans and logs and hands them to every worker, so they hold no secret. The
token comes from the environment of the process that connects. A user of SQL may name any address,
so the environment also holds the address of the token's server: it is sent to no other server.
"""

from __future__ import annotations

import os
from typing import Final

import httpx

from lochan.base.errors import Invalid, InvalidUrl
from lochan.client.transport import base_url

TOKEN_VARIABLE: Final = "LOCHAN_TOKEN"  # noqa: S105 - the name of a variable, not a secret
"""Sent as bearer token, to the server that the other variable names."""

SERVER_VARIABLE: Final = "LOCHAN_TOKEN_URI"
"""The address of the server that the token belongs to."""

_SECRETIVE: Final = "@?#"


def check_address(uri: str) -> str:
    """Returns the address of a server; the error for a bad one never contains the address."""
    if any(mark in uri for mark in _SECRETIVE):
        raise InvalidUrl(
            "the address of a server holds no user, no password, no query and no fragment here, "
            f"because addresses are shown in plans and logs; set {TOKEN_VARIABLE} and "
            f"{SERVER_VARIABLE} where the driver and the workers run"
        )
    base_url(uri, "default")
    return uri


def token_for(uri: str) -> str | None:
    """Returns the token for a server, None if there is none or it belongs to another."""
    token, belongs = os.environ.get(TOKEN_VARIABLE), os.environ.get(SERVER_VARIABLE)
    if not token:
        return None
    if not belongs:
        raise Invalid(
            f"{TOKEN_VARIABLE} is set and {SERVER_VARIABLE} is not, so the token is sent nowhere: "
            f"set {SERVER_VARIABLE} to the address of the server that it belongs to"
        )
    return token if _root(uri) == _root(check_address(belongs)) else None


def headers_for(uri: str) -> dict[str, str]:
    """Returns the headers of every request to a server."""
    return bearer(token_for(uri))


def bearer(token: str | None) -> dict[str, str]:
    """Returns the header that carries a token."""
    return {"authorization": f"Bearer {token}"} if token else {}


def _root(uri: str) -> httpx.URL:
    """Returns an address in the form that is compared: lower case, without the default port."""
    return httpx.URL(base_url(uri, "default") + "/")
