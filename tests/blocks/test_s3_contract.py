"""S3, as SeaweedFS serves it, keeps the whole contract of places for object data."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lochan.staging.block_store import BlockStore
from lochan.testing.contracts import BLOCK_CONTRACTS
from tests.blocks.s3_place import ForeignBucket, open_s3
from tests.spark.object_store import ObjectStore

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("s3_blocks")]


class TestS3(*BLOCK_CONTRACTS):  # type: ignore[misc]
    # SeaweedFS sorts each folder by itself, as a file system does.
    sorted_imports = False

    @pytest.fixture
    def foreign(self, object_store: ObjectStore) -> ForeignBucket:
        return ForeignBucket(object_store)

    @pytest.fixture
    def place(self, object_store: ObjectStore, foreign: ForeignBucket) -> Iterator[BlockStore]:
        place = open_s3(object_store.port, "", foreign.prefix)
        yield place
        place.close()
