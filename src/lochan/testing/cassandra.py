"""A real Cassandra for tests: one node on free ports of this machine, with a small heap.

`shared_server()` starts one for the whole process, which takes about 15 s, and ends it with the
process. Tests that need it belong to the xdist group `GROUP`, so that a run of the tests starts
one. It keeps what it has acknowledged when it is killed (`commitlog_sync: batch`). One node proves
nothing about replicas that fail or disagree.
"""

from __future__ import annotations

import atexit
import time
from functools import cache
from importlib.util import find_spec
from itertools import count
from typing import Final
from urllib.parse import urlencode

from lochan.testing.jars import JavaServer, Package, find_jars, find_java, free_port

PACKAGE: Final = Package("org.apache.cassandra", "cassandra-all", "5.0.9")
JAVA: Final = 17
GROUP: Final = "cassandra"
MISSING: Final = f"{PACKAGE.missing}; it needs Java {JAVA} exactly, and the extra lochan[cassandra]"

# Cassandra's own first user. Sessions must name a user and a password.
USER: Final = "cassandra"
PASSWORD: Final = "cassandra"  # noqa: S105 - the default of every new Cassandra
KEYSPACE: Final = "tests"
DATACENTER: Final = "datacenter1"

_MAIN: Final = "org.apache.cassandra.service.CassandraDaemon"
_LOGIN_S: Final = 30

# Packages of the JDK that Cassandra reaches into.
_OPENS: Final = (
    "java.base/java.io",
    "java.base/java.lang",
    "java.base/java.lang.module",
    "java.base/java.lang.reflect",
    "java.base/java.math",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.nio.charset",
    "java.base/java.nio.file.spi",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/java.util.concurrent.locks",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.ref",
    "java.base/jdk.internal.reflect",
    "java.base/jdk.internal.math",
    "java.base/jdk.internal.module",
    "java.base/jdk.internal.util.jar",
    "java.base/sun.nio.ch",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi",
    "java.rmi/java.rmi.registry",
    "java.rmi/sun.rmi.server",
    "java.rmi/sun.rmi.transport.tcp",
    "jdk.management/com.sun.management.internal",
    "java.sql/java.sql",
    "java.logging/java.util.logging",
)
_EXPORTS: Final = (
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/java.lang.ref",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi",
    "java.rmi/java.rmi.registry",
    "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server",
    "java.rmi/sun.rmi.transport.tcp",
    "java.sql/java.sql",
    "jdk.unsupported/sun.misc",
    "jdk.attach/sun.tools.attach",
)
_OPTIONS: Final = (
    *(f"--add-opens={name}=ALL-UNNAMED" for name in _OPENS),
    *(f"--add-exports={name}=ALL-UNNAMED" for name in _EXPORTS),
    "-Djdk.attach.allowAttachSelf=true",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dcassandra.config=file:FOLDER/cassandra.yaml",
    "-Dcassandra.storagedir=FOLDER",
    "-Dlogback.configurationFile=FOLDER/logback.xml",
    "-Dcassandra.skip_wait_for_gossip_to_settle=0",
    "-Dcassandra.ring_delay_ms=0",
    "-Dcassandra.superuser_setup_delay_ms=0",
    # The fewest rounds of hashing: a password is checked at each new connection.
    "-Dcassandra.auth_bcrypt_gensalt_log2_rounds=4",
    "-Dcassandra-foreground=yes",
    "-XX:+ExitOnOutOfMemoryError",
)
_LOGBACK: Final = """<configuration>
<appender name="STDOUT" class="ch.qos.logback.core.ConsoleAppender">
<encoder><pattern>%date{HH:mm:ss.SSS} %-5level %logger{0} %msg%n</pattern></encoder>
</appender>
<root level="WARN"><appender-ref ref="STDOUT"/></root>
</configuration>
"""
_CONFIGURATION: Final = """cluster_name: lochan
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
num_tokens: 1
listen_address: 127.0.0.1
rpc_address: 127.0.0.1
native_transport_port: PORT
storage_port: {storage_port}
endpoint_snitch: SimpleSnitch
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters:
      - seeds: 127.0.0.1:{storage_port}
data_file_directories: [FOLDER/data]
commitlog_directory: FOLDER/commitlog
saved_caches_directory: FOLDER/saved_caches
hints_directory: FOLDER/hints
cdc_raw_directory: FOLDER/cdc_raw
commitlog_sync: batch
commitlog_segment_size: 8MiB
authenticator: PasswordAuthenticator
authorizer: CassandraAuthorizer
role_manager: CassandraRoleManager
"""


