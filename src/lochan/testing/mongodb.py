"""A stand-in for MongoDB for tests: mongo-java-server, in memory, on a free port of this machine.

It speaks MongoDB's protocol and executes each statement on its own, so that of several conditional
writes one wins. It has no replicas, no journal and no transactions, keeps no index for ranges, and
takes read and write concerns without doing anything for them; so it proves nothing about those. It
needs a pymongo before 4.14, which is the last that speaks with servers of its age.
"""

from __future__ import annotations

import atexit
from functools import cache
from importlib.util import find_spec
from itertools import count
from typing import Final

from lochan.testing.jars import JavaServer, Package, find_jars, has_compiler

PACKAGE: Final = Package("de.bwaldvogel", "mongo-java-server", "1.47.0")
GROUP: Final = "mongodb"
MISSING: Final = (
    f"{PACKAGE.missing}; it also needs the compiler of a JDK, and pymongo before 4.14 "
    "(`pip install 'pymongo<4.14'`)"
)

# It has no program of its own; Java compiles this one when it starts.
_MAIN: Final = """
import de.bwaldvogel.mongo.MongoServer;
import de.bwaldvogel.mongo.backend.memory.MemoryBackend;

public class Main {
    public static void main(String[] arguments) {
        new MongoServer(new MemoryBackend()).bind("127.0.0.1", PORT);
    }
}
"""


class MongoServer:
    """A running stand-in."""

    def __init__(self, server: JavaServer) -> None:
        self._server = server
        self._numbers = count(1)
        self.port = server.port

    def url(
        self,
        database: str,
        *,
        port: int | None = None,
        collection: str | None = None,
        connections: int = 8,
    ) -> str:
        """Returns the address of a store on this server."""
        named = f"&collection={collection}" if collection else ""
        where = f"127.0.0.1:{port or self.port}/{database}"
        return f"mongodb://{where}?connections={connections}{named}"

    def fresh_database(self) -> str:
        """Returns the name of a database that was not used before."""
        return f"test_{next(self._numbers)}"

    def freeze(self) -> None:
        """Stops the server where it is; connections stay open."""
        self._server.freeze()

    def thaw(self) -> None:
        """Lets a frozen server go on."""
        self._server.thaw()

    def stop(self) -> None:
        """Ends the server, and with it all that it stores."""
        self._server.stop()


def start_server() -> MongoServer | None:
    """Starts a server; None if Java, its compiler, the jars or a fitting pymongo are missing."""
    if not _driver_fits():
        return None
    jars = find_jars(PACKAGE)
    if jars is None or not has_compiler():
        return None
    return MongoServer(JavaServer(jars, "FOLDER/Main.java", files={"Main.java": _MAIN}))


@cache
def shared_server() -> MongoServer | None:
    """Returns the server of this process, started at the first call; None if there is none."""
    server = start_server()
    if server is not None:
        atexit.register(server.stop)
    return server


def _driver_fits() -> bool:
    if find_spec("pymongo") is None:
        return False
    from pymongo import version_tuple

    return version_tuple[:2] < (4, 14)
