"""No reply leaves before what it shows is durable."""

from __future__ import annotations

import asyncio
from threading import Event
from typing import Any

import msgspec
import pytest

from lochan.base.errors import StoreClosed
from lochan.base.ids import ROOT_INSTANCE
from lochan.kv.store import Capabilities, Kind, partition
from lochan.stores.memory.store import MemoryStore
from lochan.transport.group_flush import GroupFlush
from tests.transport.byte_face import ByteFace
from tests.transport.world import Client, RunningServer, SmallFace, running

PLACE = partition(ROOT_INSTANCE, Kind.META)


class SlowDisk(MemoryStore):
    """A store whose flushes are let through one by one once `hold` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.held = False
        self.begun = Event()
        self.let_through = Event()
        self.flushed: list[int] = []

    def flush(self, epoch: int) -> None:
        if self.held:
            self.begun.set()
            assert self.let_through.wait(20)
            self.let_through.clear()
        self.flushed.append(epoch)
        super().flush(epoch)


class NeedsNoFlush(SlowDisk):
    """Writes that returned are durable."""

    @property
    def capabilities(self) -> Capabilities:
        return msgspec.structs.replace(super().capabilities, durable_on_return=True)


def settled(server: RunningServer, client: Client) -> bool:
    """Whether an answer is there after the loop has had its turns."""
    for _ in range(3):
        server.on_loop(lambda: None)
    client.socket.setblocking(False)
    try:
        client._rest += client.socket.recv(65_536)
    except BlockingIOError:
        return False
    finally:
        client.socket.setblocking(True)
    return True


def test_a_commit_is_acknowledged_after_the_flush_and_not_before():
    store = SlowDisk()
    with running(store) as server, Client(server) as client:
        assert client.ask("GET", "/t/echo/x").status == 200
        store.held = True
        client.send(client.request("POST", "/t/commit/main", b"[1]"))
        assert store.begun.wait(20)
        # It is written and visible inside, but nobody has been told.
        assert len(server.repositories.opened["default"].log()) == 1
        assert not settled(server, client)
        store.held = False
        store.let_through.set()
        assert client.read().status == 200


def test_what_was_written_during_a_flush_is_flushed_without_the_loop():
    store = SlowDisk()

    async def run() -> None:
        flush = GroupFlush(asyncio.get_running_loop(), store, failed=lambda: None)
        left = asyncio.Queue[str]()
        store.put_many([(PLACE, b"k", b"1")])
        store.held = True
        flush.after(lambda: left.put_nowait("first"))
        assert store.begun.wait(20)
        store.put_many([(PLACE, b"k", b"2")])
        flush.after(lambda: left.put_nowait("second"))
        store.begun.clear()
        store.let_through.set()
        # The loop does nothing here, and the second flush begins.
        assert store.begun.wait(20)
        assert left.empty()
        assert await left.get() == "first"
        assert left.empty()
        store.held = False
        store.let_through.set()
        assert await left.get() == "second"
        # What comes after the thread has ended its round wakes it again.
        store.put_many([(PLACE, b"k", b"3")])
        flush.after(lambda: left.put_nowait("third"))
        assert await left.get() == "third"
        assert (flush.waiting, flush.flushes) == (0, 3)
        flush.stop()

    asyncio.run(run())


def test_a_part_of_a_stream_leaves_after_the_flush_of_what_it_may_show():
    store, face = SlowDisk(), ByteFace()
    with running(store, [face, SmallFace()]) as server, Client(server) as follower:
        follower.send(follower.request("GET", "/b-events"))
        follower.read(head_only=True)
        follower._until(b": hello\n\n\r\n")
        with Client(server) as writer, Client(server) as publisher:
            store.held = True
            writer.send(writer.request("POST", "/t/commit/main", b"[1]"))
            assert store.begun.wait(20)
            publisher.send(publisher.request("POST", "/b-publish", b"committed"))
            assert not settled(server, follower)
            store.held = False
            store.let_through.set()
            assert follower._until(b"\n\n\r\n") == b"11\r\ndata: committed"
            assert writer.read().status == publisher.read().status == 200


def test_a_reader_waits_for_the_disk_only_if_it_may_have_seen_what_is_not_there_yet():
    store = SlowDisk()
    with running(store) as server, Client(server) as writer, Client(server) as reader:
        assert writer.ask("POST", "/t/commit/main", b"[1]").status == 200
        store.held = True
        # Everything is durable: a read does not need the disk at all.
        assert reader.ask("GET", "/t/log/main").status == 200
        writer.send(writer.request("POST", "/t/commit/main", b"[2]"))
        assert store.begun.wait(20)
        reader.send(reader.request("GET", "/t/log/main"))
        assert not settled(server, reader)
        store.held = False
        store.let_through.set()
        assert len(reader.read().json()) == 2
        assert writer.read().status == 200


def test_those_who_come_during_a_flush_share_the_next_one():
    store = SlowDisk()
    with running(store) as server:
        first, *others = [Client(server) for _ in range(11)]
        assert first.ask("GET", "/t/echo/x").status == 200
        flushes = server.server.group_flush.flushes
        store.held = True
        first.send(first.request("POST", "/t/commit/main", b"[0]"))
        assert store.begun.wait(20)
        for number, client in enumerate(others):
            client.send(client.request("POST", "/t/commit/main", b"[%d]" % number))
        while server.on_loop(lambda: server.server.group_flush.waiting) < 11:
            pass
        # One is on its way and covers the first; one more covers all others.
        store.held = False
        store.let_through.set()
        assert [each.read().status for each in (first, *others)] == [200] * 11
        assert server.on_loop(lambda: server.server.group_flush.flushes) == flushes + 2


def test_a_store_that_is_durable_on_return_is_never_flushed():
    store = NeedsNoFlush()
    with running(store) as server, Client(server) as client:
        assert client.ask("POST", "/t/commit/main", b"[1]").status == 200
        assert client.ask("GET", "/t/log/main").status == 200
        assert store.flushed == []


def test_a_flush_covers_what_was_written_up_to_its_start():
    store = SlowDisk()
    left: list[str] = []

    async def run() -> None:
        flushing = GroupFlush(asyncio.get_running_loop(), store)
        store.put_many([(_PLACE, b"a", b"1")])
        done = asyncio.Event()
        flushing.after(lambda: left.append("first"))
        store.put_many([(_PLACE, b"b", b"2")])
        flushing.after(lambda: left.append("second"))
        flushing.after(done.set)
        await done.wait()
        await asyncio.to_thread(flushing.stop)

    asyncio.run(run())
    assert left == ["first", "second"]
    assert store.flushed[-1] == store.epoch()


_PLACE: Any = bytes(16) + b"m"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("error", [StoreClosed("the disk is gone"), OSError(28, "no space")])
def test_a_failed_flush_tells_nobody_success_and_ends_everything(error, caplog):
    failed: list[bool] = []
    replies: list[str] = []

    class Broken(MemoryStore):
        def flush(self, epoch: int) -> None:
            raise error from ValueError("what led to it")

    async def run() -> None:
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()

        def fail() -> None:
            failed.append(True)
            # The real one ends the process: what is not logged by now never is.
            logged.append(caplog.text)
            loop.call_soon_threadsafe(ended.set)
            # The real one never comes back; here the thread dies of the error itself.

        store = Broken()
        store.put_many([(_PLACE, b"a", b"1")])
        flushing = GroupFlush(loop, store, fail)
        flushing.after(lambda: replies.append("success"))
        await ended.wait()
        assert flushing._thread is not None
        await asyncio.to_thread(flushing._thread.join)

    logged: list[str] = []
    asyncio.run(run())
    assert (failed, replies) == ([True], [])
    cause = f"{type(error).__name__}: {error} <- ValueError: what led to it"
    assert f"cause={cause!r}" in logged[0]


def test_a_store_that_has_stopped_ends_everything_before_a_reply_leaves():
    failed: list[bool] = []
    replies: list[str] = []

    async def run() -> None:
        store = MemoryStore()
        flushing = GroupFlush(asyncio.get_running_loop(), store, lambda: failed.append(True))
        store.close()
        with pytest.raises(StoreClosed):
            flushing.after(lambda: replies.append("success"))

    asyncio.run(run())
    assert (failed, replies) == ([True], [])