class CassandraServer:
    """A running Cassandra; `stop` ends it and removes its files."""

    def __init__(self, server: JavaServer) -> None:
        self._server = server
        self._numbers = count(1)
        self.port = server.port
        self._wait()

    def url(
        self,
        keyspace: str = KEYSPACE,
        *,
        port: int | None = None,
        user: str = f"{USER}:{PASSWORD}",
        **parameters: object,
    ) -> str:
        """Returns the address of a store on this server; `user` brings its password along."""
        given = urlencode({"datacenter": DATACENTER} | parameters)
        return f"cassandra://{user}@127.0.0.1:{port or self.port}/{keyspace}?{given}"

    def fresh_url(self, port: int | None = None) -> str:
        """Returns the address of a store that does not exist yet."""
        return self.url(port=port, table=self.fresh_table())

    def fresh_table(self) -> str:
        """Returns the name of a table that was not used before; a keyspace takes longer."""
        return f"test_{next(self._numbers)}"

    def freeze(self) -> None:
        """Stops the server where it is; connections stay open."""
        self._server.freeze()

    def thaw(self) -> None:
        """Lets a frozen server go on."""
        self._server.thaw()

    def halt(self) -> None:
        """Ends the server politely; its files stay."""
        self._server.halt()

    def kill(self) -> None:
        """Ends the server at once, as a crash would; its files stay."""
        self._server.halt("KILL")

    def restart(self) -> None:
        """Starts an ended server again, on its files and its port."""
        self._server.restart()
        self._wait()

    def stop(self) -> None:
        """Ends the server and removes its files."""
        self._server.stop()

    def _wait(self) -> None:
        """Waits until its first user can log in, which it makes after it listens."""
        from cassandra.auth import PlainTextAuthProvider
        from cassandra.cluster import Cluster, NoHostAvailable

        deadline = time.monotonic() + _LOGIN_S
        while True:
            cluster = Cluster(
                ["127.0.0.1"],
                port=self.port,
                auth_provider=PlainTextAuthProvider(USER, PASSWORD),
            )
            try:
                cluster.connect()
                return
            except NoHostAvailable:
                if time.monotonic() > deadline:
                    self.stop()
                    raise
            finally:
                cluster.shutdown()


def start_server(heap_mb: int = 384) -> CassandraServer | None:
    """Starts a server; None if Java, its jars or the driver are missing."""
    java = find_java(JAVA)
    if java is None or find_spec("cassandra") is None:
        return None
    jars = find_jars(PACKAGE)
    if jars is None:
        return None
    agent = next(jars.glob("jamm-*.jar"))
    server = JavaServer(
        jars,
        _MAIN,
        heap_mb=heap_mb,
        java=java,
        options=(f"-javaagent:{agent}", *_OPTIONS),
        files={
            "cassandra.yaml": _CONFIGURATION.replace("{storage_port}", str(free_port())),
            "logback.xml": _LOGBACK,
        },
    )
    return CassandraServer(server)


@cache
def shared_server() -> CassandraServer | None:
    """Returns the server of this process, started at the first call; None if there is none."""
    server = start_server()
    if server is not None:
        atexit.register(server.stop)
    return server
