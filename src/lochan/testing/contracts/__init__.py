"""The contract of `kv.Store` as suites: a store's own test names those that it claims.

A test class inherits the suites and provides one fixture, `store`, an open and empty store (for
`DurabilityContract` also `reopen`, for `CrashContract` also `url`):

    class TestMyStore(*PLAIN_CONTRACTS):
        @pytest.fixture
        def store(self) -> Iterator[Store]:
            store = open_store("mystore:...")
            yield store
            store.close()

A store that has an address inherits `OpenedByUrl` instead, and provides the fixture `url` of a
fresh store; `store` and `reopen` follow from it.

Suites of a place for object data (`staging.BlockStore`) have the fixture `place`, an open and empty
place; `ImportContract` also needs `foreign`. Needs pytest and nothing else.
"""

from __future__ import annotations

import pytest

_SUITES = ("arguments", "bulk", "concurrency", "conditional", "crash", "durability", "faults")
_SHARED = ("fork", "row", "sample_rows", "scan", "walk")
_BLOCKS = ("block_fork", "block_imports", "block_parts", "block_reads", "block_uploads")
pytest.register_assert_rewrite(
    "lochan.testing.killed_writer",
    *(f"{__name__}.{name}" for name in (*_SUITES, *_SHARED, *_BLOCKS)),
)

from lochan.testing.contracts.arguments import ArgumentContract  # noqa: E402
from lochan.testing.contracts.block_fork import BlockForkContract  # noqa: E402
from lochan.testing.contracts.block_imports import ImportContract  # noqa: E402
from lochan.testing.contracts.block_parts import MultipartContract  # noqa: E402
from lochan.testing.contracts.block_reads import BlockReadContract  # noqa: E402
from lochan.testing.contracts.block_uploads import BlockUploadContract  # noqa: E402
from lochan.testing.contracts.bulk import BulkContract  # noqa: E402
from lochan.testing.contracts.concurrency import ConcurrencyContract  # noqa: E402
from lochan.testing.contracts.conditional import ConditionalContract  # noqa: E402
from lochan.testing.contracts.crash import CrashContract  # noqa: E402
from lochan.testing.contracts.durability import DurabilityContract  # noqa: E402
from lochan.testing.contracts.faults import FaultContract  # noqa: E402
from lochan.testing.contracts.fork import ForkRefusedContract, ForkSharedContract  # noqa: E402
from lochan.testing.contracts.opened import OpenedByUrl  # noqa: E402
from lochan.testing.contracts.row import RowContract  # noqa: E402
from lochan.testing.contracts.scan import ScanContract  # noqa: E402
from lochan.testing.contracts.walk import WalkContract  # noqa: E402

PLAIN_CONTRACTS = (
    RowContract,
    ConditionalContract,
    ScanContract,
    BulkContract,
    ArgumentContract,
    ConcurrencyContract,
    FaultContract,
)
"""What every store must pass, whatever it claims."""

BLOCK_CONTRACTS = (
    BlockUploadContract,
    BlockReadContract,
    MultipartContract,
    ImportContract,
    BlockForkContract,
)
"""What every place for object data must pass."""

__all__ = [
    "BLOCK_CONTRACTS",
    "PLAIN_CONTRACTS",
    "ArgumentContract",
    "BlockForkContract",
    "BlockReadContract",
    "BlockUploadContract",
    "BulkContract",
    "ConcurrencyContract",
    "ConditionalContract",
    "CrashContract",
    "DurabilityContract",
    "FaultContract",
    "ForkRefusedContract",
    "ForkSharedContract",
    "ImportContract",
    "MultipartContract",
    "OpenedByUrl",
    "RowContract",
    "ScanContract",
    "WalkContract",
]
