"""Whom a server serves: this machine only, unless it knows its callers and nothing can be read.

| address | authentication and TLS | `insecure_remote` | |
|---|---|---|---|
| loopback | any | any | served |
| other | both | any | served |
| other | not both | on | served, with a warning that names what is missing |
| other | not both | off | refused |

A Unix socket is open to the user that runs the server only, and is not looked at here.
"""

from __future__ import annotations

import logging
from typing import Final

from lochan.base.errors import Invalid
from lochan.settings import Settings
from lochan.transport.addresses import is_loopback

_LOG: Final = logging.getLogger("lochan.serve")

NO_AUTHENTICATION: Final = (
    "without authentication, every machine that reaches this address may read and change everything"
)
NO_TLS: Final = "without TLS, tokens and data can be read and changed on their way"


def check_exposure(settings: Settings, *, authenticates: bool | None) -> str:
    """Refuses what must not be served; returns what is given up, empty for nothing.

    `authenticates` is None before the store is open: then only TLS is checked.
    """
    if is_loopback(settings.host):
        return ""
    missing = []
    if authenticates is False:
        missing.append(NO_AUTHENTICATION)
    if not settings.tls_certificate:
        missing.append(NO_TLS)
    if missing and not settings.insecure_remote:
        raise Invalid(
            f"cannot serve on {settings.host!r}: only this machine is served, because "
            f"{'; '.join(missing)}. {_next_step(settings, authenticates)}"
        )
    return "; ".join(missing)


def warn_exposure(settings: Settings, given_up: str, *, authenticates: bool) -> None:
    """Logs that a server gives something up."""
    if given_up:
        _LOG.warning(
            "insecure remote: %s host=%s authentication=%s tls=%s",
            given_up,
            settings.host,
            "on" if authenticates else "off",
            "on" if settings.tls_certificate else "off",
        )


def _next_step(settings: Settings, authenticates: bool | None) -> str:
    steps = []
    if authenticates is False:
        steps.append("set up the first user with setup_user and setup_token_file, or on 127.0.0.1")
    if not settings.tls_certificate:
        steps.append("set tls_certificate and tls_key")
    return f"Either {' and '.join(steps)}; or accept it with --insecure-remote"
