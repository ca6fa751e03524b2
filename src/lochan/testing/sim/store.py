"""The store of a simulated server: before every call other actors may run.

It is a `FaultyStore` (`testing/faults.py`) whose plan is the scheduler, so what a fault does is
written once. Three things differ: late writes wait in the world, because they outlive their server;
an `apply` that is not atomic is two calls, so that other actors see the state between them; and
where `apply` is atomic, `apply_each` is one call, as it is one statement on a database.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec

from lochan.kv.store import Adds, Capabilities, Entry, Hold, Name, Outcome, Partition, SetIf, Store
from lochan.testing.faults import READ_FAULTS, WRITE_FAULTS, Fault, FaultyStore, PlannedCall

if TYPE_CHECKING:
    from lochan.testing.sim.server import Server

_Result = TypeVar("_Result")


class SimStore(FaultyStore):
    """The shared store as one server uses it."""

    def __init__(
        self,
        server: Server,
        store: Store,
        *,
        atomic_apply: bool | None,
        row_locks: bool,
        return_points: bool,
    ) -> None:
        super().__init__(store, server, atomic_apply=atomic_apply)
        self._server = server
        self._row_locks = row_locks
        self._return_points = return_points
        if row_locks:
            self._capabilities = msgspec.structs.replace(self._capabilities, row_locks=True)

    @property
    def capabilities(self) -> Capabilities:
        """Those of the shared store, except for what is simulated."""
        return self._capabilities

    def apply(self, adds: Adds, condition: SetIf) -> Outcome:
        """One call if it is atomic, else two."""
        if self._atomic:
            return super().apply(adds, condition)
        if adds.items:
            self.add_many(adds)
        return self.set_if(condition.partition, condition.key, condition.value, condition.expected)

    def apply_each(self, changes: Sequence[tuple[Adds, SetIf]]) -> list[Outcome]:
        """One call for all changes if `apply` is atomic, else one after the other."""
        if not self._atomic or len(changes) < 2:
            return super().apply_each(changes)
        row = changes[0][1]
        items = sum(len(adds.items) + 1 for adds, _ in changes)
        call = self._call(
            "apply_each", row.partition, row.key, items, WRITE_FAULTS, (tuple(changes),)
        )
        return self._write(call, lambda: self._store.apply_each(changes))

    def hold(self, partition: Partition, key: bytes) -> Hold:
        """Reads a row; with row locks no other actor writes or holds it until it is released."""
        if not self._row_locks:
            return super().hold(partition, key)
        name = (partition, key)
        call = self._call("hold", partition, key, 1, READ_FAULTS, name)

        def take() -> Entry | None:
            self._server.hold_row(name)
            return self._store.get(partition, key)

        return SimHold(self, name, self._read(call, take))

    def release_row(self, name: Name) -> None:
        """Ends a hold."""
        self._server.release_row(name)

    def use(self, store: Store) -> None:
        """Uses another store from now on: the same one, opened again."""
        self._store = store

    def close(self) -> None:
        """Has nothing to close: the store belongs to the world."""

    def _postpone(
        self,
        call: PlannedCall,
        fault: Fault,  # noqa: ARG002
        carry_out: Callable[[], object],
    ) -> None:
        self._server.send_late(call, carry_out)

    def _read(self, call: PlannedCall, carry_out: Callable[[], _Result]) -> _Result:
        result = super()._read(call, carry_out)
        if self._return_points:
            self._server.pause("return")
        return result

    def _write(
        self,
        call: PlannedCall,
        carry_out: Callable[[], _Result],
        carry_out_some: Callable[[int], None] | None = None,
    ) -> _Result:
        result = super()._write(call, carry_out, carry_out_some)
        if self._return_points:
            self._server.pause("return")
        return result


class SimHold:
    """A row that no other actor can write or hold until `apply` or `release`.

    After an unknown outcome the lock is gone, as with a broken connection, while the write may
    still take effect later.
    """

    def __init__(self, store: SimStore, name: Name, entry: Entry | None) -> None:
        self._store = store
        self._name = name
        self._entry = entry

    @property
    def entry(self) -> Entry | None:
        """The row as it was read under the lock."""
        return self._entry

    def apply(self, adds: Adds, condition: SetIf) -> Outcome:
        """Writes and releases the row, whatever the outcome."""
        try:
            return self._store.apply(adds, condition)
        finally:
            self.release()

    def release(self) -> None:
        """Releases the row."""
        self._store.release_row(self._name)
