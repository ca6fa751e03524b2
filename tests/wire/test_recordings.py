"""Every operation of both versions, requested and answered as recorded."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lochan.wire.operations_v1 import OPERATIONS_V1
from lochan.wire.operations_v2 import OPERATIONS_V2
from tests.wire.recording import record_v1, record_v2

RECORDINGS = Path(__file__).parent / "recordings"


@pytest.mark.parametrize(("name", "record"), [("v1", record_v1), ("v2", record_v2)])
def test_requests_are_answered_as_recorded(name, record):
    recorded = record().text()
    place = RECORDINGS / f"{name}.txt"
    if os.environ.get("LOCHAN_WRITE_RECORDINGS"):
        place.write_text(recorded, encoding="utf-8")
    assert recorded == place.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("operations", "record"), [(OPERATIONS_V1, record_v1), (OPERATIONS_V2, record_v2)]
)
def test_every_operation_succeeds_in_its_recording(operations, record):
    served = set(record().wire.served)
    assert {each.id for each in operations} == served
