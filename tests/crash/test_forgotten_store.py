"""A program that forgets to close its store still ends as it should."""

from __future__ import annotations

import subprocess
import sys

FORGETS = """
import sys
from lochan import open_repository
from lochan.model.commits import Put
from lochan.model.contents import Namespace
catalog = open_repository(sys.argv[1])
for number in range(300):
    name = f"n{number}"
    catalog.commits.commit("main", "more", [Put(key=(name,), content=Namespace(elements=(name,)))])
"""


def test_a_store_that_nobody_closed_is_closed_when_the_program_ends(tmp_path):
    """Without that, threads of the database met an interpreter that was gone, now and then."""
    url = f"rocksdb:{tmp_path}/store"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FORGETS, url], capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    from lochan import open_repository

    with open_repository(url) as catalog:
        assert len(list(catalog.contents.iterate("main"))) == 300
