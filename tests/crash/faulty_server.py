"""Our server with a planted fault in its flush: `-m tests.crash.faulty_server FAULT serve …`."""

from __future__ import annotations

import sys

from lochan.cli.main import main
from tests.crash.flushing_child import plant

if __name__ == "__main__":
    plant(sys.argv.pop(1))
    main()
