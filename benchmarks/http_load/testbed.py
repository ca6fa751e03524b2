"""A testbed for servers: a new store for each, removed at the end."""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import count
from pathlib import Path

from benchmarks.http_load.callers import setup_flags
from benchmarks.http_load.databases import open_database
from benchmarks.http_load.processes import Missing, Served, nessie_store, start_lochan, start_nessie
from lochan.testing.postgres import MISSING, shared_server

STORES = ("memory", "rocksdb", "postgres", "cassandra", "dynamodb", "mongodb")
_OF_DATABASES = ("cassandra", "dynamodb", "mongodb")
SERVERS = ("lochan", "nessie")

# On the disk of the project: a temporary folder of the system may be in memory.
_DIRECTORY = Path(__file__).parents[2] / ".lochan"


class Testbed:
    """Starts servers; leaving it stops them and removes their stores."""

    def __init__(self, store: str) -> None:
        self.store = store
        self._stack = ExitStack()
        self._database_pid = 0
        self._numbers = count(1)

    def __enter__(self) -> Testbed:
        # A signal ends the process through its cleanup, so that no server is left.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        _DIRECTORY.mkdir(exist_ok=True)
        self.folder = Path(tempfile.mkdtemp(prefix="bench-", dir=_DIRECTORY))
        self._stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def start(
        self, server: str, *, authenticated: bool = False, more: Sequence[str] = ()
    ) -> Served:
        """Starts one of the two servers on a new store; only ours can ask who calls.

        `more` are further flags of ours.
        """
        if server == "nessie":
            served = start_nessie(self._theirs(), self.folder)
        else:
            flags = setup_flags(self.folder) if authenticated else []
            served = start_lochan(self._ours(), self.folder, *flags, *more)
        self._stack.callback(served.stop)
        return served

    def pids(self, served: Served) -> list[int]:
        """Returns whose work is the server's work: its own, and that of its database."""
        return [served.pid, *([self._database_pid] if self._database_pid else [])]

    def _ours(self) -> str:
        """Returns the address of a new store of ours."""
        if self.store in _OF_DATABASES:
            return open_database(self.store).ours()
        where = self._where("lochan")
        schemes = {"memory": "memory:", "rocksdb": f"rocksdb:{where}"}
        return schemes.get(self.store, f"postgresql://lochan@{where}")

    def _theirs(self) -> list[str]:
        """Returns the options of a new store of the peer."""
        if self.store in _OF_DATABASES:
            return open_database(self.store).theirs()
        return nessie_store(self.store, self._where("nessie"))

    def _where(self, server: str) -> str:
        number = next(self._numbers)
        if self.store != "postgres":
            return str(self.folder / f"{server}-{number}")
        database = shared_server()
        if database is None:
            raise Missing(MISSING)
        import psycopg

        name = f"{server}_{number}_{self.folder.name.rpartition('-')[2]}".lower()
        with psycopg.connect(database.url(), autocommit=True) as session:
            session.execute(f"CREATE DATABASE {name}".encode())
            self._database_pid = _parent(session.info.backend_pid)
        return f"127.0.0.1:{database.port}/{name}"


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
