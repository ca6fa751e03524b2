"""A real object store for the tests of blocks on S3."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.spark.object_store import MISSING, ObjectStore, find_weed


@pytest.fixture(scope="session")
def object_store() -> Iterator[ObjectStore]:
    program = find_weed()
    if program is None:
        pytest.skip(MISSING)
    store = ObjectStore(program)
    try:
        store.bucket("blocks")
        store.bucket("lake")
        yield store
    finally:
        # Nothing of it is needed any more, so it need not end in order, which takes seconds.
        store.crash()
        store.stop()
