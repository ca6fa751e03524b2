"""Addresses of servers: what is one, which server it names, and whether it is on this machine.

Messages about an address do not contain it, because it may hold a password.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Final
from urllib.parse import quote, unquote

import httpx

from lochan.base.errors import Invalid, InvalidUrl
from lochan.base.names import ref_name

_API: Final = re.compile(r"/api/v[12]/?\Z")
_REPOSITORY: Final = re.compile(r"/r/([^/]+)/\Z")
_NO_ADDRESS: Final = "not the address of a server; write http://host:port"


def base_url(url: str, repository: str) -> str:
    """Returns the address of a repository on a server, without a slash at its end."""
    try:
        parts = httpx.URL(url)
    except httpx.InvalidURL:
        raise InvalidUrl(_NO_ADDRESS) from None
    if parts.scheme not in ("http", "https") or not parts.host:
        raise InvalidUrl(_NO_ADDRESS)
    if parts.userinfo:
        raise InvalidUrl(
            "the address of a server holds no user and no password, because addresses are shown in "
            "messages and logs; pass token=… or access_key=…, or log in with `lochan login`"
        )
    if parts.query or parts.fragment:
        raise InvalidUrl("the address of a server has no query and no fragment")
    root = _API.sub("", url).rstrip("/")
    return root if repository == "default" else f"{root}/r/{quote(repository, safe='')}"


def server_of(url: str) -> str:
    """Returns the server of an address in the form that is compared.

    The form is in lower case, without the default port, the path of the API and that of a
    repository, and ends with a slash. Two addresses with other paths are two servers: a proxy may
    lead from them to different programs.
    """
    parts = httpx.URL(base_url(url, "default") + "/")
    path = parts.raw_path.decode("ascii")
    found = _REPOSITORY.search(path)
    if found is not None and _is_repository(unquote(found[1])):
        path = path[: found.start()] + "/"
    return str(parts.copy_with(raw_path=path.encode("ascii")))


def _is_repository(name: str) -> bool:
    """Returns whether a repository may have a name.

    Another name could lead a proxy that decodes it out of the paths of the server.
    """
    try:
        ref_name(name)
    except Invalid:
        return False
    return True


def is_loopback(url: str) -> bool:
    """Returns whether an address is on this machine, where proxies are not used."""
    host = httpx.URL(url).host
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_encrypted(url: str) -> bool:
    """Returns whether what is sent to an address is encrypted."""
    return httpx.URL(url).scheme == "https"
