"""A real object store for the tests of blocks on S3."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.spark.object_store import MISSING, ObjectStore, find_weed


@pytest.fixture(scope="module")
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
        store.stop()
