"""Wrong decisions about streams that were made once, or could be made: the walks find each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from lochan.transport.body_streams import BodyStream
from lochan.transport.conditions import select
from lochan.transport.connection import Connection
from lochan.transport.driver import RequestState
from lochan.transport.parts_writer import PartsWriter
from lochan.transport.progress import Progress
from tests.stateful.byte_walk import STREAM_BUFFER, walk

WALKS = 120
ROUNDS = 12

Patch = Callable[[pytest.MonkeyPatch], None]


def broken_bodies_end(patch: pytest.MonkeyPatch) -> None:
    """A body that will never be whole ends like one that is."""
    patch.setattr(BodyStream, "fail", lambda stream, _: stream.complete())


def a_lost_connection_ends_a_body(patch: pytest.MonkeyPatch) -> None:
    """The end of the connection is the end of the body, as for answers of HTTP/1.0."""

    def break_body(connection: Any) -> None:
        if connection._stream is not None:
            connection._stream.complete()

    patch.setattr(Connection, "_break_body", break_body)


def malformed_chunks_end_a_body(patch: pytest.MonkeyPatch) -> None:
    """What is not a chunk is taken for the last one."""
    real = Connection._refuse

    def refuse(connection: Any, status: int, message: str) -> None:
        if status == 400 and connection._stream is not None:
            connection._stream.complete()
        real(connection, status, message)

    patch.setattr(Connection, "_refuse", refuse)


def nothing_is_too_slow(patch: pytest.MonkeyPatch) -> None:
    """A body may stall for ever."""
    patch.setattr(Progress, "is_too_slow", lambda *_: False)


def buffers_are_never_full(patch: pytest.MonkeyPatch) -> None:
    """A body is read faster than its handler takes it."""
    patch.setattr(BodyStream, "is_full", False)


def answers_do_not_wait_for_their_client(patch: pytest.MonkeyPatch) -> None:
    """The parts of an answer are written faster than the client reads."""

    patch.setattr(PartsWriter, "pause", lambda _: None)


def broken_answers_end(patch: pytest.MonkeyPatch) -> None:
    """An answer whose source broke ends like one that is whole."""
    real = Connection._sent

    def sent(connection: Any, keep_alive: bool, whole: bool) -> None:
        if not whole and not connection._ended:
            connection._transport.write(b"0\r\n\r\n")
        real(connection, keep_alive, True)

    patch.setattr(Connection, "_sent", sent)


def bodies_are_dropped_before_their_turn(patch: pytest.MonkeyPatch) -> None:
    """A body that comes before its request is served is dropped."""
    real = Connection._feed_stream

    def feed(connection: Any, stream: BodyStream, part: bytes) -> None:
        if connection._current is not None:
            real(connection, stream, part)

    patch.setattr(Connection, "_feed_stream", feed)


def bodies_are_never_too_long(patch: pytest.MonkeyPatch) -> None:
    """A body in chunks has no limit."""
    real = Connection._feed_stream

    def feed(connection: Any, stream: BodyStream, part: bytes) -> None:
        connection._body_bytes_max = 1 << 40
        real(connection, stream, part)

    patch.setattr(Connection, "_feed_stream", feed)


def any_reader_is_owed_a_100(patch: pytest.MonkeyPatch) -> None:
    """A 100 is sent while another request is served."""

    def want_body(connection: Any) -> None:
        if connection._owes_continue and not connection._body_bytes and not connection._ended:
            connection._owes_continue = False
            connection._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        connection._throttle()

    patch.setattr(Connection, "_want_body", want_body)


def no_100_is_sent(patch: pytest.MonkeyPatch) -> None:
    """A client that waits for a 100 waits for ever."""
    patch.setattr(Connection, "_want_body", lambda connection: connection._throttle())


def full_buffers_stop_reading_for_good(patch: pytest.MonkeyPatch) -> None:
    """After a body that was not read, a connection reads nothing more."""
    real = Connection.on_message_complete

    def complete(connection: Any) -> None:
        with pytest.MonkeyPatch.context() as inner:
            if connection._stream is not None:
                inner.setattr(Connection, "_throttle", lambda _: None)
            real(connection)

    patch.setattr(Connection, "on_message_complete", complete)


def handlers_that_never_began_keep_their_slots(patch: pytest.MonkeyPatch) -> None:
    """A client that leaves before its handler has begun occupies a slot for ever."""
    patch.setattr(RequestState, "_stream_ended", lambda *_: None)


def answers_that_never_began_keep_their_slots(patch: pytest.MonkeyPatch) -> None:
    """A client that leaves before the first part of its answer occupies a slot for ever."""
    patch.setattr(PartsWriter, "_ended", lambda *_: None)


def ranges_end_early(patch: pytest.MonkeyPatch) -> None:
    """The last byte of a range is not sent."""

    def chosen(*given: Any) -> Any:
        found = select(*given)
        short = found.status == 206 and found.length > 1
        return msgspec.structs.replace(found, stop=found.stop - 1) if short else found

    patch.setattr("tests.transport.byte_face.select", chosen)


MUTANTS: list[Patch] = [
    broken_bodies_end,
    a_lost_connection_ends_a_body,
    malformed_chunks_end_a_body,
    nothing_is_too_slow,
    buffers_are_never_full,
    answers_do_not_wait_for_their_client,
    broken_answers_end,
    bodies_are_dropped_before_their_turn,
    bodies_are_never_too_long,
    any_reader_is_owed_a_100,
    no_100_is_sent,
    full_buffers_stop_reading_for_good,
    handlers_that_never_began_keep_their_slots,
    answers_that_never_began_keep_their_slots,
    ranges_end_early,
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: one.__name__)
def test_the_walks_find(mutant: Patch, monkeypatch: pytest.MonkeyPatch, record_property):
    monkeypatch.setattr("lochan.transport.body_streams.STREAM_BUFFER_BYTES", STREAM_BUFFER)
    mutant(monkeypatch)
    for seed in range(WALKS):
        try:
            walk(seed, ROUNDS)
        except AssertionError as error:
            record_property("counted", f"bytes, {mutant.__name__}: walk {seed + 1}, {error}")
            return
    pytest.fail(f"{mutant.__name__} was not found in {WALKS} walks")
