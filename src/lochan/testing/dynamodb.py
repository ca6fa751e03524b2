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

    def freeze(self) -> None:
        """Stops the server where it is; connections stay open."""
        self._server.freeze()

    def thaw(self) -> None:
        """Lets a frozen server go on."""
        self._server.thaw()

    def halt(self) -> None:
        """Ends the server politely; its file stays, if it has one."""
        self._server.halt()

    def kill(self) -> None:
        """Ends the server at once, as a crash would; its file stays, if it has one."""
        self._server.halt("KILL")

    def restart(self) -> None:
        """Starts an ended server again, on its file and its port."""
        self._server.restart()

    def stop(self) -> None:
        """Ends the server."""
        self._server.stop()


def start_server(*, in_memory: bool = True) -> DynamoServer | None:
    """Starts a server; None if Java or its jars are missing.

    One that is not in memory has a file, and what it has acknowledged survives a kill.
    """
    jars = find_jars(PACKAGE)
    if jars is None:
        return None
    place = ("-inMemory",) if in_memory else ("-dbPath", "FOLDER", "-sharedDb")
    return DynamoServer(JavaServer(jars, _MAIN, "-port", "PORT", *place))


@cache
def shared_server() -> DynamoServer | None:
    """Returns the server of this process, started at the first call; None if there is none."""
    server = start_server()
    if server is not None:
        atexit.register(server.stop)
    return server
