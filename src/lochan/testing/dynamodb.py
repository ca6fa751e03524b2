"""DynamoDB Local for tests: the vendor's own emulator, in memory, on a free port of this machine.

It keeps DynamoDB's interface, conditions and limits on one node. It proves nothing about
replication, throttling or conflicts of transactions; those are tested by recorded errors.
"""

from __future__ import annotations

import atexit
import os
from functools import cache
from itertools import count
from typing import Final
from urllib.parse import quote

from lochan.testing.jars import JavaServer, Package, find_jars

PACKAGE: Final = Package("software.amazon.dynamodb", "DynamoDBLocal", "3.1.0")
MISSING: Final = PACKAGE.missing

_MAIN: Final = "software.amazon.dynamodb.services.local.main.ServerRunner"

# It takes any; without some, botocore would look for those of the machine.
_CREDENTIALS: Final = {"AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local"}


class DynamoServer:
    """A running emulator."""

    def __init__(self, server: JavaServer) -> None:
        self._server = server
        self._numbers = count(1)
        self.port = server.port
        os.environ.update(_CREDENTIALS)

    def url(self, table: str, *, port: int | None = None, connections: int = 8) -> str:
        """Returns the address of a store on this server."""
        endpoint = quote(f"http://127.0.0.1:{port or self.port}", safe="")
        return f"dynamodb://local/{table}?endpoint={endpoint}&connections={connections}"

    def fresh_table(self) -> str:
        """Returns the name of a table that was not used before."""
        return f"test_{next(self._numbers)}"

    def stop(self) -> None:
        """Ends the server."""
        self._server.stop()


@cache
def shared_server() -> DynamoServer | None:
    """Returns the server of this process, started at the first call; None if there is none."""
    jars = find_jars(PACKAGE)
    if jars is None:
        return None
    server = DynamoServer(JavaServer(jars, _MAIN, "-port", "PORT", "-inMemory"))
    atexit.register(server.stop)
    return server
