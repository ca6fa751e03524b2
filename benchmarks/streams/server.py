"""The server process of the measurements: Nessie's interface and the face of files on one store.

python -m benchmarks.streams.server --store rocksdb:DIRECTORY --files DIRECTORY
"""

from __future__ import annotations

import argparse
from pathlib import Path

import msgspec

from benchmarks.streams.face import FileFace
from lochan.access.policy import Call
from lochan.assembly import open_store
from lochan.assembly.serve import Telemetry, options_of, periodic_tasks, tuning_of
from lochan.faces.nessie.face import DOCUMENTS, nessie_faces
from lochan.service.repositories import Repositories
from lochan.settings import Settings
from lochan.transport.connection_registry import Timeouts
from lochan.transport.serve import run_until_stopped
from lochan.transport.server import Options, Server


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", required=True)
    parser.add_argument("--files", required=True, type=Path)
    parser.add_argument("--progress-s", type=float, default=Timeouts().progress_s)
    chosen = parser.parse_args()
    chosen.files.mkdir(parents=True, exist_ok=True)
    settings = Settings(store=chosen.store, port=0)
    store = open_store(settings.store)
    try:
        repositories = Repositories(store, Telemetry(settings).ports(), tuning=tuning_of(settings))
        name = settings.repository
        repositories.create(Call(repository=name), name, settings.default_branch)
        store.flush(store.epoch())

        def make() -> Server:
            faces = [*nessie_faces(repositories, name), FileFace(chosen.files)]
            own, tasks = dict(DOCUMENTS), periodic_tasks(repositories)
            options = _options(settings, chosen.progress_s)
            return Server(store, repositories, faces, options, own=own, periodic_tasks=tasks)

        run_until_stopped(make, lambda url: print(url, flush=True))
    finally:
        store.close()


def _options(settings: Settings, progress_s: float) -> Options:
    return msgspec.structs.replace(options_of(settings), timeouts=Timeouts(progress_s=progress_s))


if __name__ == "__main__":
    main()
