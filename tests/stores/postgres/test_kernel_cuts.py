"""A connection cut at the bytes of a kernel publish, and while it waits for the row.

Every publish that was acknowledged is in the branch once; none is there twice. The publisher finds
out by itself what became of a write whose reply was lost.
"""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import psycopg
import pytest

from lochan.base.errors import LochanError, Unavailable
from lochan.base.ids import ObjId
from lochan.kernel.publish import Publisher
from lochan.kv.store import Store
from lochan.testing.postgres import PostgresServer
from lochan.testing.tcp_faults import FaultyWire, Way, WireFault
from tests.profile import counted
from tests.stores.postgres.conftest import Open
from tests.stores.postgres.kernel_bench import (
    MAIN,
    Tally,
    Write,
    acknowledged_by,
    connect,
    create,
    publish,
    tally,
)
from tests.stores.postgres.witness import Witness

TRIALS = 5


class Watched:
    """A store that counts how each `apply` ended."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.outcomes: Counter[str] = Counter()

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def apply(self, adds, condition):
        try:
            outcome = self._store.apply(adds, condition)
        except LochanError as error:
            self.outcomes[type(error).__name__] += 1
            raise
        self.outcomes[type(outcome).__name__] += 1
        return outcome


class Experiment:
    """Publishes chains through the wire again and again, each time cut somewhere else."""

    def __init__(
        self, opened: Open, wire: FaultyWire, proposals: int, *, held: bool, **parameters: object
    ) -> None:
        self.direct = opened(pool=2, application_name="direct")
        create(self.direct)
        store = Watched(opened(port=wire.port, pool=1, application_name="victim", **parameters))
        context = connect(store)  # type: ignore[arg-type]
        self.publisher = Publisher(context, MAIN)
        self.outcomes = store.outcomes
        self._wire = wire
        self._proposals = proposals
        self._held = held
        self.sent: set[str] = set()
        self.acknowledged: dict[str, ObjId] = {}
        self.refused = 0
        self._is_warm = False

    def warm(self) -> None:
        """Connects, prepares, and brings the row into memory: the next publish is all there is.

        Where the last publish was settled by sending again, all that is so already.
        """
        self.publisher._cautious_rounds = 8 * self._held
        if self._held or not self._is_warm:
            self.publish()
            # A cut behind the last byte of a reply is noticed by this publish at times: it is sent
            # again then, and does not know the row after that.
            while self.publisher._known is None:
                self.publish()
            self.publisher._cautious_rounds = 8 * self._held

    def cut(self, way: Way, after: int) -> bool:
        """Publishes with a cut; returns whether it came, or the publish was over before."""
        self.warm()
        unknown = self.outcomes["Unknown"]
        self._wire.plan(WireFault.CUT, way, after)
        try:
            self.publish()
        except Unavailable:
            # Only a hold is given up so: nothing was written.
            self.refused += 1
        came = self._wire.happened.is_set()
        self._wire.release()
        sent_again = self.outcomes["Unknown"] > unknown
        self._is_warm = sent_again and self.publisher._known is not None
        return came

    def publish(self) -> None:
        """Publishes one chain, which must be acknowledged."""
        first = len(self.sent)
        names = [f"op {number:06}" for number in range(first, first + self._proposals)]
        self.sent.update(names)
        self.acknowledged |= publish(self.publisher, names)

    def tally(self, witness: Witness) -> Tally:
        witness.wait_until_quiet()
        return tally(self.direct, self.acknowledged, self.sent)


@pytest.mark.slow
@pytest.mark.parametrize("way", Way)
@pytest.mark.parametrize(
    ("proposals", "held", "step"),
    [(1, False, counted(7, 1)), (3, False, counted(41, 11)), (1, True, counted(61, 17))],
    ids=str,
)
def test_cuts_at_the_bytes_of_a_publish(
    opened: Open,
    wire: FaultyWire,
    database: psycopg.Connection,
    schema: str,
    way: Way,
    proposals: int,
    held: bool,
    step: int,
) -> None:
    """A single commit at every byte both ways; the longer exchanges at a sample of them.

    A chain of three has every byte to the client, every eleventh to the server; a publish on a held
    row, which reads the row first, every seventeenth. The last few are always all there. The
    default profile takes a sample of these.
    """
    experiment = Experiment(opened, wire, proposals, held=held)
    witness = Witness(database, schema, "victim")
    # Until the list of ancestors in a commit is full, each publish is much larger than the last.
    for _ in range(22):
        experiment.publish()
    step = counted(5, 1) if way is Way.TO_CLIENT and not held else step
    places = 0
    # A publish grows by a byte now and then, so the end is where a cut does not come any more.
    while experiment.cut(way, places * step):
        places += 1
    end = places * step
    while step > 1 and experiment.cut(way, end - step + 1):
        places, end = places + 1, end + 1
    found = experiment.tally(witness)
    print(
        f"{proposals} proposals, held {held}, {places} places of about {end} bytes {way.value}: "
        f"{dict(experiment.outcomes)}, {experiment.refused} refused, {found}"
    )
    assert (found.losses, found.duplicates, found.strangers) == (0, 0, 0)
    assert len(experiment.sent) - found.acknowledged == experiment.refused * proposals
    if not held:
        assert experiment.refused == 0
        # After the last byte the answer may win against the cut.
        assert experiment.outcomes["Unknown"] >= places - 1
        assert way is Way.TO_SERVER or experiment.outcomes["Lost"] >= places - 1


class Patient(Write):
    """Plans when the test allows it."""

    def __init__(self, operation: str) -> None:
        super().__init__(operation)
        self.planning = Event()
        self.go_on = Event()

    def plan(self, head):
        self.planning.set()
        self.go_on.wait()
        return super().plan(head)


class LockedRow:
    """Holds the row and releases it without writing."""

    def __init__(self, url: str, schema: str) -> None:
        self._connection = psycopg.connect(url)
        query = f"SELECT FROM \"{schema}\".rows WHERE key = 'main' FOR UPDATE".encode()
        assert self._connection.execute(query).rowcount == 1

    def release(self) -> None:
        self._connection.rollback()
        self._connection.close()


class Rival:
    """Another server, which holds the row and then publishes on it."""

    def __init__(self, experiment: Experiment, threads: ThreadPoolExecutor, store: Store) -> None:
        publisher = Publisher(connect(store), MAIN)
        publisher._cautious_rounds = 8
        self._experiment = experiment
        self._proposal = Patient(f"rival {len(experiment.sent):06}")
        self._published = threads.submit(publisher.publish, [self._proposal])
        self._proposal.planning.wait()

    def release(self) -> None:
        self._proposal.go_on.set()
        self._experiment.sent.add(self._proposal.operation)
        self._experiment.acknowledged |= acknowledged_by(self._published.result())


@pytest.mark.parametrize(
    "then", ["both wait", "late write first", "late write fails", "rival first"]
)
@pytest.mark.parametrize("proposals", [1, 3])
def test_a_publish_cut_while_it_waits_for_the_row(
    opened: Open,
    server: PostgresServer,
    wire: FaultyWire,
    database: psycopg.Connection,
    schema: str,
    proposals: int,
    then: str,
) -> None:
    parameters = {"lock_timeout_ms": 100} if then == "late write fails" else {}
    experiment = Experiment(opened, wire, proposals, held=False, **parameters)
    witness = Witness(database, schema, "victim")
    rival = opened(pool=2, application_name="rival")
    for _ in range(TRIALS):
        experiment.warm()
        references = connect(experiment.direct).references
        before = references.fetch(MAIN)
        with ThreadPoolExecutor(2) as threads:
            holder: LockedRow | Rival = (
                Rival(experiment, threads, rival)
                if then == "rival first"
                else LockedRow(server.url(), schema)
            )
            first = threads.submit(experiment.publish)
            witness.wait_until_one_waits()
            if then == "late write first":
                # What would come after the cut is kept back: the resend, and its handshake.
                wire.plan(WireFault.DELAY, Way.TO_SERVER, 0)
            wire.cut_now()
            if then in ("both wait", "rival first"):
                witness.wait_until_one_waits(2)
            elif then == "late write fails":
                Event().wait(0.25)
            assert references.fetch(MAIN) == before, "a read does not find it"
            holder.release()
            if then == "late write first":
                while references.fetch(MAIN) == before:
                    pass
                wire.release()
            first.result()
    found = experiment.tally(witness)
    print(f"{proposals} proposals, {then}: {TRIALS} cut, {dict(experiment.outcomes)}, {found}")
    assert (found.losses, found.duplicates, found.strangers) == (0, 0, 0)
    assert len(experiment.sent) == found.acknowledged
    assert experiment.outcomes["Unknown"] == TRIALS
    assert experiment.outcomes["Lost"] == (0 if then == "late write fails" else TRIALS)
