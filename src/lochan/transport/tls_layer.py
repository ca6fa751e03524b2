"""TLS between a connection and its socket: the loop gives it ciphertext, the connection plaintext.

The layers of asyncio and uvloop are not used, because they hide what our limits rely on:

- A connection is known from its first byte, not from the end of its handshake. So it is counted,
  has a deadline, and is cut, drained and given up in a forked process like every other one.
- `get_write_buffer_size` includes the ciphertext that the socket has not taken. Their layers leave
  it out, so that a client that reads slowly looks like one that does not read.
- `write_eof` ends our direction and goes on reading, so that a refusal reaches a client that is
  still sending.

What comes after the end of either direction is dropped and not decrypted.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final, cast

# One record of TLS; more is never returned at once.
_RECORD_BYTES: Final = 16_384

_Bytes = bytes | bytearray | memoryview


class TlsLayer(asyncio.Transport, asyncio.Protocol):
    """The protocol of a socket, and the transport of the connection above it."""

    def __init__(self, connection: asyncio.Protocol, context: ssl.SSLContext) -> None:
        super().__init__()
        self._connection = connection
        self._socket: asyncio.Transport = cast("asyncio.Transport", None)
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._established = False
        # Plaintext, and its end, that were written before the end of the handshake.
        self._early: list[bytes] = []
        self._early_end = False
        self._reading = True
        self._socket_ended = False
        self._input_ended = False
        self._output_ended = False

    # The side of the socket.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Is called by the loop once, before the handshake."""
        self._socket = cast("asyncio.Transport", transport)
        self._connection.connection_made(self)

    def connection_lost(self, error: Exception | None) -> None:
        """Is called by the loop once."""
        self._input_ended = self._output_ended = True
        self._early.clear()
        # Tens of kilobytes outside of Python, which the next round of its collector does not see.
        self._tls = cast("ssl.SSLObject", None)
        self._connection.connection_lost(error)

    def data_received(self, data: bytes) -> None:
        """Is called by the loop with what came."""
        if self._input_ended:
            return
        self._incoming.write(data)
        if self._established or self._shake_hands():
            self._deliver()

    def eof_received(self) -> bool:
        """Is called by the loop when the client has closed its direction."""
        self._socket_ended = True
        if not self._established:
            return False
        self._deliver()
        return True

    def pause_writing(self) -> None:
        """Is called by the loop when the client reads more slowly than we write."""
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        """Is called by the loop when the client has caught up."""
        self._connection.resume_writing()

    def _shake_hands(self) -> bool:
        """Goes on with the handshake; returns whether it is complete."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return False
        except ssl.SSLError:
            self._fail()
            return False
        self._established = True
        self._flush()
        early, self._early = self._early, []
        self.writelines(early)
        if self._early_end:
            self.write_eof()
        return True

    def _deliver(self) -> None:
        """Passes plaintext on until the connection wants no more or none is left."""
        while self._reading and not self._input_ended:
            try:
                piece = self._tls.read(_RECORD_BYTES)
            except ssl.SSLWantReadError:
                break
            except ssl.SSLError:
                self._fail()
                return
            if not piece:
                self._end_input()
                break
            self._connection.data_received(piece)
        self._flush()
        if self._socket_ended and self._reading:
            self._end_input()

    def _end_input(self) -> None:
        """Passes on, once, that nothing more will come."""
        if not self._socket.is_closing():
            self._input_ended = True
            if not self._connection.eof_received():
                self.close()

    def _fail(self) -> None:
        """Ends a connection that does not speak TLS; an alert states the reason."""
        self._input_ended = self._output_ended = True
        self._flush()
        self._socket.close()

    def _flush(self) -> None:
        if self._outgoing.pending and not self._socket.is_closing():
            self._socket.write(self._outgoing.read())

    # The side of the connection.

    def write(self, data: _Bytes) -> None:
        """Encrypts and sends."""
        self.writelines((data,))

    def writelines(self, list_of_data: Iterable[_Bytes]) -> None:
        """Encrypts and sends pieces together; those before the handshake wait for its end."""
        if self._output_ended:
            return
        if not self._established:
            self._early.extend(map(bytes, list_of_data))
            return
        try:
            for data in list_of_data:
                rest = memoryview(data)
                while rest:
                    rest = rest[self._tls.write(rest) :]
        except ssl.SSLError:
            self.abort()
            return
        self._flush()

    def can_write_eof(self) -> bool:
        """Returns True: each direction ends on its own."""
        return True

    def write_eof(self) -> None:
        """Ends our direction."""
        if self._established:
            self._end_output()
            self._socket.write_eof()
        else:
            self._early_end = True

    def _end_output(self) -> None:
        """States that nothing more will be sent, so that an answer cannot be cut unnoticed."""
        if self._output_ended:
            return
        self._input_ended = self._output_ended = True
        # It raises if the client's own end has not come, or if it is still sending.
        with suppress(ssl.SSLError):
            self._tls.unwrap()
        self._flush()

    def close(self) -> None:
        """Closes after what is written has left."""
        if self._established:
            self._end_output()
        self._input_ended = self._output_ended = True
        self._socket.close()

    def abort(self) -> None:
        """Cuts the connection."""
        self._input_ended = self._output_ended = True
        self._socket.abort()

    def is_closing(self) -> bool:
        """Returns whether the socket is closed or about to be."""
        return self._socket.is_closing()

    def pause_reading(self) -> None:
        """Delivers nothing until `resume_reading`."""
        self._reading = False
        self._socket.pause_reading()

    def resume_reading(self) -> None:
        """Delivers again, first what was received already; never within this call."""
        self._reading = True
        self._socket.resume_reading()
        asyncio.get_running_loop().call_soon(self._deliver_rest)

    def _deliver_rest(self) -> None:
        if self._established and not self._input_ended:
            self._deliver()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Sets when writing is paused and resumed, in bytes of ciphertext."""
        self._socket.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        """Returns how many bytes the socket has not taken yet."""
        return self._socket.get_write_buffer_size() + sum(map(len, self._early))

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Returns what is known about the socket."""
        return self._socket.get_extra_info(name, default)
