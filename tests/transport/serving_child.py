"""The real server, from settings, in a process of its own; started by tests."""

from __future__ import annotations

import os

from lochan.assembly.serve import serve
from lochan.settings import read_settings

if __name__ == "__main__":
    serve(read_settings({}, os.environ), lambda ready: print(ready.url, flush=True))
