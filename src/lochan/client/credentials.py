"""Which credentials a client sends to a server; the one place where that is decided.

The first of these that there is:

1. what the caller passes: a token, a function that returns one, an access key, or the name of a
   profile;
2. the environment: `LOCHAN_TOKEN`, or `LOCHAN_TOKEN_FILE` with the path of a file that holds the
   token, if `LOCHAN_TOKEN_URI` names this server;
3. the profile that `LOCHAN_PROFILE` names, or else the profile of this server (`profiles.py`).

Credentials go to their own server only. A user of SQL may name any address, so those of the
environment and of profiles carry the address of the server that they belong to. Without encryption
they go to this machine only, unless that is allowed. They are in no message and in no `repr`.
"""

from __future__ import annotations

import os
import re
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from lochan.base.errors import Invalid, Unauthenticated
from lochan.base.limits.client import TOKEN_BYTES_MAX
from lochan.client.addresses import is_encrypted, is_loopback, server_of
from lochan.client.profiles import (
    DEFAULT_PROFILE,
    FILE_VARIABLE,
    PROFILE_VARIABLE,
    Profile,
    ProfileFile,
)
from lochan.client.secret_files import SecretFile

TOKEN_VARIABLE: Final = "LOCHAN_TOKEN"  # noqa: S105 - the name of a variable, not a secret
"""Sent as bearer token, to the server that `SERVER_VARIABLE` names."""

TOKEN_FILE_VARIABLE: Final = "LOCHAN_TOKEN_FILE"  # noqa: S105
"""The path of a file with the token; it is read again when it has changed."""

SERVER_VARIABLE: Final = "LOCHAN_TOKEN_URI"
"""The address of the server that the token belongs to."""

INSECURE_VARIABLE: Final = "LOCHAN_TOKEN_INSECURE"
"""`true` allows to send the token of the environment without encryption."""

VARIABLES: Final = (
    TOKEN_VARIABLE,
    TOKEN_FILE_VARIABLE,
    SERVER_VARIABLE,
    INSECURE_VARIABLE,
    PROFILE_VARIABLE,
    FILE_VARIABLE,
)
"""The variables that decide on credentials."""

Token = str | Callable[[], str]
"""A token, or a function that returns the present one and is called for each request."""

_TEXT: Final = re.compile(r"[\x21-\x7e]+\Z")


class ServerCredentials:
    """The value of the header `Authorization` for each request to one server."""

    def __init__(self, source: str, read: Callable[[], str], *, insecure: bool = False) -> None:
        self.source: Final = source
        self.insecure: Final = insecure
        self._read: Final = read

    def authorization(self) -> str:
        """Returns the value of the header for the next request."""
        return self._read()

    def __repr__(self) -> str:
        return f"<ServerCredentials: {self.source}>"


def find_credentials(
    url: str,
    *,
    token: Token | None = None,
    access_key: tuple[str, str] | None = None,
    profile: str | None = None,
    header: str | None = None,
    insecure: bool = False,
) -> ServerCredentials | None:
    """Returns the credentials for a server, None if there are none; the order is above.

    `header` is the value of a header `Authorization` that the caller has passed.
    """
    if sum(each is not None for each in (token, access_key, profile, header)) > 1:
        raise Invalid(
            "give one of token, access_key, profile and a header Authorization, not several of them"
        )
    if header is not None:
        found: ServerCredentials | None = ServerCredentials(
            "the header that was passed", _fixed(header)
        )
    elif token is not None:
        found = ServerCredentials("the token that was passed", _reader(token))
    elif access_key is not None:
        found = ServerCredentials("the access key that was passed", _fixed(basic(*access_key)))
    elif profile is not None:
        found = _of_named_profile(url, profile)
    else:
        found = _of_environment(url) or _of_server(url)
    if found is not None:
        _check_encryption(url, allowed=insecure or found.insecure)
    return found


def _check_encryption(url: str, *, allowed: bool) -> None:
    """Raises Invalid if credentials for an address could be read on the way to it."""
    if not (allowed or is_encrypted(url) or is_loopback(url)):
        raise Invalid(
            "credentials are not sent over plain http to another machine, because everyone on the "
            "way can read them; use an address with https://, or allow it with insecure=True, "
            f"{INSECURE_VARIABLE}=true or `lochan login --insecure`"
        )


def explain_refusal(url: str, credentials: ServerCredentials | None) -> str:
    """Returns which credentials a server has refused, and how to get others."""
    server = server_of(url).rstrip("/")
    if credentials is not None:
        return f"{server} did not accept {credentials.source}; `lochan login {server}` renews it"
    return (
        f"no credentials were sent to {server}: log in with `lochan login {server}`, pass token=…, "
        f"or set {TOKEN_VARIABLE} or {TOKEN_FILE_VARIABLE}, and {SERVER_VARIABLE}"
    )


def environment_values() -> tuple[str | None, ...]:
    """Returns the variables that decide on credentials, so that a cache of clients notices.

    A client finds its credentials when it is made, and reads files again when they change.
    """
    return tuple(os.environ.get(name) for name in VARIABLES)


