"""The TCP proxy does at the chosen byte what was planned, and lets everything else pass."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from threading import Thread

import pytest

from lochan.testing.tcp_faults import FaultyWire, Way, WireFault

MESSAGE = b"0123456789" * 20


@pytest.fixture
def echo() -> Iterator[int]:
    """The port of a server that sends back what it gets."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(end: socket.socket) -> None:
        try:
            while some := end.recv(65_536):
                end.sendall(some)
        except OSError:
            pass
        end.close()

    def accept() -> None:
        while True:
            try:
                end, _ = listener.accept()
            except OSError:
                return
            Thread(target=serve, args=(end,), daemon=True).start()

    Thread(target=accept, daemon=True).start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def receive(end: socket.socket, size: int = len(MESSAGE)) -> bytes:
    found = b""
    while len(found) < size and (some := end.recv(65_536)):
        found += some
    return found


@pytest.fixture
def wire(echo: int) -> Iterator[FaultyWire]:
    with FaultyWire(echo, pause_s=0.000_1) as wire:
        yield wire


@pytest.fixture
def end(wire: FaultyWire) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", wire.port), timeout=60) as end:
        yield end


@pytest.mark.parametrize("way", Way)
@pytest.mark.parametrize("after", [0, 1, 77, 199])
def test_a_connection_that_is_cut_ends_after_the_chosen_byte(
    wire: FaultyWire, end: socket.socket, way: Way, after: int
) -> None:
    wire.plan(WireFault.CUT, way, after)
    end.sendall(MESSAGE)
    found = receive(end)
    if way is Way.TO_CLIENT:
        assert found == MESSAGE[:after]
    assert MESSAGE.startswith(found)
    assert len(found) <= after
    assert wire.happened.is_set()


@pytest.mark.parametrize("way", Way)
@pytest.mark.parametrize("after", [0, 77])
def test_a_connection_that_is_reset_raises(
    wire: FaultyWire, end: socket.socket, way: Way, after: int
) -> None:
    wire.plan(WireFault.RESET, way, after)
    end.sendall(MESSAGE)
    with pytest.raises(ConnectionResetError):
        receive(end)
    with socket.create_connection(("127.0.0.1", wire.port), timeout=60) as again:
        again.sendall(MESSAGE)
        assert receive(again) == MESSAGE


@pytest.mark.parametrize("way", Way)
def test_bytes_that_drip_arrive_all_and_in_order(
    wire: FaultyWire, end: socket.socket, way: Way
) -> None:
    wire.plan(WireFault.DRIP, way, 3)
    for _ in range(2):
        end.sendall(MESSAGE)
        assert receive(end) == MESSAGE
    assert wire.happened.is_set()
    assert wire.passed(way) == 3
    wire.release()
    end.sendall(MESSAGE)
    assert receive(end) == MESSAGE


def test_delayed_bytes_arrive_when_they_are_released(wire: FaultyWire, end: socket.socket) -> None:
    wire.plan(WireFault.DELAY, Way.TO_CLIENT, 5)
    end.sendall(MESSAGE)
    assert receive(end, 5) == MESSAGE[:5]
    assert wire.happened.wait(60)
    wire.release()
    assert receive(end, len(MESSAGE) - 5) == MESSAGE[5:]


def test_bytes_that_are_dropped_never_arrive(wire: FaultyWire, end: socket.socket) -> None:
    wire.plan(WireFault.DROP, Way.TO_SERVER, 5)
    end.sendall(MESSAGE)
    assert receive(end, 5) == MESSAGE[:5]
    end.settimeout(0.05)
    with pytest.raises(TimeoutError):
        end.recv(1)
