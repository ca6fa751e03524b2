"""The connections of a client: one pool in each process.

A forked process that used the connections of its parent would receive the parent's replies. So it
abandons them and opens its own at its first request.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

import httpx

from lochan.base.errors import Invalid
from lochan.process import Descriptor, after_fork, never_destroy

Http = TypeVar("Http", httpx.Client, httpx.AsyncClient)


class Connections(Generic[Http]):
    """The pool of this process; `build` opens it, and `again` allows to open it again after a fork.

    A transport that the caller has passed cannot be opened again.
    """

    def __init__(self, build: Callable[[], Http], *, again: bool) -> None:
        self._build: Callable[[], Http] = build
        self._may_build_again = again
        self._lock = Lock()
        self._http: Http | None = None
        self._finalizer: weakref.finalize[..., Connections[Http]] | None = None
        self._use(build())
        self._sockets: weakref.WeakKeyDictionary[object, Descriptor] = weakref.WeakKeyDictionary()
        after_fork(self, Connections._forked)

    def http(self) -> Http:
        """Returns the pool of this process."""
        http = self._http
        return self._open_again() if http is None else http

    def note(self, response: httpx.Response) -> None:
        """Records the connection of a response, so that a forked process can abandon it."""
        stream = response.extensions.get("network_stream")
        if stream is not None and stream not in self._sockets:
            socket = stream.get_extra_info("socket")
            if socket is not None:
                self._sockets[stream] = Descriptor(socket.fileno())

    def _use(self, http: Http) -> None:
        self._http = http
        if isinstance(http, httpx.Client):
            # A client that is no longer referenced, such as one that a cache has dropped, closes
            # its connections.
            self._finalizer = weakref.finalize(self, http.close)
            self._finalizer.atexit = False

    def _open_again(self) -> Http:
        if not self._may_build_again:
            raise Invalid(
                "this client was created with a transport before this process was forked; "
                "create a client in the forked process"
            )
        with self._lock:
            if self._http is None:
                self._use(self._build())
            return self.http()

    def _forked(self) -> None:
        """Abandons the parent's connections; its threads may have held the locks of the pool."""
        self._lock = Lock()
        if self._http is None or self._http.is_closed:
            return
        if self._finalizer is not None:
            self._finalizer.detach()
        never_destroy(self._http)
        self._http = None
        for socket in list(self._sockets.values()):
            socket.abandon()
        self._sockets.clear()
