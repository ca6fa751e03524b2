"""What a forked process does with what its parent had open, in real forks."""

from __future__ import annotations

import gc
import os
import socket
import subprocess
import sys
from threading import Event, Thread

import pytest

from lochan.process import Descriptor, after_fork
from lochan.system import SystemRandom
from lochan.telemetry.metrics import Metrics
from lochan.testing.forks import ChildFailed, ForkedChild

pytestmark = pytest.mark.slow


class Owner:
    """Counts how often it was reset."""

    def __init__(self) -> None:
        self.resets = 0
        after_fork(self, Owner.reset)

    def reset(self) -> None:
        self.resets += 1


def fail(_: Owner) -> None:
    raise OSError("a reset that fails")


def test_every_owner_is_reset_in_the_child_and_not_in_the_parent() -> None:
    owners = [Owner() for _ in range(3)]
    assert ForkedChild(lambda: [owner.resets for owner in owners]).result() == [1, 1, 1]
    assert [owner.resets for owner in owners] == [0, 0, 0]
    forgotten = owners.pop()
    del forgotten
    gc.collect()
    assert ForkedChild(lambda: [owner.resets for owner in owners]).result() == [1, 1]


def test_a_grandchild_is_reset_again() -> None:
    owner = Owner()

    def work() -> list[int]:
        return [owner.resets, ForkedChild(lambda: owner.resets).result()]

    assert ForkedChild(work).result() == [1, 2]


def test_a_reset_that_fails_does_not_keep_others_from_theirs() -> None:
    before, failing, after = Owner(), Owner(), Owner()
    after_fork(failing, fail)

    def work() -> list[int]:
        return [before.resets, after.resets]

    assert ForkedChild(work).result() == [1, 1]


def test_a_child_that_abandons_a_socket_leaves_it_to_its_parent() -> None:
    left, right = socket.socketpair()
    with left, right:
        descriptor = Descriptor(left.fileno())

        def work() -> int:
            descriptor.abandon()
            # Whoever still knows the number reaches nobody, and may close it.
            written = os.write(left.fileno(), b"from the child")
            left.close()
            right.close()
            return written

        assert ForkedChild(work).result() == 14
        left.sendall(b"from the parent")
        assert right.recv(100) == b"from the parent"


def test_a_number_that_means_another_file_is_not_abandoned() -> None:
    left, right = socket.socketpair()
    other, another = socket.socketpair()
    with left, right, other, another:
        descriptor = Descriptor(left.fileno())
        os.dup2(other.fileno(), left.fileno())
        descriptor.abandon()
        left.sendall(b"still there")
        assert another.recv(100) == b"still there"
    Descriptor(-1).abandon()


LOUD = """
from lochan.process import never_destroy

class Loud:
    def __del__(self):
        print("destroyed")

loud = Loud()
{keep}(loud)
cycle = [loud]
cycle.append(cycle)
del loud, cycle
"""


@pytest.mark.parametrize(("keep", "said"), [("never_destroy", ""), ("id", "destroyed\n")])
def test_what_is_never_destroyed_survives_the_end_of_the_interpreter(keep: str, said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOUD.format(keep=keep)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, said), done.stderr


def test_processes_never_share_random_bytes_and_no_lock_holds_them_up() -> None:
    random = SystemRandom()
    random.random_bytes(16)

    def work() -> str:
        return random.random_bytes(16).hex()

    with random._lock:
        # As if another thread were inside at the moment of the fork.
        children = [ForkedChild(work) for _ in range(3)]
        drawn = [child.result() for child in children]
    drawn.append(random.random_bytes(16).hex())
    assert len(set(drawn)) == 4


def test_counters_that_a_thread_was_changing_can_be_used_by_a_child() -> None:
    metrics = Metrics()
    inside, over = Event(), Event()

    def count() -> None:
        with metrics._lock:
            inside.set()
            over.wait()

    thread = Thread(target=count)
    thread.start()
    inside.wait()
    assert ForkedChild(lambda: metrics.slept(1.0)).result() is None
    over.set()
    thread.join()


def test_what_a_child_raises_is_raised_here() -> None:
    def work() -> None:
        raise ValueError("from the child")

    with pytest.raises(ChildFailed, match="from the child"):
        ForkedChild(work).result()
    with pytest.raises(ChildFailed, match="without a word"):
        ForkedChild(lambda: os._exit(0)).result()
