"""Part `memory`: large bodies up and down; the server's memory must not grow with them."""

from __future__ import annotations

import socket
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

from benchmarks.http_load.processes import Served
from benchmarks.http_load.usage import resident_mb
from benchmarks.measure import emit
from benchmarks.streams.client import Reader, head_of

GROWTH_BAR_MB = 64

_BLOCK_BYTES = 1 << 20
_SAMPLE_S = 0.05
_TIMEOUT_S = 60


def measure(server: Served, size: int) -> None:
    """Sends and fetches the same bytes twice: with their length, and in chunks."""
    idle_mb = resident_mb([server.pid])
    for chunked in (False, True):
        key = "chunks" if chunked else "whole"
        sums = []
        for direction, transfer in (("up", _send), ("down", _fetch)):
            with _sampled(server.pid) as samples:
                began = time.perf_counter()
                sums.append(transfer(server.port, key, size, chunked))
                spent_s = time.perf_counter() - began
            emit(
                "stream_memory",
                direction=direction,
                framing="chunks" if chunked else "length",
                size_bytes=size,
                mb_s=size / spent_s / 1e6,
                idle_mb=idle_mb,
                max_mb=max(samples),
                growth_mb=max(samples) - idle_mb,
                peak_growth_mb=peak_resident_mb(server.pid) - idle_mb,
                same_bytes=sums[0] == sums[-1],
                within_bar=peak_resident_mb(server.pid) - idle_mb <= GROWTH_BAR_MB,
            )


def peak_resident_mb(pid: int) -> float:
    """Returns the largest resident memory of a process since it began, as the kernel noted it."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(one.split()[1]) for one in status.splitlines() if "VmHWM" in one) / 1_024


@contextmanager
def _sampled(pid: int) -> Iterator[list[float]]:
    samples = [resident_mb([pid])]
    ended = Event()

    def sample() -> None:
        while not ended.wait(_SAMPLE_S):
            samples.append(resident_mb([pid]))

    thread = Thread(target=sample)
    thread.start()
    try:
        yield samples
    finally:
        ended.set()
        thread.join()


def _blocks(size: int) -> Iterator[bytes]:
    """Yields bytes in which no two blocks are alike."""
    block = bytes(range(256)) * (_BLOCK_BYTES // 256)
    for start in range(0, size, _BLOCK_BYTES):
        yield (start.to_bytes(8, "big") + block[8:])[: size - start]


def _send(port: int, key: str, size: int, chunked: bool) -> int:
    framing = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {size}"
    checksum = 0
    with socket.create_connection(("127.0.0.1", port), _TIMEOUT_S) as client:
        client.sendall(head_of("PUT", f"/bytes/{key}", framing))
        for block in _blocks(size):
            checksum = zlib.crc32(block, checksum)
            if chunked:
                client.sendall(b"%x\r\n" % len(block))
            client.sendall(block)
            if chunked:
                client.sendall(b"\r\n")
        if chunked:
            client.sendall(b"0\r\n\r\n")
        reader = Reader(client)
        head = reader.head()
        body = reader.exactly(head.length)
        if (head.status, body) != (201, str(size).encode()):
            raise RuntimeError(f"{head.status} {body!r} to an upload of {size} bytes")
    return checksum


def _fetch(port: int, key: str, size: int, chunked: bool) -> int:
    checksum = total = 0

    def take(piece: bytes) -> None:
        nonlocal checksum, total
        checksum = zlib.crc32(piece, checksum)
        total += len(piece)

    query = "?chunked=1" if chunked else ""
    with socket.create_connection(("127.0.0.1", port), _TIMEOUT_S) as client:
        client.sendall(head_of("GET", f"/bytes/{key}{query}"))
        reader = Reader(client)
        head = reader.head()
        if head.status != 200:
            raise RuntimeError(f"{head.status} to a download of {size} bytes")
        _take_body(reader, head.length, chunked, take)
    if total != size:
        raise RuntimeError(f"{total} of {size} bytes came back")
    return checksum


def _take_body(reader: Reader, length: int, chunked: bool, take: Callable[[bytes], None]) -> None:
    if not chunked:
        reader.pass_on(length, take)
        return
    while count := int(reader.until(b"\r\n"), 16):
        reader.pass_on(count, take)
        reader.exactly(2)
    reader.exactly(2)
