"""A check on PostgreSQL, also while others write: a sample of lost and changed rows."""

from __future__ import annotations

from random import Random

from lochan.access.policy import Call
from lochan.embedded import Embedded, check_store
from lochan.kv.store import Kind
from lochan.model.commits import Put
from lochan.service.repositories import Repositories
from lochan.testing.postgres import PostgresServer
from tests.kernel.check.small import checked, grown, kind_of, lowered_limits, ports, rows_of, table
from tests.kernel.check.test_every_row import SEED, after, shown
from tests.profile import counted

FLIPS = counted(20, 400)


def test_lost_and_changed_rows_are_found(opened):
    random = Random(SEED)
    with lowered_limits():
        rows = rows_of(grown())
        store = opened()
        store.put_many(rows)
        assert checked(store).findings == ()
        judged = [row for row in rows if kind_of(row) is not Kind.CLAIMS]
        for row in random.sample(judged, min(FLIPS, len(judged))):
            assert after(store, row, None).damaged, f"{shown(row)}, LOCHAN_FLIP_SEED={SEED}"
        for _ in range(FLIPS):
            row = random.choice(rows)
            at, mask = random.randrange(len(row[2])), random.randrange(1, 256)
            report = after(store, row, row[2][:at] + bytes((row[2][at] ^ mask,)) + row[2][at + 1 :])
            assert report.damaged, f"byte {at} of {shown(row)}, LOCHAN_FLIP_SEED={SEED}"
        assert checked(store).findings == ()


def test_a_store_is_checked_while_another_process_writes_to_it(
    server: PostgresServer, schema: str, opened
):
    store = opened()
    repositories = Repositories(store, ports())
    repo = Embedded(store, repositories.open_or_create(Call(), "default"), "me")

    def write(_: object) -> None:
        written.append(None)
        if len(written) <= 20:
            key = (f"t{len(written)}",)
            repo.commits.commit("main", "m", [Put(key=key, content=table(len(written)))])
            repo.references.create(f"b{len(written)}", "main")
            if len(written) % 2:
                repo.references.delete(f"b{len(written)}")

    written: list[None] = []
    url = server.url(schema=schema)
    # Writes happen between what the check reads: each time that it reports how far it is.
    for _ in range(5):
        assert check_store(url, report_progress=write).findings == ()
    whole = repo.check(history=True)
    assert whole.findings == ()
    assert whole.progress.contents == 20
