"""Random mixes of uploads, downloads, cuts and broken bodies agree with a dictionary."""

from __future__ import annotations

import pytest

from tests.profile import counted
from tests.stateful.byte_walk import STREAM_BUFFER, walk

WALKS = counted(60, 1_500)
ROUNDS = 12


@pytest.fixture(autouse=True)
def small_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes small bodies fill the buffer of a stream."""
    monkeypatch.setattr("lochan.transport.body_streams.STREAM_BUFFER_BYTES", STREAM_BUFFER)


@pytest.mark.parametrize("part", range(6))
def test_stored_bytes_are_those_of_the_uploads_that_were_whole(part: int) -> None:
    for seed in range(part, WALKS, 6):
        try:
            walk(seed, ROUNDS)
        except AssertionError as error:
            raise AssertionError(f"walk({seed}, {ROUNDS}): {error}") from error
