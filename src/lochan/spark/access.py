"""Addresses of servers as Spark may carry them: without secrets.

Spark shows addresses in plans and logs and hands them to every worker. The credentials come from
the environment, a file or a profile of the process that connects, driver or worker
(`client/credentials.py`): a plan carries the address, and every worker finds the token for it.
"""

from __future__ import annotations

from typing import Final

from lochan.base.errors import InvalidUrl
from lochan.client.addresses import base_url
from lochan.client.credentials import SERVER_VARIABLE, TOKEN_FILE_VARIABLE, TOKEN_VARIABLE

_SECRETIVE: Final = "@?#"


def check_address(uri: str) -> str:
    """Returns the address of a server; the error for a bad one never contains the address."""
    if any(mark in uri for mark in _SECRETIVE):
        raise InvalidUrl(
            "the address of a server holds no user, no password, no query and no fragment here, "
            f"because addresses are shown in plans and logs; set {TOKEN_FILE_VARIABLE} or "
            f"{TOKEN_VARIABLE}, and {SERVER_VARIABLE}, where the driver and the workers run"
        )
    base_url(uri, "default")
    return uri