def bearer(token: str) -> str:
    """Returns the header of a token; Invalid, without the token, if it cannot be one."""
    if not isinstance(token, str):
        raise Invalid(f"a token is a text, not a value of type {type(token).__name__}")
    if not _TEXT.match(token):
        raise Invalid("a token has letters, digits and marks of ASCII only, and is not empty")
    if len(token) > TOKEN_BYTES_MAX:
        raise Invalid(f"a token has up to {TOKEN_BYTES_MAX:,} characters")
    return f"Bearer {token}"


def basic(key_id: str, secret: str) -> str:
    """Returns the header of an access key; Invalid, without its secret, if it cannot be one."""
    if not (_TEXT.match(key_id) and _TEXT.match(secret)) or ":" in key_id:
        raise Invalid("an access key has an id and a secret of ASCII letters, digits and marks")
    return f"Basic {b64encode(f'{key_id}:{secret}'.encode('ascii')).decode('ascii')}"


def parse_token_file(path: Path, content: bytes) -> str:
    """Returns the token that a file holds, with or without an end of line."""
    try:
        token = content.decode("ascii").strip()
        bearer(token)
    except (UnicodeDecodeError, Invalid):
        raise Invalid(f"{path} does not hold a token; it holds one and nothing else") from None
    return token


def _reader(token: Token) -> Callable[[], str]:
    if callable(token):
        return lambda: bearer(token())
    return _fixed(bearer(token))


def _fixed(header: str) -> Callable[[], str]:
    return lambda: header


def _of_environment(url: str) -> ServerCredentials | None:
    token, path = os.environ.get(TOKEN_VARIABLE), os.environ.get(TOKEN_FILE_VARIABLE)
    if not token and not path:
        return None
    if token and path:
        raise Invalid(f"{TOKEN_VARIABLE} and {TOKEN_FILE_VARIABLE} are both set; set one of them")
    name = TOKEN_VARIABLE if token else TOKEN_FILE_VARIABLE
    server = os.environ.get(SERVER_VARIABLE)
    if not server:
        raise Invalid(
            f"{name} is set and {SERVER_VARIABLE} is not, so the token is sent nowhere: "
            f"set {SERVER_VARIABLE} to the address of the server that it belongs to"
        )
    if server_of(url) != server_of(server):
        return None
    insecure = os.environ.get(INSECURE_VARIABLE, "").lower() == "true"
    source = f"the token of {name}"
    if token:
        return ServerCredentials(source, _reader(token.strip()), insecure=insecure)
    return ServerCredentials(source, _file_reader(Path(path or "")), insecure=insecure)


def _file_reader(path: Path) -> Callable[[], str]:
    # Secrets that a cluster mounts are often readable by a group, so that is not refused here.
    file = SecretFile(
        path, TOKEN_BYTES_MAX, lambda content: parse_token_file(path, content), private=False
    )

    def read() -> str:
        try:
            return bearer(file.read())
        except OSError as error:
            raise Invalid(
                f"{path}, which {TOKEN_FILE_VARIABLE} names, cannot be read: {error.strerror}"
            ) from None

    return read


def _of_named_profile(url: str, name: str) -> ServerCredentials:
    file = ProfileFile()
    found = file.get(name)
    if server_of(found.url) != server_of(url):
        raise Invalid(f"the profile {name!r} belongs to {found.url}, which is another server")
    return _of_profile(url, file, name, insecure=found.insecure)


def _of_server(url: str) -> ServerCredentials | None:
    """Returns the credentials of the profile for a server."""
    file = ProfileFile()
    server = server_of(url)
    named = os.environ.get(PROFILE_VARIABLE)
    if named:
        file.get(named)
    found = {name: one for name, one in file.read().items() if server_of(one.url) == server}
    if not found:
        return None
    name = next((each for each in (named, DEFAULT_PROFILE) if each in found), None)
    if name is None:
        name, *others = found
        if others:
            raise Invalid(
                f"the profiles {', '.join(sorted(found))} are for this server; choose one with "
                f"{PROFILE_VARIABLE} or profile=…"
            )
    return _of_profile(url, file, name, insecure=found[name].insecure)


def _of_profile(url: str, file: ProfileFile, name: str, *, insecure: bool) -> ServerCredentials:
    server = server_of(url)

    def read() -> str:
        # `lochan login` may have renewed it since, and `lochan logout` may have removed it.
        found = file.read().get(name)
        if found is None or server_of(found.url) != server:
            raise Unauthenticated(
                f"the profile {name!r} was removed; log in with `lochan login {server.rstrip('/')}`"
            )
        return _header(found, name)

    return ServerCredentials(f"the credentials of the profile {name!r}", read, insecure=insecure)


def _header(profile: Profile, name: str) -> str:
    if profile.access_key_id:
        return basic(profile.access_key_id, profile.access_key_secret)
    if profile.expires_at is not None and profile.expires_at <= datetime.now(UTC):
        raise Unauthenticated(
            f"the login of the profile {name!r} has ended; log in again with "
            f"`lochan login --profile {name}`"
        )
    return bearer(profile.token)
