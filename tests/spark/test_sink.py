"""Streams into tables: every micro-batch is written once, however often Spark repeats it."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from lochan.base.errors import Invalid
from lochan.spark.history import sink
from lochan.spark.history.sink import append_to
from tests.spark.histories import make_commits


class Orders:
    """A stream of files, each of which is a batch."""

    def __init__(self, lake, folder: Path):
        self.lake = lake
        self.source = folder / "source"
        self.checkpoint = folder / "checkpoint"
        self.source.mkdir()

    def arrive(self, *ids: int) -> None:
        lines = [json.dumps({"id": each, "what": f"order {each}"}) for each in ids]
        (self.source / f"{ids[0]:05d}.json").write_text("\n".join(lines))

    def run(self, write) -> None:
        self.writer(write).start().awaitTermination()

    def writer(self, write):
        frame = (
            self.lake.spark.readStream.schema("id bigint, what string")
            .option("maxFilesPerTrigger", 1)
            .json(str(self.source))
        )
        return (
            frame.writeStream.foreachBatch(write)
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
        )

    def forget_the_last_end(self) -> None:
        """Leaves the checkpoint as a crash does between the end of a batch and the note of it."""
        last = max(int(each.name) for each in (self.checkpoint / "commits").glob("[0-9]*"))
        (self.checkpoint / "commits" / str(last)).unlink()
        (self.checkpoint / "commits" / f".{last}.crc").unlink(missing_ok=True)

    def ids(self, branch: str = "main") -> list[int]:
        return sorted(row.id for row in self.lake.read("orders", ref=branch).collect())


@pytest.fixture
def orders(lake, tmp_path):
    return Orders(lake, tmp_path)


def test_batches_become_commits_of_a_branch(orders):
    write = append_to(orders.lake, "orders", query="orders")
    orders.arrive(1, 2)
    orders.arrive(3)
    orders.run(write)
    assert orders.ids() == [1, 2, 3]
    assert orders.lake.log("main").count() == 2


def follow(lake, tmp_path, stream, branch: str):
    """Runs a stream of changes into a table, some batches long."""
    write = append_to(lake, "ops.feed", branch=branch, query="feed")
    query = (
        stream.writeStream.foreachBatch(write)
        .option("checkpointLocation", str(tmp_path / f"checkpoint-{branch}"))
        .start()
    )
    try:
        query.processAllAvailable()
    finally:
        query.stop()


def test_a_sink_that_writes_to_the_branch_that_its_stream_follows_is_refused(lake, tmp_path):
    make_commits(lake.client, 3)
    head = lake.client.references.get("main").hash
    stream = lake.changes("main", follow=True)
    for columns in (["seq", "name"], ["upper(name) AS name", "seq AS number"]):
        with pytest.raises(StreamingQueryException, match="each batch would bring the next one"):
            follow(lake, tmp_path, stream.selectExpr(*columns).where("seq >= 0"), "main")
        assert lake.client.references.get("main").hash == head
    lake.client.references.create("etl", "main")
    follow(lake, tmp_path, stream.select("seq", "name"), "etl")
    assert lake.read("ops.feed", ref="etl").count() == 3
    assert lake.client.references.get("main").hash == head


def test_a_sink_whose_stream_hides_what_it_follows_ends_with_the_second_batch(lake, tmp_path):
    make_commits(lake.client, 3)
    options = {"uri": lake.uri, "kind": "changes", "ref": "main", "maxCommits": "1"}
    stream = lake.spark.readStream.format("lochan").options(**options).load()
    with pytest.raises(StreamingQueryException, match="each batch would bring the next one"):
        follow(lake, tmp_path, stream.select("seq", "name"), "main")
    assert lake.log("main").count() == 4


def test_a_batch_that_spark_repeats_is_written_once(orders):
    write = append_to(orders.lake, "orders", query="orders")
    orders.arrive(1, 2)
    orders.run(write)
    head = orders.lake.client.references.get("main").hash
    orders.forget_the_last_end()
    orders.run(write)
    assert orders.ids() == [1, 2]
    assert orders.lake.client.references.get("main").hash == head
    orders.arrive(3)
    orders.run(write)
    assert orders.ids() == [1, 2, 3]


def test_a_crash_after_the_write_is_made_good_by_the_next_run(orders):
    write = append_to(orders.lake, "orders", query="orders")

    def crashing(frame, batch):
        write(frame, batch)
        raise OSError("the driver went away")

    orders.arrive(1, 2)
    with pytest.raises(StreamingQueryException, match="the driver went away"):
        orders.run(crashing)
    orders.run(write)
    assert orders.ids() == [1, 2]


def test_a_repeated_batch_is_known_although_others_have_written_since(orders):
    write = append_to(orders.lake, "orders", query="orders")
    orders.arrive(1)
    orders.run(write)
    other = orders.lake.spark.createDataFrame([(9, "by hand")], "id bigint, what string")
    orders.lake.write(other, "orders", branch="main")
    orders.forget_the_last_end()
    orders.run(write)
    assert orders.ids() == [1, 9]


def test_two_streams_into_one_table_are_kept_apart_by_their_names(orders, tmp_path):
    orders.arrive(1)
    orders.run(append_to(orders.lake, "orders", query="one"))
    (tmp_path / "second").mkdir()
    second = Orders(orders.lake, tmp_path / "second")
    second.arrive(2)
    second.run(append_to(orders.lake, "orders", query="two"))
    assert orders.ids() == [1, 2]


def test_another_checkpoint_under_the_same_name_is_refused_and_drops_nothing(orders):
    write = append_to(orders.lake, "orders", query="orders")
    orders.arrive(1, 2)
    orders.run(write)
    orders.arrive(3)
    before = orders.checkpoint
    orders.checkpoint = before.with_name("new")
    with pytest.raises(StreamingQueryException, match="with another checkpoint") as refusal:
        orders.run(write)
    assert "another name as query" in str(refusal.value)
    assert orders.ids() == [1, 2]
    # What the message proposes: the old checkpoint.
    orders.checkpoint = before
    orders.run(write)
    assert orders.ids() == [1, 2, 3]


def test_another_checkpoint_is_noticed_in_a_session_that_has_run_the_old_one(orders):
    plain = append_to(orders.lake, "orders", query="orders")
    named = orders.lake.spark.createDataFrame([(1, "a"), (2, "b"), (3, "c")], "id bigint, n string")

    def write(frame, batch):
        # The frame of such a join is of the user's own session, not of the query's.
        plain(named.join(frame, "id").select("id", "what"), batch)

    orders.arrive(1)
    orders.run(write)
    orders.checkpoint = orders.checkpoint.with_name("new")
    orders.arrive(2)
    with pytest.raises(StreamingQueryException, match="with another checkpoint"):
        orders.run(write)
    assert orders.ids() == [1]


def test_another_checkpoint_is_noticed_although_a_snapshot_between_has_expired(orders):
    write = append_to(orders.lake, "orders", query="orders")
    orders.arrive(1)
    orders.run(write)
    catalog = orders.lake.catalog.at("main")
    (first,) = catalog.load_table("orders").metadata.snapshots
    # Kept by a tag, while the snapshots between it and the present one go.
    catalog.load_table("orders").manage_snapshots().create_tag(first.snapshot_id, "kept").commit()
    by_hand = orders.lake.spark.createDataFrame([(8, "by hand")], "id bigint, what string")
    for _ in range(2):
        orders.lake.write(by_hand, "orders", branch="main")
    table = catalog.load_table("orders")
    (between,) = [one for one in table.metadata.snapshots if one.sequence_number == 2]
    table.maintenance.expire_snapshots().by_id(between.snapshot_id).commit()
    orders.checkpoint = orders.checkpoint.with_name("new")
    with pytest.raises(StreamingQueryException, match="with another checkpoint"):
        orders.run(write)
    assert orders.ids() == [1, 8, 8]


def test_a_stream_that_moves_to_or_from_connect_is_told_what_to_do(orders, monkeypatch):
    write = append_to(orders.lake, "orders", query="orders")
    orders.arrive(1)
    orders.run(write)
    orders.arrive(2)
    # What is known through Connect on Spark 4.3.
    monkeypatch.setattr(sink, "_checkpoint_of", lambda _frame, _name: "-")
    with pytest.raises(StreamingQueryException, match="which does not show the checkpoint"):
        orders.run(write)
    orders.run(append_to(orders.lake, "others", query="orders"))
    monkeypatch.undo()
    orders.arrive(3)
    with pytest.raises(StreamingQueryException, match="which does not show the checkpoint"):
        orders.run(append_to(orders.lake, "others", query="orders"))
    assert orders.ids() == [1]


def test_two_queries_with_one_name_do_not_take_each_other_for_done(orders, tmp_path):
    (tmp_path / "second").mkdir()
    second = Orders(orders.lake, tmp_path / "second")
    orders.arrive(1)
    second.arrive(2)
    write = append_to(orders.lake, "orders", query="orders")
    running = [each.writer(write).start() for each in (orders, second)]
    refused = []
    for query in running:
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            refused.append(str(error))
    assert len(orders.ids()) == 2 - len(refused)
    assert all("with another checkpoint" in each for each in refused)


def test_a_table_that_was_set_back_is_written_by_a_new_checkpoint(orders):
    write = append_to(orders.lake, "orders", query="orders")
    orders.arrive(1)
    orders.lake.write(
        orders.lake.spark.createDataFrame([(9, "by hand")], "id bigint, what string"),
        "orders",
        branch="main",
    )
    before = orders.lake.client.references.get("main").hash
    orders.run(write)
    orders.lake.client.references.assign("main", before)
    orders.checkpoint = orders.checkpoint.with_name("new")
    orders.run(write)
    assert orders.ids() == [1, 9]


def test_a_batch_outside_of_a_stream_is_refused(lake):
    write = append_to(lake, "orders", query="orders")
    with pytest.raises(Invalid, match="called by foreachBatch"):
        write(lake.spark.range(1), 0)


def test_through_connect_one_of_several_queries_is_told_by_its_name():
    def running(**queries):
        active = [SimpleNamespace(id=each, name=name) for name, each in queries.items()]
        session: Any = SimpleNamespace(streams=SimpleNamespace(active=active))
        return session

    assert sink._running(running(other=1), "orders") == "1"
    assert sink._running(running(other=1, orders=2), "orders") == "2"
    with pytest.raises(Invalid, match=r"start it with \.queryName\('orders'\)"):
        sink._running(running(other=1, another=2), "orders")


def test_a_stream_may_merge_by_keys(orders):
    write = append_to(orders.lake, "orders", query="orders", mode="merge", keys=["id"])
    orders.arrive(1, 2)
    orders.arrive(3, 2)
    orders.run(write)
    assert orders.ids() == [1, 2, 3]


def test_a_name_with_a_slash_is_refused(lake):
    with pytest.raises(Invalid, match="name without slashes"):
        append_to(lake, "orders", query="a/b")


def test_what_writes_a_batch_travels_as_addresses(orders):
    write = pickle.loads(pickle.dumps(append_to(orders.lake, "orders", query="orders")))
    orders.arrive(1)
    orders.run(write)
    orders.forget_the_last_end()
    orders.run(write)
    assert orders.ids() == [1]
