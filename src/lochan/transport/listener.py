"""One place where a server listens: its own faces, names and certificate on its own socket."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping, Sequence

import msgspec

from lochan.base.errors import Bug
from lochan.base.limits.server import LISTEN_BACKLOG
from lochan.process import Descriptor
from lochan.transport.addresses import UnixSocketFile, bind_port, check_loopback, is_any_address
from lochan.transport.app import App, OwnHandler
from lochan.transport.connection import Connection
from lochan.transport.connection_registry import ConnectionRegistry
from lochan.transport.hygiene import LOOPBACK_NAMES, HeaderChecks, Hosts
from lochan.transport.routes import Face
from lochan.transport.tls import Certificate
from lochan.transport.tls_layer import TlsLayer


class ListenerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a listener serves, where, and under which names besides those of this machine.

    With a path in `unix_socket`, host and port are not used. Without `allow_remote` an address that
    other machines could reach is refused. All names below one of `domains` are its names, too.
    """

    faces: Sequence[Face] = ()
    own: Mapping[bytes, OwnHandler] = {}
    host: str = "127.0.0.1"
    port: int = 0
    unix_socket: str = ""
    names: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    certificate: Certificate | None = None
    allow_remote: bool = False


class Listener:
    """Accepts connections; everything that they share with those of other listeners is passed in.

    1. `bind` refuses an address that is taken; 2. `accept` serves; 3. `close` accepts no more and
    removes the file of a Unix socket.
    """

    def __init__(self, registry: ConnectionRegistry, options: ListenerOptions) -> None:
        self.registry = registry
        self.app = App(options.faces, options.own)
        by_address = not options.unix_socket and is_any_address(options.host)
        domains = frozenset(each.lower().encode() for each in options.domains)
        hosts = Hosts(_names(options), by_address=by_address, domains=domains)
        self.header_checks = HeaderChecks(hosts)
        self.certificate = options.certificate
        self._options = options
        self._file: UnixSocketFile | None = None
        if options.unix_socket:
            self._file = UnixSocketFile(options.unix_socket)
        elif not options.allow_remote:
            check_loopback(options.host)
        self._socket: socket.socket | None = None
        self._server: asyncio.Server | None = None
        self.descriptor: Descriptor | None = None
        self.address = ""
        """How clients reach this listener, once it is bound."""

    def bind(self) -> None:
        """Takes the address."""
        if self._file is not None:
            self._socket = self._file.bind()
            self.address = f"unix:{self._file.path}"
        else:
            self._socket = bind_port(self._options.host, self._options.port)
            host, port = self._socket.getsockname()[:2]
            scheme = "http" if self.certificate is None else "https"
            self.address = f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
        self.descriptor = Descriptor(self._socket.fileno())

    async def accept(self, loop: asyncio.AbstractEventLoop) -> None:
        """Accepts connections from now on."""
        if self._socket is None:
            raise Bug("a listener is bound before it accepts")
        make = loop.create_server if self._file is None else loop.create_unix_server
        self._server = await make(self._connect, sock=self._socket, backlog=LISTEN_BACKLOG)

    def _connect(self) -> asyncio.Protocol:
        connection = Connection(self)
        if self.certificate is None:
            return connection
        return TlsLayer(connection, self.certificate.context)

    def close(self) -> None:
        """Accepts no more connections; those that are open stay so."""
        if self._server is not None:
            self._server.close()
        elif self._socket is not None:
            self._socket.close()
        if self._file is not None:
            self._file.remove()

    async def wait_closed(self) -> None:
        """Returns when the socket is closed."""
        if self._server is not None:
            await self._server.wait_closed()


def _names(options: ListenerOptions) -> frozenset[bytes]:
    own = options.host if ":" not in options.host else f"[{options.host.strip('[]')}]"
    return LOOPBACK_NAMES | {name.lower().encode() for name in (own, *options.names)}
