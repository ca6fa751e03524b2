"""Whether the server lives and whether it may be sent requests."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from lochan.base.errors import LochanError
from lochan.base.ids import ROOT_INSTANCE
from lochan.kv.store import Kind, Store, partition
from lochan.transport.app import OwnHandler
from lochan.transport.exchange import Request, Response
from lochan.transport.pool import Pool

_PROBE = partition(ROOT_INSTANCE, Kind.META)


class Health:
    """Alive: the loop answers at all. Ready: it listens, is not stopping, and the store answers."""

    def __init__(self, store: Store, pool: Pool | None) -> None:
        self._store = store
        self._pool = pool
        self._checking = False
        self._problem: str | None = None
        self.ready = False

    def routes(self) -> Mapping[bytes, OwnHandler]:
        """Returns what is served where."""
        return {b"/health/live": self.live, b"/health/ready": self.check_ready}

    def live(self, request: Request) -> Response:  # noqa: ARG002
        """Answers that the process answers."""
        return _answer(200, "UP")

    def check_ready(self, request: Request) -> Response:  # noqa: ARG002
        """Answers whether requests may be sent here.

        A store that may block is checked in a thread, and the answer is the result of the last
        check: this call must never wait.
        """
        if not self.ready:
            return _answer(503, "DOWN", "the server is starting or stopping")
        if self._pool is None:
            self._check_store_now()
        elif not self._checking:
            self._checking = True
            self._pool.submit(self._check_store, self._note, must=True)
        if self._problem is not None:
            return _answer(503, "DOWN", self._problem)
        return _answer(200, "UP")

    def _check_store_now(self) -> None:
        try:
            self._check_store()
        except LochanError as error:
            self._note(error)
        else:
            self._note(None)

    def _check_store(self) -> None:
        self._store.get(_PROBE, b"format")

    def _note(self, outcome: LochanError | None) -> None:
        self._checking = False
        self._problem = None if outcome is None else f"the store does not answer ({outcome.kind})"


def _answer(status: int, word: str, reason: str | None = None) -> Response:
    body = {"status": word} if reason is None else {"status": word, "reason": reason}
    return Response(status, msgspec.json.encode(body))
